"""Which tokens a specification puts around a single text."""

from __future__ import annotations

from mtkit.spec import post_processors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.post_processors import PostProcessor


def ends_of(spec: TokenizerSpec) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the ids in front and behind; None where the text stands not once."""
    return _ends(spec.post_processor)


def separates_pairs(spec: TokenizerSpec) -> bool:
    """Tell whether SEP stands between the texts of a pair besides what ends the first."""
    found, sep = spec.post_processor, spec.special_ids.sep
    if not isinstance(found, post_processors.Template) or sep is None:
        return False
    texts = [at for at, slot in enumerate(found.pair) if slot.text is not None]
    if len(texts) != 2:
        return False
    between = [token for slot in found.pair[texts[0] + 1 : texts[1]] for token in slot.ids]
    ends = ends_of(spec)
    return between == [*(ends[1] if ends else ()), sep]


def _ends(found: PostProcessor | None) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if isinstance(found, (post_processors.Bert, post_processors.Roberta)):
        return (found.cls[1],), (found.sep[1],)
    if isinstance(found, post_processors.Template):
        places = [at for at, slot in enumerate(found.single) if slot.text is not None]
        if len(places) != 1:
            return None
        first = [token for slot in found.single[: places[0]] for token in slot.ids]
        last = [token for slot in found.single[places[0] + 1 :] for token in slot.ids]
        return tuple(first), tuple(last)
    if isinstance(found, post_processors.Sequence):
        all_ends = [_ends(step) for step in found.steps]
        if None in all_ends:
            return None
        known = [ends for ends in all_ends if ends]
        first_ids = tuple(token for ends in reversed(known) for token in ends[0])
        return first_ids, tuple(token for ends in known for token in ends[1])
    return (), ()
