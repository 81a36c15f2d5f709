"""Metadata and tensors of a GGUF as rows: chosen by name, in an order, equal blocks on one line.

A line of blocks: ``blk.0–31 × 9: attn_q Q4_K 4096×4096 · …``.
"""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.output import Escaped
from mtkit.commands.terminal import count_part, join_parts, part, sticky
from mtkit.errors import UsageError
from mtkit.inspection.document import format_short, format_whole, shape_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mtkit.gguf import Metadata, Tensor
    from mtkit.inspection.gguf import GgufReport, TensorGroup

    Kind = tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]

    """What blocks on one line have in common: prefix, tensor names and shapes."""


def choose_names(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that a pattern selects: part of the name, or with ``*?[`` the whole."""
    return list(names) if pattern is None else [*filter(name_matcher(pattern), names)]


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test for names: contains the pattern, or with ``*?[`` matches it as a glob."""
    if not set(pattern) & set("*?["):
        return lambda text: pattern in text
    import re
    from fnmatch import translate

    fits = re.compile(translate(pattern)).match
    return lambda text: fits(text) is not None


def metadata_rows(
    metadata: Metadata, keys: Iterable[str], *, is_whole: bool
) -> Iterable[tuple[str, str, Escaped]]:
    """Give rows of key, type and value."""
    for key in keys:
        value = metadata[key]
        name = metadata.type_name(key)
        text = format_whole(value, name) if is_whole else format_short(value, name)
        yield key, name, Escaped(text)


def tensor_row(tensor: Tensor) -> tuple[object, ...]:
    """Return name, shape, type, offset and bytes."""
    return tensor.name, shape_text(tensor), tensor.type.name, tensor.offset, tensor.n_bytes


SORT_KEYS = ("name", "type", "offset", "bytes", "parameters")


class GgufView:
    """A report with only the keys and tensors that match, sorted."""

    def __init__(self, report: GgufReport, pattern: str | None, sort: str | None) -> None:
        self.report = report
        file = report.file
        names = set(choose_names([tensor.name for tensor in file.tensors], pattern))
        self.keys = choose_names(file.metadata, pattern)
        self.tensors = [tensor for tensor in file.tensors if tensor.name in names]
        if sort == "name":
            self.keys.sort()
            self.tensors.sort(key=lambda tensor: tensor.name)
        elif sort == "type":
            self.keys.sort(key=file.metadata.type_name)
            self.tensors.sort(key=lambda tensor: tensor.type.name)
        elif sort == "offset":
            self.tensors.sort(key=lambda tensor: tensor.offset)
        elif sort == "bytes":
            self.tensors.sort(key=lambda tensor: -tensor.n_bytes)
        elif sort == "parameters":
            self.tensors.sort(key=lambda tensor: -tensor.n_elements)
        elif sort is not None:
            raise order_error(sort)


def order_error(sort: str) -> UsageError:
    """Return the error for an unknown sort key."""
    hint = f"known: {', '.join(SORT_KEYS)}"
    return UsageError(f"cannot sort by {sort!r}", field="--sort", hint=hint)


_MOST_KINDS = 3
_MOST_TENSORS = 12
"""Of one block; more are counted."""
_MOST_RANGES = 3


def fold_blocks(layers: Sequence[TensorGroup]) -> Iterator[list[object]]:
    """Yield lines: the blocks of each kind, then the tensors outside of blocks."""
    kinds: dict[Kind, list[TensorGroup]] = {}
    others: list[Tensor] = []
    for group in layers:
        if group.kind == "repeating" and group.name != "shared":
            kinds.setdefault(_block_kind(group), []).append(group)
        else:
            others += group.tensors
    total = output.Escaped(f"{output.format_number(sum(len(g.tensors) for g in layers))}   ")
    first = list(kinds.items())[:_MOST_KINDS]
    for (prefix, names), groups in first:
        label = sticky(
            f"{output.cell(prefix)}.{_format_ranges([_block_number(g) for g in groups])}"
        )
        head = [total, part("name", label), f" × {len(names)}: "]
        total = output.Escaped("")
        columns = zip(*(group.tensors for group in groups), strict=True)
        same = zip((name for name, _ in names), columns, strict=True)
        yield [*head, *_tensor_parts(same)]
    rest = sum(len(groups) for groups in kinds.values()) - sum(len(g) for _, g in first)
    if rest:
        yield [part("dim", f"{count_part(rest, 'block')} of {len(kinds) - len(first)} more kinds")]
    if others:
        yield [total, *_tensor_parts((tensor.name, (tensor,)) for tensor in others)]


def _block_kind(group: TensorGroup) -> Kind:
    prefix = group.name.rpartition(".")[0]
    begin = f"{group.name}."
    return prefix, tuple(
        (tensor.name.removeprefix(begin), tensor.shape) for tensor in group.tensors
    )


def _block_number(group: TensorGroup) -> int:
    return int(group.name.rpartition(".")[2])


def _format_ranges(numbers: list[int]) -> str:
    """Return numbers as ranges: 0–31, or 0,2,4 … (16)."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(low) if low == high else f"{low}–{high}" for low, high in ranges[:_MOST_RANGES]]
    more = f" … ({len(numbers)})" if len(ranges) > _MOST_RANGES else ""
    return ",".join(texts) + more


def _tensor_parts(columns: Iterable[tuple[str, Sequence[Tensor]]]) -> list[object]:
    """Return name, types and shape of what is one tensor in each block of a kind."""
    rows = list(columns)
    items: list[object] = []
    for name, same in rows[:_MOST_TENSORS]:
        types = "/".join(dict.fromkeys(str(tensor.type) for tensor in same))
        text = f"{name.removesuffix('.weight')} {types} {shape_text(same[0], '×')}"
        items.append(sticky(output.cell(text)))
    if len(rows) > _MOST_TENSORS:
        items.append(part("dim", sticky(f"{len(rows) - _MOST_TENSORS} more")))
    return join_parts(items)
