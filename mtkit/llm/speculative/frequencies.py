"""How often ids occur: in texts, in a file of counts, in what a model answers."""

from __future__ import annotations

import json
from collections import Counter

from mtkit.errors import FormatError
from mtkit.gguf.arrays import array_of
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mtkit.llm.runner import Runner
    from mtkit.tokenizer.tokenizer import Tokenizer

_NORMAL, _UNKNOWN, _UNUSED = 1, 2, 5
"""Token types of a GGUF whose ids stand for nothing special."""
_MOST_DIGITS = 18
"""Of a number in a file of counts; Python refuses to read those of thousands."""


def in_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[int]:
    """Count ids of texts, without what is added around a text."""
    found: Counter[int] = Counter()
    for text in texts:
        found.update(tokenizer.encode_ids(text, add_special_tokens=False))
    return found


def in_file(path: str, content: str, n_vocab: int) -> Counter[int]:
    """Read counts: what ``mtkit corpus count`` writes, or lines of an id and its count.

    A number sign begins a comment in a line.

    Raises:
        FormatError: It holds something else, or an id that does not exist.
    """
    if content.startswith("{"):
        rows = _pairs(path, content)
    else:
        lines = (line.partition("#")[0].split() for line in content.splitlines())
        rows = ((f"line {number}", fields) for number, fields in enumerate(lines, 1) if fields)
    found: Counter[int] = Counter()
    for place, fields in rows:
        if len(fields) != 2 or not all(map(_is_number, fields)):
            raise FormatError("is not an id and its count", source=path, field=place)
        if int(fields[0]) >= n_vocab:
            raise FormatError(f"there is no id {fields[0]}", source=path, field=place)
        found[int(fields[0])] += int(fields[1])
    return found


def _pairs(path: str, content: str) -> Iterable[tuple[str, list[str]]]:
    """Yield place, id and count of a document of schema ``mtkit.frequencies/1``."""
    try:
        counts = json.loads(content)["counts"].items()
    except (ValueError, KeyError, AttributeError, RecursionError):
        raise FormatError("is not counts as corpus count writes them", source=path) from None
    return ((f"counts.{token_id}", [token_id, str(count)]) for token_id, count in counts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def in_answers(runner: Runner, prompts: Iterable[str], n_predict: int) -> Counter[int]:
    """Count the ids of greedy answers; the model's context is open."""
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import SamplerSettings

    assert runner.context is not None
    found: Counter[int] = Counter()
    with Sampler(runner.context, SamplerSettings()) as sampler:
        for prompt in prompts:
            ids = runner.model.tokenize(prompt)[-(runner.context.n_ctx - n_predict) :]
            if ids:
                runner.feed(ids)
                found.update(t.id for t in runner.stream(sampler, n_predict) if t.id >= 0)
    return found


def always_in(metadata: Mapping[str, Any]) -> list[int]:
    """Return the ids that every vocabulary of a draft has: control tokens, templates', bytes.

    Args:
        metadata: Of the target; without them a text could not end, nor be spelled.
    """
    types = array_of(metadata, "tokenizer.ggml.token_type", "i32")
    found = {i for i, kind in enumerate(types) if kind not in (_NORMAL, _UNKNOWN, _UNUSED)}
    tokens = array_of(metadata, "tokenizer.ggml.tokens", "string")
    if metadata.get("tokenizer.ggml.model") == "gpt2":  # one character of it is a byte
        found.update(i for i, token in enumerate(tokens) if len(token) == 1)
    else:  # llama.cpp finds bytes by their spelling, whatever their type
        bytes_ = {token.decode() for token in BYTE_TOKENS}
        found.update(i for i, token in enumerate(tokens) if token in bytes_)
    for name, value in metadata.items():
        if name.startswith("tokenizer.ggml.") and name.endswith("_token_id"):
            found.update([value] if type(value) is int else [])
    return sorted(i for i in found if 0 <= i < max(len(types), len(tokens)))
