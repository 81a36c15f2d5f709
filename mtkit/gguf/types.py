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
    """Type of a tensor's elements, stored in blocks.

    Attributes:
        block_bytes: Bytes of a block; 0 if unknown, as for all types with an ``origin``.
        origin: The program that has the type, if ggml does not.
    """

    number: int
    name: str
    block: int
    block_bytes: int
    origin: str = ""

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

BITNET, IK, FORK = "bitnet.cpp", "ik_llama.cpp", "a fork of llama.cpp"
_FORK_NAMES = {
    133: "Q6_0", 134: "IQ1_BN", 135: "IQ2_BN", 136: "Q8_K64", 137: "IQ2_K", 138: "IQ3_K",
    139: "IQ4_K", 140: "IQ5_K", 141: "IQ6_K", 144: "IQ4_KS", 145: "IQ2_KS", 146: "IQ4_KSS",
    147: "Q8_K16", 148: "Q8_K32", 149: "Q8_KR8", 150: "Q8_K128", 151: "Q8_KV", 152: "IQ5_KS",
    153: "IQ2_KT", 154: "IQ3_KT", 155: "IQ4_KT", 156: "IQ3_KS", 157: "IQ2_KL", 158: "IQ1_KT",
    202: "Q4_0_R8", 206: "Q5_0_R4", 208: "Q8_0_R8", 210: "Q2_K_R4", 211: "Q3_K_R4",
    212: "Q4_K_R4", 213: "Q5_K_R4", 214: "Q6_K_R4", 216: "IQ2_XXS_R4", 217: "IQ2_XS_R4",
    218: "IQ3_XXS_R4", 219: "IQ1_S_R4", 220: "IQ4_NL_R4", 221: "IQ3_S_R4", 222: "IQ2_S_R4",
    223: "IQ4_XS_R8", 229: "IQ1_M_R4", 230: "BF16_R16", 233: "Q6_0_R4", 335: "IQ2_BN_R4",
    337: "IQ2_K_R4", 338: "IQ3_K_R4", 339: "IQ4_K_R4", 340: "IQ5_K_R4", 344: "IQ4_KS_R4",
    352: "IQ5_KS_R4", 398: "Q8_KV_R8", 399: "Q8_K_R8",
}  # fmt: skip
"""Source: ggml.h of ik_llama.cpp."""
_BITNET_NAMES = {36: "I2_S", 37: "I8_S", 38: "TL1"}
"""Source: ggml.h of bitnet.cpp. Its 39, TL2, is ggml's MXFP4 now."""
_FORK_NUMBERS = range(128, 512)
"""Numbers that forks take so as not to collide with ggml's next ones."""


def fork_type(number: int) -> TensorType | None:
    """Return a type that a fork of llama.cpp writes; None: the number is no fork's."""
    if number in _BITNET_NAMES:
        return TensorType(number, _BITNET_NAMES[number], 1, 0, BITNET)
    if number in _FORK_NAMES:
        return TensorType(number, _FORK_NAMES[number], 1, 0, IK)
    name = f"type {number}"
    return TensorType(number, name, 1, 0, FORK) if number in _FORK_NUMBERS else None


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
