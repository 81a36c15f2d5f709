"""What transformers makes of a folder with a tokenizer.json, where that is another tokenizer."""

from __future__ import annotations

from mtkit.checks.report import survey
from mtkit.errors import FormatError, MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.checks.report import Place
    from mtkit.tokenizer.tokenizer import Tokenizer

_SOURCE = "transformers"


def _other_ids(tokenizer: Tokenizer) -> Iterator[Place]:
    from mtkit.conversion.folder_notes import unlike_transformers

    try:
        unlike = unlike_transformers(tokenizer)
    except MtkitError:  # the rule below
        return
    if unlike is not None:
        hint = "--as transformers gives the ids of transformers"
        yield "tokenizer_config.json", f"{unlike}; {hint}", None


def _not_known(tokenizer: Tokenizer) -> Iterator[Place]:
    from mtkit.conversion.folder_notes import unlike_transformers

    try:
        unlike_transformers(tokenizer)
    except FormatError as error:
        yield error.field, f"transformers does not read it: {error.what}", error.offset
    except MtkitError as error:
        hint = "--runs-on transformers asks the library"
        yield error.field or "tokenizer_config.json", f"{error.what}; {hint}", None


FOLDER = (
    survey("tokenizer-class", "warning", _SOURCE, "tokenizer_config.json", _other_ids),
    survey("tokenizer-class-unknown", "note", _SOURCE, "tokenizer_config.json", _not_known),
)
"""Held against a tokenizer that was read from a tokenizer.json in a folder."""
