"""How a specification treats spaces, in whatever components it says so.

Subword models with U+2581 for a space are described by one ``Spaces``, by a sequence of simple
normalizers, or with plain spaces in the pieces; this sees through the difference.
"""

from __future__ import annotations

from mtkit.spec.normalizers import Prepend, Replace, Sequence, Spaces
from mtkit.spec.pre_tokenizers import Metaspace
from mtkit.spec.text import Text

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
    if isinstance(split, Metaspace) and spec.normalizer is None:
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
