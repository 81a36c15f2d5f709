"""How often ids occur: in texts, in a file of counts, in a model's answers.

The most frequent ones are a static vocabulary, the ids that a draft can propose (FR-Spec), kept in
a vocab.txt: one decimal id a line, the most frequent first, so that the head of a file is a smaller
vocabulary. Blank lines and comments behind a number sign are skipped.
"""

from __future__ import annotations

import json
from collections import Counter

from mtkit.base.binary import map_file
from mtkit.errors import FormatError, UsageError
from mtkit.gguf.arrays import metadata_array
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from mtkit.llm.runner import Runner
    from mtkit.tokenizer.tokenizer import Tokenizer


_NORMAL, _UNKNOWN, _UNUSED = 1, 2, 5
"""Token types of a GGUF whose ids stand for nothing special."""
_MOST_DIGITS = 18
"""Digits of a number in a file of counts; Python refuses to parse thousands of them."""


def count_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[int]:
    """Count ids of texts, without what is added around a text."""
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer.encode_ids(text, add_special_tokens=False))
    return counts


def parse_counts(path: str, content: str, n_vocab: int) -> Counter[int]:
    """Read counts: what ``mtkit corpus count`` writes, or lines of an id and its count.

    A number sign begins a comment in a line.
    """
    if content.startswith("{"):
        rows = _count_pairs(path, content)
    else:
        lines = (line.partition("#")[0].split() for line in content.splitlines())
        rows = ((f"line {number}", fields) for number, fields in enumerate(lines, 1) if fields)
    counts: Counter[int] = Counter()
    for place, fields in rows:
        if len(fields) != 2 or not all(map(_is_number, fields)):
            raise FormatError("is not an id and its count", source=path, field=place)
        if int(fields[0]) >= n_vocab:
            raise FormatError(f"there is no id {fields[0]}", source=path, field=place)
        counts[int(fields[0])] += int(fields[1])
    return counts


def _count_pairs(path: str, content: str) -> Iterable[tuple[str, list[str]]]:
    """Yield place, id and count of a document of schema ``mtkit.frequencies/1``."""
    try:
        counts = json.loads(content)["counts"].items()
    except (ValueError, KeyError, AttributeError, RecursionError):
        raise FormatError("is not counts as corpus count writes them", source=path) from None
    return ((f"counts.{token_id}", [token_id, str(count)]) for token_id, count in counts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def count_answers(runner: Runner, prompts: Iterable[str], n_predict: int) -> Counter[int]:
    """Count the ids of greedy answers; the model's context is open."""
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import SamplerSettings

    assert runner.context is not None
    counts: Counter[int] = Counter()
    with Sampler(runner.context, SamplerSettings()) as sampler:
        for prompt in prompts:
            ids = runner.model.tokenize(prompt)[-(runner.context.n_ctx - n_predict) :]
            if ids:
                runner.feed(ids)
                counts.update(t.id for t in runner.stream(sampler, n_predict) if t.id >= 0)
    return counts


def required_ids(metadata: Mapping[str, Any]) -> list[int]:
    """Return the ids that a draft's vocabulary must have for a text to end and to be spelled.

    These are the target's control tokens, those of its chat template, and its bytes.
    """
    types = metadata_array(metadata, "tokenizer.ggml.token_type", "i32")
    ids = {i for i, kind in enumerate(types) if kind not in (_NORMAL, _UNKNOWN, _UNUSED)}
    tokens = metadata_array(metadata, "tokenizer.ggml.tokens", "string")
    if metadata.get("tokenizer.ggml.model") == "gpt2":  # one character of it is a byte
        ids.update(i for i, token in enumerate(tokens) if len(token) == 1)
    else:  # llama.cpp finds bytes by their spelling, whatever their type
        bytes_ = {token.decode() for token in BYTE_TOKENS}
        ids.update(i for i, token in enumerate(tokens) if token in bytes_)
    for name, value in metadata.items():
        if name.startswith("tokenizer.ggml.") and name.endswith("_token_id"):
            ids.update([value] if type(value) is int else [])
    return sorted(i for i in ids if 0 <= i < max(len(types), len(tokens)))


def read_vocabulary(path: str, n_vocab: int) -> list[int]:
    """Return the ids of a vocab.txt."""
    line_numbers: dict[int, int] = {}
    try:
        lines = bytes(map_file(path)).decode().splitlines()
    except UnicodeDecodeError:
        raise FormatError("is not a list of ids: not valid UTF-8", source=path) from None
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not (text.isascii() and text.isdigit()):
            raise FormatError(f"{text!r} is not an id", source=path, field=f"line {number}")
        token_id = int(text) if len(text) < 12 else n_vocab
        if token_id >= n_vocab:
            raise FormatError(
                f"there is no id {text}", source=path, field=f"line {number}",
                hint=f"the model has ids 0 to {n_vocab - 1}",
            )  # fmt: skip
        if token_id in line_numbers:
            raise FormatError(
                f"id {token_id} stands in line {line_numbers[token_id]} already",
                source=path,
                field=f"line {number}",
            )
        line_numbers[token_id] = number
    return list(line_numbers)


def format_vocabulary(ids: Sequence[int], note: str) -> str:
    """Return the text of a vocab.txt, a note at its head."""
    return f"# {note}\n" + "".join(f"{token_id}\n" for token_id in ids)


def most_frequent_ids(
    counts: Mapping[int, int], size: int, always: Collection[int], n_vocab: int
) -> list[int]:
    """Return ``size`` ids, the most frequent first, of equals the lowest."""
    if len(always) > size:
        raise UsageError(
            f"{size} ids hold less than the {len(always)} that every vocabulary needs",
            hint="end tokens, bytes and control tokens are always in",
        )
    ranked = sorted(range(n_vocab), key=lambda i: (-counts.get(i, 0), i))
    ids = set(always)
    for token_id in ranked:
        if len(ids) >= size:
            break
        ids.add(token_id)
    return [token_id for token_id in ranked if token_id in ids]


def coverage(counts: Mapping[int, int], ids: Iterable[int]) -> float:
    """Return the fraction of all occurrences that these ids cover."""
    total = sum(counts.values())
    return sum(counts.get(i, 0) for i in ids) / total if total else 0.0
