"""The stages of a tokenizer for each family of GGUF vocabularies.

Source: llama.cpp, src/llama-vocab.cpp, the classes ``llm_tokenizer_*_session``.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError
from mtkit.formats.gguf.pre_tokenizers import UNICODE, splitter
from mtkit.formats.gguf.vocabulary import has_alphabet, read_merges
from mtkit.spec import TokenType, decoders, models, normalizers, post_processors, pre_tokenizers
from mtkit.spec.text import MARK, Text
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import BYTE_LETTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.formats.gguf.metadata import Keys, Kind
    from mtkit.formats.gguf.pre_tokenizers import Pre
    from mtkit.spec import Vocabulary
    from mtkit.spec.post_processors import Slot

SPACE = Text(" ")
CHARSMAP = "tokenizer.ggml.precompiled_charsmap"
SECTION = (b"<dna>", b"</dna>", b"<oov>")
"""Begin, end and unknown token of the sections of hybriddna."""


class Frame(Record):
    """What the stages are built from.

    Attributes:
        ids: Role -> id.
        names: Role -> text of that token.
    """

    keys: Keys
    kind: Kind
    pre: Pre | None
    vocabulary: Vocabulary
    ids: dict[str, int]
    names: dict[str, str]
    add: frozenset[str]
    space_prefix: bool


def build_stages(frame: Frame) -> dict[str, Any]:
    """Return the fields of a specification for its stages."""
    check_bytes(frame.kind.family, frame.vocabulary)
    stages = {"post_processor": _template(frame), **_FAMILIES[frame.kind.family](frame)}
    clean = frame.pre.clean_spaces if frame.pre else frame.kind.clean_spaces
    stages["clean_up_spaces"] = "three_passes" if clean else "none"
    return stages


def check_bytes(family: str, vocabulary: Vocabulary) -> None:
    """Check the byte tokens that a family needs."""
    pieces = vocabulary.pieces
    if family == "spm" and not pieces.places(BYTE_TOKENS):
        raise _token_error("have no byte tokens, so unknown characters cannot be encoded")
    if family == "plamo2":
        assert vocabulary.types is not None
        rows = zip(pieces, vocabulary.types, strict=True)
        byte_pieces = {piece for piece, role in rows if role == TokenType.BYTE}
        for text in BYTE_TOKENS:
            if text not in byte_pieces:
                raise _token_error(f"have no byte token {text.decode()}")


def read_charsmap(keys: Keys) -> bytes:
    """Return the character map; none is empty."""
    array = keys.array(CHARSMAP, "u8", "i8")
    if array is None:
        return b""
    data = bytes(array.numbers().data)
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or size > len(data) - 4:
        raise keys.error(CHARSMAP, f"is {len(data)} bytes long, but its trie says {size} bytes")
    return data


def _token_error(what: str) -> FormatError:
    return FormatError(what, field="tokenizer.ggml.tokens")


def _slot(frame: Frame, role: str, type_id: int = 0) -> Slot:
    if role not in frame.ids:
        what = f"is to be added to every text, but there is no such id ({role})"
        raise FormatError(what, field=f"tokenizer.ggml.add_{role}_token")
    return post_processors.Slot(
        ids=(frame.ids[role],), type_id=type_id, name=frame.names.get(role, "")
    )


def _template(frame: Frame) -> post_processors.Template | None:
    """Return BOS, text, EOS; for a pair, as rerankers build it, BOS A EOS SEP B EOS."""
    first, second = post_processors.Slot(text=0), post_processors.Slot(text=1, type_id=1)
    if frame.kind.family == "wpm":
        bos, sep = _slot(frame, "bos"), _slot(frame, "sep")
        last = post_processors.Slot(ids=sep.ids, type_id=1, name=sep.name)
        return post_processors.Template((bos, first, sep), (bos, first, sep, second, last))
    if not frame.add or frame.kind.family not in {"spm", "bpe", "ugm"}:
        return None
    bos_slots = (_slot(frame, "bos"),) if "bos" in frame.add else ()
    eos_slots = (_slot(frame, "eos"),) if "eos" in frame.add else ()
    end_slots = (_slot(frame, "eos", 1),) if "eos" in frame.add else ()
    sep_slots = (_slot(frame, "sep"),) if {"sep"} & frame.add & set(frame.ids) else ()
    return post_processors.Template(
        (*bos_slots, first, *eos_slots),
        (*bos_slots, first, *eos_slots, *sep_slots, second, *end_slots),
    )


def _spm(frame: Frame) -> dict[str, Any]:
    marks = normalizers.Replace(SPACE, MARK)
    return {
        "normalizer": normalizers.Sequence((normalizers.Prepend(MARK), marks))
        if frame.space_prefix
        else marks,
        "model": models.ScoreBPE(byte_fallback=True, mergeable="any", whole=False),
        "decoder": decoders.Pieces(drop_first_space=frame.space_prefix),
        "invalid_utf8": "keep",
    }


def _bpe(frame: Frame) -> dict[str, Any]:
    pre = frame.pre
    assert pre is not None
    whitespace = frame.kind.model == "whitespace"
    letters = pre.byte_alphabet
    steps = splitter(pre.rule)
    if whitespace:
        steps = [pre_tokenizers.WhitespaceSplit(), *steps]
    if letters:
        steps = [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    lower = frame.keys.flag("tokenizer.ggml.normalizer.lowercase")
    if lower is None:  # off by default for this pre-tokenizer alone
        lower = pre.rule != "whitespace"
    parts: list[normalizers.Normalizer] = []
    if pre.escape_whitespaces and not whitespace:
        parts.append(normalizers.Replace(SPACE, MARK))
    if lower and whitespace:
        parts.append(normalizers.Lowercase("simple"))
    merges, is_whole = read_merges(frame.keys, frame.vocabulary, required=pre.needs_merges)
    alphabet = [letter.encode() for letter in BYTE_LETTERS] if letters else BYTE_TOKENS
    words = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(tuple(steps))
    bpe = models.BPE(
        merges,
        byte_fallback=not letters,
        ignore_merges=pre.ignore_merges,
        missing="before"
        if is_whole and has_alphabet(merges, frame.vocabulary, alphabet)
        else "after",
        whole_newlines=pre.forced_bos,
    )
    stages: dict[str, Any] = {"pre_tokenizer": words, "model": bpe}
    begin, end, unknown = map(frame.vocabulary.pieces.find, SECTION)
    if frame.kind.model == "hybriddna" and None not in {begin, end, unknown}:
        stages = {"model": models.SectionBPE(bpe, words, begin, end, unknown)}  # type: ignore[arg-type]  # no None
    return {
        **stages,
        "normalizer": parts[0] if parts else None,
        "decoder": decoders.Pieces(
            "marks" if pre.escape_whitespaces else "byte_alphabet",
            drop_first_space=frame.space_prefix,
        ),
        "invalid_utf8": "loose",
    }


def _wpm(frame: Frame) -> dict[str, Any]:
    if "unk" not in frame.ids:
        raise _token_error("have no unknown token")
    lower = frame.keys.flag("tokenizer.ggml.normalizer.lowercase")
    accents = frame.keys.flag("tokenizer.ggml.normalizer.strip_accents")
    lower = True if lower is None else lower
    return {
        "normalizer": normalizers.Bert(
            strip_accents=lower if accents is None else accents, lowercase=lower, per_character=True
        ),
        "pre_tokenizer": pre_tokenizers.Bert(UNICODE),
        "model": models.WordPiece(frame.ids["unk"], max_chars=None, restart=MARK),
        "decoder": decoders.Pieces("words", drop_first_space=frame.space_prefix),
        "invalid_utf8": "loose",
    }


def _ugm(frame: Frame) -> dict[str, Any]:
    squeeze = bool(frame.keys.flag("tokenizer.ggml.remove_extra_whitespaces"))
    return {
        "normalizer": normalizers.Spaces(
            read_charsmap(frame.keys),
            # Where extra white space is removed, every word gets a mark, the first one, too.
            add_dummy_prefix=frame.space_prefix or squeeze,
            remove_extra_whitespaces=squeeze,
            keep="paths",
            prefix="word",
        ),
        "model": models.Unigram(unk=frame.ids.get("unk"), candidates="listed", user_defined="zero"),
        "decoder": decoders.Pieces(drop_first_space=frame.space_prefix),
        "invalid_utf8": "keep",
    }


def _rwkv(frame: Frame) -> dict[str, Any]:
    ids = frame.vocabulary.pieces.ids
    if b"\n" not in ids:
        raise _token_error("have none for a line feed")
    first = {piece[:1] for piece in ids} - {b""}
    alone = sorted(byte for byte in first if byte not in ids)
    if alone:
        raise _token_error(f"begin with byte 0x{alone[0][0]:02x}, which is not a token by itself")
    return {
        "model": models.Trie(frame.ids.get("unk")),
        "decoder": decoders.Pieces("bytes", drop_first_space=frame.space_prefix),
        "invalid_utf8": "keep",
    }


def _plamo2(frame: Frame) -> dict[str, Any]:
    return {
        "model": models.ShortestPath(),
        "decoder": decoders.Pieces("plain", drop_first_space=frame.space_prefix),
        "invalid_utf8": "wide",
    }


_FAMILIES: dict[str, Callable[[Frame], dict[str, Any]]] = {
    "spm": _spm,
    "bpe": _bpe,
    "wpm": _wpm,
    "ugm": _ugm,
    "rwkv": _rwkv,
    "plamo2": _plamo2,
}
