"""Values that a conversion loses: named and refused, unless ``--allow-loss values`` is given.

They are counted while the tensors are written; a conversion that is refused leaves no file. Where
the type is for mtkit to choose and F16 is too narrow, the tensors in question are BF16 in a second
try, which is the only case that is written twice.
"""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.errors import LossError, allowing, format_count, wording
from mtkit.formats.contract import Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import TypeVar

    from mtkit.formats.contract import LossCode
    from mtkit.gguf.value_counts import ValueCounts

    Plan = TypeVar("Plan")
    Result = TypeVar("Result")

CODE: LossCode = "values"
_WIDER = {
    "F16": "bf16 or f32 holds all",
    "Q8_0": "bf16 or f32 holds all",
    "BF16": "f32 holds all",
}
_ALL = "; mtkit check FOLDER --deep lists all"


class NarrowTypeError(LossError):
    """F16, which nobody asked for, is too narrow.

    Attributes:
        tensors: Names of the tensors that it does not hold.
    """

    tensors: frozenset[str] = frozenset()


class ValueLosses:
    """What the tensors of a file lose, as they are written one after the other."""

    def __init__(self, *, allowed: bool, wide: Collection[str] | None = None) -> None:
        """Begin without losses.

        Args:
            allowed: Keep the losses instead of refusing the first.
            wide: Tensors that are BF16 in place of F16; None: the type was asked for.
        """
        self.allowed, self.wide = allowed, wide
        self.losses: dict[str, Loss] = {}
        self.tensors = 0
        """Those that are still to be written."""
        self._narrow: list[str] = []

    def end(self, name: str, counts: ValueCounts) -> None:
        """Take the counts of a tensor that was written.

        Raises:
            NarrowTypeError: All are written, and the type that mtkit chose is too narrow.
            LossError: Something is lost and may not.
        """
        self.tensors -= 1
        lost_to_type = bool(counts.overflow or counts.rows)
        if lost_to_type and self.wide is not None and counts.kind.name == "F16":
            self._narrow.append(name)
        elif not counts.is_clean:
            field = f"tensor {quoted(name)}"
            what = "; ".join(_effects(counts))
            if not self.allowed:
                hint = f"{allowing(CODE)} converts it anyway"
                wider = _WIDER.get(counts.kind.name)
                hint += f"; {wording('--type', 'kind')} {wider}" if lost_to_type and wider else _ALL
                raise LossError(what, field=field, hint=hint)
            self.losses[name] = Loss(CODE, field, what)
        if not self.tensors and self._narrow:
            field = f"tensor {quoted(self._narrow[0])}"
            error = NarrowTypeError("values overflow F16", field=field)
            error.tensors = frozenset(self._narrow)
            raise error


def _effects(counts: ValueCounts) -> Iterator[str]:
    name = counts.kind.name
    unit = "value" if counts.kind.block == 1 else "value or scale"
    for number, what, which in (
        (counts.nan, unit, "not a number (NaN)"),
        (counts.infinite, unit, "infinite"),
        (counts.overflow, "value", f"too large for {name}, infinite in it"),
        (counts.rows, "row", f"too small for {name}, zero in it"),
    ):
        if number:
            yield f"{format_count(number, what)} {'is' if number == 1 else 'are'} {which}"


def write_in_range(
    prepare: Callable[[Collection[str]], Plan], write: Callable[[Plan], Result]
) -> Result:
    """Prepare and write; once more with BF16 for the tensors that F16 does not hold.

    Args:
        prepare: Gets the names of these tensors.
    """
    try:
        return write(prepare(()))
    except NarrowTypeError as error:
        return write(prepare(error.tensors))
