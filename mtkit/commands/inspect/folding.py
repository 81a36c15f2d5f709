"""Blocks of the same tensors as one line: ``blk.0–31 × 9: attn_q Q4_K 4096×4096 · …``."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.terminal import count, joined, part, sticky
from mtkit.inspection.value_text import shape_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtkit.gguf import Tensor
    from mtkit.inspection.tensors import Group

    Kind = tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]
    """What the blocks of a line have in common: their prefix, names and shapes of tensors."""

_MOST_KINDS = 3
_MOST_TENSORS = 12
"""Of one block; more are counted."""
_MOST_RANGES = 3


def folded_blocks(layers: Sequence[Group]) -> Iterator[list[object]]:
    """Yield lines: the blocks of each kind, then the tensors outside of blocks."""
    kinds: dict[Kind, list[Group]] = {}
    others: list[Tensor] = []
    for group in layers:
        if group.kind == "repeating" and group.name != "shared":
            kinds.setdefault(_kind(group), []).append(group)
        else:
            others += group.tensors
    total = output.Escaped(f"{output.grouped(sum(len(g.tensors) for g in layers))}   ")
    shown = list(kinds.items())[:_MOST_KINDS]
    for (prefix, names), groups in shown:
        label = sticky(f"{output.cell(prefix)}.{_ranges([_number(g) for g in groups])}")
        head = [total, part("name", label), f" × {len(names)}: "]
        total = output.Escaped("")
        columns = zip(*(group.tensors for group in groups), strict=True)
        same = zip((name for name, _ in names), columns, strict=True)
        yield [*head, *_tensors(same)]
    rest = sum(len(groups) for groups in kinds.values()) - sum(len(g) for _, g in shown)
    if rest:
        yield [part("dim", f"{count(rest, 'block')} of {len(kinds) - len(shown)} more kinds")]
    if others:
        yield [total, *_tensors((tensor.name, (tensor,)) for tensor in others)]


def _kind(group: Group) -> Kind:
    prefix = group.name.rpartition(".")[0]
    begin = f"{group.name}."
    return prefix, tuple((one.name.removeprefix(begin), one.shape) for one in group.tensors)


def _number(group: Group) -> int:
    return int(group.name.rpartition(".")[2])


def _ranges(numbers: list[int]) -> str:
    """Return numbers as ranges: 0–31, or 0,2,4 … (16)."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    texts = [str(low) if low == high else f"{low}–{high}" for low, high in found[:_MOST_RANGES]]
    more = f" … ({len(numbers)})" if len(found) > _MOST_RANGES else ""
    return ",".join(texts) + more


def _tensors(columns: Iterable[tuple[str, Sequence[Tensor]]]) -> list[object]:
    """Return name, types and shape of what is one tensor in each block of a kind."""
    known = list(columns)
    items: list[object] = []
    for name, same in known[:_MOST_TENSORS]:
        types = "/".join(dict.fromkeys(str(tensor.type) for tensor in same))
        shown = f"{name.removesuffix('.weight')} {types} {shape_text(same[0], '×')}"
        items.append(sticky(output.cell(shown)))
    if len(known) > _MOST_TENSORS:
        items.append(part("dim", sticky(f"{len(known) - _MOST_TENSORS} more")))
    return joined(items)
