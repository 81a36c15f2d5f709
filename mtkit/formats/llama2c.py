"""llama2.c ``tokenizer.bin``, and ExecuTorch's, which has a longer header.

Layout, little-endian, no padding: u32 max_token_length, then per token until the file ends: f32
score, i32 length, u8[length] bytes. No magic, no number of tokens, no roles. Tokens are spelled
with plain spaces, BOS and EOS between newlines, byte tokens as ``<0xHH>``.

ExecuTorch puts u32 count, u32 BOS, u32 EOS in front and spells BOS and EOS without newlines. Ids
that the file has no token for are ``<pad>``; tokens behind the count are not read. Only llama2.c's
layout is written.

What run.c has fixed in its code is listed as an assumption: BOS is 1, EOS 2, byte tokens begin at
3, every text that is not empty gets a space and BOS in front. Of tokens with the same text the
first counts; run.c finds any of them.

Source: karpathy/llama2.c, run.c (``build_tokenizer``, ``encode``, ``decode``), tokenizer.py
(``export``); meta-pytorch/tokenizers, llama2c_tokenizer.cpp; pytorch/executorch,
extension/llm/tokenizer/tokenizer.py (``export``).
"""

from __future__ import annotations

import struct

from mtkit.base.binary import Reader, Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Loss, Reading, Written, losses_between
from mtkit.spec import (
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    model_name,
    replace,
)
from mtkit.spec.decoders import AfterBos
from mtkit.spec.models import BPE, ScoreBPE
from mtkit.spec.normalizers import Prepend
from mtkit.spec.post_processors import Slot, Template
from mtkit.spec.scores import score_form
from mtkit.spec.spaces import space_rule
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS, is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtkit.formats.contract import LossCode, LossRule, WriteOptions


def score_spec(spec: TokenizerSpec) -> TokenizerSpec:
    """Return the specification with scores, or refuse one that the file cannot hold."""
    if isinstance(spec.model, BPE) and space_rule(spec):
        spec = score_form(spec)
    if not isinstance(spec.model, ScoreBPE):
        what = f"llama2.c stores BPE by score, not {model_name(spec.model)}"
        raise UnsupportedError(what, field="model")
    if spec.vocabulary.scores is None or spec.vocabulary.scores.code != "f":
        raise UnsupportedError("scores are not float32", field="vocabulary.scores")
    types = spec.vocabulary.types or ()
    if TokenType.ABSENT in types:
        raise UnsupportedError("ids have gaps, and it numbers tokens by place", field="vocabulary")
    for role, token_id, spelling in (("bos", 1, b"<s>"), ("eos", 2, b"</s>")):
        number = getattr(spec.special_ids, role)
        if number is None and spec.vocabulary.pieces[token_id : token_id + 1] == [spelling]:
            continue  # the role is not set, but the name leaves no doubt
        if number != token_id:
            what = f"the id is {number}, and it takes {token_id}"
            raise UnsupportedError(what, field=f"special_ids.{role}")
    own = isinstance(spec.decoder, AfterBos)
    if not own and spec.vocabulary.pieces[3:259] != list(BYTE_TOKENS):
        raise UnsupportedError("the <0xHH> tokens are not at ids 3 to 258", field="vocabulary")
    return spec


def _vocabulary_losses(spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    if spec.vocabulary.pieces != back.vocabulary.pieces:
        effect = "U+2581 in a text is no longer treated as a space"
        yield Loss("ids-special", "vocabulary.pieces", effect)
    if spec.vocabulary.scores != back.vocabulary.scores:
        effect = "scores are replaced by the order of the merges"
        yield Loss("ids-possible", "vocabulary.scores", effect)
    if spec.vocabulary.types != back.vocabulary.types:
        kinds = set(spec.vocabulary.types or ())
        distinct = kinds & {TokenType.USER_DEFINED, TokenType.UNUSED}
        effect = "unused and user-defined tokens are treated like any other"
        yield Loss("ids-possible" if distinct else "metadata", "vocabulary.types", effect)


def _model_losses(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    if not getattr(spec.model, "byte_fallback", False):
        yield Loss("ids", "model.byte_fallback", "unknown characters become byte tokens")
    effect = "llama2.c merges any two parts whose result is a token, so ids can differ"
    yield Loss("ids-possible", "model", effect)


def _normalizer_losses(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    rule = space_rule(spec)
    if rule is None or rule.charsmap:
        yield Loss("ids", "normalizer", "characters are not normalized")
    elif rule.remove_extra_whitespaces:
        yield Loss("ids", "normalizer.remove_extra_whitespaces", "extra spaces are not removed")
    elif not rule.add_dummy_prefix or rule.suffix:
        effect = "a space is added before every text"
        yield Loss("ids", "normalizer.add_dummy_prefix", effect)
    else:
        effect = "U+2581 is not treated as a space, and invalid UTF-8 is not replaced"
        yield Loss("ids-special", "normalizer", effect)


def _pre_tokenizer_losses(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    if space_rule(spec):
        effect = "spaces next to special tokens are handled differently"
        yield Loss("ids-special", "pre_tokenizer", effect)
    else:
        yield Loss("ids", "pre_tokenizer", "text is not split into words before merging")


def _added_token_losses(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    code: LossCode = "ids-special" if spec.added_tokens.tokens else "metadata"
    yield Loss(code, "added_tokens", "special tokens that are spelled out in a text are plain text")


_LOSS_RULES: Mapping[str, LossRule] = {
    "vocabulary": _vocabulary_losses,
    "model": _model_losses,
    "normalizer": _normalizer_losses,
    "pre_tokenizer": _pre_tokenizer_losses,
    "post_processor": ("metadata", "BOS is the only token around a text that is kept"),
    "decoder": (
        "decoding",
        "decoding drops a leading space only after BOS, and keeps invalid bytes",
    ),
    "added_tokens": _added_token_losses,
    "special_ids": ("metadata", "only BOS (1) and EOS (2) are kept as special tokens"),
    "invalid_utf8": ("ids-special", "text that is not valid UTF-8 is encoded byte by byte"),
    "prefix_ids": ("ids", "only BOS is added before a text"),
}
"""Field -> its loss, where it does not come back."""


NAME = "llama2c"
TITLE = "llama2.c vocabulary (tokenizer.bin)"
ADDS_SPECIAL_TOKENS = True

UNK, BOS, EOS, FIRST_BYTE = 0, 1, 2, 3
WRAPPED = {BOS: b"\n<s>\n", EOS: b"\n</s>\n"}
"""The exporter writes these, whatever the pieces are."""
MOST_TOKENS = 1 << 24
LOWEST_SCORE = struct.unpack("<f", struct.pack("<f", -1e10))[0]
TOKEN = struct.Struct("<fi")
EXTRAS = "llama2c"
ASSUMED = (
    "ids 0, 1 and 2 are unknown, BOS and EOS",
    "a space and BOS stand in front of every text",
)
ASSUMED_LONG = ("id 0 is the unknown token", ASSUMED[1])


class Header(Record):
    """The header in front of the tokens.

    Attributes:
        count: Number of tokens; None: up to the end of the file.
    """

    longest: int
    count: int | None = None
    bos: int = BOS
    eos: int = EOS


def sniff(source: Source) -> bool:
    """Tell by the first tokens: they fit, and none is longer than the header says."""
    return _is_plain(source) or _is_executorch(source)


def _is_plain(source: Source) -> bool:
    try:
        reader = Reader(source.data)
        tokens = _tokens(reader, Header(reader.u32("max_token_length")))
        pieces = [raw for _, (_, raw) in zip(range(3), tokens, strict=False)]
    except FormatError:
        return False
    return (
        len(pieces) == 3 and b"<unk>" in pieces[0] and b"<s>" in pieces[1] and b"</s>" in pieces[2]
    )


def _is_executorch(source: Source) -> bool:
    """Tell by BOS and EOS, which the exporter spells alike; ``<pad>`` may stand in front."""
    try:
        reader = Reader(source.data)
        header = _long_header(reader)
        last = max(header.bos, header.eos)
        if not last < (header.count or 0) <= MOST_TOKENS:
            return False
        tokens = _tokens(reader, header)
        pieces = [raw for _, (_, raw) in zip(range(last + 2), tokens, strict=False)]
    except FormatError:
        return False
    first = pieces[:1] == [b"<pad>"]
    places = (header.bos + first, b"<s>"), (header.eos + first, b"</s>")
    return all(pieces[place : place + 1] == [text] for place, text in places)


def _long_header(reader: Reader) -> Header:
    count, bos, eos = reader.u32("count"), reader.u32("BOS"), reader.u32("EOS")
    return Header(reader.u32("max_token_length"), count, bos, eos)


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a vocabulary.

    Raises:
        FormatError: The file ends inside a token, or a token is longer than the header says, which
            would overflow a buffer of the reference.
    """
    reader = Reader(source.data)
    if _is_executorch(source):
        header, assumptions = _long_header(reader), [*ASSUMED_LONG]
    else:
        header, assumptions = Header(reader.u32("max_token_length")), [*ASSUMED]
    tokens = list(_tokens(reader, header))
    if len(tokens) <= max(header.bos, header.eos):
        raise FormatError(
            f"there are {len(tokens)}, BOS and EOS are ids {header.bos} and {header.eos}",
            field="tokens",
            offset=len(source.data),
            hint="the file is truncated",
        )
    if header.count is not None:
        tokens += [(0.0, b"<pad>")] * _missing(header.count, len(tokens))
        if reader.left:
            assumptions.append(f"{reader.left} bytes behind token {header.count - 1} do not count")
    pieces = [raw for _, raw in tokens]
    types = bytearray([TokenType.NORMAL]) * len(pieces)
    types[UNK] = TokenType.UNKNOWN
    types[header.bos] = types[header.eos] = TokenType.CONTROL
    byte_ids = range(FIRST_BYTE, FIRST_BYTE + 256)
    byte_tokens = [i for i in byte_ids if i < len(pieces) and pieces[i] == _byte_piece(i)]
    for token_id in byte_tokens:
        types[token_id] = TokenType.BYTE
    complete = len(byte_tokens) == 256
    vocabulary = Vocabulary(
        Pieces.of(pieces), Numbers("B", bytes(types)), Numbers.of("f", [s for s, _ in tokens])
    )
    exact = header.longest == max(map(len, pieces))
    spec = _frame(vocabulary, header, byte_fallback=complete)
    if not exact:
        spec = replace(spec, extras=((EXTRAS, {"max_token_length": header.longest}),))
    assumptions.append(
        "bytes are the ids 3 to 258"
        if complete
        else "unknown characters are the unknown token: ids 3 to 258 are not the bytes"
    )
    return Reading(spec, tuple(assumptions))


def _missing(count: int, there: int) -> int:
    """Return the number of ids without a token."""
    if is_sparse(count, there):
        what = f"is {count}, but there are {there} tokens"
        raise FormatError(what, field="count", offset=0, hint="the file is truncated")
    return count - there


def _tokens(reader: Reader, header: Header) -> Iterator[tuple[float, bytes]]:
    longest = header.longest
    for number in range(MOST_TOKENS):
        if not reader.left or number == header.count:
            return
        score = reader.f32("score")
        at = reader.offset
        length = reader.i32("length")
        if not 0 <= length <= longest:
            what = f"is {length}, outside 0..{longest} (max_token_length)"
            raise FormatError(what, field="length", offset=at)
        yield score, reader.take(length, "bytes")
    raise FormatError(f"are more than {MOST_TOKENS}", field="tokens", offset=reader.offset)


def _byte_piece(token_id: int) -> bytes:
    return b"<0x%02X>" % (token_id - FIRST_BYTE)


def _frame(vocabulary: Vocabulary, header: Header, *, byte_fallback: bool) -> TokenizerSpec:
    """Return the specification of a file with these tokens."""
    model = ScoreBPE(
        unk=UNK,
        byte_fallback=byte_fallback,
        mergeable="any",
        whole=False,
        symbols="continuation",
        missing="before",
        score_above=LOWEST_SCORE,
    )
    bos = Slot(ids=(header.bos,), name="<s>")
    return TokenizerSpec(
        vocabulary,
        model,
        normalizer=Prepend(" "),
        post_processor=Template((bos, Slot(text=0))),
        decoder=AfterBos(),
        added_tokens=AddedTokens(parse_special=False),
        special_ids=SpecialIds(unk=UNK, bos=header.bos, eos=header.eos),
        invalid_utf8="keep",
    )


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a vocabulary."""
    tokens = list(spell_tokens(score_spec(spec)))
    longest = max(len(raw) for _, raw in tokens)
    extras = dict(spec.extras).get(EXTRAS)
    if isinstance(extras, dict):
        longest = max(longest, min(int(extras.get("max_token_length", 0)), 0xFFFFFFFF))
    data = struct.pack("<I", longest) + b"".join(
        TOKEN.pack(score, len(raw)) + raw for score, raw in tokens
    )
    back = read(Source("", data), {}).spec
    return Written({".bin": data}, losses_between(spec, back, rules=_LOSS_RULES))


def spell_tokens(spec: TokenizerSpec) -> Iterator[tuple[float, bytes]]:
    """Yield (score, bytes) in the file's spelling, which a specification read from one has."""
    vocabulary = spec.vocabulary
    own = isinstance(spec.decoder, AfterBos)
    for token_id, (piece, score) in enumerate(
        zip(vocabulary.pieces, vocabulary.scores or (), strict=True)
    ):
        if not own:
            piece = WRAPPED.get(token_id, piece).replace(MARK_BYTES, b" ")
        yield score, piece


def listing(spec: TokenizerSpec) -> Iterator[bytes]:
    """Yield the lines of a print-out of the vocabulary, pieces spelled as in the file."""
    vocabulary = spec.vocabulary
    if vocabulary.scores is None:
        raise UnsupportedError("has no scores to list")
    pieces = [raw for _, raw in spell_tokens(spec)]
    yield b"vocab = %d\n" % len(pieces)
    yield b"max_token_length = %d\n" % max(map(len, pieces), default=0)
    for token_id, (piece, score) in enumerate(zip(pieces, vocabulary.scores, strict=True)):
        yield b"%5d, %12.6f, (%s)\n" % (token_id, score, piece)
