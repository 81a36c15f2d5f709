"""Scripts as the ``UnicodeScripts`` pre-tokenizer sees them.

Source: huggingface/tokenizers 0.23, pre_tokenizers/unicode_scripts (from SentencePiece).
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

from mtkit.pipeline.unicode import names, numbers


@lru_cache(maxsize=1)
def _runs() -> tuple[list[int], list[str]]:
    found = names("sc")
    runs = numbers("sc")
    return [run >> 8 for run in runs], [found[run & 0xFF] for run in runs]


def script(character: str) -> str:
    """Return the script of a character, "" where it goes with any."""
    if character == " ":
        return ""
    if character == "\u30fc":
        return "Han"
    starts, values = _runs()
    name = values[bisect_right(starts, ord(character)) - 1]
    if name in {"Hiragana", "Katakana"}:
        return "Han"
    return "" if name == "Unknown" else name
