"""Patterns and texts on which engines of regular expressions differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
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
