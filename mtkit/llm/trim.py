"""A smaller vocabulary for a model and its tokenizer together: ``mtkit trim``.

Embedding, head and vocabulary keep the rows of some ids, byte for byte, along with what those
tokens are made of, bytes, special tokens and every id that a key names. Texts whose tokens are all
kept then have the same tokens, which is checked before anything is written: with each kept token,
with mixtures of them, and with the caller's texts.

``TokenParts``: merging never looks beyond the ends of what becomes one token, so a token comes
about in every text as it does alone: by the same merges of the same parts. A vocabulary with these
parts and merges gives the same tokens, wherever all tokens that come out are in it.
"""

from __future__ import annotations

from io import TextIOWrapper
from itertools import pairwise
from random import Random

from mtkit.base.binary import Source, open_input
from mtkit.base.record import Record
from mtkit.errors import AnswerNo, FormatError, NoToken, UnsupportedError, UsageError
from mtkit.formats.gguf.metadata import ID_KEYS, KINDS, default_ids
from mtkit.formats.gguf.pre_tokenizers import NAMES
from mtkit.gguf.arrays import GgufArray, metadata_array
from mtkit.gguf.draft import Draft
from mtkit.gguf.shards import open_whole
from mtkit.gguf.values import ROWS_MULTIPLE, count_rows, cut_rows
from mtkit.gguf.writer import Key
from mtkit.llm import frequencies
from mtkit.tokenizer.load import load_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from mtkit.gguf import GgufFile
    from mtkit.tokenizer.tokenizer import Tokenizer


_BY_MERGES, _BY_SCORES = frozenset({"gpt2", "gemma4"}), frozenset({"llama"})
_WHOLE = frozenset({"t5", "bert", "rwkv"})
"""Models that look tokens up as they are."""
_MOST_CHARACTERS = 4096


class TokenParts:
    """The tokens that tokens are merged from."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """Take the keys of a model."""
        kind = metadata.get("tokenizer.ggml.model")
        if kind not in _BY_MERGES | _BY_SCORES | _WHOLE:
            raise UnsupportedError(f"a vocabulary of the model {kind!r} is not cut")
        self._tokens = list(metadata["tokenizer.ggml.tokens"])
        self._ids: dict[str, int] = {}
        for number, token in enumerate(self._tokens):
            self._ids.setdefault(token, number)
        self._rank: Callable[[str, str], float | None] | None = None
        if kind in _BY_MERGES:
            merges = metadata.get("tokenizer.ggml.merges") or ()
            ranks: dict[str, int] = {}
            for rank, merge in enumerate(merges):
                ranks.setdefault(merge, rank)
            self._rank = lambda left, right: ranks.get(f"{left} {right}")
        elif kind in _BY_SCORES:
            scores = metadata.get("tokenizer.ggml.scores")  # llama.cpp takes 0 where there are none
            self._scores = list(scores or [0.0] * len(self._tokens))
            self._rank = self._by_score

    def closure(self, ids: Iterable[int]) -> set[int]:
        """Return ids and all that they are made of."""
        closure: set[int] = set()
        for token_id in ids:
            if token_id not in closure:
                closure.add(token_id)
                closure.update(self._parts_of(self._tokens[token_id]))
        return closure

    def merges(self, merges: Iterable[str], ids: set[int]) -> list[str]:
        """Return the merges that a smaller vocabulary keeps: those of its own tokens."""
        gone = {token for number, token in enumerate(self._tokens) if number not in ids}
        gone -= {self._tokens[number] for number in ids}
        return [
            merge
            for merge in merges
            if gone.isdisjoint((*merge.split(" "), merge.replace(" ", "", 1)))
        ]

    def _by_score(self, left: str, right: str) -> float | None:
        number = self._ids.get(left + right)
        return None if number is None else -self._scores[number]

    def _parts_of(self, token: str) -> Iterable[int]:
        if self._rank is None or len(token) < 2:
            return ()
        if len(token) > _MOST_CHARACTERS:
            raise UnsupportedError(f"a token of {len(token)} characters is not taken apart")
        symbols, seen = list(token), set(token)
        while len(symbols) > 1:
            ranks = [self._rank(*pair) for pair in pairwise(symbols)]
            listed = [(rank, at) for at, rank in enumerate(ranks) if rank is not None]
            if not listed:
                return ()  # no text is merged into it
            _, at = min(listed)
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
            seen.add(symbols[at])
        return [self._ids[part] for part in seen if part in self._ids]


PREFIX = "tokenizer.ggml."
_BY_ID = frozenset(PREFIX + name for name in ("tokens", "scores", "token_type"))
_WHOLE_TOKENIZERS = frozenset({"tokenizer.huggingface.json", "tokenizer.rwkv.world"})
"""Copies of the whole vocabulary, which llama.cpp does not read."""
_NORMAL = 1
_MIXTURES, _MIXED = 2000, 12
_TEXT_BYTES = 1 << 20


class Trimmed(Record):
    """A model with fewer ids, not written yet.

    Attributes:
        ids: New id -> old id, ascending.
        tokens: New id -> token as the file spells it.
        n_before: How many ids there were.
    """

    draft: Draft
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    n_before: int
    checked: int


def frequent_ids(path: str, texts: Iterable[str], coverage: float) -> list[int]:
    """Return the most frequent ids that cover so much of the tokens of texts."""
    if not 0 < coverage <= 1:  # NaN is neither
        raise UsageError(f"is {coverage}, but must be above 0 and at most 1", field="coverage")
    counts = frequencies.count_texts(load_source(Source.open(path)), texts)
    limit, seen = coverage * counts.total(), 0
    if not counts:
        raise UsageError("nothing to count in the corpus")
    ids = []
    for token_id, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen >= limit:
            break
        ids.append(token_id)
        seen += count
    return ids


def read_texts(path: str) -> Iterable[str]:
    """Yield the text of a file, a megabyte of lines at a time."""
    try:
        with TextIOWrapper(open_input(path), encoding="utf-8", newline="") as file:
            while lines := file.readlines(_TEXT_BYTES):
                yield "".join(lines)
    except UnicodeDecodeError as error:
        raise FormatError("is not valid UTF-8", source=path, offset=error.start) from None


def trim(
    path: str, keep: Sequence[int], *, multiple: int = ROWS_MULTIPLE, texts: Iterable[str] = ()
) -> Trimmed:
    """Cut a model to some of its ids."""
    file = open_whole(path)
    n_vocab = count_rows(file)
    tokens = metadata_array(file.metadata, PREFIX + "tokens", "string")
    if len(tokens) != n_vocab:
        raise UsageError(f"has {len(tokens)} tokens and {n_vocab} rows", source=path)
    _check_columns(file, n_vocab)
    outside = next((i for i in keep if not 0 <= i < n_vocab), None)
    if outside is not None:
        raise UsageError(f"there is no id {outside}", source=path)
    old = load_source(Source.open(path))
    parts = TokenParts(file.metadata)
    closure = parts.closure([*_required_ids(file, old), *keep])
    ids = sorted(_fill_up(closure, parts, keep, n_vocab, multiple))
    draft = Draft.of(file)
    draft.keys = {key.name: key for key in _trimmed_keys(file, draft, ids, parts)}
    draft.tensors = {tensor.name: tensor for tensor in cut_rows(file, ids)}
    header = b"".join(Draft(draft.keys.values(), (), draft.version).chunks())
    new = load_source(Source(path, header))
    checked = _verify_texts(old, new, ids, texts)
    return Trimmed(draft, tuple(ids), tuple(tokens[i] for i in ids), n_vocab, checked)


def _check_columns(file: GgufFile, n_vocab: int) -> None:
    """Check the arrays that are cut along with the tokens, which the tokenizer may not need."""
    for name in (*sorted(_BY_ID), PREFIX + "merges"):
        value = file.metadata.get(name)
        if value is None:
            continue
        if not isinstance(value, GgufArray) or (name in _BY_ID and len(value) != n_vocab):
            raise FormatError("does not go with the tokens", source=file.name, field=name)


def _required_ids(file: GgufFile, tokenizer: Tokenizer) -> set[int]:
    """Return the ids that every smaller vocabulary keeps."""
    metadata, spec = file.metadata, tokenizer.spec
    size = len(metadata[PREFIX + "tokens"])
    ids = {*frequencies.required_ids(metadata), *_defaults(metadata).values()}
    ids.update(token.id for token in spec.added_tokens.tokens)
    for name, value in metadata.items():
        if name.endswith("_token_id") and type(value) is int:
            ids.add(value)
    if metadata[PREFIX + "model"] == "rwkv":
        ids.update(i for i, piece in enumerate(spec.vocabulary.pieces) if len(piece) == 1)
    if metadata[PREFIX + "model"] == "t5":
        # An unknown character costs ten more than the worst token does.
        scores, types = metadata.get(PREFIX + "scores"), metadata.get(PREFIX + "token_type")
        normal = [i for i in range(size) if not types or types[i] == _NORMAL]
        ids.update([min(normal, key=lambda i: scores[i] if scores else 0)] if normal else [])
    return {i for i in ids if 0 <= i < size}


def _defaults(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids that llama.cpp assumes without a key: as ids change, keys must name them."""
    kind = KINDS[metadata[PREFIX + "model"]]
    usual = default_ids(kind, NAMES.get(metadata.get(PREFIX + "pre", "")),
                        len(metadata[PREFIX + "tokens"]))  # fmt: skip
    keys = {PREFIX + ID_KEYS[role]: number for role, number in usual.items()}
    return {key: number for key, number in keys.items() if key not in metadata}


def _fill_up(
    required: set[int], parts: TokenParts, keep: Sequence[int], n_vocab: int, multiple: int
) -> set[int]:
    """Return ids with more of them, up to a multiple of ``multiple``."""
    size = min(n_vocab, -(-len(required) // multiple) * multiple)
    ids = set(required)
    for candidate in (*keep, *range(n_vocab)):
        if len(ids) == size:
            break
        if candidate not in ids:
            more = parts.closure([candidate]) - ids
            if len(ids) + len(more) <= size:
                ids |= more
    return ids


def _trimmed_keys(
    file: GgufFile, draft: Draft, ids: Sequence[int], parts: TokenParts
) -> Iterable[Any]:
    metadata, new = file.metadata, {old: at for at, old in enumerate(ids)}
    for name, key in draft.keys.items():
        value, kind = metadata[name], metadata.type_name(name)
        if name in _WHOLE_TOKENIZERS:
            continue
        if name in _BY_ID:
            yield Key(name, kind, [value[i] for i in ids])
        elif name == PREFIX + "merges":
            yield Key(name, kind, parts.merges(value, set(ids)))
        elif name.endswith("_token_id") and type(value) is int and value in new:
            yield Key(name, kind, new[value])
        elif name.endswith(("_token_ids", "suppress_tokens")) and kind.endswith("[]"):
            yield Key(name, kind, [new[i] for i in value if i in new])
        elif name == f"{metadata.get('general.architecture')}.vocab_size":
            yield Key(name, kind, len(ids))
        else:
            yield key
    for name, number in _defaults(metadata).items():
        yield Key(name, "u32", new[number])


def _verify_texts(old: Tokenizer, new: Tokenizer, ids: Sequence[int], texts: Iterable[str]) -> int:
    """Compare the tokens of texts; returns how many texts consist of kept tokens."""
    new_ids = {number: at for at, number in enumerate(ids)}
    unknown = old.unk_id
    random, checked = Random(len(ids)), 0  # noqa: S311  the same texts each time
    mixtures = (old.decode(random.choices(ids, k=_MIXED)) for _ in range(_MIXTURES))
    alone = (old.decode([number]) for number in ids)
    for text in (*texts, *alone, *mixtures):
        try:
            before = old.encode_ids(text)
        except NoToken:
            continue
        if unknown in before or any(number not in new_ids for number in before):
            continue
        checked += 1
        after = new.encode_ids(text)
        if after != [new_ids[number] for number in before]:
            raise AnswerNo(
                f"{text[:40]!r} would have other tokens: {after[:8]},"
                f" not {[new_ids[number] for number in before[:8]]}",
                source=old.source,
            )
    return checked
