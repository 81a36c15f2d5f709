"""Pre-tokenizers: what each member of ``spec.pre_tokenizers`` makes of a word.

``compile_pre_tokenizer`` returns a function from one aligned text to the parts it is cut into.

Source: huggingface/tokenizers 0.23, pre_tokenizers/.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import compile_pattern
from mtkit.pipeline.growth import name_step
from mtkit.pipeline.normalizers import map_bytes
from mtkit.spec import pre_tokenizers as spec
from mtkit.spec.text import Regex
from mtkit.unicode import characters
from mtkit.unicode.tables import category

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.pipeline.aligned_text import AlignedText, Span
    from mtkit.spec.pre_tokenizers import Behavior, PreTokenizer

    Cut = Callable[[AlignedText], list[AlignedText]]

GPT2 = Regex(spec.BYTE_LEVEL_SPLIT)
"""The split of GPT-2, which the byte-level component has built in."""


DIGIT_GROUPS_UNICODE = "15.1"
"""Version of llama.cpp's categories."""


def compile_pre_tokenizer(component: PreTokenizer) -> Cut:
    """Return the function of a pre-tokenizer."""
    if isinstance(component, spec.Sequence):
        return _sequence([compile_pre_tokenizer(step) for step in component.steps])
    return name_step(component, _compile(component))


def _compile(component: PreTokenizer) -> Cut:
    """Return the function of a pre-tokenizer that is not a sequence."""
    if isinstance(component, spec.ByteLevel):
        return _byte_level(component)
    if isinstance(component, spec.Metaspace):
        return _metaspace(component)
    if isinstance(component, spec.MarkSpaces):
        return _mark_spaces(component)
    if isinstance(component, spec.Bert):
        return _bert(component)
    if isinstance(component, spec.Split):
        matcher, behavior, invert = (
            compile_pattern(component.pattern),
            component.behavior,
            component.invert,
        )
        return lambda text: text.split(matcher.find(text.text), behavior, invert=invert)
    if isinstance(component, spec.Punctuation):
        return _characters(characters.is_punctuation, component.behavior)
    if isinstance(component, spec.Digits):
        return _characters(
            characters.is_number, "isolated" if component.individual else "contiguous"
        )
    if isinstance(component, spec.Whitespace):
        return lambda text: text.split(_words(text.text), "removed", invert=True)
    if isinstance(component, spec.WhitespaceSplit):
        return _characters(characters.is_white_space, "removed")
    if isinstance(component, spec.CharDelimiterSplit):
        return _characters(component.delimiter.__eq__, "removed")
    if isinstance(component, spec.UnicodeScripts):
        return _unicode_scripts
    if isinstance(component, spec.FixedLength):
        length = component.length
        if not length:
            raise UnsupportedError("pieces of 0 characters never end", field="pre_tokenizer.length")
        return lambda text: [text.part(at, at + length) for at in range(0, len(text.text), length)]
    if isinstance(component, spec.DigitGroups):
        return _digit_groups
    raise UnsupportedError(f"does not know the pre-tokenizer {type(component).__name__}")


def _sequence(steps: list[Cut]) -> Cut:
    def run(text: AlignedText) -> list[AlignedText]:
        parts = [text]
        for step in steps:
            parts = [part for whole in parts for part in step(whole)]
        return parts

    return run


def _characters(is_delimiter: Callable[[str], bool], behavior: Behavior) -> Cut:
    """Split at single characters."""

    def run(text: AlignedText) -> list[AlignedText]:
        matches = [(at, at + 1) for at, c in enumerate(text.text) if is_delimiter(c)]
        return text.split(matches, behavior)

    return run


def byte_level_split(component: spec.ByteLevel) -> Cut:
    """Return the first half of a byte-level pre-tokenizer: prefix and split, no letters yet."""
    matcher = compile_pattern(GPT2) if component.use_regex else None

    def run(text: AlignedText) -> list[AlignedText]:
        text = text.copy()
        if component.add_prefix_space and not text.text.startswith(" "):
            text.prepend(" ")
        return text.split(matcher.find(text.text), "isolated") if matcher else [text]

    return run


def _byte_level(component: spec.ByteLevel) -> Cut:
    split = byte_level_split(component)

    def run(text: AlignedText) -> list[AlignedText]:
        parts = split(text)
        for part in parts:
            map_bytes(part)
        return parts

    return run


def _metaspace(component: spec.Metaspace) -> Cut:
    mark = component.replacement

    def run(text: AlignedText) -> list[AlignedText]:
        text = text.copy()
        text.replace([(at, at + 1) for at, c in enumerate(text.text) if c == " "], mark)
        prepends = component.prepend_scheme == "always" or (
            component.prepend_scheme == "first" and text.start == 0
        )
        if prepends and not text.text.startswith(mark):
            text.prepend(mark)
        if not component.split:
            return [text]
        marks = [(at, at + 1) for at, c in enumerate(text.text) if c == mark]
        return text.split(marks, "merged_with_next")

    return run


def _mark_spaces(component: spec.MarkSpaces) -> Cut:
    def run(text: AlignedText) -> list[AlignedText]:
        text = text.copy()
        if component.prefix and text.text and not text.text.startswith(" "):
            text.prepend(" ")
        spaces = [(at, at + 1) for at, c in enumerate(text.text) if c == " "]
        text.replace(spaces, component.replacement)
        return [text]

    return run


def _bert(component: spec.Bert) -> Cut:
    def is_punctuation(character: str) -> bool:
        if component.unicode == "8.0" or characters.is_ascii_punctuation(character):
            return characters.is_punctuation(character)
        return category(character, component.unicode)[0] == "P"

    return _sequence(
        [
            _characters(characters.is_white_space, "removed"),
            _characters(is_punctuation, "isolated"),
        ]
    )


def _words(text: str) -> list[Span]:
    r"""Find the runs of word characters and the runs of what is neither word nor white space."""
    spans: list[Span] = []
    before = ""
    for at, character in enumerate(text):
        if characters.is_word(character):
            kind = "word"
        else:
            kind = "" if characters.is_white_space(character) else "other"
        if kind and kind == before:
            spans[-1] = (spans[-1][0], at + 1)
        elif kind:
            spans.append((at, at + 1))
        before = kind
    return spans


def _unicode_scripts(text: AlignedText) -> list[AlignedText]:
    """Cut where the script changes; spaces and what has no script of its own go with what is there.

    What stands before the first character that has a script is lost, as in the reference.
    """
    cuts: list[int] = []
    last = ""
    for at, character in enumerate(text.text):
        own = characters.script(character)
        if own and own != last:
            cuts.append(at)
        last = own or last
    return [
        text.part(first, after)
        for first, after in zip(cuts, [*cuts[1:], len(text.text)], strict=False)
        if first < after
    ]


def _digit_groups(text: AlignedText) -> list[AlignedText]:
    ends: list[int] = []
    at = 0
    while at < len(text.text):
        run = at
        while run < len(text.text) and characters.is_number(text.text[run], DIGIT_GROUPS_UNICODE):
            run += 1
        if run == at:
            at += 1
            continue
        ends += range(at + ((run - at) % 3 or 3), run + 1, 3)
        at = run
    if not ends or ends[-1] != len(text.text):
        ends.append(len(text.text))
    return [text.part(*span) for span in zip([0, *ends], ends, strict=False) if span[0] < span[1]]
