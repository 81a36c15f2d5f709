"""tiktoken's rank files, one ``base64 rank`` a line, and the published encodings of such files.

The file holds neither the split pattern nor the special tokens. They come from ``pattern.json``
beside it (``{"pattern": …, "special_tokens": {…}}``, and ``"normalizer": "NFC"`` where text is
normalized first), from the name of a published encoding, or from the SHA-256 of a published rank
file, whose first encoding counts; otherwise reading refuses and never guesses.

Source: openai/tiktoken, tiktoken/load.py (``load_tiktoken_bpe``), src/lib.rs (``CoreBPE``),
tiktoken_ext/openai_public.py; openai/whisper, whisper/tokenizer.py (``LANGUAGES``,
``get_encoding``); QwenLM/Qwen, tokenization_qwen.py (``QWenTokenizer``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, UsageError, wording
from mtkit.formats.contract import Reading, Written, losses_between
from mtkit.formats.ranks import (
    HIGHEST_RANK,
    RANK_RULES,
    check_rank_gaps,
    rank_spec,
    rank_vocabulary,
    ranks_of,
)
from mtkit.spec import SpecialIds, TokenizerSpec, TokenType, Vocabulary, normalizers, replace
from mtkit.spec.pre_tokenizers import BYTE_LEVEL_SPLIT
from mtkit.spec.vocabulary import present_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from mtkit.base.binary import Buffer, Source
    from mtkit.formats.contract import WriteOptions


END_OF_TEXT = "<|endoftext|>"


class Encoding(Record):
    """What a rank file does not hold.

    Attributes:
        special: Special token -> id.
        form: Unicode normal form of the text, made first; None: the text as it is.
    """

    pattern: str
    special: Mapping[str, int]
    form: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = None


_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_LANGUAGES = (
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv",
    "it", "id", "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no",
    "th", "ur", "hr", "bg", "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv", "bn", "sr",
    "az", "sl", "kn", "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",
    "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be", "tg", "sd", "gu",
    "am", "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl",
    "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue",
)  # fmt: skip
"""In the order of their tokens; the last came with large-v3."""


def _number_texts(first: int, names: Iterable[str]) -> dict[str, int]:
    return {name: token_id for token_id, name in enumerate(names, first)}


def _harmony() -> Encoding:
    names = {
        200002: "return",
        200003: "constrain",
        200005: "channel",
        200006: "start",
        200007: "end",
        200008: "message",
        200012: "call",
        200018: "endofprompt",
    }
    special = {"<|startoftext|>": 199998, END_OF_TEXT: 199999}
    for token_id in range(200000, 201088):
        special[f"<|{names.get(token_id, f'reserved_{token_id}')}|>"] = token_id
    return Encoding(_O200K, special)


def _whisper(first: int, languages: int) -> Encoding:
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    times = (f"{step * 0.02:.2f}" for step in range(1501))
    names = ("endoftext", "startoftranscript", *_LANGUAGES[:languages], *tasks, *times)
    return Encoding(BYTE_LEVEL_SPLIT, _number_texts(first, (f"<|{name}|>" for name in names)))


def _qwen() -> Encoding:
    extra = (f"<|extra_{number}|>" for number in range(205))
    names = (END_OF_TEXT, "<|im_start|>", "<|im_end|>", *extra)
    return Encoding(_QWEN, _number_texts(151643, names), "NFC")


_FILES = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": (
        "r50k_base",
        "gpt2",
        "whisper_en",
    ),
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": ("p50k_base", "p50k_edit"),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": ("cl100k_base",),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": (
        "o200k_base",
        "o200k_harmony",
    ),
    "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126": ("whisper", "whisper_v3"),
    "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186": ("qwen",),
}
"""SHA-256 of a published rank file -> names of its encodings."""


def encodings_of_ranks(ranks: Buffer) -> tuple[str, ...]:
    """Return the names of the encodings that a rank file was published for."""
    import hashlib

    return _FILES.get(hashlib.sha256(ranks).hexdigest(), ())


ENCODINGS: dict[str, Callable[[], Encoding]] = {
    "gpt2": lambda: Encoding(_R50K, {END_OF_TEXT: 50256}),
    "r50k_base": lambda: Encoding(_R50K, {END_OF_TEXT: 50256}),
    "p50k_base": lambda: Encoding(_R50K, {END_OF_TEXT: 50256}),
    "p50k_edit": lambda: Encoding(_R50K, {END_OF_TEXT: 50256, **_number_texts(50281, _FIM)}),
    "cl100k_base": lambda: Encoding(
        _CL100K, {END_OF_TEXT: 100257, **_number_texts(100258, _FIM), "<|endofprompt|>": 100276}
    ),
    "o200k_base": lambda: Encoding(_O200K, {END_OF_TEXT: 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": _harmony,
    "whisper_en": lambda: _whisper(50256, 99),
    "whisper": lambda: _whisper(50257, 99),
    "whisper_v3": lambda: _whisper(50257, 100),
    "qwen": _qwen,
}
"""Name -> encoding, in the order in which messages list them. ``whisper_en`` is that of the models
for English alone, ``whisper_v3`` that of large-v3."""


NAME = "tiktoken"
TITLE = "tiktoken ranks"

_FORMS = {form: normalizers.UnicodeForm(form) for form in ("NFC", "NFD", "NFKC", "NFKD")}


def sniff(source: Source) -> bool:
    """Tell by a first line of base64, a blank and a number."""
    import re

    head = bytes(source.data[:400])
    return re.match(rb"(?:[A-Za-z0-9+/]+={0,2}|=)[ \t]+\d{1,9}[\r\n]", head) is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a rank file.

    Args:
        overrides: ``encoding`` names a published encoding; with ``published`` the ranks have to be
            the published ones, too, by their SHA-256.

    Raises:
        FormatError: The file is damaged, or is not the published one.
        UnsupportedError: Nothing says which pattern and special tokens belong to it.
        UsageError: The named encoding is not known.
    """
    name = overrides.get("encoding")
    if overrides.get("published") and name not in encodings_of_ranks(source.data):
        what = f"is not the published rank file of {name}: its SHA-256 is another"
        raise FormatError(what, hint="delete it so that tiktoken downloads it again")
    vocabulary = _native_vocabulary(source.data) or rank_vocabulary(parse_ranks(bytes(source.data)))
    encoding, assumption = _encoding(source, name)
    ranks = [number for number in encoding.special.values() if number < len(vocabulary)]
    both = [number for number in ranks if vocabulary.type_of(number) != TokenType.ABSENT]
    if both:
        raise FormatError(f"id {min(both)} is a rank and a special token", field="special_tokens")
    return Reading(_spec(vocabulary, encoding), (assumption,))


def _native_vocabulary(data: Buffer) -> Vocabulary | None:
    """Return the vocabulary of an ordinary file, as the core reads it; None for ``parse_ranks``."""
    try:
        from mtkit.base.native import native
    except ImportError:
        return None
    columns = native.read_rank_lines(data)
    if columns is None:
        return None
    blob, ends, present = columns
    check_rank_gaps(len(present), present.count(1))
    types = Numbers("B", present_types(present)) if 0 in present else None
    return Vocabulary(Pieces(blob, Numbers("I", ends)), types)


def _spec(vocabulary: Vocabulary, encoding: Encoding) -> TokenizerSpec:
    end = SpecialIds(eos=encoding.special.get(END_OF_TEXT))
    spec = rank_spec(vocabulary, encoding.pattern, encoding.special, end)
    if encoding.form is None:
        return spec
    # Special tokens are found in the normalized text.
    tokens = tuple(replace(token, normalized=True) for token in spec.added_tokens.tokens)
    added = replace(spec.added_tokens, tokens=tokens)
    return replace(spec, normalizer=_FORMS[encoding.form], added_tokens=added)


def parse_ranks(data: bytes) -> dict[bytes, int]:
    """Parse the lines of a rank file; of two equal byte strings the last counts.

    ``=``, base64 of no bytes, is a token that no text gives.
    """
    import binascii

    ranks: dict[bytes, int] = {}
    at = 0
    for whole in data.splitlines(keepends=True):
        line = whole.rstrip(b"\r\n")
        if line:
            try:
                text, number = line.split()
                rank = int(number)
                ranks[binascii.a2b_base64(text)] = rank
            except ValueError:
                rank = -1
            if not 0 <= rank <= HIGHEST_RANK:
                what = f"is {line[:60]!r}, not base64 and a rank"
                raise FormatError(what, field="line", offset=at)
        at += len(whole)
    lacking = next((byte for byte in range(256) if bytes([byte]) not in ranks), None)
    if lacking is not None:
        what = f"lack the byte 0x{lacking:02x}"
        raise FormatError(what, field="ranks", hint="the file is probably truncated")
    return ranks


def _encoding(source: Source, name: object) -> tuple[Encoding, str]:
    """Return what the file does not hold, and where it comes from."""
    belongs = "split pattern and special tokens"
    if name is not None:
        if name not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise UsageError(f"{name!r} is not a published encoding", hint=f"known: {known}")
        return ENCODINGS[str(name)](), f"{belongs} of {name}, as asked"
    beside = source.beside("pattern.json")
    if beside is not None:
        return _read_pattern(beside), f"{belongs} from pattern.json beside it"
    names = encodings_of_ranks(source.data)
    if not names:
        raise UnsupportedError(
            f"the file does not say its {belongs}",
            source=source.name,
            hint=f"{wording('--encoding', 'encoding= in overrides, of')} {'|'.join(ENCODINGS)}, "
            "or put a pattern.json beside it",
        )
    others = f" (which --encoding {' or '.join(names[1:])} has, too)" if names[1:] else ""
    return ENCODINGS[names[0]](), f"{belongs} of {names[0]}, known by its ranks{others}"


def _read_pattern(data: bytes) -> Encoding:
    from mtkit.formats.json_fields import Fields, check_plain, parse_json

    table = Fields(parse_json(data, "pattern.json"), "pattern.json")
    check_plain(table.values, "pattern.json")
    special = table.object("special_tokens").values if "special_tokens" in table else {}
    for text, token_id in special.items():
        if type(token_id) is not int or not 0 <= token_id < HIGHEST_RANK or not text:
            raise FormatError(f"{text!r} has no id", field="pattern.json special_tokens")
    form = table.choice("normalizer", {name: name for name in _FORMS}, None)
    return Encoding(table.string("pattern"), special, form)


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a byte-level specification as ranks with a pattern.json beside."""
    import binascii
    import json

    normalizer = spec.normalizer
    form = normalizer.form if isinstance(normalizer, normalizers.UnicodeForm) else None
    ranks, pattern, losses = ranks_of(replace(spec, normalizer=None) if form else spec, "tiktoken")
    lines = [
        (binascii.b2a_base64(piece, newline=False) or b"=") + f" {rank}\n".encode()
        for piece, rank in sorted(ranks.items(), key=lambda item: item[1])
    ]
    tokens = spec.added_tokens.tokens
    special = {token.content.decode("utf-8", "replace"): token.id for token in tokens}
    table = {"pattern": pattern, "special_tokens": special}
    if form is not None:
        table["normalizer"] = form
    beside = json.dumps(table, ensure_ascii=False, indent=1).encode("utf-8")
    return Written(
        {".tiktoken": b"".join(lines), "pattern.json": beside},
        losses_between(
            spec,
            _spec(rank_vocabulary(ranks), Encoding(pattern, special, form)),
            losses,
            RANK_RULES,
        ),
    )
