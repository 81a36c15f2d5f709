r"""Pre-tokenizers as the base of a .mtok can hold them.

The loader has ByteLevel, a Metaspace that never splits, BERT's, and splits by patterns of a small
syntax with the matches isolated or removed. Other behaviors are written as isolated splits by a
longer pattern: "merged with previous" by ``(?:(?!p)[\s\S])*p|(?:(?!p)[\s\S])+``, and so on.
"""

from __future__ import annotations

from mtkit.formats.mtok.base_writer import listed, string, u8
from mtkit.formats.mtok.pattern import plain
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.text import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.formats.contract import Losses
    from mtkit.spec.pre_tokenizers import Behavior, PreTokenizer
    from mtkit.spec.text import Pattern

FIELD = "pre_tokenizer"
BYTE_LEVEL, METASPACE, SPLIT, BERT, SEQUENCE = 1, 3, 4, 5, 6
ISOLATED, REMOVED = 0, 1
ANY = r"[\s\S]"
PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
WORD = r"\p{L}\p{M}\p{N}_"
WORDS = rf"[{WORD}]+|[^{WORD}\s]+"


def write_pre_tokenizer(component: PreTokenizer | None, losses: Losses) -> bytes:
    """Write a pre-tokenizer."""
    return listed(SEQUENCE, [] if component is None else list(_parts(component, losses)))


def _parts(component: PreTokenizer, losses: Losses) -> Iterator[bytes]:
    match component:
        case pr.Sequence():
            for step in component.steps:
                yield from _parts(step, losses)
        case pr.ByteLevel():
            if component.add_prefix_space:
                yield u8(METASPACE) + string(" ") + u8(1)
            yield u8(BYTE_LEVEL, component.use_regex)
        case pr.MarkSpaces():
            yield u8(METASPACE) + string(component.replacement) + u8(component.prefix)
        case pr.Metaspace():
            yield from _metaspace(component, losses)
        case pr.Bert():
            yield u8(BERT)
            losses.add(
                "ids-possible", FIELD, "white space and punctuation follow the loader's tables"
            )
        case pr.Split():
            pattern = _pattern(component.pattern, losses)
            if pattern is not None:
                yield from _split(pattern, component.behavior, component.invert, losses)
        case pr.Punctuation():
            yield from _split(PUNCTUATION, component.behavior, invert=False, losses=losses)
        case pr.Digits():
            yield _isolated(r"\p{N}" if component.individual else r"\p{N}+")
        case pr.Whitespace():
            yield u8(SPLIT) + string(WORDS) + u8(1, REMOVED)
            losses.add("ids-possible", FIELD, "words consist of letters, marks, numbers and _")
        case pr.WhitespaceSplit():
            yield u8(SPLIT) + string(r"\s+") + u8(0, REMOVED)
            losses.add(
                "ids-possible", FIELD, "U+0085, U+2028 and U+2029 do not count as white space"
            )
        case pr.CharDelimiterSplit():
            yield u8(SPLIT) + string(quoted(component.delimiter)) + u8(0, REMOVED)
        case pr.FixedLength():
            yield _isolated(f"{ANY}{{1,{component.length}}}")
        case _:
            losses.add("ids", FIELD, f"{type(component).__name__} is skipped")


def _metaspace(component: pr.Metaspace, losses: Losses) -> Iterator[bytes]:
    prefix = component.prepend_scheme != "never"
    if component.prepend_scheme == "first":
        losses.add("ids-special", FIELD, "text after a special token also starts with a word mark")
    losses.add("ids-special", FIELD, "U+2581 in a text counts as a letter")
    if not component.split:
        yield u8(METASPACE) + string(component.replacement) + u8(prefix)
        return
    # The loader's own component never splits: mark with blanks, split before each, then replace.
    yield u8(METASPACE) + string(" ") + u8(prefix)
    yield _isolated(" ?[^ ]+| ")
    yield u8(METASPACE) + string(component.replacement) + u8(0)


def _pattern(pattern: Pattern, losses: Losses) -> str | None:
    """Return a pattern in the loader's syntax, or None where it has none for it."""
    if isinstance(pattern, Text):
        return quoted(pattern.text) if pattern.text else None
    text = with_marks(without_possessives(pattern.pattern))
    if not text.isascii() and not (r"\p{" in text or r"\P{" in text):
        losses.add("ids-possible", FIELD, "the split pattern runs in a different regex engine")
        return text
    if plain(text) != text or any(sign in text for sign in ("&&", "[:", r"\h", r"\u", r"\x{")):
        losses.add("ids", FIELD, "the split pattern uses features that the loader lacks")
        return text
    if _is_coarse(text):
        losses.add("ids-possible", FIELD, "the split pattern sees only main Unicode categories")
    else:
        losses.add(
            "ids-possible",
            FIELD,
            "U+0001 to U+0007 and recent characters are classified differently",
        )
    return text


def _is_coarse(text: str) -> bool:
    """Tell whether a pattern distinguishes what the folded text does not."""
    from mtkit.formats.mtok.pattern import properties

    return not text.isascii() or any(name not in "LNMPSZ" for name in properties(text))


def without_possessives(pattern: str) -> str:
    """Make possessive counts plain ones; equal where nothing behind can match what they took."""
    out, at, in_set = "", 0, False
    while at < len(pattern):
        char = pattern[at]
        out += char
        at += 1
        if char == "\\":
            end = at + 1
            if pattern[at : at + 2] in {"p{", "P{", "x{"}:
                end = pattern.find("}", at) + 1 or len(pattern)
            out += pattern[at:end]
            at = end
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "?*+}" and pattern[at : at + 1] == "+":
            at += 1
    return out


def with_marks(pattern: str) -> str:
    r"""Spell ``\w`` and ``\W`` out, whose words have no marks for the loader."""
    out, at, in_set = "", 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            sign = pattern[at + 1 : at + 2]
            if sign == "w":
                out += WORD if in_set else f"[{WORD}]"
            elif sign == "W" and not in_set:
                out += f"[^{WORD}]"
            else:
                out += char + sign
            at += 2
            continue
        in_set = char == "[" or (in_set and char != "]")
        out += char
        at += 1
    return out


def _split(pattern: str, behavior: Behavior, invert: bool, losses: Losses) -> Iterator[bytes]:
    if behavior in {"isolated", "removed"}:
        kind = ISOLATED if behavior == "isolated" else REMOVED
        yield u8(SPLIT) + string(pattern) + u8(invert, kind)
        return
    if invert:
        losses.add("ids", FIELD, f"an inverted split with {behavior} is skipped")
        return
    other = f"(?:(?!{pattern}){ANY})"
    match behavior:
        case "merged_with_previous":
            yield _isolated(f"{other}*(?:{pattern})|{other}+")
        case "merged_with_next":
            yield _isolated(f"(?:{pattern}){other}*|{other}+")
        case "contiguous":
            yield _isolated(f"(?:{pattern})+")
        case "glued_to_previous":
            yield u8(SPLIT) + string(pattern) + u8(0, 2)


def _isolated(pattern: str) -> bytes:
    return u8(SPLIT) + string(pattern) + u8(0, ISOLATED)


def quoted(text: str) -> str:
    """Write a text as a pattern."""
    return "".join("\\" + char if char in "\\.[](){}?*+|^$" else char for char in text)
