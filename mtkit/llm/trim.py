"""A smaller vocabulary for a model and its tokenizer together: ``mtkit trim``.

Embedding, head and vocabulary keep the rows of some ids, byte for byte, with what those tokens are
made of, bytes, special tokens and every id that a key names. Texts whose tokens are all kept have
the same tokens then, which is tried before anything is written: with each kept token, with mixtures
of them, and with what the caller gives.
"""

from __future__ import annotations

from io import TextIOWrapper
from random import Random

from mtkit.base.binary import Source, open_input
from mtkit.base.record import Record
from mtkit.errors import AnswerNo, FormatError, NoToken, UsageError
from mtkit.formats.gguf.kinds import ID_KEYS, KINDS, default_ids
from mtkit.formats.gguf.pre_tokenizers import NAMES
from mtkit.gguf.arrays import GgufArray, array_of
from mtkit.gguf.draft import Draft
from mtkit.gguf.joined import open_whole
from mtkit.gguf.vocabulary_rows import ROWS_MULTIPLE, count_rows, cut_rows
from mtkit.gguf.writer import Key
from mtkit.llm.speculative import frequencies
from mtkit.llm.token_parts import TokenParts
from mtkit.tokenizer.load import load_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from mtkit.gguf import GgufFile
    from mtkit.tokenizer.tokenizer import Tokenizer

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
        draft: The file.
        ids: New id -> old id, ascending.
        tokens: New id -> token as the file spells it.
        n_before: How many ids there were.
        checked: Texts that were seen to have the same tokens.
    """

    draft: Draft
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    n_before: int
    checked: int


def frequent_ids(path: str, texts: Iterable[str], coverage: float) -> list[int]:
    """Return the ids that make up a part of all tokens of texts, the most frequent first.

    Raises:
        UsageError: The part is none, or there is nothing in them.
    """
    if not 0 < coverage <= 1:  # NaN is neither
        raise UsageError(f"is {coverage}, but must be above 0 and at most 1", field="coverage")
    counts = frequencies.in_texts(load_source(Source.open(path)), texts)
    wanted, seen = coverage * counts.total(), 0
    if not counts:
        raise UsageError("nothing to count in the corpus")
    found = []
    for token_id, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if seen >= wanted:
            break
        found.append(token_id)
        seen += count
    return found


def texts_of(path: str) -> Iterable[str]:
    """Yield the text of a file, some of its lines at a time.

    Raises:
        UsageError: It cannot be read.
        FormatError: It is not UTF-8.
    """
    try:
        with TextIOWrapper(open_input(path), encoding="utf-8", newline="") as file:
            while lines := file.readlines(_TEXT_BYTES):
                yield "".join(lines)
    except UnicodeDecodeError as error:
        raise FormatError("is not valid UTF-8", source=path, offset=error.start) from None


def trim(
    path: str, wanted: Sequence[int], *, multiple: int = ROWS_MULTIPLE, texts: Iterable[str] = ()
) -> Trimmed:
    """Cut a model to some of its ids.

    Args:
        path: The model.
        wanted: Ids to keep, what matters most first.
        multiple: Keep more ids, up to a number that this divides.
        texts: To be tried besides.

    Raises:
        UsageError: There is no such id, or the model has other rows than tokens.
        FormatError: A column of the vocabulary does not go with the tokens.
        UnsupportedError: The model keeps its vocabulary in a way that is not known how to cut.
        AnswerNo: A text of kept tokens would have other tokens.
    """
    file = open_whole(path)
    n_vocab = count_rows(file)
    tokens = array_of(file.metadata, PREFIX + "tokens", "string")
    if len(tokens) != n_vocab:
        raise UsageError(f"has {len(tokens)} tokens and {n_vocab} rows", source=path)
    _check_columns(file, n_vocab)
    outside = next((i for i in wanted if not 0 <= i < n_vocab), None)
    if outside is not None:
        raise UsageError(f"there is no id {outside}", source=path)
    old = load_source(Source.open(path))
    parts = TokenParts(file.metadata)
    kept = parts.closed([*_always(file, old), *wanted])
    ids = sorted(_filled(kept, parts, wanted, n_vocab, multiple))
    draft = Draft.of(file)
    draft.keys = {key.name: key for key in _keys(file, draft, ids, parts)}
    draft.tensors = {tensor.name: tensor for tensor in cut_rows(file, ids)}
    header = b"".join(Draft(draft.keys.values(), (), draft.version).chunks())
    new = load_source(Source(path, header))
    checked = _verify(old, new, ids, texts)
    return Trimmed(draft, tuple(ids), tuple(tokens[i] for i in ids), n_vocab, checked)


def _check_columns(file: GgufFile, n_vocab: int) -> None:
    """Check what is cut beside the tokens, which the tokenizer may not need."""
    for name in (*sorted(_BY_ID), PREFIX + "merges"):
        value = file.metadata.get(name)
        if value is None:
            continue
        if not isinstance(value, GgufArray) or (name in _BY_ID and len(value) != n_vocab):
            raise FormatError("does not go with the tokens", source=file.name, field=name)


def _always(file: GgufFile, tokenizer: Tokenizer) -> set[int]:
    """Return the ids that every vocabulary keeps."""
    metadata, spec = file.metadata, tokenizer.spec
    size = len(metadata[PREFIX + "tokens"])
    found = {*frequencies.always_in(metadata), *_defaults(metadata).values()}
    found.update(token.id for token in spec.added_tokens.tokens)
    for name, value in metadata.items():
        if name.endswith("_token_id") and type(value) is int:
            found.add(value)
    if metadata[PREFIX + "model"] == "rwkv":
        found.update(i for i, piece in enumerate(spec.vocabulary.pieces) if len(piece) == 1)
    if metadata[PREFIX + "model"] == "t5":
        # An unknown character costs ten more than the worst token does.
        scores, types = metadata.get(PREFIX + "scores"), metadata.get(PREFIX + "token_type")
        normal = [i for i in range(size) if not types or types[i] == _NORMAL]
        found.update([min(normal, key=lambda i: scores[i] if scores else 0)] if normal else [])
    return {i for i in found if 0 <= i < size}


def _defaults(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Return key -> id that llama.cpp takes as no key says one: ids change, so one has to."""
    kind = KINDS[metadata[PREFIX + "model"]]
    usual = default_ids(kind, NAMES.get(metadata.get(PREFIX + "pre", "")),
                        len(metadata[PREFIX + "tokens"]))  # fmt: skip
    keys = {PREFIX + ID_KEYS[role]: number for role, number in usual.items()}
    return {key: number for key, number in keys.items() if key not in metadata}


def _filled(
    kept: set[int], parts: TokenParts, wanted: Sequence[int], n_vocab: int, multiple: int
) -> set[int]:
    """Return ids with more of them, up to a multiple."""
    size = min(n_vocab, -(-len(kept) // multiple) * multiple)
    found = set(kept)
    for candidate in (*wanted, *range(n_vocab)):
        if len(found) == size:
            break
        if candidate not in found:
            more = parts.closed([candidate]) - found
            if len(found) + len(more) <= size:
                found |= more
    return found


def _keys(file: GgufFile, draft: Draft, ids: Sequence[int], parts: TokenParts) -> Iterable[Any]:
    """Yield the keys of the smaller model."""
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


def _verify(old: Tokenizer, new: Tokenizer, ids: Sequence[int], texts: Iterable[str]) -> int:
    """Compare the tokens of texts; returns how many texts have kept tokens alone.

    Raises:
        AnswerNo: One has other tokens than it had.
    """
    renamed = {number: at for at, number in enumerate(ids)}
    unknown = old.unk_id
    random, checked = Random(len(ids)), 0  # noqa: S311  the same texts each time
    mixtures = (old.decode(random.choices(ids, k=_MIXED)) for _ in range(_MIXTURES))
    alone = (old.decode([number]) for number in ids)
    for text in (*texts, *alone, *mixtures):
        try:
            before = old.encode_ids(text)
        except NoToken:
            continue
        if unknown in before or any(number not in renamed for number in before):
            continue
        checked += 1
        after = new.encode_ids(text)
        if after != [renamed[number] for number in before]:
            raise AnswerNo(
                f"{text[:40]!r} would have other tokens: {after[:8]},"
                f" not {[renamed[number] for number in before[:8]]}",
                source=old.source,
            )
    return checked
