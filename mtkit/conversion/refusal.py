"""What a conversion that was refused would have changed: how many texts, and one of them."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.conversion.convert import asked_for
from mtkit.conversion.verify import memory_source
from mtkit.errors import MtkitError, NoToken
from mtkit.formats import get_format
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Loss, WriteOptions


class Refusal(Record):
    """What would have been lost.

    Attributes:
        losses: Those that change the ids of ordinary texts, or can.
        different: Texts with other ids.
        total: Texts compared.
        text: The shortest of those with other ids; empty where there is none.
        here: Its ids now.
        there: Its ids in what would have been written.
    """

    losses: tuple[Loss, ...]
    different: int
    total: int
    text: str = ""
    here: tuple[int, ...] = ()
    there: tuple[int, ...] = ()


def refusal(source: Tokenizer, to: str, options: WriteOptions) -> Refusal | None:
    """Write in memory and compare the built-in texts; None where the format cannot hold it."""
    from mtkit.tokenizer.probes import texts

    module = get_format(to)
    try:
        source, _ = asked_for(source, module, options)
        written = module.write(source.spec, options)
        main = memory_source(written)
        back = Tokenizer(module.read(main, {}).spec, source=main.name)
    except MtkitError:
        return None
    losses = tuple(loss for loss in written.losses if loss.code in ("ids", "ids-possible"))
    total, found = 0, []
    for text in texts():
        try:
            here, there = (one.encode_ids(text, add_special_tokens=False) for one in (source, back))
        except NoToken:
            continue
        total += 1
        if here != there:
            found.append((text, tuple(here), tuple(there)))
    shortest = min(found, key=lambda one: len(one[0]), default=("", (), ()))
    return Refusal(losses, len(found), total, *shortest)
