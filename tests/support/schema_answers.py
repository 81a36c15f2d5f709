"""Answers drawn under a JSON schema, and what jsonschema says of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import reference

from mtkit.llama import Grammar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.llama import Model

_LONGEST = 400
_LONG = 40


class Drawer:
    """Draws answers: random logits, from a certain length on in favor of what closes.

    Attributes:
        model: Whose tokens are drawn.
        unfinished: Answers that had not ended.
    """

    def __init__(self, model: Model, seed: int = 0) -> None:
        import numpy as np

        self.model, self._random = model, np.random.default_rng(seed)
        self._pieces = [model.piece(token_id) for token_id in range(model.n_vocab)]
        self._bytes = {piece: n for n, piece in enumerate(self._pieces) if len(piece) == 1}
        self._closing = np.array(
            [4.0 * (piece.strip() in (b'"', b"}", b"]", b'"}', b"]}")) for piece in self._pieces]
        )
        self._closing[sorted(model.eog_ids)] = 6
        letters = [piece.isascii() and piece.strip().isalnum() for piece in self._pieces]
        self._short = self._closing / 2 + np.array(letters)
        self.unfinished = 0

    def answers(self, schema: Any, count: int) -> Iterator[str]:
        """Yield answers that ended, of ``count`` that were begun."""
        with Grammar(self.model, schema=json.dumps(schema)) as grammar:
            for _ in range(count):
                grammar.reset()
                text = self._answer(grammar)
                if text is None:
                    self.unfinished += 1
                else:
                    yield text

    def _answer(self, grammar: Grammar) -> str | None:
        import numpy as np

        made = b""
        for step in range(_LONGEST):
            pull = self._short if step < _LONG else self._closing * (step / _LONG)
            logits = (self._random.normal(0, 3, len(self._pieces)) + pull).astype(np.float32)
            if not grammar.mask(logits):
                raise AssertionError(f"nothing follows {made.decode()}")
            token_id = int(logits.argmax())
            assert grammar.allows(token_id), made
            grammar.accept(token_id)
            if token_id in self.model.eog_ids:
                return made.decode()
            made += self._pieces[token_id]
        return None

    def takes(self, grammar: Grammar, text: str) -> bool:
        """Whether a grammar takes a text whole, byte token by byte token, and its end."""
        grammar.reset()
        return self.follows(grammar, text) and grammar.allows(min(self.model.eog_ids))

    def follows(self, grammar: Grammar, text: str) -> bool:
        """Whether a grammar takes a text next; it goes on behind it."""
        for byte in text.encode():
            token_id = self._bytes[bytes([byte])]
            if not grammar.allows(token_id):
                return False
            grammar.accept(token_id)
        return True


def validator(schema: Any) -> Any:
    """Return jsonschema's validator of a schema, formats included."""
    jsonschema = reference("jsonschema")
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)
