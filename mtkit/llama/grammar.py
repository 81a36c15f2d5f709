"""What tokens have to follow: a grammar in GBNF, a JSON schema, or a choice of calls.

llguidance follows all of them. It parses as Earley did, so that the number of ways in which a text
can be read stays within bounds that it is given. A vocabulary is made for llguidance once a model,
and grammars are compiled for one.

Source: llguidance, python/llguidance/_lib.pyi.
"""

from __future__ import annotations

import json
import re
import threading
import time
import weakref
from functools import lru_cache

from mtkit.base.process import Closeable
from mtkit.base.record import Record
from mtkit.errors import MissingExtra, MtkitError, ResourceError, UnsupportedError, UsageError
from mtkit.llama.gbnf import HEAD, lark_of
from mtkit.llama.schema import (
    PreparedSchema,
    field_name,
    not_enforced,
    parse_schema,
    schema_error,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from mtkit.llama.model import Model


_LIMITS: dict[str, Any] = {
    "max_items_in_row": 5_000, "step_max_items": 100_000, "max_lexer_states": 50_000,
    "verbose_errors": False,
}  # fmt: skip
"""Bounds of llguidance: some 100 MB; the samplers bound the time of a token."""
_vocabularies: weakref.WeakKeyDictionary[Model, Vocabulary] = weakref.WeakKeyDictionary()
_vocabulary_lock = threading.Lock()


class Vocabulary(Record):
    """A vocabulary as llguidance takes it.

    Attributes:
        controls: Texts of control tokens, which no text of a grammar matches, to their ids.
    """

    tokenizer: Any
    controls: dict[str, int]
    compiled: dict[Any, Any]


class _Pieces:
    """What llguidance wants to know of a vocabulary; it needs no tokenizer here."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], special: Sequence[int], eos: int) -> None:
        self.tokens, self.special_token_ids, self.eos_token_id = tokens, special, eos

    def __call__(self, text: bytes) -> list[int]:
        return [0] * len(text)


@lru_cache(maxsize=1)
def byte_vocabulary() -> Any:
    """Return a vocabulary of the bytes, for checking schemas where there is no model."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    return _tokenizer(_Pieces(tokens, [256], 256), [256])


def model_vocabulary(model: Model) -> Vocabulary:
    """Return a model's vocabulary, made once: about a second for 150,000 tokens."""
    with _vocabulary_lock:
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


def compile_grammar(tokenizer: Any, lark: str, field: str) -> Any:
    """Compile a grammar of llguidance's."""
    from llguidance import LLMatcher, LLParserLimits

    matcher = LLMatcher(tokenizer, lark, log_level=0, limits=LLParserLimits(**_LIMITS))
    if matcher.is_error():
        message = first_line(matcher.get_error())
        if "panic" in message:  # an assertion of its own, as of 65,526 symbols at most
            raise ResourceError("is too large or too deep to be compiled", field=field)
        raise UsageError(message, field=field)
    if not any(matcher.compute_bitmask()) or matcher.is_error():
        message = first_line(matcher.get_error())
        raise UsageError(message if "items" in message else "nothing follows it", field=field)
    return matcher


def first_line(text: str) -> str:
    """Return the first line of a message; llguidance's go on with its state."""
    return text.partition("\n")[0][:200]


_JSON_OPTIONS: Any = {"whitespace_pattern": " ", "json_allowed_escapes": 'nrbtf\\"'}
"""How JSON is written: one space at most; no characters by number, since the name of a property
written so would pass as another one's."""
_MOST_CALLS = 1000
_MOST_COMPILED = 32
"""Grammars kept for a model: one that was checked with its request is not compiled again."""
_MOST_COMPILED_BYTES = 1 << 19
"""Of their texts: a compiled grammar takes some hundred times as much memory."""
_LONG_BYTES = 1 << 15
"""Of one whose memory is given back soon, as that of other long requests."""
_MOST_TRIALS, _MOST_SECONDS = 500, 2.0
"""Parts of a schema that are compiled to find the one that cannot be enforced, and the time."""
_REASONS = (
    ("oneOf constraints", "oneOf of schemas that are not known to exclude each other"),
    ("recursion limit", "what is nested so deeply"),
    ("too large", "what is so large"),
    ("Unable to determine if regex is empty", "a pattern and lengths that are so long"),
    ("circular references with sibling", "a $ref that leads back here beside other keywords"),
)


class Grammar(Closeable):
    """What the tokens of a model have to follow."""

    def __init__(self, model: Model, *, text: str | None = None, schema: str | None = None) -> None:
        """Compile a grammar or a schema, one of the two."""
        self._ends = model.eog_ids
        vocabulary, key = model_vocabulary(model), (text, schema)
        matcher, _ = vocabulary.compiled.pop(key, (None, 0.0))
        if matcher is None:
            if schema is not None:
                lark = _lark_of_schema(schema, vocabulary.controls)
            else:
                lark = lark_of(text or "", lambda name: _token_id(model, name))
            field = "grammar" if schema is None else "JSON schema"
            matcher = compile_grammar(vocabulary.tokenizer, lark, field)
        vocabulary.compiled[key] = matcher, time.monotonic()  # at the end
        _forget_old(vocabulary.compiled)
        self._matcher = matcher.deep_copy()

    def allows(self, token_id: int) -> bool:
        """Whether a token can come next."""
        matcher = self._open_matcher()
        if matcher.is_stopped():  # then it knows of no token, not even of one that ends
            return token_id in self._ends
        return int(matcher.validate_tokens([token_id])) == 1

    def mask(self, logits: Any) -> bool:
        """Set the logits of tokens that cannot come next to minus infinity, in place.

        Returns:
            Whether any token can.
        """
        import numpy as np

        bits = np.frombuffer(self._open_matcher().compute_bitmask(), np.uint8)
        self._open_matcher()
        logits[np.unpackbits(bits, count=len(logits), bitorder="little") == 0] = float("-inf")
        return bool(logits.max() > float("-inf"))

    def accept(self, token_id: int) -> None:
        """Advance by a token that ``allows`` has accepted."""
        self._open_matcher().consume_token(token_id)

    def accept_all(self, ids: Sequence[int]) -> bool:
        """Advance by several tokens, all or none of them; returns whether they can come next."""
        matcher = self._open_matcher()
        if matcher.is_stopped() or int(matcher.validate_tokens(list(ids))) < len(ids):
            return False
        matcher.consume_tokens(list(ids))
        return True

    def reset(self) -> None:
        """Start again."""
        self._open_matcher().reset()

    def close(self) -> None:
        """Free it."""
        self._matcher = None

    def _open_matcher(self) -> Any:
        """Return the matcher, unless it is closed or has failed."""
        if self._matcher is None:
            raise UsageError("the grammar is closed")
        if self._matcher.is_error():
            message = first_line(self._matcher.get_error())
            raise ResourceError(f"can be followed in too many ways: {message}", field="grammar")
        return self._matcher


def _token_id(model: Model, name: str) -> int:
    """Return the id of the token that a grammar names, ``<[5]>`` or by its text."""
    match = re.fullmatch(r"<\[(\d{1,9})\]>", name)
    ids = [int(match[1])] if match else model.tokenize(name, add_special=False)
    if len(ids) != 1 or ids[0] >= model.n_vocab:
        raise UsageError(f"{name} is no token of the model", field="grammar")
    return ids[0]


def forget_long(seconds: float) -> bool:
    """Forget long grammars that were not used for so long; returns whether any stay.

    Not with their first use: other requests with the same tools may wait for their turn, and the
    scheduler would have to compile them.
    """
    until, stays = time.monotonic() - seconds, False
    for vocabulary in tuple(_vocabularies.values()):
        for key, (_, used) in tuple(vocabulary.compiled.items()):
            if sum(len(part) for part in key if part) > _LONG_BYTES:
                stays |= used > until
                if used <= until:
                    vocabulary.compiled.pop(key, None)
    return stays


def _forget_old(compiled: dict[Any, Any]) -> None:
    """Forget the grammars used longest ago, as many as are too many or too long; not the last."""
    size = 0
    for count, key in enumerate(reversed(tuple(compiled))):
        size += sum(len(text) for text in key if text)
        if count >= _MOST_COMPILED or (count and size > _MOST_COMPILED_BYTES):
            compiled.pop(key, None)


def one_of(choices: Iterable[tuple[str, str, str]]) -> str:
    """Return a schema by which an answer is one of several calls, as ``Grammar`` takes it.

    Args:
        choices: For each call the text before its JSON, the schema of that, and the text behind it;
            control tokens stand there as their texts.
    """
    return json.dumps([[before, json.loads(schema), after] for before, schema, after in choices])


def check_schema(schema: str) -> None:
    """Check that every part of a JSON schema can be enforced.

    Raises:
        UnsupportedError: A part of it cannot.
        UsageError: It is no schema, or nothing follows it.
    """
    _lark_of_schema(schema, {})


def _lark_of_schema(text: str, controls: dict[str, int]) -> str:
    value = parse_schema(text)
    if not isinstance(value, list):
        return f"{HEAD}\nstart: %json {_compile_schema(text)}"
    if not 0 < len(value) <= _MOST_CALLS or not all(map(_is_choice, value)):
        raise UsageError("is neither an object nor true", field="JSON schema")
    lines = [HEAD, "start: " + " | ".join(f"c{n}" for n in range(len(value)))]
    for number, (before, schema, after) in enumerate(value):
        parts = [*_literals(before, controls), f"s{number}", *_literals(after, controls)]
        lines.append(f"c{number}: {' '.join(parts)}")
        lines.append(f"s{number}: %json {_compile_schema(json.dumps(schema))}")
    return "\n".join(lines)


def _is_choice(choice: Any) -> bool:
    is_three = isinstance(choice, list) and len(choice) == 3
    return is_three and isinstance(choice[0], str) and isinstance(choice[2], str)


def _literals(text: str, controls: dict[str, int]) -> list[str]:
    """Return a text as literals, control tokens in it by their ids."""
    names = "|".join(map(re.escape, sorted(controls, key=len, reverse=True)))
    parts = re.split(f"({names})", text) if names else [text]
    return [
        f"<[{controls[part]}]>" if part in controls else json.dumps(part, ensure_ascii=False)
        for part in parts
        if part
    ]


@lru_cache(maxsize=256)
def _compile_schema(text: str) -> str:
    """Return the JSON of a schema that llguidance enforces whole."""
    prepared = PreparedSchema(parse_schema(text))
    try:
        compile_grammar(byte_vocabulary(), _schema_json(prepared.schema), "JSON schema")
    except UsageError as error:
        place = _find_place(error.what, prepared)
        raise _schema_error(error.what, place) from None
    return json.dumps({"x-guidance": _JSON_OPTIONS, **prepared.schema})


def _schema_json(schema: dict[str, Any]) -> str:
    from llguidance import LLMatcher

    grammar: str = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_JSON_OPTIONS)
    return grammar


def _find_place(message: str, prepared: PreparedSchema) -> str:
    """Return the innermost part of a schema that fails with the message of the whole."""
    places = sorted(prepared.parts, key=lambda place: place.count("/"), reverse=True)
    until = time.monotonic() + _MOST_SECONDS
    for place in places[:_MOST_TRIALS]:
        if time.monotonic() > until:
            break
        try:
            part = {**prepared.parts[place], "$defs": prepared.definitions}
            compile_grammar(byte_vocabulary(), _schema_json(part), "JSON schema")
        except (UsageError, ValueError) as error:
            if getattr(error, "what", "") == message:
                return place
    return "#"


def _schema_error(message: str, place: str) -> MtkitError:
    for sign, words in _REASONS:
        if sign in message:
            return not_enforced(words, place)
    if "nsatisfiable" in message or message == "nothing follows it":
        reason = message.partition(": ")[2] if "nsatisfiable" in message else ""
        return schema_error(place, f"no value satisfies it{': ' * bool(reason)}{reason}")
    return UnsupportedError(f"cannot be enforced: {message}", field=field_name(place))
