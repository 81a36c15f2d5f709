"""Groups that are compared, after the document that proposes ShenXing.

=======  =========================================================================================
A        the target alone
A2, A4   the target alone in the configuration that makes drafting with its weights exact: so many
         rows a token (``exactness``); only where that is more than one
lookup   what followed the last tokens before
B        a draft model
C        the draft with a static vocabulary (FR-Spec)
D        C with the trigger's search (ShenXing)
D+       D that also learns the prompt's ids and all that are emitted
E        C that learns those, without a search
B@0.7    the draft's costs, with the target's own next token at this rate and another one else
@0.7     the same without a draft's costs
=======  =========================================================================================
"""

from __future__ import annotations

from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.settings import DraftSettings

PLAIN, LOOKUP = "A", "lookup"


def groups_of(drafting: DraftSettings) -> dict[str, DraftSettings | None]:
    """Return what each group that these settings allow drafts with; None for nothing."""
    common = replace(
        drafting, draft=None, draft_lookup=False, sx_static_vocab=None, sx_quant_embd=None,
        sx_scales=None, sx_seed_prompt=False, sx_learn=False,
    )  # fmt: skip
    found: dict[str, DraftSettings | None] = {
        PLAIN: None,
        LOOKUP: replace(common, draft_lookup=True),
    }
    if drafting.draft is None:
        return found
    found["B"] = whole = replace(common, draft=drafting.draft)
    if drafting.sx_static_vocab is None:
        return found
    found["C"] = static = replace(whole, sx_static_vocab=drafting.sx_static_vocab)
    if drafting.sx_quant_embd is not None:
        search = replace(static, sx_quant_embd=drafting.sx_quant_embd, sx_scales=drafting.sx_scales)
        found["D"] = search
        found["D+"] = replace(search, sx_seed_prompt=True, sx_learn=True)
    found["E"] = replace(static, sx_seed_prompt=True, sx_learn=True)
    return found
