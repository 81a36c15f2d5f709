"""Vocabularies as llguidance takes them, and grammars compiled for one.

Source: llguidance, python/llguidance/_lib.pyi.
"""

from __future__ import annotations

import threading
import weakref
from functools import lru_cache

from mtkit.base.record import Record
from mtkit.errors import MissingExtra, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llama.model import Model

_LIMITS: dict[str, Any] = {
    "max_items_in_row": 5_000, "step_max_items": 100_000, "max_lexer_states": 50_000,
    "verbose_errors": False,
}  # fmt: skip
"""Of llguidance: some 100 MB, and a time for a token that the samplers see to."""
_vocabularies: weakref.WeakKeyDictionary[Model, Vocabulary] = weakref.WeakKeyDictionary()
_making = threading.Lock()


class Vocabulary(Record):
    """A vocabulary as llguidance takes it.

    Attributes:
        tokenizer: Its ``LLTokenizer``.
        controls: The texts of control tokens, which no text of a grammar stands for, to ids.
        compiled: Grammars that were compiled last, to copy.
    """

    tokenizer: Any
    controls: dict[str, int]
    compiled: dict[Any, Any]


class _Pieces:
    """What llguidance asks about a vocabulary; it needs no tokenizer for what is done here."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], special: Sequence[int], eos: int) -> None:
        self.tokens, self.special_token_ids, self.eos_token_id = tokens, special, eos

    def __call__(self, text: bytes) -> list[int]:
        return [0] * len(text)


@lru_cache(maxsize=1)
def of_bytes() -> Any:
    """Return a vocabulary of the bytes, for checking schemas where there is no model."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    return _tokenizer(_Pieces(tokens, [256], 256), [256])


def vocabulary_of(model: Model) -> Vocabulary:
    """Return a model's vocabulary, made once: about a second for 150,000 tokens."""
    with _making:
        if model not in _vocabularies:
            ids = range(model.n_vocab)
            special = {i for i in ids if model.is_control(i)} | model.eog_ids
            tokens = [model.piece(i, special=i in special) for i in ids]
            ends = sorted(model.eog_ids)
            if not ends:  # llguidance has to have one
                ends = [model.n_vocab]
                tokens.append(b"")
            _vocabularies[model] = Vocabulary(
                tokenizer=_tokenizer(_Pieces(tokens, sorted(special), ends[0]), ends),
                compiled={},
                controls={tokens[i].decode("utf-8", "replace"): i for i in special if tokens[i]},
            )
        return _vocabularies[model]


def _tokenizer(pieces: _Pieces, ends: list[int]) -> Any:
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise MissingExtra(
            "grammars and schemas need llguidance", hint="pip install 'mtkit[generate]'"
        ) from None
    return LLTokenizer(TokenizerWrapper(pieces), eos_token=ends, slices=[])


def compiled(tokenizer: Any, lark: str, field: str) -> Any:
    """Compile a grammar.

    Args:
        tokenizer: Of the vocabulary.
        lark: The grammar, as llguidance takes it.
        field: What errors call it.

    Raises:
        UsageError: It does not compile, or nothing follows it.
    """
    from llguidance import LLMatcher, LLParserLimits

    found = LLMatcher(tokenizer, lark, log_level=0, limits=LLParserLimits(**_LIMITS))
    if found.is_error():
        raise UsageError(first_line(found.get_error()), field=field)
    if not any(found.compute_bitmask()) or found.is_error():
        said = first_line(found.get_error())
        raise UsageError(said if "items" in said else "nothing follows it", field=field)
    return found


def first_line(text: str) -> str:
    """Return the first line of what llguidance says, which goes on with its state."""
    return text.partition("\n")[0][:200]
