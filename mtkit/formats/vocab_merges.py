"""GPT-2's pair of files: vocab.json (token → id) and merges.txt (one pair a line, by rank).

Either file can be named; the other must lie beside it. They hold vocabulary and merges alone; what
surrounds them is GPT-2's: the byte alphabet, its split pattern, ``<|endoftext|>`` as BOS, EOS and
unknown token (``added_tokens.json`` beside them adds more).

Source: huggingface/transformers, models/gpt2 (``GPT2Tokenizer``); openai/gpt-2, src/encoder.py.
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.formats.contract import Loss, Reading, Written
from mtkit.formats.remainder import with_remainder
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    decoders,
    models,
    pre_tokenizers,
)
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.formats.contract import WriteOptions

NAME = "vocab-merges"
TITLE = "GPT-2 vocab.json and merges.txt"

_END = b"<|endoftext|>"
HIGHEST_ID = 1 << 24
"""No vocabulary comes near; a higher id is damage."""


def sniff(source: Source) -> bool:
    """Tell by a JSON object of strings with numbers, or a line of two words, and the other file."""
    import re

    head = bytes(source.data[:1000])
    if re.match(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\d+\s*[,}]', head):
        return source.beside("merges.txt") is not None
    lines = head.split(b"\n")
    first = lines[1] if lines[0].startswith(b"#version") and len(lines) > 1 else lines[0]
    return len(first.split(b" ")) == 2 and source.beside("vocab.json") is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read the pair.

    Raises:
        FormatError: A file is damaged.
        UsageError: The other file is missing.
    """
    data = bytes(source.data)
    is_vocab = data.lstrip().startswith(b"{")
    vocab = data if is_vocab else source.beside("vocab.json")
    merges = source.beside("merges.txt") if is_vocab else data
    if vocab is None or merges is None:
        raise UsageError("the other file of the pair is missing", source=source.name)
    ids = _ids(vocab, "vocab.json")
    added = source.beside("added_tokens.json")
    more = _ids(added, "added_tokens.json") if added is not None else {}
    special = dict(more)
    if _END in ids:
        special[_END] = ids[_END]
    if _END not in special:
        special[_END] = max([*ids.values(), *more.values(), -1]) + 1
    tokens = tuple(
        AddedToken(token_id, piece, special=piece == _END, normalized=piece != _END)
        for piece, token_id in sorted(special.items(), key=lambda item: item[1])
    )
    end = special[_END]
    vocabulary = _vocabulary(ids)
    spec = TokenizerSpec(
        vocabulary,
        models.BPE(_merges(merges, ids, len(vocabulary))),
        pre_tokenizer=_SURROUNDINGS[0],
        decoder=_SURROUNDINGS[1],
        added_tokens=AddedTokens(tokens),
        special_ids=SpecialIds(bos=end, eos=end, unk=end),
    )
    return Reading(spec, ("GPT-2's split pattern, byte alphabet and <|endoftext|>",))


_SURROUNDINGS = (pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel())


def _ids(data: bytes, name: str) -> dict[bytes, int]:
    from mtkit.formats.json_fields import encode, parse

    table = parse(data, name)
    if not isinstance(table, dict):
        raise FormatError("is not a JSON object", field=name)
    ids = {}
    for text, token_id in table.items():
        if type(token_id) is not int or not 0 <= token_id <= HIGHEST_ID:
            raise FormatError(f"{text!r:.60} has no id", field=name)
        ids[encode(text, name)] = token_id
    return ids


def _vocabulary(ids: Mapping[bytes, int]) -> Vocabulary:
    size = max(ids.values(), default=-1) + 1
    if is_sparse(size, len(ids)):
        what = f"has id {size - 1} and only {len(ids)} tokens"
        raise FormatError(what, field="vocab.json")
    pieces = [b""] * size
    types = bytearray([TokenType.ABSENT]) * size
    for piece, token_id in ids.items():
        if types[token_id] != TokenType.ABSENT:
            raise FormatError(f"id {token_id} stands twice", field="vocab.json")
        pieces[token_id] = piece
        types[token_id] = TokenType.NORMAL
    whole = TokenType.ABSENT not in types
    return Vocabulary(Pieces.of(pieces), None if whole else Numbers("B", bytes(types)))


def _merges(data: bytes, ids: Mapping[bytes, int], size: int) -> models.Merges:
    pairs: list[int] = []
    at = 0
    for number, line in enumerate(data.split(b"\n")):
        words = line.removesuffix(b"\r").split(b" ")
        if line.strip() and not (number == 0 and line.startswith(b"#version")):
            if len(words) != 2 or words[0] not in ids or words[1] not in ids:
                what = f"is {line[:60]!r}, not two tokens of vocab.json"
                raise FormatError(what, field="merges.txt line", offset=at)
            if words[0] + words[1] not in ids:
                what = f"{line[:60]!r} makes what is not a token of vocab.json"
                raise FormatError(what, field="merges.txt line", offset=at)
            pairs += (ids[words[0]], ids[words[1]])
        at += len(line) + 1
    assert size >= 0
    return models.Merges(Numbers.of("I", pairs), Pieces.of([]))


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write byte-level BPE with GPT-2's split.

    Raises:
        UnsupportedError: It is another model, or a merge cannot stand in a line.
    """
    import json

    model = spec.model
    if not isinstance(model, models.BPE):
        raise UnsupportedError(f"{TITLE} holds a merge list, not {type(model).__name__}")
    pieces = spec.vocabulary.pieces
    if model.merges.unlisted:
        raise UnsupportedError("a merge has a part that is not a token")
    vocab: dict[str, int] = {}
    for token_id, piece in enumerate(pieces):
        if spec.vocabulary.type_of(token_id) is not TokenType.ABSENT:
            vocab[_text(piece)] = token_id
    lines = ["#version: 0.2\n"]
    pairs = model.merges.pairs
    for at in range(0, len(pairs), 2):
        left, right = _text(pieces[pairs[at]]), _text(pieces[pairs[at + 1]])
        if any(mark in left + right for mark in " \n\r") or (at == 0 and left.startswith("#")):
            raise UnsupportedError(f"merge {at // 2} cannot stand in a line: {left!r} {right!r}")
        if left + right not in vocab:
            raise UnsupportedError(f"merge {at // 2} makes no token: {left!r} {right!r}")
        lines.append(f"{left} {right}\n")
    files = {
        "vocab.json": json.dumps(vocab, ensure_ascii=False).encode("utf-8"),
        "merges.txt": "".join(lines).encode("utf-8"),
    }
    more = {
        _text(token.content): token.id
        for token in spec.added_tokens.tokens
        if token.id >= len(pieces) and token.content != _END
    }
    if more:
        files["added_tokens.json"] = json.dumps(more, ensure_ascii=False).encode("utf-8")
    back = read(Source("vocab.json", files["vocab.json"], siblings=files), {}).spec
    return Written(files, with_remainder(spec, back, _losses(spec, model)))


def _text(piece: bytes) -> str:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsupportedError(f"the token {piece!r} is not a text") from None


def _losses(spec: TokenizerSpec, model: models.BPE) -> list[Loss]:
    losses = []
    if spec.normalizer is not None:
        effect = f"{type(spec.normalizer).__name__} is not run"
        losses.append(Loss("ids", "normalizer", effect))
    if spec.pre_tokenizer != _SURROUNDINGS[0]:
        losses.append(Loss("ids", "pre_tokenizer", "GPT-2's split is run instead"))
    if model != models.BPE(model.merges):
        losses.append(Loss("ids", "model", "options of the model besides the merges"))
    return losses
