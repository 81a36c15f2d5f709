"""The special ids around a text, as the core puts them."""

from __future__ import annotations

from mtkit.engine.program_writer import NONE, numbers, u8
from mtkit.errors import ResourceError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec.post_processors import PostProcessor


def frame(component: PostProcessor | None, *, add: bool) -> bytes:
    """Return the ids around one text, NONE in its places, as the pipeline lays them out.

    What adds too much is left to the pipeline, which says so, and so is what repeats its text more
    often than that may grow: how long the text is, is not known here.
    """
    from mtkit.pipeline.normalizers.growth import GROWTH_FACTOR
    from mtkit.pipeline.post_processors import post_process
    from mtkit.pipeline.tokens import Tokens

    try:
        framed = post_process(component, [Tokens([NONE], [""], [(0, 0)])], add_special_tokens=add)
    except (ResourceError, UnsupportedError):
        return u8(0) + numbers(())  # for every text; the pipeline says why
    if framed.ids.count(NONE) > GROWTH_FACTOR:
        return u8(0) + numbers(())
    return u8(1) + numbers(framed.ids)
