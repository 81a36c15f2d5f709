"""The four text formats that the MNN runtime had before .mtok.

The three header lines (mnn_header), then by kind, one entry a line:

* 0 SentencePiece: count, then ``base64 score type`` by id;
* 1 tiktoken: count, then base64 by id;
* 2 BERT: count, then base64 by id;
* 3 HuggingFace: ``vocabulary merges``, then tokens as they are, then ``left right`` by rank.

Each kind has rules of its own, which are the runtime's and not those of the libraries whose names
they bear: no kind knows added tokens, a normalizer or a post-processor; the header's special
tokens are looked for in the text, and decoding keeps them.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``Sentencepiece``, ``Tiktoken``,
``BertTokenizer``, ``HuggingfaceTokenizer``), by their behavior.
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Reading, Written
from mtkit.formats.mnn_header import read_header, sniff_kind
from mtkit.formats.mnn_text.lines import Lines, merges, tokens
from mtkit.formats.mnn_text.writer import HELD, file_of
from mtkit.formats.remainder import with_remainder
from mtkit.pipeline.decoders import bytewise
from mtkit.spec import AddedToken, AddedTokens, SpecialIds, TokenizerSpec, TokenType, Vocabulary
from mtkit.spec import models as mo
from mtkit.spec import normalizers as no
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.decoders import ByteLevel, Bytewise, FirstMark
from mtkit.spec.text import MARK, Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.formats.contract import WriteOptions
    from mtkit.formats.mnn_header import Header

NAME = "mnn-text"
TITLE = "MNN text tokenizer (before .mtok)"

KINDS = 4
UNKNOWN_ID = 100
"""The id that kind 2 takes for unknown where there is no [UNK]."""
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
    lines = Lines(source.data, header.end)
    kinds = (_sentencepiece, _tiktoken, _bert, _huggingface)
    return Reading(_spec(header, kinds[header.kind](lines)))


def _spec(header: Header, parts: dict[str, Any]) -> TokenizerSpec:
    vocabulary: Vocabulary = parts["vocabulary"]
    decoder = Bytewise(parts.pop("steps"), single="steps")
    special = []
    for token_id in header.special:
        piece = vocabulary.pieces[token_id] if 0 <= token_id < len(vocabulary) else b""
        special.append(AddedToken(token_id, bytewise.single(decoder, piece)))
    return TokenizerSpec(
        decoder=decoder,
        added_tokens=AddedTokens(tuple(special), match="first_listed", strip="ascii"),
        special_ids=SpecialIds(unk=parts.pop("unk", None), stop=tuple(sorted(set(header.stop)))),
        invalid_utf8="keep",
        join="",
        prefix_ids=header.prefix,
        **parts,
    )


def _sentencepiece(lines: Lines) -> dict[str, Any]:
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


def _tiktoken(lines: Lines) -> dict[str, Any]:
    pieces = [lines.base64() for _ in range(lines.counts(1)[0])]
    return {"vocabulary": Vocabulary(Pieces.of(pieces)), "model": mo.Trie(), "steps": ()}


def _bert(lines: Lines) -> dict[str, Any]:
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


def _huggingface(lines: Lines) -> dict[str, Any]:
    vocabulary_count, merge_count = lines.counts(2)
    pieces = Pieces.of(tokens(lines, vocabulary_count))
    return {
        "vocabulary": Vocabulary(pieces),
        "model": mo.BPE(merges(lines, merge_count, pieces), missing="after"),
        "pre_tokenizer": pr.Sequence(
            (
                pr.ByteLevel(add_prefix_space=False, use_regex=False),
                pr.Split(Regex(BYTE_PATTERN)),
            )
        ),
        "steps": (ByteLevel(),),
    }


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file of the kind that has the specification's model.

    Raises:
        UnsupportedError: No kind says exactly which ids the specification gives.
    """
    data = file_of(spec)
    try:
        back = read(Source("tokenizer.txt", data), {}).spec
    except FormatError as error:
        raise UnsupportedError(f"{TITLE} cannot spell it: {error}") from None
    for name in HELD:
        if getattr(back, name) != getattr(spec, name):
            raise UnsupportedError(
                "MNN's text formats have fixed rules, which differ from this tokenizer's",
                field=name,
                hint="write a .mtok",
            )
    return Written({"tokenizer.txt": data}, with_remainder(spec, back, []))
