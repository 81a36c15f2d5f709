"""What is true of every GGUF: one rule a row, in the order in which a file is read.

``STRUCTURE`` says what the reading itself depends on: behind what breaks it nothing can be read.
The other tables are held against the records of ``file``: the header, entries, tensors as the table
has them, tensors in the data section, and the section. What is true of files that belong together
is in ``shards``. Where the format document and llama.cpp differ, what satisfies one of them is
read, with a warning.

Source: docs/gguf.md of ggml ("gguf.md"); gguf.cpp, llama-model-loader.cpp of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.escape import is_utf8
from mtkit.base.rules import COUNT, TRUNCATED, Rule, too_many
from mtkit.gguf.file import MAGIC, MAGIC_RULE, VERSION_RULE, is_edit_unfinished
from mtkit.gguf.types import (
    ARRAY,
    BOOL,
    I8,
    I16,
    I32,
    I64,
    REMOVED_TENSOR_TYPES,
    STRING,
    U8,
    U16,
    U32,
    U64,
    VALUE_TYPES,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf.file import Entry, GgufFile, Header, Section, Tensor
    from mtkit.gguf.types import TensorType, ValueType

MAX_ENTRIES = 1 << 18
"""Keys or tensors in one file; reading more would take seconds, and models have a few thousand."""
MAX_STRING_BYTES = 1 << 30
"""llama.cpp's limit for one key, name or value."""
MAX_STRINGS = 1 << 24
"""Strings in one array; walking more would take seconds, the largest vocabularies have 2^19."""
MAX_DEPTH = 100
"""Levels of nested arrays."""
MAX_NESTED = 1 << 16
"""Arrays inside one nested array, all levels together."""
MAX_KEY_BYTES = 65535
MAX_NAME_BYTES = 64
MAX_AXES = 4
SIGNED_LIMIT = 1 << 63
"""llama.cpp keeps axes, element counts and sizes in signed 64 bits."""

FORMAT = "gguf.md"
GGML = "ggml"
LLAMA_CPP = "llama.cpp"
MTKIT = "a limit of mtkit"

_KEY_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")
LOOKED_AT_BYTES = 1 << 16
"""How much of a padding or of an array of bool is looked at."""
INTEGERS = (U8, I8, U16, I16, U32, I32, U64, I64)


# The file as a whole


def _unfinished(path: str) -> str:
    interrupted = path not in ("", "-") and is_edit_unfinished(path)
    return "an edit of the file was interrupted" if interrupted else ""


UNFINISHED = Rule(
    "edit-unfinished", "warning", "mtkit", "", _unfinished, "mtkit edit FILE --in-place finishes it"
)
"""Asked of the path; the header may be half the old one and half the new one."""


# What the reading depends on


def _value_type(number: int) -> str:
    return "" if number in VALUE_TYPES else f"is of unknown type {number}"


def _element_type(number: int) -> str:
    return "" if number in VALUE_TYPES else f"is an array of unknown type {number}"


def _string_length(size: int) -> str:
    return f"is {size} bytes long, but the limit is {MAX_STRING_BYTES}" * (size > MAX_STRING_BYTES)


def _strings(count: int) -> str:
    return f"has {count} strings, but the limit is {MAX_STRINGS}" * (count > MAX_STRINGS)


def _depth(levels: int) -> str:
    return f"is nested more than {MAX_DEPTH} levels deep" * (levels > MAX_DEPTH)


def _nested(count: int) -> str:
    return f"holds more than {MAX_NESTED} arrays" * (count > MAX_NESTED)


def _axes(count: int) -> str:
    return f"has {count} axes, more than {MAX_AXES}" * (count > MAX_AXES)


VALUE_TYPE = Rule("value-type", "error", FORMAT, "type", _value_type)
ELEMENT_TYPE = Rule("element-type", "error", FORMAT, "value", _element_type)
STRING_LENGTH = Rule("string-length", "error", LLAMA_CPP, "value", _string_length)
STRINGS = Rule("array-strings", "error", MTKIT, "value", _strings)
DEPTH = Rule("array-depth", "error", MTKIT, "value", _depth)
NESTED = Rule("array-nested", "error", MTKIT, "value", _nested)
AXES = Rule("tensor-axes", "error", FORMAT, "shape", _axes)
STRUCTURE = (MAGIC_RULE, VERSION_RULE, TRUNCATED, COUNT, STRING_LENGTH, VALUE_TYPE, ELEMENT_TYPE,
             STRINGS, DEPTH, NESTED, AXES)  # fmt: skip


# The header


def _keys_fit(count: int, header: Header, file: GgufFile) -> str:
    return too_many(count, header.width + 6, len(file.data) - header.end)  # a letter, a byte


def _tensors_fit(count: int, header: Header, file: GgufFile) -> str:
    return too_many(count, 2 * header.width + 16, len(file.data) - header.end)  # no axis, no letter


def _limited(count: int, *_: object) -> str:
    return f"is {count}, but the limit is {MAX_ENTRIES}" * (count > MAX_ENTRIES)


HEADER = (
    Rule("key-count", "error", FORMAT, "metadata_kv_count", _keys_fit, COUNT.advice),
    Rule("tensor-count", "error", FORMAT, "tensor_count", _tensors_fit, COUNT.advice),
    Rule("key-limit", "error", MTKIT, "metadata_kv_count", _limited),
    Rule("tensor-limit", "error", MTKIT, "tensor_count", _limited),
)


# An entry of the metadata


def _empty(text: str, *_: object) -> str:
    return "" if text else "is empty"


def _one_key(key: str, entry: Entry, file: GgufFile) -> str:
    return "" if file.metadata.entries[key] is entry else "occurs twice"


def _key_letters(key: str, *_: object) -> str:
    if _KEY_LETTERS.issuperset(key) or "\0" in key or not is_utf8(key):
        return ""
    return "has characters other than a-z 0-9 _ . -"


def _key_nul(key: str, *_: object) -> str:
    return "contains a NUL byte, where C programs end it" * ("\0" in key)


def _key_text(key: str, *_: object) -> str:
    return "" if is_utf8(key) else "is not valid UTF-8"


def _key_length(key: str, *_: object) -> str:
    return f"is {len(key)} bytes long, more than {MAX_KEY_BYTES}" * (len(key) > MAX_KEY_BYTES)


def _text(value: object, entry: Entry, _: object) -> str:
    wrong = entry.type is STRING and not is_utf8(str(value))
    return "a string that is not UTF-8" * wrong


def _bool(_: object, entry: Entry, file: GgufFile) -> str:
    byte = file.data[entry.value_offset] if entry.type is BOOL else 0
    return f"is byte {byte}, not 0 or 1; mtkit reads true" * (byte > 1)


def _bools(_: object, entry: Entry, file: GgufFile) -> str:
    if entry.type is not ARRAY or entry.value.element is not BOOL:
        return ""
    start, end = entry.value.offset, entry.value.end
    odd = bytes(file.data[start : min(end, start + LOOKED_AT_BYTES)]).translate(None, b"\0\1")
    return "has bytes other than 0 and 1; mtkit reads them as true" * bool(odd)


ENTRY = (
    Rule("key-empty", "error", FORMAT, "key", _empty),
    Rule("key-twice", "error", LLAMA_CPP, "key", _one_key),
    Rule("key-nul", "warning", FORMAT, "key", _key_nul),
    Rule("key-text", "warning", FORMAT, "key", _key_text),
    Rule("key-letters", "warning", FORMAT, "key", _key_letters),
    Rule("key-length", "warning", FORMAT, "key", _key_length),
    Rule("string-text", "warning", FORMAT, "value", _text),
    Rule("bool", "warning", FORMAT, "value", _bool),
    Rule("bool-array", "warning", FORMAT, "value", _bools),
)


def _integer(value_type: ValueType, *_: object) -> str:
    return "" if value_type in INTEGERS else f"is of type {value_type.name}, not u32"


def _is_u32(value_type: ValueType, *_: object) -> str:
    return _other_type(value_type, "u32") if value_type in INTEGERS else ""


def _is_u16(value_type: ValueType, *_: object) -> str:
    return _other_type(value_type, "u16")


def _is_i32(value_type: ValueType, *_: object) -> str:
    return _other_type(value_type, "i32")


def _other_type(value_type: ValueType, wanted: str) -> str:
    return f"is of type {value_type.name}, not {wanted}" * (value_type.name != wanted)


def _power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _alignment(value: int, entry: Entry, _: object) -> str:
    known = entry.type not in INTEGERS or _power(value) or (value > 0 and value % 8 == 0)
    return "" if known else f"is {value}, neither a power of two nor a multiple of 8"


def _alignment_power(value: int, entry: Entry, _: object) -> str:
    wrong = entry.type in INTEGERS and value > 0 and value % 8 == 0 and not _power(value)
    return f"is {value}, not a power of two" * wrong


def _alignment_multiple(value: int, entry: Entry, _: object) -> str:
    wrong = entry.type in INTEGERS and _power(value) and value % 8 != 0
    return f"is {value}, not a multiple of 8" * wrong


ALIGNMENT = "general.alignment"
KEYS = {
    ALIGNMENT: (
        Rule("alignment-type", "error", FORMAT, "type", _integer),
        Rule("alignment", "error", FORMAT, "value", _alignment),
        Rule("alignment-width", "warning", FORMAT, "type", _is_u32),
        Rule("alignment-power", "warning", LLAMA_CPP, "value", _alignment_power),
        Rule("alignment-multiple", "warning", FORMAT, "value", _alignment_multiple),
    ),
    "split.count": (Rule("split-type", "warning", LLAMA_CPP, "type", _is_u16),),
    "split.no": (Rule("split-type", "warning", LLAMA_CPP, "type", _is_u16),),
    "split.tensors.count": (Rule("split-type", "warning", LLAMA_CPP, "type", _is_i32),),
}
"""What is true of single entries, besides ``ENTRY``."""


# A tensor


def _one_name(name: str, tensor: Tensor, file: GgufFile) -> str:
    return "" if file.names[name] is tensor else "is the name of two tensors"


def _name_empty(name: str, *_: object) -> str:
    return "" if name else "has no name"


def _name_text(name: str, *_: object) -> str:
    return "" if is_utf8(name) else "has a name that is not UTF-8"


def _name_nul(name: str, *_: object) -> str:
    return "has a NUL byte in its name, where C programs end it" * ("\0" in name)


def _name_length(name: str, *_: object) -> str:
    size = len(name.encode("utf-8", "surrogateescape"))
    return f"has a name of {size} bytes, more than {MAX_NAME_BYTES}" * (size > MAX_NAME_BYTES)


def _elements(shape: tuple[int, ...], tensor: Tensor, _: object) -> str:
    if max(tensor.n_elements, *shape, 0) < SIGNED_LIMIT:
        return ""
    return f"has shape {shape}, 2^63 elements or more"


def _no_elements(shape: tuple[int, ...], *_: object) -> str:
    if not shape:
        return "has no axes, so it is a single element"
    return "has an axis of length 0" * (0 in shape)


def _removed_type(tensor_type: TensorType, *_: object) -> str:
    name = REMOVED_TENSOR_TYPES.get(tensor_type.number)
    return f"is of type {tensor_type.number} ({name}), which ggml has removed" * bool(name)


def _known_type(tensor_type: TensorType, *_: object) -> str:
    if tensor_type.block_bytes or tensor_type.number in REMOVED_TENSOR_TYPES:
        return ""
    return f"is of unknown type {tensor_type.number}"


def _blocks(tensor_type: TensorType, tensor: Tensor, _: object) -> str:
    row = tensor.shape[0] if tensor.shape else 1
    if row % tensor_type.block == 0:
        return ""
    needed = f"{tensor_type.name} needs a multiple of {tensor_type.block}"
    return f"has {row} elements per row, but {needed}"


NAME = (
    Rule("tensor-name-empty", "warning", FORMAT, "name", _name_empty),
    Rule("tensor-name-text", "warning", FORMAT, "name", _name_text),
    Rule("tensor-name-nul", "warning", FORMAT, "name", _name_nul),
    Rule("tensor-name-length", "warning", FORMAT, "name", _name_length),
)


def is_plain(name: str) -> bool:
    """Whether a name surely breaks none of ``NAME``: true of nearly all, and soon asked."""
    return name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_BYTES


TENSOR = (
    Rule("tensor-twice", "error", LLAMA_CPP, "name", _one_name),
    Rule("tensor-elements", "error", LLAMA_CPP, "shape", _elements),
    Rule("tensor-no-elements", "warning", GGML, "shape", _no_elements),
    Rule("tensor-type-removed", "error", GGML, "type", _removed_type),
    Rule("tensor-type", "error", GGML, "type", _known_type,
         "the file is damaged or newer than this mtkit"),
    Rule("tensor-blocks", "error", GGML, "type", _blocks),
)  # fmt: skip


# The data section


def _aligned(offset: int, _: Tensor, section: Section) -> str:
    if offset % section.alignment == 0:
        return ""
    return f"has its data at {offset}, not a multiple of the alignment {section.alignment}"


def _held(offset: int, tensor: Tensor, section: Section) -> str:
    left = section.size - section.start - offset
    if left >= tensor.n_bytes:
        return ""
    start = section.start + offset
    return f"needs {tensor.n_bytes} bytes from {start} on, but the file has {max(left, 0)}"


def _apart(_: int, tensor: Tensor, section: Section) -> str:
    other = section.shared.get(tensor.places[0])
    return f"shares bytes with {other.label}" if other else ""


PLACE = (
    Rule("tensor-alignment", "error", FORMAT, "offset", _aligned),
    Rule("tensor-data", "error", FORMAT, "offset", _held, TRUNCATED.advice),
    Rule("tensor-shared", "warning", LLAMA_CPP, "offset", _apart),
)
"""Where the data of a tensor is; asked of tensors that break no rule of ``TENSOR``."""


def _zero(padding: bytes, *_: object) -> str:
    return "is not all zero" * bool(padding.strip(b"\0"))


def _trailing(count: int, _: object, file: GgufFile) -> str:
    begins = bytes(file.data[len(file.data) - count :][:4]) == MAGIC
    joined = ": another GGUF, as cat puts files one behind the other"
    return f"{count} of them{joined * begins}" * (count > 0)


SECTION = (
    Rule("padding", "warning", FORMAT, "padding", _zero),
    Rule("trailing-bytes", "warning", FORMAT, "trailing_bytes", _trailing),
)

RULES = (
    UNFINISHED,
    *STRUCTURE,
    *HEADER,
    *ENTRY,
    *(rule for rules in KEYS.values() for rule in rules),
    *NAME,
    *TENSOR,
    *PLACE,
    *SECTION,
)
