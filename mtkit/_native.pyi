"""Native core of mtkit."""

def build_info() -> str:
    """What the core was built with, for mtkit --version."""

def pack_strings(
    data: object, offset: int, count: int, wide: bool, big_endian: bool
) -> tuple[bytes, bytes]:
    """The strings of a GGUF array in one blob, and where each ends in it (u32)."""

def walk_strings(
    data: object, offset: int, count: int, wide: bool, big_endian: bool, every: int
) -> tuple[int, bytes]:
    """The offset behind a GGUF array's strings, and that of every so many of them (u64)."""
