"""Normalizer, pre-tokenizer, decoder and split patterns of a .mtok base file.

A component: u8 type, then what the type needs. Lists nest. A type that the loader does not know is
none, and its payload is not skipped, so whatever follows is read from there: a reader that guessed
would give other ids.

Split patterns: a pattern with characters outside ASCII and without ``\\p{`` goes to the C++
library's ECMAScript engine for wide characters, every other one to a scanner of the loader's own:
text folded to one byte a character, and a small syntax that reads some patterns as nobody else
does. They are rewritten here so that everybody reads them so:

* a sign behind a count is not a possessive (``a++`` is ``a+`` and a plus sign), and a question mark
  there says nothing (``a+?`` is ``a+``);
* ``^`` and ``$`` are plain characters;
* an alternative at the top level that uses what the scanner lacks (look-around but ``(?!``, word
  and text boundaries, back references) does not exist; where none is left there is GPT-2's pattern.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``create_normalizer`` and its sisters),
by its behavior.
Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, unicode.cpp, by its behavior.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.spec import decoders, normalizers, pre_tokenizers
from mtkit.spec.pre_tokenizers import BYTE_LEVEL_SPLIT
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from mtkit.base.binary import Reader
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import PreTokenizer

    T_co = TypeVar("T_co", covariant=True)

    class Read(Protocol[T_co]):
        """Reads one component at some depth."""

        def __call__(self, reader: Reader, depth: int = 0) -> T_co | None:
            """Read it; None where it is none."""


UNICODE_VERSION = "15.0"
"""Version of the categories that the loader has compiled in."""
PATTERN_DEPTH_LIMIT = 64
_GROUPS = ("(?:", "(?i:", "(?!")
_BOUNDARIES = "bBAZzGK123456789"
_COUNT_DIGITS = 4


class _UnknownConstruct(Exception):
    """A construct that the scanner does not know: its top-level alternative does not exist."""


def read_pattern(pattern: str) -> Regex:
    """Say which engine runs a stored pattern, and on what."""
    if pattern.isascii() or r"\p{" in pattern or r"\P{" in pattern:
        return folded_regex(plain_pattern(pattern))
    return Regex(
        pattern, shorthands="ascii", anchors="text", empty="ignored", unicode=UNICODE_VERSION
    )


def folded_regex(pattern: str) -> Regex:
    """Make a pattern of the folded scanner."""
    return Regex(
        pattern,
        alphabet="kinds",
        anchors="text",
        case_folding="simple",
        empty="ignored",
        unicode=UNICODE_VERSION,
    )


def plain_pattern(pattern: str) -> str:
    """Rewrite a pattern so that the scanner's reading of it is everybody's reading."""
    found = []
    for text in _top_alternatives(pattern):
        try:
            found.append(_PatternRewriter(text).whole())
        except _UnknownConstruct:
            continue
    return "|".join(found) if found else BYTE_LEVEL_SPLIT


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
        """Return the character to come, or nothing at the end."""
        return self.text[self.at : self.at + 1]

    def whole(self) -> str:
        """Rewrite everything; a closing parenthesis too many is unknown."""
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


def read_text(reader: Reader, field: str) -> str:
    """Read u16 length and bytes as text; bytes that are not valid UTF-8 are kept as escapes."""
    return read_string(reader, field).decode("utf-8", "surrogateescape")


LAST_CODE_POINT = 0x10FFFF


def read_string(reader: Reader, field: str) -> bytes:
    """Read u16 length and bytes."""
    return reader.take(reader.u16(f"{field} length"), field)


def read_normalizer(reader: Reader, depth: int = 0) -> Normalizer | None:
    """Read a normalizer; None where the text stays as it is."""
    match reader.u8("normalizer type"):
        case 2:
            return normalizers.Prepend(read_text(reader, "normalizer.prepend"), empty=True)
        case 3:
            pattern = read_text(reader, "normalizer.pattern")
            content = read_text(reader, "normalizer.content")
            return normalizers.Replace(Text(pattern), content) if pattern else None
        case 4:
            steps: list[Normalizer] = _children(reader, "normalizer count", read_normalizer, depth)
            return normalizers.Sequence(tuple(steps)) if steps else None
        case 5:
            flags = [reader.u8("normalizer flags") != 0 for _ in range(4)]
            # Without a table the strip flag does nothing.
            flags[2] = False
            return _bert(flags, Numbers.of("I", ()), Pieces.of(()))
        case 6:
            code_points, values = _table(reader)
            # An empty table is not a normalizer at all: controls are kept then, too.
            return normalizers.CodePointTable(code_points, values) if len(values) else None
        case 7:
            flags = [reader.u8("normalizer flags") != 0 for _ in range(4)]
            table = _table(reader) if flags[2] else (Numbers.of("I", ()), Pieces.of(()))
            return _bert(flags, *table)
        case 8:
            left = reader.u8("normalizer.left") != 0
            right = reader.u8("normalizer.right") != 0
            # Where both are set the right end keeps its white space (seen in 44 of 819 texts).
            return normalizers.Strip(left, right and not left, white_space="spaces")
        case _:
            return None


def read_pre_tokenizer(reader: Reader, depth: int = 0) -> PreTokenizer | None:
    """Read a pre-tokenizer; None where the whole text is one word."""
    match reader.u8("pre-tokenizer type"):
        case 1:
            letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            if not reader.u8("pre_tokenizer.use_regex"):
                return letters
            return pre_tokenizers.Sequence(
                (pre_tokenizers.Split(folded_regex(pre_tokenizers.BYTE_LEVEL_SPLIT)), letters)
            )
        case 2:
            individual = reader.u8("pre_tokenizer.individual")
            # Runs of digits are not set apart at all, and single digits are ASCII's.
            return pre_tokenizers.Split(folded_regex("[0-9]")) if individual else None
        case 3:
            replacement = read_text(reader, "pre_tokenizer.replacement")
            prefix = reader.u8("pre_tokenizer.add_prefix_space") != 0
            return pre_tokenizers.MarkSpaces(replacement, prefix)
        case 4:
            pattern = read_text(reader, "pre_tokenizer.pattern")
            invert = reader.u8("pre_tokenizer.invert") != 0
            behavior = reader.u8("pre_tokenizer.behavior")
            return pre_tokenizers.Split(
                read_pattern(pattern),
                "isolated"
                if behavior == 0
                else "glued_to_previous"
                if behavior == 2
                else "removed",
                invert,
            )
        case 5:
            return pre_tokenizers.Sequence(
                (
                    pre_tokenizers.Split(folded_regex(r"\s+"), "removed"),
                    pre_tokenizers.Split(folded_regex(BERT_PUNCTUATION)),
                )
            )
        case 6:
            words: list[PreTokenizer] = _children(
                reader, "pre-tokenizer count", read_pre_tokenizer, depth
            )
            return pre_tokenizers.Sequence(tuple(words)) if words else None
        case _:
            return None


def read_decoder(reader: Reader, depth: int = 0) -> Decoder | None:
    """Read a decoder step; None for one that is not known."""
    match reader.u8("decoder type"):
        case 0:
            return decoders.ByteLevel()
        case 1:
            return decoders.ByteFallback()
        case 2:
            replacement = read_text(reader, "decoder.replacement")
            prefix = reader.u8("decoder.add_prefix_space") != 0
            return decoders.Metaspace(replacement, "always" if prefix else "never", split=False)
        case 3:
            prefix_text = read_text(reader, "decoder.prefix")
            return decoders.WordPiece(prefix_text, reader.u8("decoder.cleanup") != 0)
        case 4:
            return decoders.Fuse()
        case 5:
            at = reader.offset
            pattern = read_text(reader, "decoder.pattern")
            content = read_text(reader, "decoder.content")
            if not pattern:
                raise FormatError(
                    "is empty: the loader never ends on it", field="decoder.pattern", offset=at
                )
            return decoders.Replace(Text(pattern), content)
        case 6:
            content = read_text(reader, "decoder.content")
            start = reader.u32("decoder.start")
            return decoders.Strip(content, start, reader.u32("decoder.stop"))
        case 7:
            return decoders.Sequence(tuple(_children(reader, "decoder count", read_decoder, depth)))
        case _:
            return None


def _children(reader: Reader, field: str, read: Read[T_co], depth: int) -> list[T_co]:
    """Read u32 count and that many components, leaving out those that are none."""
    at = reader.offset
    if depth == DEPTH_LIMIT:
        raise FormatError(f"components nest deeper than {DEPTH_LIMIT}", field=field, offset=at)
    count = reader.count(reader.u32(field), 1, field, at)
    children = [read(reader, depth + 1) for _ in range(count)]
    return [child for child in children if child is not None]


def _table(reader: Reader) -> tuple[Numbers, Pieces]:
    """Read u32 count and (u32 code point, string) in ascending order."""
    at = reader.offset
    count = reader.count(reader.u32("table size"), 6, "table size", at)
    code_points, values = [], []
    for _ in range(count):
        at = reader.offset
        code_points.append(reader.u32("table code point"))
        if len(code_points) > 1 and code_points[-1] <= code_points[-2]:
            raise FormatError("is not ascending", field="table code point", offset=at)
        if code_points[-1] > LAST_CODE_POINT:
            what = f"is 0x{code_points[-1]:x}, no character"
            raise FormatError(what, field="table code point", offset=at)
        values.append(read_string(reader, "table value"))
    return Numbers.of("I", code_points), Pieces.of(values)


def _bert(flags: list[bool], code_points: Numbers, values: Pieces) -> normalizers.BertTable:
    clean, han, accents, lower = flags
    return normalizers.BertTable(clean, han, accents, lower, code_points, values, UNICODE_VERSION)
