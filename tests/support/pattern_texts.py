"""Patterns and texts on which engines of regular expressions differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtkit.spec.text import Regex

if TYPE_CHECKING:
    import random

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ASCII_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{L}&&[^a-z]]*[\p{L}&&[^A-Z]]+*END*"
    r"|[^\r\n\p{L}\p{N}]?[\p{L}&&[^a-z]]+[\p{L}&&[^A-Z]]**END*"
)


def _cased(end: str) -> str:
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{_UPPER}*{_LOWER}+{end}|{lead}{_UPPER}+{_LOWER}*{end}"


_TIKTOKEN: dict[str, Any] = {
    "word": "joiners", "anchors": "text", "case_folding": "simple", "counted": "modified",
}  # fmt: skip
"""As rank files have their patterns; the others are those of tokenizer.json and of GGUF."""
PUBLISHED = [
    ("gpt2", Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")),
    ("gpt2", Regex(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")),
    ("gpt2", Regex(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$"
                   r"|\s+(?!\S)|\s", **_TIKTOKEN)),
    ("cl100k", Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                     r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _END)),
    ("cl100k", Regex(_SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                     + _END, anchors="text", unicode="15.1")),
    ("cl100k", Regex(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
                     r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s", **_TIKTOKEN)),
    ("qwen", Regex(_SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _END)),
    ("qwen", Regex(_SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                   r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _END)),
    ("o200k", Regex(_cased(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + r"|\p{N}{1,3}"
                    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _END, **_TIKTOKEN)),
    ("o200k", Regex(_ASCII_CASED.replace("*END*", _SHORT + "?") + r"|\p{N}{1,3}"
                    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _END, anchors="text", unicode="15.1")),
    ("tekken", Regex(_cased("") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _END, **_TIKTOKEN)),
    ("tekken", Regex(_ASCII_CASED.replace("*END*", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
                     + _END, anchors="text", unicode="15.1")),
]  # fmt: skip
"""Family that the core knows -> a spelling of it."""

POOL = (
    "aAzZsStT''  \n\r\t\u00a0\u3000\u2028\x85.,!?()[]$+<=>^`|~09 \u0301éßſK中文日本ひらカナ한글"
    "مرحبا١٢²½Ⅻǅʰاְֿःि\u0903\U0001f600\U00020000\u200d\u200b\ufeff_-/\\\U00010d70\ua7dc\u1c89\U0001e900"
)


def nasty_text(rng: random.Random, length: int) -> str:
    """Characters that patterns tell apart, and any others from all planes."""
    out = []
    for _ in range(length):
        kind = rng.random()
        if kind < 0.8:
            out.append(rng.choice(POOL))
        elif kind < 0.9:
            out.append(rng.choice(["'s", "'LL", "'ſ", "  ", "\r\n", "re", "123", "ab"]))
        else:
            code = rng.randrange(0x110000)
            out.append("x" if 0xD800 <= code < 0xE000 else chr(code))
    return "".join(out)


ATOMS = (
    *("a", "b", "A", "s", "1", " ", "'", "é", "ſ", r"\n", ".", r"\s", r"\S", r"\w", r"\W", r"\d"),
    *(r"\p{L}", r"\p{Lu}", r"\p{N}", r"\P{L}", "[ab]", "[^a]", r"[^\s\p{L}]", "[a-z0-9]", "²"),
    *(r"[\p{L}&&[^a]]", "[[:punct:]]", r"[^\r\n\p{L}]", r"(?:\r\n)", r"[\w']"),
)
PLACES = (r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z")


def random_pattern(rng: random.Random, depth: int) -> str:
    """A pattern out of all constructs that are run."""

    def unit() -> str:
        if rng.random() < 0.6 or not depth:
            return rng.choice(ATOMS)
        opening = rng.choice(["(?:", "(?:", "(", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>", ""])
        if not opening:
            return rng.choice(PLACES)
        if opening in {"(?<=", "(?<!"}:
            return opening + rng.choice(ATOMS) + ")"
        return opening + random_pattern(rng, depth - 1) + ")"

    def counted() -> str:
        item = unit()
        if rng.random() < 0.55 or item in PLACES or item.startswith(("(?=", "(?!", "(?<")):
            return item
        count = rng.choice(["?", "*", "+", "+", "{2}", "{1,2}", "{,2}", "{2,}", "{1,3}"])
        return item + count + rng.choice(["", "", "", "?", "+"])

    def chain() -> str:
        return "".join(counted() for _ in range(rng.choice([1, 1, 2, 2, 3])))

    return "|".join(chain() for _ in range(rng.choice([1, 1, 1, 2, 3])))


POINTS = (
    *("a", "z", "A", "é", "ß", "ſ", "中", "\U0001f469", r"\x{7f}", r"\x{80}", r"\x{ff}", r"\x{0}"),
    *(r"\x{100}", r"\x{10ffff}", r"\x7f", r"\u00e0"),
)  # fmt: skip


def bracket(rng: random.Random, depth: int = 2) -> str:
    """A bracket with ranges in and out of ASCII, negated, nested and intersected."""
    out = "[" + rng.choice(["", "^"])
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.random()
        if kind < 0.5:
            out += rng.choice(POINTS) + "-" + rng.choice(POINTS)
        elif kind < 0.7:
            out += rng.choice(POINTS)
        elif kind < 0.8:
            out += rng.choice([r"\w", r"\S", r"\P{L}", r"\p{^Lu}", "[:alpha:]", "[:^punct:]"])
        elif depth:
            out += rng.choice(["", "&&"]) + bracket(rng, depth - 1)
    return out + "]"
