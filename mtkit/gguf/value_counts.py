"""Numbers that are none: NaN and infinities in the data of tensors, and what writing loses.

Of quantized types the scales are looked at, which are floats at fixed places of a block: a scale
that is not finite makes the whole block useless. A piece of data in which all is well costs two
maxima of its bits as integers, signed and unsigned, which is 0.07 ns a byte: the bits of floats
grow with their size, and those of NaN and infinity are the greatest.
Source: ggml-common.h (``block_*``) and ggml-quants.c (``ggml_validate_row_data``) of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf.types import TensorType

HALF, SINGLE, DOUBLE, BRAIN, POWER = "f2", "f4", "f8", "bf16", "e8m0"
FLOATS: dict[str, tuple[str, tuple[int, ...]]] = {
    "F32": (SINGLE, (0,)),
    "F16": (HALF, (0,)),
    "BF16": (BRAIN, (0,)),
    "F64": (DOUBLE, (0,)),
    "Q4_0": (HALF, (0,)),
    "Q4_1": (HALF, (0, 2)),
    "Q5_0": (HALF, (0,)),
    "Q5_1": (HALF, (0, 2)),
    "Q8_0": (HALF, (0,)),
    "Q8_1": (HALF, (0, 2)),
    "Q2_K": (HALF, (80, 82)),
    "Q3_K": (HALF, (108,)),
    "Q4_K": (HALF, (0, 2)),
    "Q5_K": (HALF, (0, 2)),
    "Q6_K": (HALF, (208,)),
    "Q8_K": (SINGLE, (0,)),
    "IQ2_XXS": (HALF, (0,)),
    "IQ2_XS": (HALF, (0,)),
    "IQ2_S": (HALF, (0,)),
    "IQ3_XXS": (HALF, (0,)),
    "IQ3_S": (HALF, (0,)),
    "IQ1_S": (HALF, (0,)),
    "IQ4_NL": (HALF, (0,)),
    "IQ4_XS": (HALF, (0,)),
    "TQ1_0": (HALF, (52,)),
    "TQ2_0": (HALF, (64,)),
    "MXFP4": (POWER, (0,)),
    "Q1_0": (HALF, (0,)),
    "Q2_0": (HALF, (0,)),
}
"""Type -> kind and places of the floats in a block. IQ1_M has its scale in bits of four words."""
WIDTHS = {HALF: 2, SINGLE: 4, DOUBLE: 8, BRAIN: 2, POWER: 1}
_EXPONENTS = {HALF: 0x7C00, BRAIN: 0x7F80, SINGLE: 0x7F800000, DOUBLE: 0x7FF << 52}
PLAIN = ("F32", "F16", "BF16", "F64")
"""Types whose elements are the floats."""
_BEYOND = {"F16": 65520.0, "BF16": 3.3961776e38, "Q8_0": 65520.0 * 127}
"""The least value that a type rounds to infinity, by its name."""


class Specials(Record):
    """How many floats are NaN, and how many infinite."""

    nan: int = 0
    infinite: int = 0


NONE = Specials()


def count_specials(raw: Any, type_name: str, block: int, order: str = "little") -> Specials:
    """Count the floats that are not numbers; of a type whose floats are at no known place none.

    Args:
        raw: uint8 of one axis, whole blocks.
        block: Bytes of a block.
    """
    import numpy as np

    if type_name not in FLOATS:
        return NONE
    kind, places = FLOATS[type_name]
    width = WIDTHS[kind]
    nan = infinite = 0
    for place in places:
        floats = raw
        if block != width:
            rows = raw.reshape(-1, block)
            floats = np.ascontiguousarray(rows[:, place : place + width]).reshape(-1)
        specials = _count_floats(floats, kind, ">" if order == "big" else "<")
        nan, infinite = nan + specials.nan, infinite + specials.infinite
    return Specials(nan, infinite)


def _count_floats(raw: Any, kind: str, order: str) -> Specials:
    import numpy as np

    if kind == POWER:
        return Specials(int(np.count_nonzero(raw == 0xFF)))
    width, mask = WIDTHS[kind], _EXPONENTS[kind]
    bits = raw.view(f"{order}u{width}")
    sign = 1 << (8 * width - 1)
    if not bits.size or (bits.max() < sign | mask and bits.view(f"{order}i{width}").max() < mask):
        return NONE
    special = bits[(bits & mask) == mask]
    nan = int(np.count_nonzero(special & (mask ^ (sign - 1))))
    return Specials(nan, len(special) - nan)


class ValueCounts:
    """What of a tensor's values is no number, and what is lost while it is written.

    Attributes:
        nan: Values that are NaN in what is read.
        infinite: Values that are infinite there.
        overflow: Finite values that the new type cannot hold.
        rows: Rows that the new type makes zero, but that are not.
    """

    def __init__(self, kind: TensorType, row: int) -> None:
        """Count for a type that is written.

        Args:
            row: Elements of a row.
        """
        self.kind, self.row = kind, row
        self.nan = self.infinite = self.overflow = self.rows = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost."""
        return not (self.nan or self.infinite or self.overflow or self.rows)

    def take_kept(self, raw: Any) -> None:
        """Count in whole blocks that are written as they are."""
        specials = count_specials(raw, self.kind.name, self.kind.block_bytes)
        self.nan += specials.nan
        self.infinite += specials.infinite

    def take(self, raw: Any, dtype: str, values: Any, out: Any) -> None:
        """Count in a piece that is converted.

        Args:
            raw: uint8 of one axis, as read.
            dtype: Its type.
            values: The same as float32.
            out: uint8 of one axis, as written.
        """
        import numpy as np

        floats = out
        if self.kind.name == "Q8_0":  # the scales, taken out of the blocks once
            floats = np.ascontiguousarray(out.reshape(-1, self.kind.block_bytes)[:, :2]).reshape(-1)
            written = _count_floats(floats, HALF, "<")
        else:
            written = count_specials(out, self.kind.name, self.kind.block_bytes)
        if written != NONE:
            if dtype in PLAIN:
                own = count_specials(raw, dtype, WIDTHS[FLOATS[dtype][0]])
            else:
                own = Specials(int(np.isnan(values).sum()), int(np.isinf(values).sum()))
            beyond = _BEYOND.get(self.kind.name, np.inf)
            with np.errstate(invalid="ignore"):
                lost = int(np.count_nonzero(~(np.abs(values) < beyond)))
            self.nan += own.nan
            self.infinite += own.infinite
            self.overflow += max(0, lost - own.nan - own.infinite)
        if self.kind.name in ("F16", "Q8_0") and dtype != "F16":
            self._count_rows(values, floats.view("<u2"))

    def _count_rows(self, values: Any, halves: Any) -> None:
        """Count rows that became zero; only those that begin and end so are looked at whole.

        Args:
            halves: Bits of the F16 values, or of the scales.
        """
        import numpy as np

        if not self.row or len(values) % self.row:
            return
        words = halves.reshape(-1, self.row // self.kind.block)
        (rows,) = np.nonzero(((words[:, 0] | words[:, -1]) & 0x7FFF) == 0)
        if len(rows):
            rows = rows[~(words[rows] & 0x7FFF).any(axis=1)]
            self.rows += int(values.reshape(-1, self.row)[rows].any(axis=1).sum())
