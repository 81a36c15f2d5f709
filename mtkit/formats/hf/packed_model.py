"""Vocabulary and merges of an ordinary tokenizer.json, read by the core.

They are nearly all of the file; read as Python objects they take ten times as long. Whatever is odd
about a file makes the core give up, and then it is read as a whole, which gives the same and says
what is wrong with it (``read_model``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces, narrowed
from mtkit.errors import FormatError
from mtkit.formats.hf.numbers import read_float
from mtkit.formats.json_fields import parse
from mtkit.spec import Vocabulary
from mtkit.spec.models import Merges
from mtkit.spec.vocabulary import present_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.base.binary import Buffer


class Dictionary:
    """Token -> id, as the core keeps it.

    Attributes:
        scores: Of a list of tokens with scores, in which nothing can be looked up; else None.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.scores = None if model.scores is None else Numbers("d", model.scores)

    def __len__(self) -> int:
        count: int = self._model.count
        return count

    def get(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        try:
            found: int | None = self._model.find(token.encode())
        except UnicodeEncodeError:
            return None
        return found

    def vocabulary(self) -> Vocabulary:
        """Return the tokens by id; a hole becomes an ABSENT piece."""
        pieces = Pieces(self._model.blob, Numbers("I", self._model.ends))
        if self.scores is not None:
            return Vocabulary(pieces, scores=narrowed(self.scores))
        if len(pieces) == len(self):
            return Vocabulary(pieces)
        return Vocabulary(pieces, Numbers("B", present_types(self._model.present)))

    def merges(self) -> Merges:
        """Return the merges, which the core has checked."""
        return Merges(Numbers("I", self._model.merges or b""), Pieces.of([]))


def parse_document(data: Buffer) -> tuple[Any, Dictionary | None]:
    """Parse a file; the vocabulary apart, and both it and the merges empty, where the core read it.

    Raises:
        FormatError: It is not valid JSON.
    """
    try:
        from mtkit.base.native import native
    except ImportError:
        model = None
    else:
        model = native.read_json_model(data)
    if model is not None:
        try:
            document = parse(model.rest, parse_float=read_float)
        except FormatError:  # its places are those of the rest
            model = None
        # What a merge makes depends on the prefix.
        if model and not (model.merges and document["model"].get("continuing_subword_prefix")):
            return document, Dictionary(model)
    return parse(data, parse_float=read_float), None
