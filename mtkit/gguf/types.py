"""Constants of GGUF: value types, tensor types with their blocks, file types.

Own tables: the ``gguf`` package costs 150 ms to import and stops at tensor type 41; a test compares
them with its own. Source: ggml.h, ggml.c (``type_traits``), llama.h.
"""

from __future__ import annotations

from mtkit.base.record import Record


class ValueType(Record):
    """Type of a metadata value.

    Attributes:
        code: struct letter of one element; empty for strings and arrays.
        size: Bytes of one element; 0 for strings and arrays.
    """

    number: int
    name: str
    code: str
    size: int


class TensorType(Record):
    """Type of a tensor's elements, stored in blocks."""

    number: int
    name: str
    block: int
    block_bytes: int

    def __str__(self) -> str:
        return self.name


VALUE_TYPES = {
    number: ValueType(number, name, code, size)
    for number, (name, code, size) in enumerate(
        (
            ("u8", "B", 1),
            ("i8", "b", 1),
            ("u16", "H", 2),
            ("i16", "h", 2),
            ("u32", "I", 4),
            ("i32", "i", 4),
            ("f32", "f", 4),
            ("bool", "B", 1),
            ("string", "", 0),
            ("array", "", 0),
            ("u64", "Q", 8),
            ("i64", "q", 8),
            ("f64", "d", 8),
        )
    )
}
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = VALUE_TYPES.values()
BY_NAME = {value_type.name: value_type for value_type in VALUE_TYPES.values()}

TENSOR_TYPES = {
    number: TensorType(number, name, block, block_bytes)
    for number, name, block, block_bytes in (
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 36),  # the gguf package says 40, an older layout
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
        (42, "Q2_0", 64, 18),
    )
}

REMOVED_TENSOR_TYPES = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}

FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    4: "Q4_1, some F16",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""``general.file_type``: the mix of types that the quantizer was to write."""
MIXES = {name: number for number, name in FILE_TYPES.items() if " " not in name}
"""Name of a mix that a quantizer can write -> its number."""

GUESSED_FILE_TYPE = 1024
"""Flag in ``general.file_type``: not stated by the file, guessed by a loader."""
