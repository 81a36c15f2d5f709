"""Which special tokens stand around a text, where the source of a tokenizer does not say.

A trained subword model has ids for the begin and the end of a text and leaves it to programs to add
them; formats that do add need an answer. The answer of the person who converts counts; without
one, what the family does: byte-pair models by score (Llama, Mistral, Gemma) begin with BOS.
"""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.spec.models import ScoreBPE
from mtkit.spec.post_processors import Slot, Template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec


def with_special_ids(
    spec: TokenizerSpec, *, add_bos: bool | None = None, add_eos: bool | None = None
) -> tuple[TokenizerSpec, tuple[str, ...]]:
    """Return the specification with what is to be added, and what was assumed for it.

    Args:
        spec: Where it has a post-processor, that stays unless one of the choices is made.
        add_bos: Put BOS in front; None: as the family does.
        add_eos: Put EOS behind; None: as the family does.

    Raises:
        UsageError: What is to be added has no id, or another post-processor is in the way.
    """
    assumptions = []
    if add_bos is None and add_eos is None:
        trained = isinstance(spec.model, ScoreBPE) and spec.model.mergeable == "listed"
        if spec.post_processor is not None or not trained or spec.special_ids.bos is None:
            return spec, ()
        add_bos = True
        assumptions.append("BOS is added in front, EOS is not: what this family of models does")
    template = spec.post_processor or Template((Slot(text=0),), (Slot(text=0), Slot(text=1)))
    if not isinstance(template, Template):
        raise UsageError(
            f"the tokenizer's {type(template).__name__} post-processor says what is added",
            hint="leave out --bos and --eos",
        )
    bos, eos = spec.special_ids.bos, spec.special_ids.eos
    single, pair = template.single, template.pair
    if add_bos is not None:
        single, pair = (_with(slots, bos, add_bos, at_end=False) for slots in (single, pair))
    if add_eos is not None:
        single, pair = (_with(slots, eos, add_eos, at_end=True) for slots in (single, pair))
    plain = single == (Slot(text=0),)
    post_processor = None if plain else replace(template, single=single, pair=pair)
    return replace(spec, post_processor=post_processor), tuple(assumptions)


def _with(
    slots: tuple[Slot, ...], token_id: int | None, wanted: bool, *, at_end: bool
) -> tuple[Slot, ...]:
    """Put a token at one end of a template or take it away there."""
    if not slots:
        return slots
    slot = slots[-1 if at_end else 0]
    there = slot.text is None and slot.ids == (token_id,)
    if there == wanted:
        return slots
    if not wanted:
        return slots[:-1] if at_end else slots[1:]
    if token_id is None:
        name = "EOS" if at_end else "BOS"
        raise UsageError(f"the tokenizer has no {name} to add", hint=f"--no-{name.lower()}")
    added = Slot(ids=(token_id,), type_id=slots[-1 if at_end else 0].type_id)
    return (*slots, added) if at_end else (added, *slots)
