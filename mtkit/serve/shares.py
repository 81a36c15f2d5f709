"""What each slot gets: rows of a batch, and cells where the slots share them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.serve.slot import Slot


def shares(waiting: Sequence[int], left: int) -> list[int]:
    """Divide the rows of a batch: answers get their one, prompts what is left, in equal parts.

    Args:
        waiting: Tokens that each slot has to compute.
        left: Rows for prompts.
    """
    found = [int(count == 1) for count in waiting]
    prompts = sorted((count, at) for at, count in enumerate(waiting) if count > 1)
    for place, (count, at) in enumerate(prompts):  # the shortest leave the rest to the others
        found[at] = min(count, left // (len(prompts) - place))
        left -= found[at]
    return found


def with_cells(slots: Sequence[Slot], n_cells: int) -> list[Slot]:
    """Return the slots whose next tokens find cells, in their order.

    The answer that began first gets what it needs: idle slots forget what they remember, the one
    that was not used for longest before the others, then the answers that began last wait, and
    are computed again once there is room.

    Args:
        slots: All that share the cells.
        n_cells: How many there are; as many as one slot can take.
    """
    busy = sorted((slot for slot in slots if slot.job is not None), key=lambda slot: slot.used)
    idle = [slot for slot in slots if slot.job is None]
    free, found = n_cells - sum(slot.past for slot in slots), []
    for at, slot in enumerate(busy):
        need = slot.waiting + len(slot.proposal.ids)
        for other in (*sorted(idle, key=lambda slot: slot.used), *reversed(busy[at + 1 :])):
            if need > free and other.past:
                free += other.past
                other.put_off()
        if need <= free:
            found.append(slot)
            free -= need
    return [slot for slot in slots if slot in found]
