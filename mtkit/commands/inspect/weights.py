"""The table of tensors of safetensors files, alone or in a model folder."""

from __future__ import annotations

from mtkit.commands import output, values
from mtkit.commands.inspect.view import SORT_KEYS, unknown_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from mtkit.checkpoints.safetensors import Weight
    from mtkit.inspection.safetensors import WeightRow

_WIDE = 100
"""Columns of a terminal from which sizes and files have room beside two names."""
_ORDERS: dict[str, Callable[[WeightRow], Any]] = {
    "name": lambda row: row.weight.name,
    "type": lambda row: row.weight.type,
    "offset": lambda row: (row.file, row.weight.offset),
    "bytes": lambda row: -row.weight.n_bytes,
    "parameters": lambda row: -row.weight.n_elements,
}


def cells(row: WeightRow) -> tuple[object, ...]:
    """Return the row of a tensor in a pipe."""
    one = row.weight
    shown = (one.name, shape_text(one, "x"), one.type, one.offset, one.n_bytes)
    if row.gguf is not None:
        return (*shown, row.file, " ".join(row.gguf))
    return (*shown, row.file) if row.file else shown


def chosen(rows: Iterable[WeightRow], pattern: str | None, sort: str | None) -> list[WeightRow]:
    """Return the rows that were asked for, by a name of theirs, in the order asked for.

    Raises:
        UsageError: The order is none.
    """
    fits = values.matcher(pattern or "")
    kept = [row for row in rows if any(map(fits, (row.weight.name, *(row.gguf or ()))))]
    if sort is not None and sort not in SORT_KEYS:
        raise unknown_order(sort)
    return sorted(kept, key=_ORDERS[sort]) if sort else kept


def shape_text(weight: Weight, between: str) -> str:
    """Return a shape, slowest axis first as the file has it."""
    return between.join(map(str, weight.shape)) or "1"


def show_table(rows: Sequence[WeightRow], whole: int) -> None:
    """Show tensors on a terminal, of how many there are."""
    from mtkit.commands.terminal import Screen

    screen = Screen()
    many = output.grouped(whole) if len(rows) == whole else f"{len(rows)} of {whole}"
    screen.heading("tensors", many)
    has_gguf = any(row.gguf for row in rows)
    has_room = screen.width >= _WIDE or not has_gguf
    has_files = has_room and len({row.file for row in rows}) > 1
    columns = ["name", "shape>", "type", *["size>:dim"] * has_room]
    columns += ["in the GGUF:name"] * has_gguf + ["file:dim"] * has_files
    cells = []
    for row in rows:
        one = row.weight
        cell = [one.name, shape_text(one, "×"), one.type, *[output.size(one.n_bytes)] * has_room]
        cells.append([*cell, *[" ".join(row.gguf or ())] * has_gguf, *[row.file] * has_files])
    screen.table(columns, cells, elastic=len(columns) - 1 if has_files else 0, indent=2)
