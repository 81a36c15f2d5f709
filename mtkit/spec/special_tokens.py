"""Which special tokens stand around a text: as asked for, else as the source has it.

A trained subword model has ids for the begin and the end of a text and leaves it to programs to add
them. A file that says itself what is added needs an answer for each of the two: what the person who
converts asks for; else what the source's post-processor does; where it has none, what the
family does: byte-pair models by score (Llama, Mistral, Gemma) begin with BOS.
"""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.spec.models import ScoreBPE
from mtkit.spec.post_processors import Bert, ByteLevel, Roberta, Sequence, Slot, Template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.post_processors import PostProcessor

    Slots = tuple[Slot, ...]


FIRST_TEXT, SECOND_TEXT = Slot(text=0), Slot(text=1, type_id=1)
PLAIN_TEMPLATE = Template((FIRST_TEXT,), (FIRST_TEXT, SECOND_TEXT))


def with_special_ids(
    spec: TokenizerSpec,
    *,
    add_bos: bool | None = None,
    add_eos: bool | None = None,
    by_family: bool = True,
) -> tuple[TokenizerSpec, tuple[str, ...]]:
    """Return the specification with what is to be added, and what was assumed for it.

    Args:
        add_bos: Whether BOS stands in front; None: as in the source, or as the family does.
        add_eos: Whether EOS stands behind; None: as in the source.
    """
    assumed: tuple[str, ...] = ()
    bos, eos = spec.special_ids.bos, spec.special_ids.eos
    trained = isinstance(spec.model, ScoreBPE) and spec.model.mergeable == "listed"
    silent = spec.post_processor is None and not spec.prefix_ids
    if by_family and trained and silent and add_bos is None and bos is not None:
        add_bos = True
        assumed = ("BOS is added in front, as these models expect (--no-bos leaves it out)",)
    for adds, token_id, name in ((add_bos, bos, "BOS"), (add_eos, eos, "EOS")):
        if adds and token_id is None:
            raise UsageError(f"the tokenizer has no {name} to add", hint=f"--no-{name.lower()}")
    if bos is not None and spec.prefix_ids[:1] == (bos,) and add_bos is not None:
        spec = spec if add_bos else replace(spec, prefix_ids=spec.prefix_ids[1:])
        add_bos = None
    processor = before = spec.post_processor
    each = before is None or not _adds_tokens(before)
    for adds, token_id, turn in ((add_bos, bos, 1), (add_eos, eos, -1)):
        if adds is not None and token_id is not None:
            processor = _change(processor, _slot_of(spec, token_id), adds, each, turn)
    return (spec if processor == before else replace(spec, post_processor=processor)), assumed


def _slot_of(spec: TokenizerSpec, token_id: int) -> Slot:
    added = {token.id: token.content for token in spec.added_tokens.tokens}
    pieces = spec.vocabulary.pieces
    text = added.get(token_id, pieces[token_id] if token_id < len(pieces) else b"")
    return Slot(ids=(token_id,), name=text.decode("utf-8", "replace"))


def _change(
    processor: PostProcessor | None, token: Slot, present: bool, each: bool, turn: int
) -> PostProcessor | None:
    """Put a token there or take it away.

    Args:
        turn: 1 in front, -1 behind.
    """
    if isinstance(processor, Sequence):
        at = max(
            (i for i, step in enumerate(processor.steps) if _adds_tokens(step)),
            default=len(processor.steps),
        )
        before, step, after = (
            processor.steps[:at],
            processor.steps[at : at + 1],
            processor.steps[at + 1 :],
        )
        changed = _change(step[0] if step else None, token, present, each, turn)
        return Sequence((*before, *(() if changed is None else (changed,)), *after))
    offsets, template = _as_template(processor)
    ends = [token_id for slot in template.single for token_id in slot.ids or (None,)]
    if (ends[::turn][:1] == list(token.ids)) == present:
        return processor
    single, pair = (
        _add_token(slots[::turn], token, each)[::turn]
        if present
        else _remove_token(_one_id_each(slots)[::turn], token)[::turn]
        for slots in (template.single, template.pair)
    )
    adds = any(slot.ids for slot in (*single, *pair))
    templates = (replace(template, single=single, pair=pair),) if adds else ()
    if offsets is not None:
        return Sequence((offsets, *templates)) if templates else offsets
    return templates[0] if templates else None


def _adds_tokens(component: PostProcessor) -> bool:
    if isinstance(component, Sequence):
        return any(map(_adds_tokens, component.steps))
    return not isinstance(component, ByteLevel)


def _as_template(processor: PostProcessor | None) -> tuple[ByteLevel | None, Template]:
    """Return what a component does to offsets, and the template of what it adds."""
    if isinstance(processor, Template):
        return None, processor
    if isinstance(processor, ByteLevel):
        return processor, PLAIN_TEMPLATE
    if isinstance(processor, (Bert, Roberta)):
        cls, sep = (
            Slot(ids=(token_id,), name=name) for name, token_id in (processor.cls, processor.sep)
        )
        first = (cls, FIRST_TEXT, sep)
        if isinstance(processor, Bert):
            return None, Template(first, (*first, SECOND_TEXT, replace(sep, type_id=1)))
        offsets = ByteLevel(processor.trim_offsets, processor.add_prefix_space)
        return offsets, Template(first, (*first, sep, replace(SECOND_TEXT, type_id=0), sep))
    return None, PLAIN_TEMPLATE


def _one_id_each(slots: Slots) -> Slots:
    return tuple(
        replace(slot, ids=(token_id,)) if slot.ids else slot
        for slot in slots
        for token_id in slot.ids or (0,)
    )


def _add_token(slots: Slots, token: Slot, each: bool) -> Slots:
    """Put a token in front of each text or of the whole."""
    changed: list[Slot] = []
    for at, slot in enumerate(slots):
        if slot.text is not None if each else at == 0:
            changed.append(replace(token, type_id=slot.type_id))
        changed.append(slot)
    return tuple(changed)


def _remove_token(slots: Slots, token: Slot) -> Slots:
    """Take a token away in front of the whole, and in front of the second text of a pair."""
    rest: list[Slot] = []
    for slot, following in zip(slots, (*slots[1:], None), strict=False):
        inside = any(before.text is not None for before in rest)
        of_second = inside and following is not None and following.text is not None
        if slot.ids != token.ids or (rest and not of_second):
            rest.append(slot)
    return tuple(rest)
