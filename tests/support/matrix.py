"""Every source in every format: what the format's own library makes of the files that are written.

A cell converts one source to one format and asks three questions of each text: does mtkit read the
written file as its own library does, does that library give the ids and the text of the source, and
where it does not, does a loss that the conversion lists foresee it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from libraries import OPENERS

import mtkit
from mtkit.conversion.tokenizer import apply_options, target_paths
from mtkit.conversion.verification import special_marks, verify
from mtkit.errors import MtkitError, NoToken, UnsupportedError
from mtkit.formats import get_format
from mtkit.formats.contract import LOSS_CODES, WriteOptions
from mtkit.tokenizer import comparison

if TYPE_CHECKING:
    from collections.abc import Mapping

    from libraries import Library

    from mtkit.formats.contract import Loss
    from mtkit.tokenizer.tokenizer import Tokenizer


class Cell(NamedTuple):
    """What became of one source in one format.

    Attributes:
        refused: Why the format does not take it; empty where it does.
        texts: Number of comparisons with a library, or of texts where there is none.
        named: Those that differ as a listed loss foresees.
        unnamed: A line for each kind of difference that no loss foresees, with the first text.
        codes: Codes of the listed losses.
    """

    refused: str = ""
    texts: int = 0
    named: int = 0
    unnamed: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.refused:
            return "-"
        if self.unnamed:
            return f"{len(self.unnamed)} UNNAMED"
        return f"{self.texts - self.named}/{self.texts}"


def cell(source: Tokenizer, to: str) -> Cell:
    """Convert a tokenizer and compare what was written with it."""
    module, options = get_format(to), WriteOptions()
    source, _ = apply_options(source, module, options)
    try:
        written = module.write(source.spec, options)
    except UnsupportedError as error:
        return Cell(refused=str(error))
    codes = tuple(dict.fromkeys(loss.code for loss in written.losses))
    try:
        readings = verify(source, module, written, LOSS_CODES)
    except MtkitError as error:
        return Cell(unnamed=(f"verify: {error}",), codes=codes)
    made = Comparison(source, written.losses)
    made.texts, made.named = readings[0].total, readings[0].total - readings[0].equal
    if to in OPENERS:
        made.texts = made.named = 0
        with tempfile.TemporaryDirectory() as folder:
            paths = target_paths("", folder + os.sep, written)
            for path, content in paths.items():
                Path(path).write_bytes(content)
            made.open(Path(next(iter(paths))), to)
    return Cell("", made.texts, made.named, tuple(made.unnamed.values()), codes)


class Comparison:
    """Counts the comparisons of a source with what libraries make of a file written of it.

    Attributes:
        texts: Number of comparisons.
        named: Those that differ as a listed loss foresees.
        unnamed: Kind of difference -> a line about its first text.
    """

    def __init__(self, source: Tokenizer, losses: tuple[Loss, ...]) -> None:
        self.texts = self.named = 0
        self.unnamed: dict[str, str] = {}
        self._source = source
        self._codes = {loss.code for loss in losses}
        self._fields = {loss.field.split(".")[0] for loss in losses}

    def open(self, path: Path, to: str) -> None:
        """Open a file with the libraries of its format and compare all texts."""
        try:
            back = mtkit.load(path)
        except MtkitError as error:
            self._differ(f"{to} read", f"by mtkit: {error}")
            return
        self._marks = special_marks(self._source.spec) + special_marks(back.spec)
        texts = [*comparison.probe_texts(), *comparison.special_token_texts(self._source.spec)]
        for opener in OPENERS[to]:
            try:
                library = opener(path)
            except Exception as error:  # noqa: BLE001  whatever a library says to a file it refuses
                self._differ(f"{to} refused", f"its library: {str(error)[:200]!r}")
                continue
            for text in texts:
                for name in library.ways:
                    self._compare(library, back, name, text)
            library.close()

    def _compare(self, library: Library, back: Tokenizer, name: str, text: str) -> None:
        way = library.ways[name]
        wanted = _ids(self._source, text, way.options)
        if wanted is None:
            return
        self.texts += 1
        found, ours = way.encode(text), _ids(back, text, way.options)
        kind = f"{library.name} {name}"
        if found != ours:
            self._differ(f"{kind} read", f"{text!r}: {_parting(found, ours)} as mtkit reads it")
        elif found != wanted and not self._foresees(name, text):
            self._differ(kind, f"{text!r}: {_parting(found, wanted)} in the source")
        elif found != wanted:
            self.named += 1
        elif library.decode is not None:
            self._decoded(library, back, found)

    def _decoded(self, library: Library, back: Tokenizer, ids: list[int]) -> None:
        assert library.decode is not None
        found = library.decode(ids)
        ours, wanted = (
            side.decode(ids, skip_special_tokens=False) for side in (back, self._source)
        )
        if found != ours:
            self._differ(f"{library.name} decodes", f"{found!r}, not {ours!r} as mtkit reads it")
        elif found != wanted and not (
            "decoding" in self._codes or ("ids-special" in self._codes and self._marked(wanted))
        ):
            self._differ(f"{library.name} decodes", f"{found!r}, not {wanted!r} as the source")

    def _foresees(self, way: str, text: str) -> bool:
        """Tell whether a listed loss foresees other ids."""
        return bool(
            self._codes & {"ids", "ids-possible"}
            or ("ids-special" in self._codes and self._marked(text))
            or (way == "whole" and "post_processor" in self._fields)
        )

    def _marked(self, text: str) -> bool:
        return any(mark in text.encode("utf-8", "replace") for mark in self._marks)

    def _differ(self, kind: str, what: str) -> None:
        self.unnamed.setdefault(kind, f"{kind}: {what}")


def _ids(tokenizer: Tokenizer, text: str, options: Mapping[str, bool | None]) -> list[int] | None:
    try:
        return tokenizer.encode_ids(text, **options)  # type: ignore[arg-type]
    except NoToken:
        return None


def _parting(found: list[int], wanted: list[int] | None) -> str:
    """Show where two lists of ids part."""
    if wanted is None:
        return f"{found[:8]}, no ids"
    at = next(
        (at for at, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]),
        min(len(found), len(wanted)),
    )
    return f"{found[at : at + 6]} at {at}, not {wanted[at : at + 6]}"
