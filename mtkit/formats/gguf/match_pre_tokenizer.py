r"""Which pre-tokenizer name of llama.cpp splits like a specification does.

A specification's steps are brought to a list of patterns; that list must be a rule of
``pre_tokenizers`` to the letter, or the way in which tokenizer.json files write the same rule.
"""

from __future__ import annotations

import re

from mtkit.errors import UnsupportedError
from mtkit.formats.gguf.pre_tokenizers import (
    CJK,
    DIGIT_GROUPS,
    GPT2,
    LITTLE_KNOWN,
    NAMES,
    PUNCTUATION,
    RULES,
    SHORT,
)
from mtkit.spec import pre_tokenizers as steps
from mtkit.spec.text import Regex
from mtkit.spec.traverse import flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.spec.pre_tokenizers import PreTokenizer

_SPELLINGS = (
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", SHORT),
    (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]", PUNCTUATION),
    ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]", PUNCTUATION),
    (r"\p{N}{1}", r"\p{N}"),
    (r"\z", "$"),
    ("\r", r"\r"),
    ("\n", r"\n"),
)
"""Ways to write the same thing."""

_POSSESSIVE = r"([?*+]|\{\d+(?:,\d*)?\})\+"
"""That it never gives back what it took makes no difference in the patterns below."""
_KEEPING = (("isolated", False), ("removed", True))
"""A pattern that finds every character keeps the text whole in either way."""

_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _TAIL
_BETWEEN_SPACES = "words between white space"
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s+$|\s*[\r\n]|\s+(?!\S)|\s"
)
_DIGITS3 = "[0-9][0-9][0-9]"
_FROM_0800 = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def _cased(tail: str, but: str = "") -> str:
    upper, lower = f"[{_UPPER}{but}]", f"[{_LOWER}{but}]"
    return f"{_LEAD}{upper}*{lower}+{tail}|{_LEAD}{upper}+{lower}*{tail}"


OTHERS: dict[tuple[str, ...], str] = {
    (_cased("") + r"|\p{N}" + _REST,): "tekken",
    (_cased(f"{SHORT}?") + r"|\p{N}{1,3}" + _REST,): "gpt-4o",
    (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+$|\s+(?!\S)|\s",): "gpt-2",
    (_CL100K,): "llama-bpe",
    (
        r"[\p{Han}]+|"
        + _cased(f"{SHORT}?", but=r"&&[^\p{Han}]")
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        + _TAIL,
    ): "kimi-k2",
    ("punctuation", GPT2, r"\p{N}+", _DIGITS3): "falcon",
    (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _FROM_0800, r"\p{N}"): "deepseek-coder",
    (r"\p{N}{1,3}", CJK, RULES["deepseek-v3"][2]): "deepseek-v3",
    (_BETWEEN_SPACES,): "whitespace",
    (_BETWEEN_SPACES, r"\S+"): "whitespace",
    (" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",): "bloom",
}
"""What tokenizer.json files have -> the rule that llama.cpp's converter takes for it."""


def rule_of(found: PreTokenizer | None) -> str | None:
    """Return the rule that splits like ``found``, if there is one."""
    key = tuple(_patterns(found))
    return next((name for name, patterns in RULES.items() if patterns == key), OTHERS.get(key))


def name_for(
    found: PreTokenizer | None, *, ignore_merges: bool, clean_spaces: bool, bos: bool, wish: str
) -> str:
    """Return the name whose rule splits like ``found`` and whose switches fit best.

    Args:
        found: Pre-tokenizer in front of the byte alphabet.
        ignore_merges: As the model has it; where no name has it so, another does, and it shows.
        clean_spaces: Whether decoding cleans spaces.
        bos: Whether there is a BOS; where there is none a name that supplies none fits better.
        wish: Name to take if it fits.

    Raises:
        UnsupportedError: llama.cpp has no name for this.
    """
    rule = rule_of(found)
    names = [name for name, pre in NAMES.items() if pre.rule == rule and pre.byte_alphabet]
    if not names:
        shown = " then ".join(_patterns(found)) or "nothing"
        raise UnsupportedError(
            f"llama.cpp has no name for the split {shown}",
            field="pre_tokenizer",
            hint="it runs built-in patterns only",
        )

    def rank(name: str) -> tuple[bool, ...]:
        pre = NAMES[name]
        return (
            pre.ignore_merges != ignore_merges,
            name in LITTLE_KNOWN and name != wish,
            pre.clean_spaces != clean_spaces,
            name != wish,
            pre.default_bos != bos,
        )

    return min(names, key=rank)


def _patterns(found: PreTokenizer | None) -> Iterator[str]:
    """Yield the patterns of all steps; what is not a pattern yields something that no rule has."""
    for step in flat(found):
        said = _SAID.get(type(step))
        yield from said(step) if said else [repr(step)]


def _split(found: steps.Split) -> list[str]:
    pattern = found.pattern
    keeps = (found.behavior, found.invert) in _KEEPING
    if not isinstance(pattern, Regex) or pattern.alphabet != "characters" or not keeps:
        return [repr(found)]
    text = pattern.pattern
    if pattern.counted == "modified":
        text = re.sub(_POSSESSIVE, r"\1", text)
    for old, new in _SPELLINGS:
        text = text.replace(old, new)
    return [text]


_SAID: dict[type, Callable[[Any], list[str]]] = {
    steps.ByteLevel: lambda found: (
        ["a space in front of the text"] * found.add_prefix_space + [GPT2] * found.use_regex
    ),
    steps.WhitespaceSplit: lambda _: [_BETWEEN_SPACES],
    steps.DigitGroups: lambda _: [DIGIT_GROUPS],
    steps.Digits: lambda found: [r"\p{N}" if found.individual else r"\p{N}+"],
    steps.Punctuation: lambda found: (
        ["punctuation"] if found.behavior == "contiguous" else [repr(found)]
    ),
    steps.Split: _split,
}
