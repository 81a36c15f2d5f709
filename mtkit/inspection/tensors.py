"""The tensors of a model: which types, in which layers, for what."""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.gguf import Tensor

# Tensors outside the blocks that llama.cpp counts to the input; the rest belongs to the output.
_INPUT = ("token_embd", "position_embd", "token_types", "per_layer_", "enc.token_embd", "v.", "a.")
_SHARED = ("rope_freqs", "rope_factors")
"""Used by every block, stored once."""


class Mix(Record):
    """The tensors of one type."""

    type: str
    tensors: int
    parameters: int
    n_bytes: int


class Group(Record):
    """The tensors of one layer.

    Attributes:
        name: ``input``, a block such as ``blk.0``, ``shared``, or ``output``.
        kind: ``input``, ``repeating`` or ``output``, as llama.cpp places layers.
        tensors: In file order.
    """

    name: str
    kind: str
    tensors: tuple[Tensor, ...]

    @property
    def parameters(self) -> int:
        """Elements of the group's tensors."""
        return sum(tensor.n_elements for tensor in self.tensors)

    @property
    def n_bytes(self) -> int:
        """Bytes of the group's tensors."""
        return sum(tensor.n_bytes for tensor in self.tensors)


def quantization_mix(tensors: Iterable[Tensor]) -> tuple[Mix, ...]:
    """Count tensors by type; the type with most bytes first."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type.name, []).append(tensor)
    mix = [
        Mix(name, len(same), sum(t.n_elements for t in same), sum(t.n_bytes for t in same))
        for name, same in by_type.items()
    ]
    return tuple(sorted(mix, key=lambda item: -item.n_bytes))


def groups(tensors: Iterable[Tensor]) -> tuple[Group, ...]:
    """Sort tensors into input, blocks by number, and output."""
    found: dict[tuple[int, str, int], list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(_place(tensor.name), []).append(tensor)
    kinds = ("input", "repeating", "repeating", "output")
    return tuple(
        Group(f"{prefix}.{number}" if order == 1 else prefix, kinds[order], tuple(same))
        for (order, prefix, number), same in sorted(found.items(), key=lambda item: item[0])
    )


def _place(name: str) -> tuple[int, str, int]:
    """Order of a tensor's group, its name, and the number of the block."""
    parts = name.split(".")
    for index, part in enumerate(parts[1:], 1):
        if part.isascii() and part.isdecimal() and len(part) < 6:
            return 1, ".".join(parts[:index]), int(part)
    if name.startswith(_INPUT):
        return 0, "input", 0
    if name.startswith(_SHARED):
        return 2, "shared", 0
    return 3, "output", 0


def places(tensors: Iterable[Tensor]) -> tuple[tuple[str, int], ...]:
    """Sum the bytes by purpose: (purpose, bytes), the largest first."""
    sums: dict[str, int] = {}
    for tensor in tensors:
        purpose = _purpose(tensor.name)
        sums[purpose] = sums.get(purpose, 0) + tensor.n_bytes
    return tuple(sorted(sums.items(), key=lambda item: -item[1]))


def _purpose(name: str) -> str:
    parts = [part for part in name.split(".") if not part.isdecimal()] or [name]
    if parts[-1] in {"weight", "bias", "scale"} and len(parts) > 1:
        parts.pop()
    own = parts[-1]
    if "norm" in own:
        return "norms"
    if own in {"token_embd", "output"} or len(parts) == 1:
        return own if own in {"token_embd", "output"} else "other"
    if own.endswith(("_exps", "_exp")):
        return "experts"
    for begin, purpose in (("ffn", "ffn"), ("attn", "attention"), ("cross_attn", "attention"),
                           ("ssm", "ssm"), ("time_mix", "time mix")):  # fmt: skip
        if own.startswith(begin):
            return purpose
    return "other"
