"""Normalizers, pre-tokenizers and decoders as the base of a .mtok can hold them.

Normalizers: the loader has literal replacement, a prefix, stripping, BERT's clean-up and tables
that replace one code point. Everything is reduced to these; a table is made from what the component
does to each code point alone.

Pre-tokenizers: the loader has ByteLevel, a Metaspace that never splits, BERT's, and splits by
patterns of a small syntax with the matches isolated or removed. Other behaviors are written as
isolated splits by a longer pattern: "merged with previous" by
``(?:(?!p)[\\s\\S])*p|(?:(?!p)[\\s\\S])+``, and so on.
"""

from __future__ import annotations

from functools import lru_cache

from mtkit.formats.mtok import layout
from mtkit.formats.mtok.component_reader import BERT_PUNCTUATION, plain_pattern, property_names
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
    from typing import Any, Literal

    from mtkit.formats.contract import Losses
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import Behavior, PreTokenizer
    from mtkit.spec.text import Pattern

    Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
    Writer = Callable[[Any, Losses], Iterable[bytes]]
    """Takes a component; gives the components of the loader for it."""


NORMALIZER = "normalizer"
COLLAPSES = 16
"""Times that two blanks become one: a run of 65,536 ends as one."""
# Where characters change: scripts and symbols, Hangul, compatibility forms, the second plane's
# letters, compatibility ideographs. No table has entries for ideographs and private use.
CHANGING_RANGES = ((0x00, 0x3400), (0xA000, 0xD800), (0xF900, 0x20000), (0x2F800, 0x2FA20))


def write_normalizer(normalizer: Normalizer | None, losses: Losses) -> bytes:
    """Write a normalizer."""
    parts = [] if normalizer is None else list(_normalizer_parts(normalizer, losses))
    return layout.write_list(layout.NORMALIZER_LIST, parts)


def _normalizer_parts(component: Normalizer, losses: Losses) -> Iterable[bytes]:
    if type(component) not in _NORMALIZERS:
        losses.add("ids", NORMALIZER, f"{type(component).__name__} is skipped")
        return ()
    return _NORMALIZERS[type(component)](component, losses)


def _normalizer_sequence(component: no.Sequence, losses: Losses) -> Iterator[bytes]:
    """Write steps; decomposing and dropping marks are one component of the loader."""
    steps = iter((*component.steps, None))
    step = next(steps)
    while step is not None:
        following = next(steps)
        decomposes = isinstance(step, no.UnicodeForm) and step.form in {"NFD", "NFKD"}
        if decomposes and isinstance(following, no.StripAccents):
            assert isinstance(step, no.UnicodeForm)
            flags = False, False, True, False
            yield layout.BERT_TABLE.write(*flags) + layout.table(_form_table(step.form))
            effect = "accents are removed by code point, with all other marks"
            losses.add("ids-possible", NORMALIZER, effect)
            following = next(steps)
        else:
            yield from _normalizer_parts(step, losses)
        step = following


def _replace(component: no.Replace, losses: Losses) -> Iterator[bytes]:
    if isinstance(component.pattern, Regex):
        losses.add("ids", NORMALIZER, "replacements by a pattern are skipped")
    elif component.pattern.text:
        yield layout.REPLACE.write(component.pattern.text, component.content)


def _strip(component: no.Strip, losses: Losses) -> Iterator[bytes]:
    # The loader leaves the right end alone where one component strips both.
    if component.left:
        yield layout.STRIP.write(True, False)
    if component.right:
        yield layout.STRIP.write(False, True)


def _lowercase(component: no.Lowercase, losses: Losses) -> Iterator[bytes]:
    yield layout.BERT.write(False, False, False, True)
    losses.add("ids-possible", NORMALIZER, "lowercasing maps one character to one")


def _bert(component: no.Bert, losses: Losses) -> Iterator[bytes]:
    table = _form_table("NFD") if component.strips_accents else None
    yield _bert_part(component, table)
    losses.add("ids-possible", NORMALIZER, "BERT's cleanup works on code points")


def _bert_table(component: no.BertTable, losses: Losses) -> Iterator[bytes]:
    table = zip(component.code_points, component.values, strict=True)
    yield _bert_part(component, table if component.strip_accents else None)


def _bert_part(
    component: no.Bert | no.BertTable, table: Iterable[tuple[int, bytes]] | None
) -> bytes:
    flags = component.clean_text, component.handle_chinese_chars
    if table is None:
        return layout.BERT.write(*flags, False, component.lowercase)
    return layout.BERT_TABLE.write(*flags, True, component.lowercase) + layout.table(table)


def _strip_accents(component: no.StripAccents, losses: Losses) -> Iterator[bytes]:
    yield layout.BERT_TABLE.write(False, False, True, False) + layout.table(())
    losses.add("ids-possible", NORMALIZER, "spacing and enclosing marks are also removed")


def _unicode_form(component: no.UnicodeForm, losses: Losses) -> Iterator[bytes]:
    if component.form == "NFC":
        losses.add("ids-possible", NORMALIZER, "text is not normalized to NFC")
        return
    yield layout.TABLE.write(_form_table(component.form))
    what = f"{component.form} goes by code points, controls become blanks"
    losses.add("ids-possible", NORMALIZER, what)


def _charsmap(component: no.Precompiled | no.Spaces, losses: Losses) -> Iterator[bytes]:
    """Write what a precompiled map does to each character alone."""
    if not component.charsmap:
        return
    matcher = Charsmap(component.charsmap)

    def replacement(character: str) -> str:
        data = character.encode()
        values = [value for length, value in matcher.matches(data) if length == len(data)]
        return values[-1].decode("utf-8", "replace") if values else character

    table = list(_changed_code_points(replacement))
    if table:
        yield layout.TABLE.write(table)
        effect = "normalization works on code points, so rare character sequences can differ"
        losses.add("ids-possible", NORMALIZER, effect)


def _spaces(component: no.Spaces, losses: Losses) -> Iterator[bytes]:
    yield from _charsmap(component, losses)
    if component.suffix:
        losses.add("ids", NORMALIZER, "the word mark comes before the word")
    if component.add_dummy_prefix:
        losses.add("ids-special", NORMALIZER, "a space is also added after each special token")
    if component.remove_extra_whitespaces:
        if component.add_dummy_prefix:
            yield layout.PREPEND.write(" ")
        for _ in range(COLLAPSES):
            yield layout.REPLACE.write("  ", " ")
        if not component.add_dummy_prefix:
            yield layout.STRIP.write(True, False)
        yield layout.STRIP.write(False, True)
        losses.add("ids-possible", NORMALIZER, "line breaks are stripped together with spaces")
    elif component.add_dummy_prefix:
        yield layout.PREPEND.write(MARK if component.escape_whitespaces else " ")
    if component.escape_whitespaces:
        yield layout.REPLACE.write(" ", MARK)


def _code_point_table(component: no.CodePointTable, losses: Losses) -> Iterator[bytes]:
    yield layout.TABLE.write(zip(component.code_points, component.values, strict=True))
    if not component.blank_controls:
        losses.add("ids-possible", NORMALIZER, "control characters become spaces")


def _nmt(component: no.Nmt, losses: Losses) -> Iterator[bytes]:
    blanks = (9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF)
    yield layout.TABLE.write((code, b" ") for code in (*blanks, 0xFFFD))
    effect = "control characters become spaces instead of being removed"
    losses.add("ids-possible", NORMALIZER, effect)


_NORMALIZERS: dict[type, Writer] = {
    no.Sequence: _normalizer_sequence,
    no.Prepend: lambda component, _: (layout.PREPEND.write(component.text),),
    no.Replace: _replace,
    no.Strip: _strip,
    no.Lowercase: _lowercase,
    no.Bert: _bert,
    no.BertTable: _bert_table,
    no.StripAccents: _strip_accents,
    no.UnicodeForm: _unicode_form,
    no.Precompiled: _charsmap,
    no.Spaces: _spaces,
    no.CodePointTable: _code_point_table,
    no.Nmt: _nmt,
}


@lru_cache(maxsize=4)
def _form_table(form: Form) -> tuple[tuple[int, bytes], ...]:
    """Return each code point that a normal form changes, with its replacement."""

    def replacement(character: str) -> str:
        if decomposition(character, compatible="K" in form) == character:
            return character
        return "".join(part for part, _ in normal_form(character, form))

    return tuple(_changed_code_points(replacement))


def _changed_code_points(mapping: Callable[[str], str]) -> Iterator[tuple[int, bytes]]:
    for start, end in CHANGING_RANGES:
        for code in range(start, end):
            character = chr(code)
            value = mapping(character)
            if value != character:
                yield code, value.encode()


PRE_TOKENIZER = "pre_tokenizer"
ANY_CHARACTER = r"[\s\S]"
WORD_CLASS = r"\p{L}\p{M}\p{N}_"
WORD_PATTERN = rf"[{WORD_CLASS}]+|[^{WORD_CLASS}\s]+"


def write_pre_tokenizer(component: PreTokenizer | None, losses: Losses) -> bytes:
    """Write a pre-tokenizer."""
    parts = [] if component is None else list(_pre_tokenizer_parts(component, losses))
    return layout.write_list(layout.PRE_TOKENIZER_LIST, parts)


def _pre_tokenizer_parts(component: PreTokenizer, losses: Losses) -> Iterator[bytes]:
    match component:
        case pr.Sequence():
            for step in component.steps:
                yield from _pre_tokenizer_parts(step, losses)
        case pr.ByteLevel():
            if component.add_prefix_space:
                yield layout.METASPACE.write(" ", True)
            yield layout.BYTE_LEVEL.write(component.use_regex)
        case pr.MarkSpaces():
            yield layout.METASPACE.write(component.replacement, component.prefix)
        case pr.Metaspace():
            yield from _metaspace_parts(component, losses)
        case pr.Bert():
            yield layout.BERT_WORDS.write()
            effect = "white space and punctuation follow the loader's tables"
            losses.add("ids-possible", PRE_TOKENIZER, effect)
        case pr.Split():
            pattern = _loader_pattern(component.pattern, losses)
            if pattern is not None:
                yield from _split_parts(pattern, component.behavior, component.invert, losses)
        case pr.Punctuation():
            yield from _split_parts(
                BERT_PUNCTUATION, component.behavior, invert=False, losses=losses
            )
        case _:
            yield from _plain_split(component, losses)


def _plain_split(component: PreTokenizer, losses: Losses) -> Iterator[bytes]:
    match component:
        case pr.Digits():
            yield _isolated_split(r"\p{N}" if component.individual else r"\p{N}+")
        case pr.Whitespace():
            yield layout.SPLIT.write(WORD_PATTERN, True, layout.REMOVED)
            effect = "words consist of letters, marks, numbers and _"
            losses.add("ids-possible", PRE_TOKENIZER, effect)
        case pr.WhitespaceSplit():
            yield layout.SPLIT.write(r"\s+", False, layout.REMOVED)
            effect = "U+0085, U+2028 and U+2029 do not count as white space"
            losses.add("ids-possible", PRE_TOKENIZER, effect)
        case pr.CharDelimiterSplit():
            yield layout.SPLIT.write(quote_pattern(component.delimiter), False, layout.REMOVED)
        case pr.FixedLength():
            yield _isolated_split(f"{ANY_CHARACTER}{{1,{component.length}}}")
        case _:
            losses.add("ids", PRE_TOKENIZER, f"{type(component).__name__} is skipped")


def _metaspace_parts(component: pr.Metaspace, losses: Losses) -> Iterator[bytes]:
    prefix = component.prepend_scheme != "never"
    if component.prepend_scheme == "first":
        effect = "text after a special token also starts with a word mark"
        losses.add("ids-special", PRE_TOKENIZER, effect)
    losses.add("ids-special", PRE_TOKENIZER, "U+2581 in a text counts as a letter")
    if not component.split:
        yield layout.METASPACE.write(component.replacement, prefix)
        return
    # The loader's Metaspace never splits: mark with blanks, split before each, then replace them.
    yield layout.METASPACE.write(" ", prefix)
    yield _isolated_split(" ?[^ ]+| ")
    yield layout.METASPACE.write(component.replacement, False)


def _loader_pattern(pattern: Pattern, losses: Losses) -> str | None:
    """Return a pattern in the loader's syntax; None for an empty text."""
    if isinstance(pattern, Text):
        return quote_pattern(pattern.text) if pattern.text else None
    text = with_marks(without_possessives(pattern.pattern))
    if not text.isascii() and not (r"\p{" in text or r"\P{" in text):
        effect = "the split pattern runs in a different regex engine"
        losses.add("ids-possible", PRE_TOKENIZER, effect)
        return text
    signs = ("&&", "[:", r"\h", r"\u", r"\x{")
    if plain_pattern(text) != text or any(sign in text for sign in signs):
        losses.add("ids", PRE_TOKENIZER, "the split pattern uses features that the loader lacks")
        return text
    effect = "U+0001 to U+0007 and recent characters are classified differently"
    if _is_coarse(text):
        effect = "the split pattern sees only main Unicode categories"
    losses.add("ids-possible", PRE_TOKENIZER, effect)
    return text


def _is_coarse(text: str) -> bool:
    """Tell whether a pattern distinguishes characters that the folded text does not."""
    return not text.isascii() or any(name not in "LNMPSZ" for name in property_names(text))


def without_possessives(pattern: str) -> str:
    """Make possessive counts plain; equal unless the rest can match what they took."""
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
    r"""Spell ``\w`` and ``\W`` out: the loader's have no marks."""
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
        kind = layout.ISOLATED if behavior == "isolated" else layout.REMOVED
        yield layout.SPLIT.write(pattern, invert, kind)
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
            yield layout.SPLIT.write(pattern, False, layout.GLUED_TO_PREVIOUS)


def _isolated_split(pattern: str) -> bytes:
    return layout.SPLIT.write(pattern, False, layout.ISOLATED)


def quote_pattern(text: str) -> str:
    """Write a text as a pattern."""
    return "".join("\\" + char if char in "\\.[](){}?*+|^$" else char for char in text)


DECODER = "decoder"


def write_decoder(spec: TokenizerSpec, losses: Losses) -> bytes:
    """Write a decoder; type 0 would be the byte alphabet, so none is Fuse."""
    parts: list[bytes] = []
    if spec.decoder is not None:
        parts = list(_decoder_parts(spec.decoder, losses))
    elif spec.join:
        parts = [layout.DECODE_WORD_PIECE.write(layout.NO_PREFIX, False)]
        losses.add("decoding", DECODER, "decoding drops the space before . ? ! ,")
    return layout.write_list(layout.DECODER_LIST, parts or [layout.DECODE_FUSE.write()])


def _decoder_parts(component: Decoder, losses: Losses) -> Iterable[bytes]:
    if type(component) not in _DECODERS:
        losses.add("decoding", DECODER, f"{type(component).__name__} is skipped")
        return ()
    return _DECODERS[type(component)](component, losses)


def _decoder_sequence(component: de.Sequence | de.Bytewise, losses: Losses) -> Iterator[bytes]:
    for step in component.steps:
        yield from _decoder_parts(step, losses)


def _decode_metaspace(component: de.Metaspace, losses: Losses) -> Iterator[bytes]:
    effect = "decoding drops one leading space, however many there are"
    losses.add("decoding", DECODER, effect)
    prefix = component.prepend_scheme != "never"
    yield layout.DECODE_METASPACE.write(component.replacement, prefix)


def _decode_word_piece(component: de.WordPiece, losses: Losses) -> Iterator[bytes]:
    yield layout.DECODE_WORD_PIECE.write(component.prefix, component.cleanup)
    losses.add("decoding", DECODER, "decoding drops spaces before . ? ! , in the whole text")


def _decode_replace(component: de.Replace, losses: Losses) -> Iterator[bytes]:
    if isinstance(component.pattern, Regex) or not component.pattern.text:
        losses.add("decoding", DECODER, "replacements by a pattern are skipped")
    else:
        yield layout.DECODE_REPLACE.write(component.pattern.text, component.content)


def _decode_bpe(component: de.BPE, losses: Losses) -> Iterator[bytes]:
    yield layout.DECODE_REPLACE.write(component.suffix, " ")
    yield layout.DECODE_FUSE.write()
    yield layout.DECODE_STRIP.write(" ", 0, 1)


def _decode_subwords(component: de.Subwords, losses: Losses) -> Iterator[bytes]:
    yield from _mark_steps(first=component.drop_marks != "none")
    losses.add("decoding", DECODER, "the unknown token is decoded to its name")


def _mark_steps(*, first: bool) -> Iterator[bytes]:
    yield layout.DECODE_REPLACE.write(MARK, " ")
    yield layout.DECODE_BYTE_FALLBACK.write()
    yield layout.DECODE_FUSE.write()
    if first:
        yield layout.DECODE_STRIP.write(" ", 1, 0)


def _decode_pieces(component: de.Pieces, losses: Losses) -> Iterator[bytes]:
    match component.spelling:
        case "marks":
            if component.drop_first_space:
                effect = "no leading space is dropped if the first token is hidden"
                losses.add("decoding", DECODER, effect)
            yield from _mark_steps(first=component.drop_first_space)
        case "byte_alphabet":
            yield layout.DECODE_BYTE_LEVEL.write()
        case "words":
            yield from _decode_word_piece(de.WordPiece("##", cleanup=False), losses)
        case "plain" | "bytes":
            yield layout.DECODE_BYTE_FALLBACK.write()
            yield layout.DECODE_FUSE.write()
        case _:
            losses.add("decoding", DECODER, f"{component.spelling} are not written")


_DECODERS: dict[type, Writer] = {
    de.Sequence: _decoder_sequence,
    de.Bytewise: _decoder_sequence,
    de.ByteLevel: lambda *_: (layout.DECODE_BYTE_LEVEL.write(),),
    de.ByteFallback: lambda *_: (layout.DECODE_BYTE_FALLBACK.write(),),
    de.FirstMark: lambda *_: (layout.DECODE_REPLACE.write(MARK, " "),),
    de.Fuse: lambda *_: (layout.DECODE_FUSE.write(),),
    de.Metaspace: _decode_metaspace,
    de.WordPiece: _decode_word_piece,
    de.Replace: _decode_replace,
    de.Strip: lambda component, _: (
        layout.DECODE_STRIP.write(component.content, component.start, component.stop),
    ),
    de.BPE: _decode_bpe,
    de.Subwords: _decode_subwords,
    de.AfterBos: lambda *_: _mark_steps(first=True),
    de.Pieces: _decode_pieces,
}
