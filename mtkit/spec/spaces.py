"""How a specification treats spaces, in whatever components it says so.

Subword models with U+2581 for a space are described by one ``Spaces``, by a sequence of simple
normalizers, or with plain spaces in the pieces; this sees through the difference.
"""

from __future__ import annotations

from itertools import product

from mtkit.base.record import replace
from mtkit.spec import components_of, decoders, pre_tokenizers
from mtkit.spec.normalizers import Precompiled, Prepend, Replace, Spaces
from mtkit.spec.text import MARK, Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer


EDGE_SPACES = Replace(Regex(r"\A +| +\z"), "")
SEVERAL_SPACES = Replace(Regex(" {2,}"), " ")
WORD_START = Regex(r"\A(?= *[^ ])")
"""Where a text has a word, the place in front of it; a text of blanks has none."""
TEXT_END = Regex(r"(?<=[\s\S])\z")
MARK_SPACES = Replace(Text(" "), MARK)


_PREFIX_PLACES = (
    Spaces(add_dummy_prefix=False),
    Spaces(),
    Spaces(prefix="word"),
    Spaces(suffix=True),
)
"""Where the dummy prefix can stand."""


def spell_out_spaces(spaces: Spaces) -> tuple[Normalizer, ...]:
    """Return simple normalizers that do what ``Spaces`` does to a text without marks of its own.

    The anchors are those of the text, not of a line: line breaks are no white space here.
    """
    steps: list[Normalizer] = []
    if spaces.charsmap:
        steps.append(Precompiled(spaces.charsmap))
    if spaces.remove_extra_whitespaces:
        steps += [EDGE_SPACES, SEVERAL_SPACES]
    mark = MARK if spaces.escape_whitespaces else " "
    if spaces.add_dummy_prefix and spaces.suffix:
        steps.append(Replace(TEXT_END, mark))
    elif spaces.add_dummy_prefix:
        at_word = spaces.prefix == "word"
        steps.append(Replace(WORD_START, mark) if at_word else Prepend(mark))
    if spaces.escape_whitespaces:
        steps.append(MARK_SPACES)
    return tuple(steps)


def spaces_of(normalizer: Normalizer | None) -> Spaces | None:
    """Return the ``Spaces`` that a normalizer is or spells out; None where it is another rule."""
    if isinstance(normalizer, Spaces):
        return normalizer
    steps = tuple(components_of(normalizer))
    charsmap = next((step.charsmap for step in steps if isinstance(step, Precompiled)), b"")
    for place, removes, escapes in product(_PREFIX_PLACES, (False, True), (False, True)):
        rule = replace(
            place, charsmap=charsmap, remove_extra_whitespaces=removes, escape_whitespaces=escapes
        )
        if spell_out_spaces(rule) == steps:
            return rule
    return None


def drops_first_space(decoder: Decoder | None) -> bool:
    """Tell whether decoding takes away the space that stands in front of a text."""
    if isinstance(decoder, decoders.Pieces):
        return decoder.drop_first_space
    if isinstance(decoder, decoders.Subwords):
        return decoder.drop_marks != "none"
    last = next(reversed(list(components_of(decoder))), None)
    if isinstance(last, decoders.Metaspace):
        return last.prepend_scheme != "never"
    return isinstance(last, decoders.Strip) and last.content == " " and last.start > 0


def space_rule(spec: TokenizerSpec) -> Spaces | None:
    """Return the rule for spaces as one component, or None where it is another rule."""
    split = spec.pre_tokenizer
    if isinstance(split, pre_tokenizers.Metaspace) and spec.normalizer is None:
        if split.replacement != MARK or split.split:
            return None
        return Spaces(
            add_dummy_prefix=split.prepend_scheme != "never", remove_extra_whitespaces=False
        )
    if split is not None:
        return None
    rule = spaces_of(spec.normalizer)
    if rule is None or isinstance(spec.normalizer, Spaces):
        return rule
    # The others are near it only: U+2581 beside white space that is dropped makes a difference.
    near = rule.charsmap or rule.remove_extra_whitespaces or rule.suffix or rule.prefix == "word"
    return None if near else rule


def near_space_rule(spec: TokenizerSpec) -> tuple[Spaces, bool] | None:
    """Return the one component that comes near a character map and a split at white space.

    White space that is not mapped to a space, and texts that are nothing else, differ. The second
    value tells whether that is all: no other step of the normalizer was left out.
    """
    steps, cuts = list(components_of(spec.normalizer)), list(components_of(spec.pre_tokenizer))
    whole = all(step == SEVERAL_SPACES or isinstance(step, Precompiled) for step in steps)
    maps = [step.charsmap for step in steps if isinstance(step, Precompiled)]
    marks = [cut for cut in cuts if isinstance(cut, pre_tokenizers.Metaspace)]
    components = (pre_tokenizers.Metaspace, pre_tokenizers.WhitespaceSplit)
    if len(marks) != 1 or marks[0].replacement != MARK or len(maps) > 1:
        return None
    if not all(isinstance(cut, components) for cut in cuts):
        return None
    rule = Spaces(
        charsmap=maps[0] if maps else b"",
        add_dummy_prefix=marks[0].prepend_scheme != "never",
        remove_extra_whitespaces=len(cuts) > 1 or SEVERAL_SPACES in steps,
    )
    return rule, whole
