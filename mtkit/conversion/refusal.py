"""What a conversion that was refused would have changed: how many texts, and one of them."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.conversion.convert import asked_for
from mtkit.conversion.verify import Comparison, memory_source, plain_ids
from mtkit.errors import MtkitError
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
    from mtkit.tokenizer.probes import special_texts, texts

    module = get_format(to)
    try:
        source, _ = asked_for(source, module, options)
        written = module.write(source.spec, options)
        main = memory_source(written)
        back = Tokenizer(module.read(main, {}).spec, source=main.name)
    except MtkitError:
        return None
    losses = tuple(loss for loss in written.losses if loss.code in ("ids", "ids-possible"))
    found = Comparison(source, back, written.losses, [*texts(), *special_texts(source.spec)])
    shortest: tuple[str, tuple[int, ...], tuple[int, ...]] = ("", (), ())
    for text in sorted(found.ordinary, key=len):
        here, there = (plain_ids(one, text) or [] for one in (source, back))
        if here != there:
            shortest = text, tuple(here), tuple(there)
            break
    return Refusal(losses, len(found.ordinary), found.total, *shortest)
