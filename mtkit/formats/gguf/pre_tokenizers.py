"""Pre-tokenizers of byte-pair vocabularies: the meaning of each name in ``tokenizer.ggml.pre``.

A name is a split rule and a few switches. A rule is a list of patterns, each of which splits the
words of the one before; matches and the text between them are both words. llama.cpp runs some of
its patterns through hand-written code and the others on text whose characters are collapsed to one
byte a category. The patterns here are what that amounts to:

* ``\\s`` is Unicode's White_Space; ``\\d`` is ``[0-9]``; look-ahead ends with the word;
* ``\\p{Lu}`` and the like are ``\\p{L}`` there, so case exists for ASCII alone;
* white space outside ASCII never matches a literal character, so ranges leave it out;
* the hand-written GPT-2 splitter has the final ``|\\s+`` that its pattern lacks.

``rule_of`` finds the rule that splits like a specification: its steps become a list of patterns,
which must equal one of ``RULES`` to the letter, or the form of that rule in tokenizer.json files.

Source: llama.cpp, src/llama-vocab.cpp (``llm_tokenizer_bpe``, ``llama_vocab::impl::load``) and
src/unicode.cpp (``unicode_regex_split``).
"""

from __future__ import annotations

import re

from mtkit.base.record import Record
from mtkit.errors import UnsupportedError
from mtkit.spec import components_of, pre_tokenizers
from mtkit.spec import pre_tokenizers as steps
from mtkit.spec.text import Regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.spec.pre_tokenizers import PreTokenizer


UNICODE = "15.1"
DIGIT_GROUPS = "groups of three digits from the right"
"""In a rule, the one step that no pattern can express."""

PUNCTUATION = r"[!-/:-@\[-`{-~]"
SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_ONE_LINE = r"|\s*[\r\n]|\s+(?!\S)|\s+"
_OTHER = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_PATHS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"
_PATH = r"| ?[^\s\p{L}\p{N}]+[\r\n/]?"
GPT2 = pre_tokenizers.BYTE_LEVEL_SPLIT
_LLAMA3 = rf"{SHORT}|{_LEAD}\p{{L}}+|\p{{N}}{{1,3}}{_OTHER}{_TAIL}"
_QWEN2 = rf"{SHORT}|{_LEAD}\p{{L}}+|\p{{N}}{_OTHER}{_TAIL}"
_NO_CASE = rf"{_LEAD}[\p{{L}}\p{{M}}]+{SHORT}?"
_DEEPSEEK = (
    PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + _TAIL
)
_SPARK = (
    PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]"
    r"|\s+(?!\S)|\s+"
)
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_FROM_0800 = (
    "[\u0800-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    "\u3001-\u9fa5\uac00-\ud7ff]+"
)
_LINES = r"[^\n]+|\n+"
_STOPS = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_HAN = (
    "\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef\uf900-\ufaff"
    "\U0002f800-\U0002fa1f"
)


def _cased(letters: str, tail: str) -> str:
    """Words whose ASCII capitals stand in front; letters outside ASCII are both."""
    upper, lower = f"[{letters}&&[^a-z]]", f"[{letters}&&[^A-Z]]"
    return f"{_LEAD}{upper}*{lower}+{tail}|{_LEAD}{upper}+{lower}*{tail}"


_LATIN_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    "\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
    "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
    "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_WRITTEN_WITHOUT_SPACES = (
    "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
    "\u1100-\u11ff]+"
)

RULES: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "gpt-2": (GPT2,),
    "starcoder": (r"\p{N}", GPT2),
    "falcon": (r"[\p{P}$+<=>^~|`]+", GPT2, r"[0-9][0-9][0-9]"),
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "qwen35": (
        rf"{SHORT}|{_LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{_TAIL}",
    ),
    "jais-2": (
        rf"{SHORT}|{_LEAD}\p{{L}}+|\p{{N}}{{1,3}}{_OTHER}|\s*[\r\n]+"
        + "".join(rf"|\s{{{2**n}}}(?!\S)" for n in range(9, 1, -1))
        + r"|\s{1,2}(?!\S)|\s",
    ),
    "deepseek-llm": (
        r"[\r\n]",
        rf"\s?[{_LATIN_LETTERS}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001-\u3002]+",
        r"\s+$",
        _FROM_0800,
        r"\p{N}+",
    ),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _FROM_0800, r"\p{N}"),
    "deepseek-v3": (r"\p{N}{1,3}", CJK, _DEEPSEEK),
    "spark2_5": (
        r"\p{N}{1,3}",
        CJK,
        _SPARK,
        r"\p{N}",
    ),
    "youtu": (
        "[\uac00-\ud7a3\u3131-\u318e]+"
        "|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
        "|[\u3105-\u312f]+|" + CJK,
        rf"{_NO_CASE}|\p{{N}}{_PATHS}{_TAIL}",
    ),
    "bloom": (_STOPS,),
    "viking": (_STOPS, r"\p{N}"),
    "tekken": (_cased(r"\p{L}", "") + rf"|\p{{N}}{_PATHS}{_TAIL}",),
    "chameleon": (
        r"<sentinel:[0-9]+>",
        r"IMGIMG[A-I]{1,4}Z",
        r"[\t\n]|    |  ",
        r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]",
        GPT2,
    ),
    "gpt-4o": (_cased(r"\p{L}", f"{SHORT}?") + rf"|\p{{N}}{{1,3}}{_PATHS}{_TAIL}",),
    "granite-embed-multi-97m": (
        _cased(r"\p{L}\p{M}", f"{SHORT}?") + rf"|\p{{N}}{{1,3}}{_PATHS}{_TAIL}",
    ),
    "tiny_aya": (DIGIT_GROUPS, rf"{_NO_CASE}|\p{{N}}{{1,3}}{_PATHS}{_TAIL}"),
    "kimi-k2": (
        rf"[{_HAN}]+|{_LEAD}[\p{{L}}&&[^{_HAN}]]+{SHORT}?|\p{{N}}{{1,3}}{_OTHER}{_TAIL}",
    ),
    "superbpe": (r"\p{N}+", r"(?=(?:[0-9]{3})+(?![0-9]))"),
    "bailingmoe": (
        rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_LEAD}\p{{L}}+|\p{{N}}{_OTHER}{_ONE_LINE}",
    ),
    "seed-coder": (
        rf"{SHORT}|{_LEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+{_TAIL}",
    ),
    "ufakzeka": (rf"{_LEAD}\p{{L}}+|\p{{N}}{_OTHER}{_TAIL}",),
    "afmoe": (DIGIT_GROUPS, _WRITTEN_WITHOUT_SPACES, _DEEPSEEK),
    "laguna": (_LINES, _QWEN2),
    "exaone-moe": (
        rf"{SHORT}|{_LEAD}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}{_PATH}{_ONE_LINE}",
    ),
    "gemma4": (_LINES,),
    "minicpm5": (r"\p{N}{1,3}", rf"{SHORT}|{_LEAD}\p{{L}}+|\p{{N}}+{_OTHER}{_TAIL}"),
    "whitespace": (r"\S+",),
}  # fmt: skip
"""Rule (named for the best known of its names) -> patterns, in order."""


class Pre(Record):
    """The meaning of a name: a split rule and switches.

    Attributes:
        escape_whitespaces: Spaces become U+2581 first.
        default_bos: BOS is id 11 by default.
        forced_bos: BOS is put in front whatever the file says, and words of newlines stay whole.
    """

    rule: str
    ignore_merges: bool = False
    add_bos: bool = False
    add_sep: bool = False
    clean_spaces: bool = True
    escape_whitespaces: bool = False
    byte_alphabet: bool = True
    default_bos: bool = True
    forced_bos: bool = False

    @property
    def needs_merges(self) -> bool:
        """Whether llama.cpp refuses a vocabulary without merges."""
        return self.rule != "kimi-k2"


_GROUPS: tuple[tuple[Pre, str], ...] = (
    (Pre("default"), "default"),
    (Pre("minicpm5", ignore_merges=True), "minicpm5"),
    (
        Pre("llama-bpe", ignore_merges=True, add_bos=True),
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    ),
    (Pre("llama-bpe"), "dbrx smaug-bpe"),
    (Pre("llama-bpe", default_bos=False), "chatglm-bpe"),
    (Pre("llama-bpe", default_bos=False, ignore_merges=True), "glm4 glm5"),
    (Pre("deepseek-llm", clean_spaces=False), "deepseek-llm"),
    (Pre("deepseek-coder", clean_spaces=False), "deepseek-coder"),
    (Pre("deepseek-v3", clean_spaces=False), "deepseek-v3 hunyuan-dense hy_v4 joyai-llm"),
    (Pre("spark2_5", clean_spaces=False), "spark2_5"),
    (Pre("youtu", clean_spaces=False, ignore_merges=True), "youtu"),
    (Pre("falcon"), "falcon"),
    (Pre("gpt-2"), "gpt-2 mpt phi-2 olmo jais mellum exaone4 gigachat a.x-4.0 modern-bert"),
    (Pre("gpt-2"), "jina-es jina-de jina-v2-es jina-v2-de"),
    (Pre("gpt-2", clean_spaces=False), "trillion granite-docling"),
    (Pre("gpt-2", add_sep=True), "roberta-bpe jina-v1-en jina-v2-code"),
    (Pre("starcoder"), "starcoder refact codeshell exaone minerva-7b mellum2"),
    (Pre("starcoder", clean_spaces=False), "command-r smollm"),
    (Pre("qwen2"), "stablelm2 megrez"),
    (
        Pre("qwen2", clean_spaces=False),
        "qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan grok-2 solar-open",
    ),
    (Pre("qwen35", clean_spaces=False), "qwen35"),
    (Pre("jais-2"), "jais-2"),
    (Pre("bloom"), "bloom gpt3-finnish"),
    (Pre("bloom", clean_spaces=False), "poro-chat"),
    (Pre("viking", clean_spaces=False), "viking"),
    (Pre("tekken", clean_spaces=False, ignore_merges=True, add_bos=True), "tekken"),
    (Pre("chameleon", clean_spaces=False, add_bos=True), "chameleon"),
    (Pre("exaone-moe"), "exaone-moe"),
    (Pre("gpt-4o", clean_spaces=False), "gpt-4o llama4 kanana2 talkie minimax-m2"),
    (
        Pre("granite-embed-multi-97m", clean_spaces=False, ignore_merges=True),
        "granite-embed-multi-97m",
    ),
    (Pre("tiny_aya", clean_spaces=False), "tiny_aya cohere2moe"),
    (Pre("superbpe", clean_spaces=False), "superbpe"),
    (Pre("bailingmoe", clean_spaces=False), "bailingmoe bailingmoe2 llada-moe"),
    (Pre("seed-coder", clean_spaces=False), "seed-coder"),
    (Pre("kimi-k2", clean_spaces=False), "kimi-k2"),
    (Pre("ufakzeka", clean_spaces=False), "ufakzeka"),
    (Pre("afmoe", clean_spaces=False), "afmoe"),
    (Pre("laguna", clean_spaces=False), "laguna"),
    (
        Pre("gemma4", escape_whitespaces=True, byte_alphabet=False, forced_bos=True),
        "gemma4 granite-embed-multi-311m",
    ),
    (Pre("gemma4", escape_whitespaces=True, byte_alphabet=False, clean_spaces=False), "sarvam-moe"),
    (Pre("whitespace", byte_alphabet=False), "whitespace"),
)

NAMES: dict[str, Pre] = {name: pre for pre, names in _GROUPS for name in names.split()}
"""Name in ``tokenizer.ggml.pre`` -> meaning; of equal ones mtkit writes the first."""
LITTLE_KNOWN = frozenset({"trillion", "granite-docling", "poro-chat"})
"""Names that older programs refuse; they differ from a well-known one in cleaning up spaces alone,
which concerns decoding."""


def splitter(rule: str) -> list[PreTokenizer]:
    """Return the steps of a rule."""
    steps: list[PreTokenizer] = []
    for pattern in RULES[rule]:
        if pattern == DIGIT_GROUPS:
            steps.append(pre_tokenizers.DigitGroups())
        else:
            regex = Regex(pattern, anchors="text", unicode=UNICODE)
            steps.append(pre_tokenizers.Split(regex))
    return steps


_SAME_PATTERNS = (
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", SHORT),
    (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]", PUNCTUATION),
    ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]", PUNCTUATION),
    (r"\p{N}{1}", r"\p{N}"),
    (r"\z", "$"),
    ("\r", r"\r"),
    ("\n", r"\n"),
)
"""Spelling -> equal spelling in ``RULES``."""

_POSSESSIVE = r"([?*+]|\{\d+(?:,\d*)?\})\+"
"""Without backtracking the patterns below match the same."""
_KEEPS_TEXT = (("isolated", False), ("removed", True))
"""Behavior and inversion of splits that keep the text, if a pattern matches every character."""

_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_BEFORE_LETTERS = r"[^\r\n\p{L}\p{N}]?"
_BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS_AND_BLANKS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _BLANKS
_BETWEEN_SPACES = "words between white space"
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s+$|\s*[\r\n]|\s+(?!\S)|\s"
)
_DIGITS3 = "[0-9][0-9][0-9]"
_CJK_FROM_0800 = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def _cased_words(tail: str, but: str = "") -> str:
    upper, lower = f"[{_UPPER}{but}]", f"[{_LOWER}{but}]"
    return f"{_BEFORE_LETTERS}{upper}*{lower}+{tail}|{_BEFORE_LETTERS}{upper}+{lower}*{tail}"


_CONVERTER_RULES: dict[tuple[str, ...], str] = {
    (_cased_words("") + r"|\p{N}" + _SIGNS_AND_BLANKS,): "tekken",
    (_cased_words(f"{SHORT}?") + r"|\p{N}{1,3}" + _SIGNS_AND_BLANKS,): "gpt-4o",
    (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+$|\s+(?!\S)|\s",): "gpt-2",
    (_CL100K,): "llama-bpe",
    (
        r"[\p{Han}]+|"
        + _cased_words(f"{SHORT}?", but=r"&&[^\p{Han}]")
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        + _BLANKS,
    ): "kimi-k2",
    ("punctuation", GPT2, r"\p{N}+", _DIGITS3): "falcon",
    (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK_FROM_0800, r"\p{N}"): "deepseek-coder",
    (r"\p{N}{1,3}", CJK, RULES["deepseek-v3"][2]): "deepseek-v3",
    (_BETWEEN_SPACES,): "whitespace",
    (_BETWEEN_SPACES, r"\S+"): "whitespace",
    (" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",): "bloom",
}
"""Patterns of tokenizer.json files -> the rule that llama.cpp's converter uses for them."""


def rule_of(pre_tokenizer: PreTokenizer | None) -> str | None:
    """Return the rule that splits like a pre-tokenizer, if there is one."""
    key = tuple(_patterns(pre_tokenizer))
    return next(
        (name for name, patterns in RULES.items() if patterns == key), _CONVERTER_RULES.get(key)
    )


def pre_name_of(
    pre_tokenizer: PreTokenizer | None,
    *,
    ignore_merges: bool,
    clean_spaces: bool,
    bos: bool,
    wish: str,
) -> str:
    """Return the name whose rule splits like a pre-tokenizer and whose switches fit best."""
    rule = rule_of(pre_tokenizer)
    names = [name for name, pre in NAMES.items() if pre.rule == rule and pre.byte_alphabet]
    if not names:
        patterns = " then ".join(_patterns(pre_tokenizer)) or "nothing"
        what = f"llama.cpp has no name for the split {patterns}"
        raise UnsupportedError(what, field="pre_tokenizer", hint="it runs built-in patterns only")

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


def _patterns(pre_tokenizer: PreTokenizer | None) -> Iterator[str]:
    """Yield the patterns of all steps; for other steps something that no rule has."""
    for step in components_of(pre_tokenizer):
        patterns_of = _STEP_PATTERNS.get(type(step))
        yield from patterns_of(step) if patterns_of else [repr(step)]


def _split_pattern(split: steps.Split) -> list[str]:
    pattern = split.pattern
    keeps = (split.behavior, split.invert) in _KEEPS_TEXT
    if not isinstance(pattern, Regex) or pattern.alphabet != "characters" or not keeps:
        return [repr(split)]
    text = pattern.pattern
    if pattern.counted == "modified":
        text = re.sub(_POSSESSIVE, r"\1", text)
    for old, new in _SAME_PATTERNS:
        text = text.replace(old, new)
    return [text]


_STEP_PATTERNS: dict[type, Callable[[Any], list[str]]] = {
    steps.ByteLevel: lambda step: (
        ["a space in front of the text"] * step.add_prefix_space + [GPT2] * step.use_regex
    ),
    steps.WhitespaceSplit: lambda _: [_BETWEEN_SPACES],
    steps.DigitGroups: lambda _: [DIGIT_GROUPS],
    steps.Digits: lambda step: [r"\p{N}" if step.individual else r"\p{N}+"],
    steps.Punctuation: lambda step: (
        ["punctuation"] if step.behavior == "contiguous" else [repr(step)]
    ),
    steps.Split: _split_pattern,
}
