"""The four text formats that the MNN runtime had before .mtok.

The three header lines (mnn_header), then by kind, one entry a line:

* 0 SentencePiece: count, then ``base64 score type`` by id;
* 1 tiktoken: count, then base64 by id;
* 2 BERT: count, then base64 by id;
* 3 HuggingFace: ``vocabulary merges``, then tokens as they are, then ``left right`` by rank.

Each kind has a fixed normalizer, split and model, by the runtime's rules, not by those of the
libraries that the kinds are named after. No kind has added tokens or a post-processor; the header's
special tokens are found in the text, and decoding keeps them. A written file is read back: another
tokenizer is refused, and differences in fields that decide no ids are losses.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``Sentencepiece``, ``Tiktoken``,
``BertTokenizer``, ``HuggingfaceTokenizer``), by their behavior.
"""

from __future__ import annotations

from array import array

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Reading, Written, losses_between
from mtkit.formats.mnn_header import MAGIC, read_header, sniff_kind
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    model_name,
    models,
)
from mtkit.spec import models as mo
from mtkit.spec import normalizers as no
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.decoders import ByteLevel, Bytewise, FirstMark
from mtkit.spec.models import Merges
from mtkit.spec.text import MARK, Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.formats.contract import WriteOptions
    from mtkit.formats.mnn_header import Header


class _Lines:
    """The lines of a file from an offset on, LF at the end of each."""

    def __init__(self, data: Buffer, offset: int) -> None:
        self.data = bytes(memoryview(data).cast("B")[offset:])
        self.start = offset
        self.at = 0

    def line(self, field: str) -> bytes:
        """Return the next line."""
        if self.at >= len(self.data):
            what = "the file ends before"
            raise FormatError(what, field=field, offset=self.offset, hint="the file is truncated")
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        line = self.data[self.at : end]
        self.at = end + 1
        return line

    @property
    def offset(self) -> int:
        """Offset of the next line in the file."""
        return self.start + min(self.at, len(self.data))

    def counts(self, size: int) -> list[int]:
        """Read a line of counts; no file has more entries than bytes left."""
        at = self.offset
        words = self.line("counts").split()[:size]
        if len(words) < size or not all(w.isdigit() and len(w) < 12 for w in words):
            raise FormatError(f"is not {size} numbers", field="counts", offset=at)
        counts = [int(word) for word in words]
        if sum(counts) > len(self.data) - self.at + 1:
            what = f"{sum(counts)} entries, the file has {len(self.data) - self.at} bytes left"
            raise FormatError(what, field="counts", offset=at, hint="the file is damaged or cut")
        return counts

    def base64(self) -> bytes:
        """Read a line of base64."""
        at = self.offset
        return _decode_base64(self.line("token").strip(), at)

    def piece(self) -> tuple[bytes, float, int]:
        """Read ``base64 score type``."""
        at = self.offset
        words = self.line("piece").split()
        try:
            token, score, kind = words[0], float(words[1]), int(words[2])
        except (IndexError, ValueError):
            raise FormatError("is not base64, score and type", field="piece", offset=at) from None
        if not 0 <= kind <= 6 or abs(score) > 3e38:
            raise FormatError("score or type is out of range", field="piece", offset=at)
        return _decode_base64(token, at), score, kind


def _read_tokens(lines: _Lines, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield lines.line("token")


def _read_merges(lines: _Lines, count: int, pieces: Pieces) -> Merges:
    """Read ``left right`` lines, cut at the first blank; the parts need not be tokens."""
    ids = pieces.ids
    unlisted: dict[bytes, int] = {}
    pairs = array("I")
    for _ in range(count):
        left, _, right = lines.line("merge").partition(b" ")
        for part in (left, right):
            token_id = ids.get(part)
            if token_id is None:
                token_id = len(pieces) + unlisted.setdefault(part, len(unlisted))
            pairs.append(token_id)
    return Merges(Numbers.of("I", pairs), Pieces.of(unlisted))


def _decode_base64(text: bytes, at: int) -> bytes:
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(text)
    except Error:
        raise FormatError("is not base64", field="token", offset=at) from None


_EXACT_FIELDS = (
    "model",
    "vocabulary",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "added_tokens",
    "prefix_ids",
    "invalid_utf8",
)
"""Fields that decide ids: they must come back as they were."""


def _format_file(spec: TokenizerSpec) -> bytes:
    """Return the file of the kind that has the specification's model."""
    match spec.model:
        case models.ScoreBPE():
            kind, body = 0, _scored_file(spec)
        case models.Trie():
            kind, body = 1, _plain_file(spec)
        case models.WordPiece():
            kind, body = 2, _plain_file(spec)
        case models.BPE():
            kind, body = 3, _merges_file(spec, spec.model)
        case other:
            what = f"MNN's text formats do not support {model_name(other)}"
            raise UnsupportedError(what, field="model", hint="write a .mtok")
    special = [token.id for token in spec.added_tokens.tokens]
    ids = [*special, *spec.special_ids.stop, *spec.prefix_ids]
    counts = f"{len(special)} {len(spec.special_ids.stop)} {len(spec.prefix_ids)}"
    head = f"{MAGIC} {kind}\n{counts}\n{' '.join(map(str, ids))}\n"
    return head.encode() + body


def _scored_file(spec: TokenizerSpec) -> bytes:
    from binascii import b2a_base64

    vocabulary = spec.vocabulary
    rows = [b"%d\n" % len(vocabulary)]
    for token_id, piece in enumerate(vocabulary.pieces):
        score = 0.0 if vocabulary.scores is None else vocabulary.scores[token_id]
        kind = int(vocabulary.type_of(token_id))
        rows.append(b"%s %s %d\n" % (b2a_base64(piece, newline=False), repr(score).encode(), kind))
    return b"".join(rows)


def _plain_file(spec: TokenizerSpec) -> bytes:
    from binascii import b2a_base64

    pieces = spec.vocabulary.pieces
    return b"%d\n" % len(pieces) + b"".join(b2a_base64(piece) for piece in pieces)


def _merges_file(spec: TokenizerSpec, model: models.BPE) -> bytes:
    pieces = [*spec.vocabulary.pieces, *model.merges.unlisted]
    rows = [b"%d %d\n" % (len(spec.vocabulary), len(model.merges))]
    rows += [piece + b"\n" for piece in spec.vocabulary.pieces]
    rows += [b"%s %s\n" % (pieces[a], pieces[b]) for a, b in model.merges.pairs.pairs()]
    return b"".join(rows)


NAME = "mnn-text"
TITLE = "MNN text tokenizer (before .mtok)"

KINDS = 4
UNKNOWN_ID = 100
"""The unknown token of kind 2 where there is no [UNK]."""
# The pattern of the Qwen family over bytes, written in the byte alphabet: white space is the six
# of ASCII, every byte above is neither letter nor digit nor white space.
_SPACE = "\u0120\u0109\u010a\u010b\u010c\u010d"
_BREAK = "\u010a\u010d"
BYTE_PATTERN = (
    "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
    f"|[^{_BREAK}A-Za-z0-9]?[A-Za-z]+|[0-9]|\u0120?[^{_SPACE}A-Za-z0-9]+[{_BREAK}]*"
    f"|[{_SPACE}]*[{_BREAK}]+|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+"
)


def sniff(source: Source) -> bool:
    """Tell by the magic number and the kind."""
    kind = sniff_kind(source.data)
    return kind is not None and 0 <= kind < KINDS


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a whole file.

    Raises:
        FormatError: It is damaged.
    """
    header = read_header(source.data)
    if not 0 <= header.kind < KINDS:
        raise FormatError(f"is {header.kind}, not 0 to {KINDS - 1}", field="kind", offset=0)
    lines = _Lines(source.data, header.end)
    kinds = (_sentencepiece, _tiktoken, _bert, _huggingface)
    return Reading(_spec(header, kinds[header.kind](lines)))


def _spec(header: Header, parts: dict[str, Any]) -> TokenizerSpec:
    from mtkit.pipeline.byte_decoders import single_piece_text

    vocabulary: Vocabulary = parts["vocabulary"]
    decoder = Bytewise(parts.pop("steps"), single="steps")
    special = []
    for token_id in header.special:
        piece = vocabulary.pieces[token_id] if 0 <= token_id < len(vocabulary) else b""
        special.append(AddedToken(token_id, single_piece_text(decoder, piece)))
    return TokenizerSpec(
        decoder=decoder,
        added_tokens=AddedTokens(tuple(special), match="first_listed", strip="ascii"),
        special_ids=SpecialIds(unk=parts.pop("unk", None), stop=tuple(sorted(set(header.stop)))),
        invalid_utf8="keep",
        join="",
        prefix_ids=header.prefix,
        **parts,
    )


def _sentencepiece(lines: _Lines) -> dict[str, Any]:
    count = lines.counts(1)[0]
    pieces, scores, types = [], [], []
    for _ in range(count):
        piece, score, kind = lines.piece()
        pieces.append(piece)
        scores.append(score)
        # Only normal pieces come out of merging; every other one is reserved.
        reserved = kind if kind in {2, 3, 6} else int(TokenType.CONTROL)
        types.append(kind if kind == TokenType.NORMAL else reserved)
    unk = max((i for i, kind in enumerate(types) if kind == TokenType.UNKNOWN), default=None)
    return {
        "vocabulary": Vocabulary(
            Pieces.of(pieces), Numbers.of("B", types), Numbers.of("f", scores)
        ),
        "model": mo.ScoreBPE(unk, byte_fallback=True, whole=False),
        "normalizer": no.Sequence((no.Prepend(MARK), no.Replace(Text(" "), MARK))),
        "steps": (FirstMark(),),
        "unk": unk,
    }


def _tiktoken(lines: _Lines) -> dict[str, Any]:
    pieces = [lines.base64() for _ in range(lines.counts(1)[0])]
    return {"vocabulary": Vocabulary(Pieces.of(pieces)), "model": mo.Trie(), "steps": ()}


def _bert(lines: _Lines) -> dict[str, Any]:
    pieces = Pieces.of(lines.base64() for _ in range(lines.counts(1)[0]))
    unk = pieces.ids.get(b"[UNK]", UNKNOWN_ID)
    lower = no.CodePointTable(
        Numbers.of("I", range(65, 91)),
        Pieces.of(bytes([letter + 32]) for letter in range(65, 91)),
        blank_controls=False,
    )
    spaces = Regex(r"[\t\n\x0b\x0c\r ]+", shorthands="ascii")
    runs = Regex("[a-z0-9]+|[^a-z0-9]", shorthands="ascii")
    return {
        "vocabulary": Vocabulary(pieces),
        "model": mo.WordPiece(unk, max_chars=None, gap="rest"),
        "normalizer": lower,
        "pre_tokenizer": pr.Sequence((pr.Split(spaces, "removed"), pr.Split(runs))),
        "steps": (),
        "unk": unk,
    }


def _huggingface(lines: _Lines) -> dict[str, Any]:
    vocabulary_count, merge_count = lines.counts(2)
    pieces = Pieces.of(_read_tokens(lines, vocabulary_count))
    return {
        "vocabulary": Vocabulary(pieces),
        "model": mo.BPE(_read_merges(lines, merge_count, pieces), missing="after"),
        "pre_tokenizer": pr.Sequence(
            (pr.ByteLevel(add_prefix_space=False, use_regex=False), pr.Split(Regex(BYTE_PATTERN)))
        ),
        "steps": (ByteLevel(),),
    }


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file of the kind that has the specification's model."""
    data = _format_file(spec)
    try:
        back = read(Source("tokenizer.txt", data), {}).spec
    except FormatError as error:
        raise UnsupportedError(f"{TITLE} cannot spell it: {error}") from None
    for name in _EXACT_FIELDS:
        if getattr(back, name) != getattr(spec, name):
            what = "MNN's text formats have fixed rules, which differ from this tokenizer's"
            raise UnsupportedError(what, field=name, hint="write a .mtok")
    return Written({"tokenizer.txt": data}, losses_between(spec, back, []))
