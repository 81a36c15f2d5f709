"""How a specification treats spaces, in whatever components it says so.

Subword models with U+2581 for a space are described by one ``Spaces``, by a sequence of simple
normalizers, or with plain spaces in the pieces; this sees through the difference.
"""

from __future__ import annotations

from mtkit.spec import pre_tokenizers
from mtkit.spec.normalizers import Precompiled, Prepend, Replace, Sequence, Spaces
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

MARK = "\u2581"


def space_rule(spec: TokenizerSpec) -> Spaces | None:
    """Return the rule for spaces as one component, or None where it is another rule."""
    plain = Spaces(add_dummy_prefix=False, remove_extra_whitespaces=False, escape_whitespaces=False)
    escape = Replace(Text(" "), MARK)
    rules = (
        (None, plain),
        (escape, Spaces(add_dummy_prefix=False, remove_extra_whitespaces=False)),
        (Sequence((Prepend(MARK), escape)), Spaces(remove_extra_whitespaces=False)),
        (Prepend(" "), Spaces(remove_extra_whitespaces=False, escape_whitespaces=False)),
    )
    split = spec.pre_tokenizer
    if isinstance(split, pre_tokenizers.Metaspace) and spec.normalizer is None:
        if split.replacement != MARK or split.split:
            return None
        return Spaces(
            add_dummy_prefix=split.prepend_scheme != "never", remove_extra_whitespaces=False
        )
    if split is not None:
        return None
    if isinstance(spec.normalizer, Spaces):
        return spec.normalizer
    return next((rule for normalizer, rule in rules if normalizer == spec.normalizer), None)


def near_space_rule(spec: TokenizerSpec) -> tuple[Spaces, bool] | None:
    """Return the one component that comes near a character map and a split at white space.

    White space that is not mapped to a space, and texts that are nothing else, differ. The second
    value tells whether that is all: no other step of the normalizer was left out.
    """
    normalizer, split = spec.normalizer, spec.pre_tokenizer
    steps = normalizer.steps if isinstance(normalizer, Sequence) else (normalizer,)
    spaces = Replace(Regex(" {2,}"), " ")
    whole = all(step in (None, spaces) or isinstance(step, Precompiled) for step in steps)
    maps = [step.charsmap for step in steps if isinstance(step, Precompiled)]
    cuts = split.steps if isinstance(split, pre_tokenizers.Sequence) else (split,)
    marks = [cut for cut in cuts if isinstance(cut, pre_tokenizers.Metaspace)]
    known = (pre_tokenizers.Metaspace, pre_tokenizers.WhitespaceSplit)
    if len(marks) != 1 or marks[0].replacement != MARK or len(maps) > 1:
        return None
    if not all(isinstance(cut, known) for cut in cuts):
        return None
    rule = Spaces(
        charsmap=maps[0] if maps else b"",
        add_dummy_prefix=marks[0].prepend_scheme != "never",
        remove_extra_whitespaces=len(cuts) > 1 or spaces in steps,
    )
    return rule, whole
