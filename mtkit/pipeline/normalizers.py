"""Normalizers: what each member of ``spec.normalizers`` does to an aligned text.

``compile_normalizer`` reads a component's tables once and returns a function that changes a text
in place: first the components of huggingface/tokenizers, then those that look single code points
up in a table of their own (MNN's), then ``Spaces``, the one of trained subword models.

``Spaces`` walks the text as bytes: at each place the longest user-defined piece stays as it is,
else the longest entry of the character map is replaced, else one character is copied; a byte that
begins no character becomes U+FFFD. Spaces are then dropped, joined and marked. Offsets are
SentencePiece's: what came out of one step stands for where that step began, up to where the next
one begins.

Source: huggingface/tokenizers 0.23, normalizers/; alibaba/MNN,
transformers/llm/engine/src/tokenizer.cpp; google/sentencepiece, normalizer.cc (``Spaces``);
ggml-org/llama.cpp, llama-vocab.cpp, ``llm_tokenizer_ugm_session::normalize`` (``keep="paths"``,
``prefix="word"``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import compile_pattern
from mtkit.pipeline.aligned_text import normal_form
from mtkit.pipeline.growth import name_step, utf8_size
from mtkit.spec import normalizers as spec
from mtkit.spec.text import MARK_BYTES
from mtkit.unicode import characters
from mtkit.unicode.charsmap import Charsmap
from mtkit.unicode.tables import clusters, decomposition
from mtkit.unicode.utf8 import BYTE_LETTERS, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.base.packed import Numbers, Pieces
    from mtkit.pipeline.aligned_text import AlignedText, Change
    from mtkit.pipeline.growth import Growth
    from mtkit.spec.normalizers import Normalizer

    Apply = Callable[[AlignedText], None]


PER_CHARACTER_UNICODE = "15.1"
"""Version of llama.cpp's categories."""


def compile_normalizer(component: Normalizer, pieces: tuple[bytes, ...] = ()) -> Apply:
    """Return the function of a normalizer."""
    if isinstance(component, spec.Sequence):
        steps = [compile_normalizer(step, pieces) for step in component.steps]

        def run(text: AlignedText) -> None:
            for step in steps:
                step(text)

        return run
    return name_step(component, _compile(component, pieces))


def _compile(component: Normalizer, pieces: tuple[bytes, ...]) -> Apply:
    """Return the function of a normalizer that is not a sequence."""
    if isinstance(component, spec.UnicodeForm):
        form = component.form
        return lambda text: text.transform(normal_form(text.text, form))
    if isinstance(component, spec.Bert):
        return _bert_per_character(component) if component.per_character else _bert(component)
    if isinstance(component, spec.Lowercase):
        return _lowercase if component.mapping == "full" else _lowercase_simple
    if isinstance(component, spec.Strip):
        left, right = component.left, component.right
        is_space = (
            characters.is_white_space if component.white_space == "unicode" else characters.is_blank
        )
        return lambda text: text.strip(is_space, left=left, right=right)
    if isinstance(component, spec.StripAccents):
        return lambda text: text.filter(lambda c: not characters.is_mark(c))
    if isinstance(component, spec.Prepend):
        return _prepend(component)
    if isinstance(component, spec.Replace):
        matcher, content = compile_pattern(component.pattern), component.content
        return lambda text: text.replace(matcher.find(text.text), content)
    if isinstance(component, spec.Precompiled):
        charsmap = Charsmap(component.charsmap)
        return lambda text: _precompiled(text, charsmap)
    if isinstance(component, spec.Nmt):
        return _nmt
    if isinstance(component, spec.ByteLevel):
        return map_bytes
    if isinstance(component, spec.Spaces):
        return compile_spaces(component, pieces)
    if isinstance(component, spec.CodePointTable):
        return compile_code_point_table(component)
    if isinstance(component, spec.BertTable):
        return compile_bert_table(component)
    raise UnsupportedError(f"does not know the normalizer {type(component).__name__}")


def map_bytes(text: AlignedText) -> None:
    """Write each byte of the UTF-8 form as its letter of the byte alphabet."""
    changes: list[Change] = []
    for character in text.text:
        for at, byte in enumerate(to_bytes(character)):
            changes.append((BYTE_LETTERS[byte], int(at > 0)))
    if changes:
        text.transform(changes)


def _map(text: AlignedText, mapping: Callable[[str], str]) -> None:
    text.transform([(mapping(character), 0) for character in text.text])


def _lowercase(text: AlignedText) -> None:
    changes = []
    for character in text.text:
        for at, part in enumerate(characters.lower(character)):
            changes.append((part, int(at > 0)))
    text.transform(changes)


def _lowercase_simple(text: AlignedText) -> None:
    _map(text, lambda c: characters.simple_lower(c, PER_CHARACTER_UNICODE))


def _prepend(component: spec.Prepend) -> Apply:
    def run(text: AlignedText) -> None:
        if text.text:
            text.prepend(component.text)
        elif component.empty:
            text.growth.check(utf8_size(component.text))
            text.transform([(character, 1) for character in component.text], at=(0, 0))

    return run


def _bert(component: spec.Bert) -> Apply:
    def run(text: AlignedText) -> None:
        if component.clean_text:
            text.filter(_bert_keeps)
            _map(text, lambda c: " " if characters.is_white_space(c) else c)
        if component.handle_chinese_chars:
            _set_han_apart(text)
        if component.strips_accents:
            text.transform(normal_form(text.text, "NFD"))
            text.filter(lambda c: not characters.is_nonspacing_mark(c))
        if component.lowercase:
            _lowercase(text)

    return run


def _bert_keeps(character: str) -> bool:
    if character in "\t\n\r":
        return True
    return character not in "\0\ufffd" and not characters.is_control(character)


def _set_han_apart(text: AlignedText) -> None:
    changes: list[Change] = []
    for character in text.text:
        if characters.is_han(character):
            changes += [(" ", 0), (character, 1), (" ", 1)]
        else:
            changes.append((character, 0))
    text.transform(changes)


def _bert_per_character(component: spec.Bert) -> Apply:
    def run(text: AlignedText) -> None:
        if component.strips_accents:
            _map(text, _base)
        if component.clean_text:
            # White space goes first: the tab is a control, too.
            _map(text, lambda c: " " if characters.is_white_space(c) else c)
            text.filter(_kept_per_character)
        if component.handle_chinese_chars:
            _set_han_apart(text)
        if component.strips_accents:
            text.filter(lambda c: not characters.is_mark(c, PER_CHARACTER_UNICODE))
        if component.lowercase:
            _lowercase_simple(text)

    return run


def _base(character: str) -> str:
    """Return the first character of the canonical decomposition."""
    return decomposition(character, compatible=False, version=PER_CHARACTER_UNICODE)[0]


def _kept_per_character(character: str) -> bool:
    return character not in "\0\ufffd" and not characters.is_any_control(
        character, PER_CHARACTER_UNICODE
    )


def _precompiled(text: AlignedText, charsmap: Charsmap) -> None:
    """Apply a character map cluster by cluster.

    A cluster of fewer than six bytes is looked up as a whole, where the shortest entry that it
    begins with replaces all of it; else each of its characters is looked up in the same way.
    """
    changes: list[Change] = []
    changed = False
    added = -utf8_size(text.text)
    for cluster in clusters(text.text):
        data = to_bytes(cluster)
        matches = charsmap.matches(data) if len(data) < 6 else []
        if matches:
            changed = True
            added += len(matches[0][1])
            text.growth.check(added)
            _write_over(changes, len(cluster), matches[0][1])
            continue
        for character in cluster:
            matches = charsmap.matches(to_bytes(character))
            if matches:
                changed = True
                added += len(matches[0][1])
                text.growth.check(added)
                _write_over(changes, 1, matches[0][1])
            else:
                changes.append((character, 0))
    if changed:
        text.transform(changes)


def _write_over(changes: list[Change], old_count: int, new: bytes) -> None:
    """Add a replacement, the surplus of characters at its end.

    When the first characters of a text vanish the reference forgets to count them.
    """
    text = new.decode("utf-8", "surrogateescape")
    changes += [(character, 0) for character in text]
    surplus = len(text) - old_count
    if surplus > 0:
        changes[-surplus:] = [(character, 1) for character, _ in changes[-surplus:]]
    elif surplus < 0 and changes:
        changes[-1] = (changes[-1][0], changes[-1][1] + surplus)


_NMT_DROPS = frozenset(map(chr, [*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F]))
_NMT_BLANKS = frozenset(
    "\t\n\f\r\u1680\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2581\ufeff\ufffd"
)


def _nmt(text: AlignedText) -> None:
    text.filter(lambda c: c not in _NMT_DROPS)
    _map(text, lambda c: " " if c in _NMT_BLANKS else c)


_BLANKED_CONTROLS = frozenset(
    map(
        chr,
        [
            *(c for c in range(1, 0x20) if c not in (9, 10, 13)),
            *range(0x7F, 0xA0),
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x206A),
            0xFEFF,
            *range(0xFFF0, 0xFFF9),
        ],
    )
)


def compile_code_point_table(component: spec.CodePointTable) -> Callable[[AlignedText], None]:
    """Return the function that replaces single code points."""
    table = _read_table(component.code_points, component.values)
    blanks = _BLANKED_CONTROLS if component.blank_controls else frozenset()
    return lambda text: _replace_each(text, lambda c: " " if c in blanks else table.get(c, c))


def compile_bert_table(component: spec.BertTable) -> Callable[[AlignedText], None]:
    """Return the function that cleans up code point by code point."""
    table = _read_table(component.code_points, component.values)

    def run(text: AlignedText) -> None:
        if component.clean_text:
            _replace_each(text, _clean_character)
        if component.handle_chinese_chars:
            _replace_each(text, lambda c: f" {c} " if characters.is_han_block(c) else c)
        if component.strip_accents:
            _replace_each(text, lambda c: table.get(c, c))
            text.filter(lambda c: not characters.is_mark(c, component.unicode or "15.0"))
        if component.lowercase:
            _replace_each(text, characters.simple_lower)

    return run


def _clean_character(character: str) -> str:
    if character in "\t\n\r" or characters.is_space_separator(character):
        return " "
    return "" if character == "\ufffd" or characters.is_c0_or_c1(character) else character


def _read_table(code_points: Numbers, values: Pieces) -> dict[str, str]:
    return {
        chr(code_point): value.decode("utf-8", "surrogateescape")
        for code_point, value in zip(code_points, values, strict=True)
    }


def _replace_each(text: AlignedText, mapping: Callable[[str], str]) -> None:
    """Replace each character by a text of any length, which stands for the same stretch."""
    parts, spans, added = [], [], -utf8_size(text.text)
    for character, span in zip(text.text, text.spans, strict=True):
        parts.append(mapping(character))
        added += utf8_size(parts[-1])
        text.growth.check(added)
        spans += [span] * len(parts[-1])
    text.growth.spend(added)
    text.text = "".join(parts)
    text.spans = spans


_REPLACEMENT = "\ufffd".encode()


def compile_spaces(
    component: spec.Spaces, pieces: tuple[bytes, ...]
) -> Callable[[AlignedText], None]:
    """Return the function of the normalizer; ``pieces`` are the user-defined ones."""
    walker = _SpacesWalker(component, pieces)
    space = MARK_BYTES if component.escape_whitespaces else b" "
    rule = _word_rule if component.prefix == "word" else _text_rule

    def run(text: AlignedText) -> None:
        data = to_bytes(text.text)
        if not data and component.prefix == "text":
            return
        output, places = rule(component, space, data, walker, text.growth)
        text.growth.spend(len(output) - len(data))
        _write_back(text, output, places)

    return run


class _SpacesWalker:
    """Gives what each step along the bytes reads and writes."""

    def __init__(self, component: spec.Spaces, pieces: tuple[bytes, ...]) -> None:
        self._charsmap = Charsmap(component.charsmap) if component.charsmap else None
        whole = {piece for piece in pieces if piece}
        if component.keep == "paths":
            whole |= {piece[:size] for piece in whole for size in range(1, len(piece))}
        self._whole = whole
        self._longest = max(map(len, whole), default=0)

    def step(self, data: bytes, at: int) -> tuple[int, bytes]:
        """Return how many bytes are read at a place and what is written for them."""
        for size in range(min(self._longest, len(data) - at), 0, -1):
            if data[at : at + size] in self._whole:
                return size, data[at : at + size]
        if self._charsmap:
            # An entry has far fewer bytes than this; the map is only asked for what may match.
            matches = self._charsmap.matches(data[at : at + 256])
            if matches:
                return matches[-1]
        size = _well_formed_size(data, at)
        return (size, data[at : at + size]) if size else (1, _REPLACEMENT)

    def steps(self, data: bytes, at: int, growth: Growth) -> Iterator[tuple[int, bytes]]:
        """Yield (place, written) up to the end."""
        added = 0
        while at < len(data):
            size, output = self.step(data, at)
            added += len(output) - size
            growth.check(added)
            yield at, output
            at += size


def _well_formed_size(data: bytes, at: int) -> int:
    """Return the length of the well-formed UTF-8 sequence at a place, 0 if there is none."""
    first = data[at]
    size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    try:
        data[at : at + size].decode("utf-8")
    except UnicodeDecodeError:
        return 0
    return size


def _text_rule(
    component: spec.Spaces, space: bytes, data: bytes, walker: _SpacesWalker, growth: Growth
) -> tuple[bytearray, list[int]]:
    """Write spaces where they stand; the dummy prefix is in front of the text."""
    output, places = bytearray(), []
    at = 0
    if component.remove_extra_whitespaces:
        while at < len(data):
            size, first = walker.step(data, at)
            if first != b" ":
                break
            at += size
        if at == len(data):
            return output, [at]

    def add(piece: bytes, place: int) -> None:
        output.extend(piece)
        places.extend([place] * len(piece))

    if component.add_dummy_prefix and not component.suffix:
        add(space, at)
    after_space = component.remove_extra_whitespaces
    for place, piece in walker.steps(data, at, growth):
        if after_space:
            piece = piece.lstrip(b" ")
        if piece:
            add(piece.replace(b" ", space), place)
            after_space = component.remove_extra_whitespaces and piece.endswith(b" ")
    end = len(data)
    if component.remove_extra_whitespaces:
        while output.endswith(space):
            del output[-len(space) :]
            end = places[len(output)]
            del places[len(output) :]
    if component.add_dummy_prefix and component.suffix:
        add(space, end)
    return output, [*places, end]


def _word_rule(
    component: spec.Spaces, space: bytes, data: bytes, walker: _SpacesWalker, growth: Growth
) -> tuple[bytearray, list[int]]:
    """Write a space in front of words; the dummy prefix is in front of the first one."""
    output, places = bytearray(), []
    prefixed, inside = not component.add_dummy_prefix or component.suffix, False
    for place, piece in walker.steps(data, 0, growth):
        before = len(output)
        for byte in piece:
            if byte == 0x20:
                inside = False
                if not component.remove_extra_whitespaces:
                    output += space
                continue
            if not inside:
                inside = True
                if not prefixed or component.remove_extra_whitespaces:
                    output += space
                    prefixed = True
            output.append(byte)
        places += [place] * (len(output) - before)
    if component.add_dummy_prefix and component.suffix:
        output += space
        places += [len(data)] * len(space)
    return output, [*places, len(data)]


def _write_back(text: AlignedText, output: bytearray, places: list[int]) -> None:
    """Put the bytes into the text; ``places`` are byte offsets into the old one, with the end.

    A place inside a character (after a broken one) counts as that character's begin.
    """
    character_at = []
    for at, character in enumerate(text.text):
        character_at += [at] * len(to_bytes(character))
    character_at.append(len(text.text))
    starts = [start for start, _ in text.spans] + [text.spans[-1][1] if text.spans else text.start]
    result = output.decode("utf-8", "surrogateescape")
    spans, at = [], 0
    for character in result:
        after = at + len(to_bytes(character))
        spans.append((starts[character_at[places[at]]], starts[character_at[places[after]]]))
        at = after
    text.text, text.spans = result, spans
