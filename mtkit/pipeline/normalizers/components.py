"""Normalizers: what each member of ``spec.normalizers`` does to an aligned text.

``compile_normalizer`` reads a component's tables once and returns a function that changes a text
in place.

Source: huggingface/tokenizers 0.23, normalizers/; google/sentencepiece, normalizer.cc (``Spaces``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import compile_pattern
from mtkit.pipeline.normalizers import code_point_tables as tables
from mtkit.pipeline.normalizers import spaces
from mtkit.pipeline.normalizers.forms import normal_form
from mtkit.pipeline.normalizers.growth import named, size
from mtkit.spec import normalizers as spec
from mtkit.unicode import characters
from mtkit.unicode.byte_alphabet import LETTERS
from mtkit.unicode.charsmap import Charsmap
from mtkit.unicode.tables import clusters, decomposition
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.pipeline.normalizers.aligned import Aligned, Change
    from mtkit.spec.normalizers import Normalizer

    Apply = Callable[[Aligned], None]


PER_CHARACTER_UNICODE = "15.1"
"""Version of llama.cpp's categories."""


def compile_normalizer(component: Normalizer, pieces: tuple[bytes, ...] = ()) -> Apply:
    """Return the function of a normalizer.

    Args:
        component: The normalizer.
        pieces: User-defined pieces, which some normalizers leave as they are.

    Raises:
        FormatError: A table of it is damaged.
        UnsupportedError: It is not a known component.
    """
    if isinstance(component, spec.Sequence):
        steps = [compile_normalizer(step, pieces) for step in component.steps]

        def run(text: Aligned) -> None:
            for step in steps:
                step(text)

        return run
    return named(component, _compile(component, pieces))


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
        return spaces.compile_spaces(component, pieces)
    if isinstance(component, spec.CodePointTable):
        return tables.code_point_table(component)
    if isinstance(component, spec.BertTable):
        return tables.bert_table(component)
    raise UnsupportedError(f"does not know the normalizer {type(component).__name__}")


def map_bytes(text: Aligned) -> None:
    """Write each byte of the UTF-8 form as its letter of the byte alphabet."""
    changes: list[Change] = []
    for character in text.text:
        for at, byte in enumerate(to_bytes(character)):
            changes.append((LETTERS[byte], int(at > 0)))
    if changes:
        text.transform(changes)


def _map(text: Aligned, mapping: Callable[[str], str]) -> None:
    text.transform([(mapping(character), 0) for character in text.text])


def _lowercase(text: Aligned) -> None:
    changes = []
    for character in text.text:
        for at, part in enumerate(characters.lower(character)):
            changes.append((part, int(at > 0)))
    text.transform(changes)


def _lowercase_simple(text: Aligned) -> None:
    _map(text, lambda c: characters.simple_lower(c, PER_CHARACTER_UNICODE))


def _prepend(component: spec.Prepend) -> Apply:
    def run(text: Aligned) -> None:
        if text.text:
            text.prepend(component.text)
        elif component.empty:
            text.growth.check(size(component.text))
            text.transform([(character, 1) for character in component.text], at=(0, 0))

    return run


def _bert(component: spec.Bert) -> Apply:
    def run(text: Aligned) -> None:
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


def _set_han_apart(text: Aligned) -> None:
    changes: list[Change] = []
    for character in text.text:
        if characters.is_han(character):
            changes += [(" ", 0), (character, 1), (" ", 1)]
        else:
            changes.append((character, 0))
    text.transform(changes)


def _bert_per_character(component: spec.Bert) -> Apply:
    def run(text: Aligned) -> None:
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


def _precompiled(text: Aligned, charsmap: Charsmap) -> None:
    """Apply a character map cluster by cluster.

    A cluster of fewer than six bytes is looked up as a whole, where the shortest entry that it
    begins with replaces all of it; else each of its characters is looked up in the same way.
    """
    changes: list[Change] = []
    changed = False
    added = -size(text.text)
    for cluster in clusters(text.text):
        data = to_bytes(cluster)
        found = charsmap.matches(data) if len(data) < 6 else []
        if found:
            changed = True
            added += len(found[0][1])
            text.growth.check(added)
            _write_over(changes, len(cluster), found[0][1])
            continue
        for character in cluster:
            found = charsmap.matches(to_bytes(character))
            if found:
                changed = True
                added += len(found[0][1])
                text.growth.check(added)
                _write_over(changes, 1, found[0][1])
            else:
                changes.append((character, 0))
    if changed:
        text.transform(changes)


def _write_over(changes: list[Change], old_count: int, new: bytes) -> None:
    """Add a replacement, the surplus of characters at its end.

    When the first characters of a text vanish the reference forgets to count them.
    """
    written = new.decode("utf-8", "surrogateescape")
    changes += [(character, 0) for character in written]
    surplus = len(written) - old_count
    if surplus > 0:
        changes[-surplus:] = [(character, 1) for character, _ in changes[-surplus:]]
    elif surplus < 0 and changes:
        changes[-1] = (changes[-1][0], changes[-1][1] + surplus)


_NMT_DROPS = frozenset(map(chr, [*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F]))
_NMT_BLANKS = frozenset(
    "\t\n\f\r\u1680\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2581\ufeff\ufffd"
)


def _nmt(text: Aligned) -> None:
    text.filter(lambda c: c not in _NMT_DROPS)
    _map(text, lambda c: " " if c in _NMT_BLANKS else c)
