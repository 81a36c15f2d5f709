"""Published encodings: what belongs to a rank file that does not say it.

A name stands for a split pattern, special tokens and the normal form that text is put into first;
SHA-256 of a published rank file for the names that go with it, of which the first is meant unless
another is asked for.

Source: openai/tiktoken, tiktoken_ext/openai_public.py; openai/whisper, whisper/tokenizer.py
(``LANGUAGES``, ``get_encoding``); QwenLM/Qwen, tokenization_qwen.py (``QWenTokenizer``).
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.spec.pre_tokenizers import BYTE_LEVEL_SPLIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from mtkit.base.binary import Buffer

END = "<|endoftext|>"


class Encoding(Record):
    """What a rank file does not hold.

    Attributes:
        pattern: Split pattern, in the syntax of Rust's fancy-regex.
        special: Special token -> id.
        form: Unicode normal form of the text before anything else; None: the text as it is.
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


def _numbered(first: int, names: Iterable[str]) -> dict[str, int]:
    return {name: token_id for token_id, name in enumerate(names, first)}


def _harmony() -> Encoding:
    named = {
        200002: "return",
        200003: "constrain",
        200005: "channel",
        200006: "start",
        200007: "end",
        200008: "message",
        200012: "call",
        200018: "endofprompt",
    }
    special = {"<|startoftext|>": 199998, END: 199999}
    for token_id in range(200000, 201088):
        special[f"<|{named.get(token_id, f'reserved_{token_id}')}|>"] = token_id
    return Encoding(_O200K, special)


def _whisper(first: int, languages: int) -> Encoding:
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    times = (f"{step * 0.02:.2f}" for step in range(1501))
    names = ("endoftext", "startoftranscript", *_LANGUAGES[:languages], *tasks, *times)
    return Encoding(BYTE_LEVEL_SPLIT, _numbered(first, (f"<|{name}|>" for name in names)))


def _qwen() -> Encoding:
    extra = (f"<|extra_{number}|>" for number in range(205))
    names = (END, "<|im_start|>", "<|im_end|>", *extra)
    return Encoding(_QWEN, _numbered(151643, names), "NFC")


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


def names_of(ranks: Buffer) -> tuple[str, ...]:
    """Return the names of the encodings that a rank file was published for."""
    import hashlib

    return _FILES.get(hashlib.sha256(ranks).hexdigest(), ())


ENCODINGS: dict[str, Callable[[], Encoding]] = {
    "gpt2": lambda: Encoding(_R50K, {END: 50256}),
    "r50k_base": lambda: Encoding(_R50K, {END: 50256}),
    "p50k_base": lambda: Encoding(_R50K, {END: 50256}),
    "p50k_edit": lambda: Encoding(_R50K, {END: 50256, **_numbered(50281, _FIM)}),
    "cl100k_base": lambda: Encoding(
        _CL100K, {END: 100257, **_numbered(100258, _FIM), "<|endofprompt|>": 100276}
    ),
    "o200k_base": lambda: Encoding(_O200K, {END: 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": _harmony,
    "whisper_en": lambda: _whisper(50256, 99),
    "whisper": lambda: _whisper(50257, 99),
    "whisper_v3": lambda: _whisper(50257, 100),
    "qwen": _qwen,
}
"""Name -> encoding, in the order in which messages list them. ``whisper_en`` is that of the models
for English alone, ``whisper_v3`` that of large-v3."""
