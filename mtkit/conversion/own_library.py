"""What sentencepiece itself makes of a .model that was read or written: one line of the proof."""

from __future__ import annotations

import os

from mtkit.errors import AnswerNo, FormatError, MissingExtra, ResourceError, texts_that
from mtkit.programs import PROGRAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.formats.contract import Format, Written
    from mtkit.programs.asking import Said
    from mtkit.tokenizer.tokenizer import Tokenizer

LIBRARY = PROGRAMS["sentencepiece"]
VERSION = "0.2.3"
"""Others give some unusual models other ids, as those with preferred pieces."""


def asked_library(
    source: Tokenizer, back: Tokenizer, module: Format, written: Written
) -> tuple[str, str] | None:
    """Hold the library against what mtkit makes of the same .model.

    Args:
        source: What was written.
        back: What mtkit has read back.
        module: The format written.
        written: What it made.

    Returns:
        The library with its version, and why it could not be asked; None: there is no .model.

    Raises:
        AnswerNo: mtkit and the library differ about the .model.
    """
    from mtkit.programs.asking import said_by, said_by_library, said_of_files
    from mtkit.tokenizer.probes import special_texts, texts

    is_written = module.NAME in LIBRARY.reads
    is_read = source.format_name in LIBRARY.reads and os.path.isfile(source.source)
    if not is_written and not is_read:
        return None
    asked = [*texts(), *special_texts(source.spec)]
    here = said_by(back if is_written else source, asked)
    try:
        if is_written:
            name, there = said_of_files(LIBRARY, written.files, asked, here)
        else:
            name, there = said_by_library(LIBRARY, "spm", source.source, asked, here)
    except FormatError as error:
        if not is_written:
            return LIBRARY.name, f"refused: {error.what}"
        raise _failed(source, f"{LIBRARY.name} refuses the result: {error.what}") from None
    except (MissingExtra, ResourceError) as error:
        return LIBRARY.name, error.what
    unlike = list(_unlike(asked, here, there))
    if unlike:
        many = texts_that(len(unlike), len(asked), f"get different ids in {name}")
        raise _failed(source, f"{many}, the first is {unlike[0]!r}")
    return name, ""


def _unlike(texts: Sequence[str], here: Sequence[Said], there: Sequence[Said]) -> Iterator[str]:
    """Yield the texts about which two differ: their ids, or what those are decoded to."""
    for number, (text, one) in enumerate(zip(texts, here, strict=True)):
        other = there[number] if number < len(there) else None
        if one.ids is None:
            continue
        if other is None or one.ids != other.ids or one.decoded not in (None, other.decoded):
            yield text


def _failed(source: Tokenizer, what: str) -> AnswerNo:
    return AnswerNo(
        f"verification failed: {what}; nothing was written",
        source=source.source,
        hint=f"please report this file if {LIBRARY.name} {VERSION} differs from mtkit, too",
    )
