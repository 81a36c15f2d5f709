"""The normalizer of trained subword models: character map and white-space rules in one pass.

The text is walked as bytes: at each place the longest user-defined piece stays as it is, else the
longest entry of the map is replaced, else one character is copied; a byte that begins no character
becomes U+FFFD. Spaces are then dropped, joined and marked. Offsets are SentencePiece's: what came
out of one step stands for where that step began, up to where the next one begins.

Source: google/sentencepiece, normalizer.cc; ggml-org/llama.cpp, llama-vocab.cpp,
``llm_tokenizer_ugm_session::normalize`` (``keep="paths"``, ``prefix="word"``).
"""

from __future__ import annotations

from mtkit.spec.text import MARK_BYTES
from mtkit.unicode.charsmap import Charsmap
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.pipeline.normalizers.aligned import Aligned
    from mtkit.pipeline.normalizers.growth import Growth
    from mtkit.spec import normalizers as spec

_REPLACEMENT = "\ufffd".encode()


def compile_spaces(component: spec.Spaces, pieces: tuple[bytes, ...]) -> Callable[[Aligned], None]:
    """Return the function of the normalizer; ``pieces`` are the user-defined ones."""
    walker = _Walker(component, pieces)
    space = MARK_BYTES if component.escape_whitespaces else b" "
    rule = _word_rule if component.prefix == "word" else _text_rule

    def run(text: Aligned) -> None:
        data = to_bytes(text.text)
        if not data and component.prefix == "text":
            return
        written, places = rule(component, space, data, walker, text.growth)
        text.growth.spend(len(written) - len(data))
        _write_back(text, written, places)

    return run


class _Walker:
    """Gives what each step along the bytes reads and writes."""

    def __init__(self, component: spec.Spaces, pieces: tuple[bytes, ...]) -> None:
        self._charsmap = Charsmap(component.charsmap) if component.charsmap else None
        kept = {piece for piece in pieces if piece}
        if component.keep == "paths":
            kept |= {piece[:size] for piece in kept for size in range(1, len(piece))}
        self._kept = kept
        self._longest = max(map(len, kept), default=0)

    def step(self, data: bytes, at: int) -> tuple[int, bytes]:
        """Return how many bytes are read at a place and what is written for them."""
        for size in range(min(self._longest, len(data) - at), 0, -1):
            if data[at : at + size] in self._kept:
                return size, data[at : at + size]
        if self._charsmap:
            # An entry has far fewer bytes than this; the map is only asked for what may match.
            found = self._charsmap.matches(data[at : at + 256])
            if found:
                return found[-1]
        size = _character_size(data, at)
        return (size, data[at : at + size]) if size else (1, _REPLACEMENT)

    def steps(self, data: bytes, at: int, growth: Growth) -> Iterator[tuple[int, bytes]]:
        """Yield (place, written) up to the end."""
        added = 0
        while at < len(data):
            size, written = self.step(data, at)
            added += len(written) - size
            growth.check(added)
            yield at, written
            at += size


def _character_size(data: bytes, at: int) -> int:
    """Return the length of the well-formed UTF-8 sequence at a place, 0 if there is none."""
    first = data[at]
    size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    try:
        data[at : at + size].decode("utf-8")
    except UnicodeDecodeError:
        return 0
    return size


def _text_rule(
    component: spec.Spaces, space: bytes, data: bytes, walker: _Walker, growth: Growth
) -> tuple[bytearray, list[int]]:
    """Write spaces where they stand; the dummy prefix is in front of the text."""
    written, places = bytearray(), []
    at = 0
    if component.remove_extra_whitespaces:
        while at < len(data):
            size, first = walker.step(data, at)
            if first != b" ":
                break
            at += size
        if at == len(data):
            return written, [at]

    def add(piece: bytes, place: int) -> None:
        written.extend(piece)
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
        while written.endswith(space):
            del written[-len(space) :]
            end = places[len(written)]
            del places[len(written) :]
    if component.add_dummy_prefix and component.suffix:
        add(space, end)
    return written, [*places, end]


def _word_rule(
    component: spec.Spaces, space: bytes, data: bytes, walker: _Walker, growth: Growth
) -> tuple[bytearray, list[int]]:
    """Write a space in front of words; the dummy prefix is in front of the first one."""
    written, places = bytearray(), []
    prefixed, inside = not component.add_dummy_prefix or component.suffix, False
    for place, piece in walker.steps(data, 0, growth):
        before = len(written)
        for byte in piece:
            if byte == 0x20:
                inside = False
                if not component.remove_extra_whitespaces:
                    written += space
                continue
            if not inside:
                inside = True
                if not prefixed or component.remove_extra_whitespaces:
                    written += space
                    prefixed = True
            written.append(byte)
        places += [place] * (len(written) - before)
    if component.add_dummy_prefix and component.suffix:
        written += space
        places += [len(data)] * len(space)
    return written, [*places, len(data)]


def _write_back(text: Aligned, written: bytearray, places: list[int]) -> None:
    """Put the bytes into the text; ``places`` are byte offsets into the old one, with the end.

    A place inside a character (after a broken one) counts as that character's begin.
    """
    character_at = []
    for at, character in enumerate(text.text):
        character_at += [at] * len(to_bytes(character))
    character_at.append(len(text.text))
    starts = [start for start, _ in text.spans] + [text.spans[-1][1] if text.spans else text.start]
    result = written.decode("utf-8", "surrogateescape")
    spans, at = [], 0
    for character in result:
        after = at + len(to_bytes(character))
        spans.append((starts[character_at[places[at]]], starts[character_at[places[after]]]))
        at = after
    text.text, text.spans = result, spans
