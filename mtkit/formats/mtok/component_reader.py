"""Normalizer, pre-tokenizer, decoder and split patterns of a .mtok base file.

A type that the loader does not know is no component, and its fields are not skipped: whatever
follows is read from there, as the loader does.

A split pattern with characters outside ASCII and without ``\\p{`` is run by the C++ library's
ECMAScript engine for wide characters, every other one by the loader's own scanner, on text folded
to one byte a character. Its syntax is small and unusual, so patterns are rewritten to usual syntax:

* a sign behind a count does not make it possessive (``a++`` is ``a+`` and a plus sign), and a
  question mark there has no effect (``a+?`` is ``a+``);
* ``^`` and ``$`` are plain characters;
* an alternative at the top level that uses what the scanner lacks (look-around but ``(?!``, word
  and text boundaries, back references) does not exist; without any alternative left, it is GPT-2's
  pattern.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, unicode.cpp, by its behavior.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.formats.mtok import layout
from mtkit.spec import decoders, normalizers, pre_tokenizers
from mtkit.spec.pre_tokenizers import BYTE_LEVEL_SPLIT
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from mtkit.base.binary import Reader
    from mtkit.formats.mtok.layout import Layout
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import Behavior, PreTokenizer

    T_co = TypeVar("T_co", covariant=True)

    class Read(Protocol[T_co]):
        """Reads one component at some depth."""

        def __call__(self, reader: Reader, depth: int = 0) -> T_co | None:
            """Read it; None for an unknown one."""


UNICODE_VERSION = "15.0"
"""Version of the categories that the loader has compiled in."""
PATTERN_DEPTH_LIMIT = 64
_GROUPS = ("(?:", "(?i:", "(?!")
_BOUNDARIES = "bBAZzGK123456789"
_COUNT_DIGITS = 4


class _UnknownConstruct(Exception):
    """A construct that the scanner does not know: its top-level alternative does not exist."""


def read_pattern(pattern: str) -> Regex:
    """Return a stored pattern with the engine that runs it."""
    if pattern.isascii() or r"\p{" in pattern or r"\P{" in pattern:
        return folded_regex(plain_pattern(pattern))
    return Regex(
        pattern, shorthands="ascii", anchors="text", empty="ignored", unicode=UNICODE_VERSION
    )


def folded_regex(pattern: str) -> Regex:
    """Return a pattern of the loader's scanner."""
    return Regex(
        pattern,
        alphabet="kinds",
        anchors="text",
        case_folding="simple",
        empty="ignored",
        unicode=UNICODE_VERSION,
    )


def plain_pattern(pattern: str) -> str:
    """Rewrite a pattern of the scanner to usual syntax."""
    alternatives = []
    for text in _top_alternatives(pattern):
        try:
            alternatives.append(_PatternRewriter(text).whole())
        except _UnknownConstruct:
            continue
    return "|".join(alternatives) if alternatives else BYTE_LEVEL_SPLIT


def property_names(pattern: str) -> list[str]:
    r"""Return the names in ``\p{…}`` of a pattern."""
    parts = pattern.replace(r"\P{", r"\p{").split(r"\p{")[1:]
    return [part.partition("}")[0] for part in parts]


def _top_alternatives(pattern: str) -> list[str]:
    """Cut at each ``|`` outside groups and sets."""
    parts, depth, in_set, start, at = [], 0, False, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth <= 0:
            parts.append(pattern[start:at])
            start, depth = at + 1, 0
        at += 1
    return [*parts, pattern[start:]]


class _PatternRewriter:
    """Recursive descent over one top-level alternative."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        """Return the next character, or nothing at the end."""
        return self.text[self.at : self.at + 1]

    def whole(self) -> str:
        """Rewrite everything; a surplus closing parenthesis is unknown."""
        out = self.sequence()
        if self.peek():
            raise _UnknownConstruct
        return out

    def sequence(self) -> str:
        out = ""
        while self.peek() and self.peek() not in "|)":
            out += self.item() + self.count()
        return out

    def item(self) -> str:
        start, char = self.at, self.peek()
        if char == "(":
            return self.group()
        self.at += 1
        if char == "[":
            self.skip_set()
        elif char == "\\":
            self.escape()
        elif char in "^$*+?{}]":
            return "\\" + char
        return self.text[start : self.at]

    def escape(self) -> None:
        char = self.peek()
        if not char or char in _BOUNDARIES:
            raise _UnknownConstruct
        self.at += 1
        if char in "pP" and self.peek() == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise _UnknownConstruct
            self.at = end + 1

    def skip_set(self) -> None:
        while self.peek() != "]":
            if not self.peek():
                raise _UnknownConstruct
            self.at += 2 if self.peek() == "\\" else 1
        self.at += 1

    def group(self) -> str:
        opening = next((name for name in _GROUPS if self.text.startswith(name, self.at)), "(")
        if opening == "(" and self.text.startswith("(?", self.at):
            raise _UnknownConstruct
        self.at += len(opening)
        self.depth += 1
        if self.depth > PATTERN_DEPTH_LIMIT:
            raise _UnknownConstruct
        out = opening + self.sequence()
        while self.peek() == "|":
            self.at += 1
            out += "|" + self.sequence()
        if not self.peek():
            raise _UnknownConstruct
        self.at += 1
        self.depth -= 1
        return out + ")"

    def count(self) -> str:
        """Read a count, if there is one, and the question mark behind it."""
        char = self.peek()
        if char == "{":
            end = self.text.find("}", self.at)
            least, comma, most = self.text[self.at + 1 : max(end, self.at)].partition(",")
            numbers = [number for number in (least, most) if number]
            if end < 0 or not numbers or not all(n.isascii() and n.isdigit() for n in numbers):
                return ""
            if any(len(number) > _COUNT_DIGITS for number in numbers):
                raise _UnknownConstruct
            self.at = end + 1
            char = f"{{{least or 0}{comma}{most}}}"
        elif char and char in "?*+":
            self.at += 1
        else:
            return ""
        if self.peek() == "?":
            self.at += 1
        return char


DEPTH_LIMIT = 64
BERT_PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"


def _read_component(
    reader: Reader, field: str, layouts: Mapping[int, Layout]
) -> tuple[Layout | None, list[Any]]:
    component = layouts.get(reader.u8(field))
    return component, [] if component is None else component.read(reader)


def read_normalizer(reader: Reader, depth: int = 0) -> Normalizer | None:
    """Read a normalizer; None where the text stays as it is."""
    component, values = _read_component(reader, "normalizer type", layout.NORMALIZERS)
    match component:
        case layout.PREPEND:
            return normalizers.Prepend(values[0], empty=True)
        case layout.REPLACE:
            pattern, content = values
            return normalizers.Replace(Text(pattern), content) if pattern else None
        case layout.NORMALIZER_LIST:
            steps: list[Normalizer] = _children(reader, "normalizer count", read_normalizer, depth)
            return normalizers.Sequence(tuple(steps)) if steps else None
        case layout.BERT:
            clean, han, _, lower = values  # without a table accents stay, whatever the flag says
            return _bert((clean, han, False, lower), Numbers.of("I", ()), Pieces.of(()))
        case layout.TABLE:
            code_points, pieces = values[0]
            # An empty table is not a normalizer at all: controls are kept then, too.
            return normalizers.CodePointTable(code_points, pieces) if len(pieces) else None
        case layout.BERT_TABLE:
            strips_accents = values[2]
            empty = Numbers.of("I", ()), Pieces.of(())
            return _bert(values, *(layout.read_table(reader) if strips_accents else empty))
        case layout.STRIP:
            left, right = values
            # Where both are set the right end keeps its white space (seen in 44 of 819 texts).
            return normalizers.Strip(left, right and not left, white_space="spaces")
        case _:
            return None


def read_pre_tokenizer(reader: Reader, depth: int = 0) -> PreTokenizer | None:
    """Read a pre-tokenizer; None where the whole text is one word."""
    component, values = _read_component(reader, "pre-tokenizer type", layout.PRE_TOKENIZERS)
    match component:
        case layout.BYTE_LEVEL:
            letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            split = pre_tokenizers.Split(folded_regex(pre_tokenizers.BYTE_LEVEL_SPLIT))
            return pre_tokenizers.Sequence((split, letters)) if values[0] else letters
        case layout.DIGITS:
            # Runs of digits are not set apart at all, and single digits are ASCII's.
            return pre_tokenizers.Split(folded_regex("[0-9]")) if values[0] else None
        case layout.METASPACE:
            return pre_tokenizers.MarkSpaces(*values)
        case layout.SPLIT:
            pattern, invert, behavior = values
            return pre_tokenizers.Split(
                read_pattern(pattern), _BEHAVIORS.get(behavior, "removed"), invert
            )
        case layout.BERT_WORDS:
            spaces = pre_tokenizers.Split(folded_regex(r"\s+"), "removed")
            punctuation = pre_tokenizers.Split(folded_regex(BERT_PUNCTUATION))
            return pre_tokenizers.Sequence((spaces, punctuation))
        case layout.PRE_TOKENIZER_LIST:
            words: list[PreTokenizer] = _children(
                reader, "pre-tokenizer count", read_pre_tokenizer, depth
            )
            return pre_tokenizers.Sequence(tuple(words)) if words else None
        case _:
            return None


_BEHAVIORS: Mapping[int, Behavior] = {
    layout.ISOLATED: "isolated",
    layout.GLUED_TO_PREVIOUS: "glued_to_previous",
}


def read_decoder(reader: Reader, depth: int = 0) -> Decoder | None:
    """Read a decoder step; None for an unknown one."""
    at = reader.offset + 1
    component, values = _read_component(reader, "decoder type", layout.DECODERS)
    match component:
        case layout.DECODE_BYTE_LEVEL:
            return decoders.ByteLevel()
        case layout.DECODE_BYTE_FALLBACK:
            return decoders.ByteFallback()
        case layout.DECODE_METASPACE:
            replacement, prefix = values
            return decoders.Metaspace(replacement, "always" if prefix else "never", split=False)
        case layout.DECODE_WORD_PIECE:
            return decoders.WordPiece(*values)
        case layout.DECODE_FUSE:
            return decoders.Fuse()
        case layout.DECODE_REPLACE:
            pattern, content = values
            if not pattern:
                what = "is empty: the loader never ends on it"
                raise FormatError(what, field="decoder.pattern", offset=at)
            return decoders.Replace(Text(pattern), content)
        case layout.DECODE_STRIP:
            return decoders.Strip(*values)
        case layout.DECODER_LIST:
            return decoders.Sequence(tuple(_children(reader, "decoder count", read_decoder, depth)))
        case _:
            return None


def _children(reader: Reader, field: str, read: Read[T_co], depth: int) -> list[T_co]:
    """Read u32 count and that many components, without those that are None."""
    at = reader.offset
    if depth == DEPTH_LIMIT:
        raise FormatError(f"components nest deeper than {DEPTH_LIMIT}", field=field, offset=at)
    count = reader.count(reader.u32(field), 1, field, at)
    children = [read(reader, depth + 1) for _ in range(count)]
    return [child for child in children if child is not None]


def _bert(flags: Sequence[bool], code_points: Numbers, values: Pieces) -> normalizers.BertTable:
    clean, han, accents, lower = flags
    return normalizers.BertTable(clean, han, accents, lower, code_points, values, UNICODE_VERSION)
