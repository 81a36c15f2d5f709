"""Normalizers, pre-tokenizers and decoders as the base of a .mtok can hold them.

Normalizers: the loader knows literal replacement, a prefix, stripping, BERT's clean-up and tables
that replace one code point. Everything is reduced to these; a table is made from what the component
does to each code point alone.

Pre-tokenizers: the loader has ByteLevel, a Metaspace that never splits, BERT's, and splits by
patterns of a small syntax with the matches isolated or removed. Other behaviors are written as
isolated splits by a longer pattern: "merged with previous" by
``(?:(?!p)[\\s\\S])*p|(?:(?!p)[\\s\\S])+``, and so on.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from mtkit.errors import UnsupportedError
from mtkit.formats.mtok.component_reader import plain_pattern
from mtkit.pipeline.aligned_text import normal_form
from mtkit.spec import decoders as de
from mtkit.spec import normalizers as no
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.text import MARK, Regex, Text
from mtkit.unicode.characters import decomposition
from mtkit.unicode.charsmap import Charsmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal, Union

    from mtkit.formats.contract import Losses
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import Behavior, PreTokenizer
    from mtkit.spec.text import Pattern

    Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


STRING_LIMIT = 65535


def u8(*values: Union[int, bool]) -> bytes:
    """Write bytes."""
    return bytes(values)


def u32(*values: int) -> bytes:
    """Write u32 numbers."""
    try:
        return struct.pack(f"<{len(values)}I", *values)
    except struct.error:
        raise UnsupportedError("a number does not fit the 32 bits of the format") from None


def string(text: Union[str, bytes]) -> bytes:
    """Write u16 length and bytes."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > STRING_LIMIT:
        raise UnsupportedError(f"a text has {len(data)} bytes, but the format holds {STRING_LIMIT}")
    return len(data).to_bytes(2, "little") + data


def component_list(kind: int, parts: list[bytes]) -> bytes:
    """Write a list of components; one alone stands for itself, none is type 0."""
    if len(parts) == 1:
        return parts[0]
    return u8(kind) + u32(len(parts)) + b"".join(parts) if parts else u8(0)


NORMALIZER = "normalizer"
(
    NORMALIZER_SEQUENCE,
    NORMALIZER_PREPEND,
    NORMALIZER_REPLACE,
    NORMALIZER_BERT,
    NORMALIZER_TABLE,
    NORMALIZER_BERT_TABLE,
    NORMALIZER_STRIP,
) = 4, 2, 3, 5, 6, 7, 8
COLLAPSES = 16
"""Times that two blanks become one: a run of 65,536 ends as one."""
# Where characters change: scripts and symbols, Hangul, compatibility forms, the second plane's
# letters, compatibility ideographs. No table has entries for ideographs and private use.
CHANGING_RANGES = ((0x00, 0x3400), (0xA000, 0xD800), (0xF900, 0x20000), (0x2F800, 0x2FA20))


def write_normalizer(normalizer: Normalizer | None, losses: Losses) -> bytes:
    """Write a normalizer."""
    parts = [] if normalizer is None else list(_normalizer_parts(normalizer, losses))
    return component_list(NORMALIZER_SEQUENCE, parts)


def _normalizer_parts(component: Normalizer, losses: Losses) -> Iterator[bytes]:
    match component:
        case no.Sequence():
            yield from _normalizer_sequence(component, losses)
        case no.Prepend():
            yield u8(NORMALIZER_PREPEND) + string(component.text)
        case no.Replace():
            if isinstance(component.pattern, Regex):
                losses.add("ids", NORMALIZER, "replacements by a pattern are skipped")
            elif component.pattern.text:
                yield _replacement(component.pattern.text, component.content)
        case no.Strip():
            # The loader leaves the right end alone where both are asked for in one component.
            if component.left:
                yield u8(NORMALIZER_STRIP, 1, 0)
            if component.right:
                yield u8(NORMALIZER_STRIP, 0, 1)
        case no.Lowercase():
            yield u8(NORMALIZER_BERT, 0, 0, 0, 1)
            losses.add("ids-possible", NORMALIZER, "lowercasing maps one character to one")
        case no.Bert():
            yield _bert_normalizer(component)
            losses.add("ids-possible", NORMALIZER, "BERT's cleanup works on code points")
        case no.BertTable():
            yield _bert_normalizer_with_table(component)
        case no.StripAccents():
            yield u8(NORMALIZER_BERT_TABLE, 0, 0, 1, 0) + u32(0)
            losses.add("ids-possible", NORMALIZER, "spacing and enclosing marks are also removed")
        case no.UnicodeForm(form="NFC"):
            losses.add("ids-possible", NORMALIZER, "text is not normalized to NFC")
        case no.UnicodeForm():
            yield _write_table(_form_table(component.form))
            what = f"{component.form} goes by code points, controls become blanks"
            losses.add("ids-possible", NORMALIZER, what)
        case no.Precompiled() | no.Spaces():
            yield from _charsmap_parts(component.charsmap, losses)
            if isinstance(component, no.Spaces):
                yield from _space_parts(component, losses)
        case no.CodePointTable():
            yield _write_table(zip(component.code_points, component.values, strict=True))
            if not component.blank_controls:
                losses.add("ids-possible", NORMALIZER, "control characters become spaces")
        case no.Nmt():
            blanks = (9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF)
            yield _write_table((code, b" ") for code in (*blanks, 0xFFFD))
            losses.add(
                "ids-possible",
                NORMALIZER,
                "control characters become spaces instead of being removed",
            )
        case _:
            losses.add("ids", NORMALIZER, f"{type(component).__name__} is skipped")


def _normalizer_sequence(component: no.Sequence, losses: Losses) -> Iterator[bytes]:
    """Write steps; decomposing and dropping marks are one component of the loader."""
    steps = list(component.steps)
    at = 0
    while at < len(steps):
        step, following = steps[at], steps[at + 1] if at + 1 < len(steps) else None
        decomposes = isinstance(step, no.UnicodeForm) and step.form in {"NFD", "NFKD"}
        if decomposes and isinstance(following, no.StripAccents):
            assert isinstance(step, no.UnicodeForm)
            yield u8(NORMALIZER_BERT_TABLE, 0, 0, 1, 0) + _table_entries(_form_table(step.form))
            losses.add(
                "ids-possible",
                NORMALIZER,
                "accents are removed by code point, with all other marks",
            )
            at += 2
            continue
        yield from _normalizer_parts(step, losses)
        at += 1


def _replacement(pattern: str, content: str) -> bytes:
    return u8(NORMALIZER_REPLACE) + string(pattern) + string(content)


def _bert_normalizer(component: no.Bert) -> bytes:
    accents = component.strips_accents
    flags = (component.clean_text, component.handle_chinese_chars)
    if not accents:
        return u8(NORMALIZER_BERT, *flags, 0, component.lowercase)
    return u8(NORMALIZER_BERT_TABLE, *flags, 1, component.lowercase) + _table_entries(
        _form_table("NFD")
    )


def _bert_normalizer_with_table(component: no.BertTable) -> bytes:
    flags = (component.clean_text, component.handle_chinese_chars)
    if not component.strip_accents:
        return u8(NORMALIZER_BERT, *flags, 0, component.lowercase)
    table = zip(component.code_points, component.values, strict=True)
    return u8(NORMALIZER_BERT_TABLE, *flags, 1, component.lowercase) + _table_entries(table)


def _charsmap_parts(charsmap: bytes, losses: Losses) -> Iterator[bytes]:
    """Write what a precompiled map does to each character alone."""
    if not charsmap:
        return
    matcher = Charsmap(charsmap)

    def mapped(character: str) -> str:
        data = character.encode()
        found = [value for length, value in matcher.matches(data) if length == len(data)]
        return found[-1].decode("utf-8", "replace") if found else character

    table = list(_changed_code_points(mapped))
    if table:
        yield _write_table(table)
        losses.add(
            "ids-possible",
            NORMALIZER,
            "normalization works on code points, so rare character sequences can differ",
        )


def _space_parts(component: no.Spaces, losses: Losses) -> Iterator[bytes]:
    if component.suffix:
        losses.add("ids", NORMALIZER, "the word mark comes before the word")
    if component.add_dummy_prefix:
        losses.add("ids-special", NORMALIZER, "a space is also added after each special token")
    if component.remove_extra_whitespaces:
        if component.add_dummy_prefix:
            yield u8(NORMALIZER_PREPEND) + string(" ")
        for _ in range(COLLAPSES):
            yield _replacement("  ", " ")
        if not component.add_dummy_prefix:
            yield u8(NORMALIZER_STRIP, 1, 0)
        yield u8(NORMALIZER_STRIP, 0, 1)
        losses.add("ids-possible", NORMALIZER, "line breaks are stripped together with spaces")
    elif component.add_dummy_prefix:
        yield u8(NORMALIZER_PREPEND) + string(MARK if component.escape_whitespaces else " ")
    if component.escape_whitespaces:
        yield _replacement(" ", MARK)


@lru_cache(maxsize=4)
def _form_table(form: Form) -> tuple[tuple[int, bytes], ...]:
    """Return each code point that a normal form changes, with what it becomes."""

    def mapped(character: str) -> str:
        if decomposition(character, compatible="K" in form) == character:
            return character
        return "".join(part for part, _ in normal_form(character, form))

    return tuple(_changed_code_points(mapped))


def _changed_code_points(mapping: Callable[[str], str]) -> Iterator[tuple[int, bytes]]:
    """Yield each code point that a mapping changes, with what it becomes."""
    for start, end in CHANGING_RANGES:
        for code in range(start, end):
            character = chr(code)
            value = mapping(character)
            if value != character:
                yield code, value.encode()


def _write_table(entries: Iterable[tuple[int, bytes]]) -> bytes:
    return u8(NORMALIZER_TABLE) + _table_entries(entries)


def _table_entries(entries: Iterable[tuple[int, bytes]]) -> bytes:
    parts = [u32(code) + string(value) for code, value in entries]
    return u32(len(parts)) + b"".join(parts)


PRE_TOKENIZER = "pre_tokenizer"
(
    PRE_TOKENIZER_BYTE_LEVEL,
    PRE_TOKENIZER_METASPACE,
    PRE_TOKENIZER_SPLIT,
    PRE_TOKENIZER_BERT,
    PRE_TOKENIZER_SEQUENCE,
) = 1, 3, 4, 5, 6
SPLIT_ISOLATED, SPLIT_REMOVED = 0, 1
ANY_CHARACTER = r"[\s\S]"
PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
WORD_CLASS = r"\p{L}\p{M}\p{N}_"
WORD_PATTERN = rf"[{WORD_CLASS}]+|[^{WORD_CLASS}\s]+"


def write_pre_tokenizer(component: PreTokenizer | None, losses: Losses) -> bytes:
    """Write a pre-tokenizer."""
    return component_list(
        PRE_TOKENIZER_SEQUENCE,
        [] if component is None else list(_pre_tokenizer_parts(component, losses)),
    )


def _pre_tokenizer_parts(component: PreTokenizer, losses: Losses) -> Iterator[bytes]:
    match component:
        case pr.Sequence():
            for step in component.steps:
                yield from _pre_tokenizer_parts(step, losses)
        case pr.ByteLevel():
            if component.add_prefix_space:
                yield u8(PRE_TOKENIZER_METASPACE) + string(" ") + u8(1)
            yield u8(PRE_TOKENIZER_BYTE_LEVEL, component.use_regex)
        case pr.MarkSpaces():
            yield u8(PRE_TOKENIZER_METASPACE) + string(component.replacement) + u8(component.prefix)
        case pr.Metaspace():
            yield from _metaspace_parts(component, losses)
        case pr.Bert():
            yield u8(PRE_TOKENIZER_BERT)
            losses.add(
                "ids-possible",
                PRE_TOKENIZER,
                "white space and punctuation follow the loader's tables",
            )
        case pr.Split():
            pattern = _loader_pattern(component.pattern, losses)
            if pattern is not None:
                yield from _split_parts(pattern, component.behavior, component.invert, losses)
        case pr.Punctuation():
            yield from _split_parts(PUNCTUATION, component.behavior, invert=False, losses=losses)
        case pr.Digits():
            yield _isolated_split(r"\p{N}" if component.individual else r"\p{N}+")
        case pr.Whitespace():
            yield u8(PRE_TOKENIZER_SPLIT) + string(WORD_PATTERN) + u8(1, SPLIT_REMOVED)
            losses.add(
                "ids-possible", PRE_TOKENIZER, "words consist of letters, marks, numbers and _"
            )
        case pr.WhitespaceSplit():
            yield u8(PRE_TOKENIZER_SPLIT) + string(r"\s+") + u8(0, SPLIT_REMOVED)
            losses.add(
                "ids-possible",
                PRE_TOKENIZER,
                "U+0085, U+2028 and U+2029 do not count as white space",
            )
        case pr.CharDelimiterSplit():
            yield (
                u8(PRE_TOKENIZER_SPLIT)
                + string(quote_pattern(component.delimiter))
                + u8(0, SPLIT_REMOVED)
            )
        case pr.FixedLength():
            yield _isolated_split(f"{ANY_CHARACTER}{{1,{component.length}}}")
        case _:
            losses.add("ids", PRE_TOKENIZER, f"{type(component).__name__} is skipped")


def _metaspace_parts(component: pr.Metaspace, losses: Losses) -> Iterator[bytes]:
    prefix = component.prepend_scheme != "never"
    if component.prepend_scheme == "first":
        losses.add(
            "ids-special", PRE_TOKENIZER, "text after a special token also starts with a word mark"
        )
    losses.add("ids-special", PRE_TOKENIZER, "U+2581 in a text counts as a letter")
    if not component.split:
        yield u8(PRE_TOKENIZER_METASPACE) + string(component.replacement) + u8(prefix)
        return
    # The loader's own component never splits: mark with blanks, split before each, then replace.
    yield u8(PRE_TOKENIZER_METASPACE) + string(" ") + u8(prefix)
    yield _isolated_split(" ?[^ ]+| ")
    yield u8(PRE_TOKENIZER_METASPACE) + string(component.replacement) + u8(0)


def _loader_pattern(pattern: Pattern, losses: Losses) -> str | None:
    """Return a pattern in the loader's syntax, or None where it has none for it."""
    if isinstance(pattern, Text):
        return quote_pattern(pattern.text) if pattern.text else None
    text = with_marks(without_possessives(pattern.pattern))
    if not text.isascii() and not (r"\p{" in text or r"\P{" in text):
        losses.add(
            "ids-possible", PRE_TOKENIZER, "the split pattern runs in a different regex engine"
        )
        return text
    if plain_pattern(text) != text or any(
        sign in text for sign in ("&&", "[:", r"\h", r"\u", r"\x{")
    ):
        losses.add("ids", PRE_TOKENIZER, "the split pattern uses features that the loader lacks")
        return text
    if _is_coarse(text):
        losses.add(
            "ids-possible", PRE_TOKENIZER, "the split pattern sees only main Unicode categories"
        )
    else:
        losses.add(
            "ids-possible",
            PRE_TOKENIZER,
            "U+0001 to U+0007 and recent characters are classified differently",
        )
    return text


def _is_coarse(text: str) -> bool:
    """Tell whether a pattern distinguishes what the folded text does not."""
    from mtkit.formats.mtok.component_reader import property_names

    return not text.isascii() or any(name not in "LNMPSZ" for name in property_names(text))


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
                out += WORD_CLASS if in_set else f"[{WORD_CLASS}]"
            elif sign == "W" and not in_set:
                out += f"[^{WORD_CLASS}]"
            else:
                out += char + sign
            at += 2
            continue
        in_set = char == "[" or (in_set and char != "]")
        out += char
        at += 1
    return out


def _split_parts(pattern: str, behavior: Behavior, invert: bool, losses: Losses) -> Iterator[bytes]:
    if behavior in {"isolated", "removed"}:
        kind = SPLIT_ISOLATED if behavior == "isolated" else SPLIT_REMOVED
        yield u8(PRE_TOKENIZER_SPLIT) + string(pattern) + u8(invert, kind)
        return
    if invert:
        losses.add("ids", PRE_TOKENIZER, f"an inverted split with {behavior} is skipped")
        return
    other = f"(?:(?!{pattern}){ANY_CHARACTER})"
    match behavior:
        case "merged_with_previous":
            yield _isolated_split(f"{other}*(?:{pattern})|{other}+")
        case "merged_with_next":
            yield _isolated_split(f"(?:{pattern}){other}*|{other}+")
        case "contiguous":
            yield _isolated_split(f"(?:{pattern})+")
        case "glued_to_previous":
            yield u8(PRE_TOKENIZER_SPLIT) + string(pattern) + u8(0, 2)


def _isolated_split(pattern: str) -> bytes:
    return u8(PRE_TOKENIZER_SPLIT) + string(pattern) + u8(0, SPLIT_ISOLATED)


def quote_pattern(text: str) -> str:
    """Write a text as a pattern."""
    return "".join("\\" + char if char in "\\.[](){}?*+|^$" else char for char in text)


DECODER = "decoder"
(
    DECODER_BYTE_LEVEL,
    DECODER_BYTE_FALLBACK,
    DECODER_METASPACE,
    DECODER_WORD_PIECE,
    DECODER_FUSE,
    DECODER_REPLACE,
    DECODER_STRIP,
    DECODER_SEQUENCE,
) = range(8)
NO_PREFIX = "\x00\x00"
"""A prefix that no piece has, so that all pieces are joined with spaces."""


def write_decoder(spec: TokenizerSpec, losses: Losses) -> bytes:
    """Write a decoder; type 0 would be the byte alphabet, so none is Fuse."""
    parts = list(_decoder_parts(spec.decoder, spec, losses))
    return component_list(DECODER_SEQUENCE, parts) if parts else u8(DECODER_FUSE)


def _decoder_parts(
    component: Decoder | None, spec: TokenizerSpec, losses: Losses
) -> Iterator[bytes]:
    match component:
        case None:
            if spec.join:
                yield u8(DECODER_WORD_PIECE) + string(NO_PREFIX) + u8(0)
                losses.add("decoding", DECODER, "decoding drops the space before . ? ! ,")
        case de.Sequence() | de.Bytewise():
            for step in component.steps:
                yield from _decoder_parts(step, spec, losses)
        case de.ByteLevel():
            yield u8(DECODER_BYTE_LEVEL)
        case de.ByteFallback():
            yield u8(DECODER_BYTE_FALLBACK)
        case de.FirstMark():
            yield u8(DECODER_REPLACE) + string(MARK) + string(" ")
        case de.Fuse():
            yield u8(DECODER_FUSE)
        case de.Metaspace():
            losses.add(
                "decoding", DECODER, "decoding drops one leading space, however many there are"
            )
            prefix = component.prepend_scheme != "never"
            yield u8(DECODER_METASPACE) + string(component.replacement) + u8(prefix)
        case de.WordPiece():
            yield u8(DECODER_WORD_PIECE) + string(component.prefix) + u8(component.cleanup)
            losses.add(
                "decoding", DECODER, "decoding drops spaces before . ? ! , in the whole text"
            )
        case de.Replace():
            if isinstance(component.pattern, Regex) or not component.pattern.text:
                losses.add("decoding", DECODER, "replacements by a pattern are skipped")
            else:
                yield (
                    u8(DECODER_REPLACE) + string(component.pattern.text) + string(component.content)
                )
        case de.Strip():
            yield (
                u8(DECODER_STRIP) + string(component.content) + u32(component.start, component.stop)
            )
        case de.BPE():
            yield u8(DECODER_REPLACE) + string(component.suffix) + string(" ")
            yield u8(DECODER_FUSE)
            yield u8(DECODER_STRIP) + string(" ") + u32(0, 1)
        case de.Subwords():
            yield from _mark_steps(first=component.drop_marks != "none")
            losses.add("decoding", DECODER, "the unknown token is decoded to its name")
        case de.AfterBos():
            yield from _mark_steps(first=True)
        case de.Pieces():
            yield from _piece_steps(component, losses)
        case _:
            losses.add("decoding", DECODER, f"{type(component).__name__} is skipped")


def _mark_steps(*, first: bool) -> Iterator[bytes]:
    yield u8(DECODER_REPLACE) + string(MARK) + string(" ")
    yield u8(DECODER_BYTE_FALLBACK)
    yield u8(DECODER_FUSE)
    if first:
        yield u8(DECODER_STRIP) + string(" ") + u32(1, 0)


def _piece_steps(component: de.Pieces, losses: Losses) -> Iterator[bytes]:
    match component.spelling:
        case "marks":
            if component.drop_first_space:
                losses.add(
                    "decoding", DECODER, "no leading space is dropped if the first token is hidden"
                )
            yield from _mark_steps(first=component.drop_first_space)
        case "byte_alphabet":
            yield u8(DECODER_BYTE_LEVEL)
        case "words":
            yield u8(DECODER_WORD_PIECE) + string("##") + u8(0)
            losses.add(
                "decoding", DECODER, "decoding drops spaces before . ? ! , in the whole text"
            )
        case "plain" | "bytes":
            yield u8(DECODER_BYTE_FALLBACK)
            yield u8(DECODER_FUSE)
        case _:
            losses.add("decoding", DECODER, f"{component.spelling} are not written")
