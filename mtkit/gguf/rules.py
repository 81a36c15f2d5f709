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
from mtkit.base.rules import AGAIN, COUNT, TRUNCATED, Rule, too_many
from mtkit.gguf.file import MAGIC, MAGIC_RULE, VERSION_RULE, is_edit_unfinished
from mtkit.gguf.types import (
    ARRAY,
    BOOL,
    FORK,
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
    from mtkit.base.rules import Check
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


UNFINISHED = Rule("edit-unfinished", "warning", "mtkit", "",
                  "An edit in place was interrupted, so the header may be half old and half "
                  "new. FILE.journal holds the rest; mtkit edit FILE --in-place finishes the "
                  "edit.", _unfinished, "mtkit edit FILE --in-place finishes it")  # fmt: skip
"""Asked of the path; the header may be half the old one and half the new one."""


# What the reading depends on


def _value_type(number: int) -> str:
    return "" if number in VALUE_TYPES else f"is of unknown type {number}"


def _element_type(number: int) -> str:
    return "" if number in VALUE_TYPES else f"is an array of unknown type {number}"


def _string_length(size: int) -> str:
    what = f"is {size} bytes long, but the limit is {MAX_STRING_BYTES}"
    return what if size > MAX_STRING_BYTES else ""


def _strings(count: int) -> str:
    return f"has {count} strings, but the limit is {MAX_STRINGS}" if count > MAX_STRINGS else ""


def _depth(levels: int) -> str:
    return f"is nested more than {MAX_DEPTH} levels deep" if levels > MAX_DEPTH else ""


def _nested(count: int) -> str:
    return f"holds more than {MAX_NESTED} arrays" if count > MAX_NESTED else ""


def _axes(count: int) -> str:
    return f"has {count} axes, more than {MAX_AXES}" if count > MAX_AXES else ""


# fmt: off
VALUE_TYPE = Rule("value-type", "error", FORMAT, "type",
                  f"A metadata value has an unknown type, outside 0 to 12. {AGAIN}", _value_type)
ELEMENT_TYPE = Rule("element-type", "error", FORMAT, "value",
                    f"The elements of an array have an unknown type, outside 0 to 12. {AGAIN}",
                    _element_type)
STRING_LENGTH = Rule("string-length", "error", LLAMA_CPP, "value",
                     f"A key, name or value is longer than 1 GiB. {AGAIN}", _string_length)
STRINGS = Rule("array-strings", "error", MTKIT, "value",
               "An array has more than 2^24 strings; mtkit does not read it, because that would "
               "take seconds.", _strings)
DEPTH = Rule("array-depth", "error", MTKIT, "value",
             "Arrays are nested more than 100 levels deep; mtkit does not read them.", _depth)
NESTED = Rule("array-nested", "error", MTKIT, "value",
              "An array contains more than 2^16 arrays; mtkit does not read them.", _nested)
AXES = Rule("tensor-axes", "error", FORMAT, "shape",
            f"A tensor has more than four axes. {AGAIN}", _axes)
STRUCTURE = (MAGIC_RULE, VERSION_RULE, TRUNCATED, COUNT, STRING_LENGTH, VALUE_TYPE, ELEMENT_TYPE,
             STRINGS, DEPTH, NESTED, AXES)
# fmt: on


# The header


def _keys_fit(count: int, header: Header, file: GgufFile) -> str:
    return too_many(count, header.width + 6, len(file.data) - header.end)  # a letter, a byte


def _tensors_fit(count: int, header: Header, file: GgufFile) -> str:
    return too_many(count, 2 * header.width + 16, len(file.data) - header.end)  # no axis, no letter


def _limited(count: int, *_: object) -> str:
    return f"is {count}, but the limit is {MAX_ENTRIES}" if count > MAX_ENTRIES else ""


HEADER = (
    Rule("key-count", "error", FORMAT, "metadata_kv_count",
         f"The header announces more keys than the file can hold. {AGAIN}",
         _keys_fit, COUNT.advice),
    Rule("tensor-count", "error", FORMAT, "tensor_count",
         f"The header announces more tensors than the file can hold. {AGAIN}",
         _tensors_fit, COUNT.advice),
    Rule("key-limit", "error", MTKIT, "metadata_kv_count",
         "The file has more than 2^18 keys, mtkit's limit; the largest models have a few "
         "hundred.", _limited),
    Rule("tensor-limit", "error", MTKIT, "tensor_count",
         "The file has more than 2^18 tensors, mtkit's limit; the largest models have a few "
         "thousand.", _limited),
)  # fmt: skip


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
    return "contains a NUL byte, where C programs end it" if "\0" in key else ""


def _key_text(key: str, *_: object) -> str:
    return "" if is_utf8(key) else "is not valid UTF-8"


def _key_length(key: str, *_: object) -> str:
    what = f"is {len(key)} bytes long, more than {MAX_KEY_BYTES}"
    return what if len(key) > MAX_KEY_BYTES else ""


def _text(value: object, entry: Entry, _: object) -> str:
    wrong = entry.type is STRING and not is_utf8(str(value))
    return "a string that is not UTF-8" if wrong else ""


def _bool(_: object, entry: Entry, file: GgufFile) -> str:
    byte = file.data[entry.value_offset] if entry.type is BOOL else 0
    return f"is byte {byte}, not 0 or 1; mtkit reads true" if byte > 1 else ""


def _bools(_: object, entry: Entry, file: GgufFile) -> str:
    if entry.type is not ARRAY or entry.value.element is not BOOL:
        return ""
    start, end = entry.value.offset, entry.value.end
    odd = bytes(file.data[start : min(end, start + LOOKED_AT_BYTES)]).translate(None, b"\0\1")
    return "has bytes other than 0 and 1; mtkit reads them as true" if odd else ""


ENTRY = (
    Rule("key-empty", "error", FORMAT, "key",
         "A key is the empty string. llama.cpp aborts on it.", _empty),
    Rule("key-twice", "error", LLAMA_CPP, "key",
         "A key occurs twice. Readers disagree about which of the two counts.", _one_key),
    Rule("key-nul", "warning", FORMAT, "key",
         "A key contains a NUL byte: C programs cut it off there.", _key_nul),
    Rule("key-text", "warning", FORMAT, "key",
         "A key is not valid UTF-8. Python readers refuse the file.", _key_text),
    Rule("key-letters", "warning", FORMAT, "key",
         "A key contains characters other than lower-case letters, digits, underscore, dot and "
         "hyphen.", _key_letters),
    Rule("key-length", "warning", FORMAT, "key", "A key is longer than 65535 bytes.", _key_length),
    Rule("string-text", "warning", FORMAT, "value",
         "A string is not valid UTF-8. Python readers refuse the file or replace the bytes.",
         _text),
    Rule("bool", "warning", FORMAT, "value",
         "A bool is neither 0 nor 1. mtkit reads it as true; other programs may read it as "
         "false.", _bool),
    Rule("bool-array", "warning", FORMAT, "value",
         "An array of bool has elements other than 0 and 1.", _bools),
)  # fmt: skip


def _integer(value_type: ValueType, *_: object) -> str:
    return "" if value_type in INTEGERS else f"is of type {value_type.name}, not u32"


def _is_u32(value_type: ValueType, *_: object) -> str:
    return _other_type(value_type, "u32") if value_type in INTEGERS else ""


def _is_u16(value_type: ValueType, *_: object) -> str:
    return _other_type(value_type, "u16")


def _is_i32(value_type: ValueType, *_: object) -> str:
    return _other_type(value_type, "i32")


def _other_type(value_type: ValueType, name: str) -> str:
    return f"is of type {value_type.name}, not {name}" if value_type.name != name else ""


def _power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _alignment(value: int, entry: Entry, _: object) -> str:
    known = entry.type not in INTEGERS or _power(value) or (value > 0 and value % 8 == 0)
    return "" if known else f"is {value}, neither a power of two nor a multiple of 8"


def _alignment_power(value: int, entry: Entry, _: object) -> str:
    wrong = entry.type in INTEGERS and value > 0 and value % 8 == 0 and not _power(value)
    return f"is {value}, not a power of two" if wrong else ""


def _alignment_multiple(value: int, entry: Entry, _: object) -> str:
    wrong = entry.type in INTEGERS and _power(value) and value % 8 != 0
    return f"is {value}, not a multiple of 8" if wrong else ""


def _split_type(check: Check) -> Rule:
    explanation = (
        "A split key has the wrong type: llama.cpp wants split.no and split.count as u16, and "
        "split.tensors.count as i32."
    )
    return Rule("split-type", "warning", LLAMA_CPP, "type", explanation, check)


ALIGNMENT = "general.alignment"
KEYS = {
    ALIGNMENT: (
        Rule("alignment-type", "error", FORMAT, "type",
             "general.alignment is not a whole number.", _integer),
        Rule("alignment", "error", FORMAT, "value",
             "general.alignment is neither a power of two nor a multiple of 8.", _alignment),
        Rule("alignment-width", "warning", FORMAT, "type",
             "general.alignment is not a u32; llama.cpp refuses any other type.", _is_u32),
        Rule("alignment-power", "warning", LLAMA_CPP, "value",
             "general.alignment is not a power of two; llama.cpp refuses the file.",
             _alignment_power),
        Rule("alignment-multiple", "warning", FORMAT, "value",
             "general.alignment is not a multiple of 8, as the format requires.",
             _alignment_multiple),
    ),
    "split.count": (_split_type(_is_u16),),
    "split.no": (_split_type(_is_u16),),
    "split.tensors.count": (_split_type(_is_i32),),
}  # fmt: skip
"""What is true of single entries, besides ``ENTRY``."""


# A tensor


def _one_name(name: str, tensor: Tensor, file: GgufFile) -> str:
    return "" if file.names[name] is tensor else "is the name of two tensors"


def _name_empty(name: str, *_: object) -> str:
    return "" if name else "has no name"


def _name_text(name: str, *_: object) -> str:
    return "" if is_utf8(name) else "has a name that is not UTF-8"


def _name_nul(name: str, *_: object) -> str:
    return "has a NUL byte in its name, where C programs end it" if "\0" in name else ""


def _name_length(name: str, *_: object) -> str:
    size = len(name.encode("utf-8", "surrogateescape"))
    what = f"has a name of {size} bytes, more than {MAX_NAME_BYTES}"
    return what if size > MAX_NAME_BYTES else ""


def _elements(shape: tuple[int, ...], tensor: Tensor, _: object) -> str:
    if max(tensor.n_elements, *shape, 0) < SIGNED_LIMIT:
        return ""
    return f"has shape {shape}, 2^63 elements or more"


def _no_elements(shape: tuple[int, ...], *_: object) -> str:
    if not shape:
        return "has no axes, so it is a single element"
    return "has an axis of length 0" if 0 in shape else ""


def _removed_type(tensor_type: TensorType, *_: object) -> str:
    name = "" if tensor_type.origin else REMOVED_TENSOR_TYPES.get(tensor_type.number)
    return f"is of type {tensor_type.number} ({name}), which ggml has removed" if name else ""


def _known_type(tensor_type: TensorType, *_: object) -> str:
    number = tensor_type.number
    if tensor_type.block_bytes or tensor_type.origin or number in REMOVED_TENSOR_TYPES:
        return ""
    return f"is of unknown type {number}"


def fork_type_text(tensor_type: TensorType) -> str:
    """Return what to say of a type that a fork has, or nothing."""
    if not tensor_type.origin:
        return ""
    number, origin = tensor_type.number, tensor_type.origin
    if origin == FORK:
        return f"is of type {number}, which ggml does not have, but {origin} may"
    removed = REMOVED_TENSOR_TYPES.get(number)
    other = f", or {removed}, which ggml has removed" if removed else ""
    return f"is of type {number}, {tensor_type.name} of {origin}{other}"


def _fork_type(tensor_type: TensorType, count: int) -> str:
    more = f"; {count - 1} more are" if count > 1 else ""
    return fork_type_text(tensor_type) + more


def _blocks(tensor_type: TensorType, tensor: Tensor, _: object) -> str:
    row = tensor.shape[0] if tensor.shape else 1
    if row % tensor_type.block == 0:
        return ""
    needed = f"{tensor_type.name} needs a multiple of {tensor_type.block}"
    return f"has {row} elements per row, but {needed}"


FORK_TYPE = Rule("tensor-type-fork", "warning", GGML, "type",
                 "Tensors have a type of a fork such as ik_llama.cpp or bitnet.cpp, which "
                 "llama.cpp does not load. Metadata and tokenizer can be read and edited; the "
                 "model runs in the fork.", _fork_type)  # fmt: skip
"""Asked of a type and the number of tensors that have it, once the table is read."""
NAME = (
    Rule("tensor-name-empty", "warning", FORMAT, "name",
         "A tensor has no name; programs find tensors by name.", _name_empty),
    Rule("tensor-name-text", "warning", FORMAT, "name",
         "The name of a tensor is not valid UTF-8.", _name_text),
    Rule("tensor-name-nul", "warning", FORMAT, "name",
         "The name of a tensor contains a NUL byte: C programs cut it off there.", _name_nul),
    Rule("tensor-name-length", "warning", FORMAT, "name",
         "The name of a tensor is longer than 64 bytes.", _name_length),
)  # fmt: skip


def is_plain(name: str) -> bool:
    """Whether a name surely breaks none of ``NAME``: true of nearly all, and soon asked."""
    return name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_BYTES


TENSOR = (
    Rule("tensor-twice", "error", LLAMA_CPP, "name",
         f"Two tensors have the same name; llama.cpp refuses the file. {AGAIN}", _one_name),
    Rule("tensor-elements", "error", LLAMA_CPP, "shape",
         f"A tensor has 2^63 elements or more. {AGAIN}", _elements),
    Rule("tensor-no-elements", "warning", GGML, "shape",
         "A tensor has no axes, or an axis of length 0.", _no_elements),
    Rule("tensor-type-removed", "error", GGML, "type",
         "A tensor has a type that ggml no longer supports. Quantize the original model again.",
         _removed_type),
    Rule("tensor-type", "error", GGML, "type",
         "A tensor has an unknown type: the file is damaged or made by a newer ggml.",
         _known_type, "the file is damaged or newer than this mtkit"),
    Rule("tensor-blocks", "error", GGML, "type",
         f"A row of a quantized tensor is not a whole number of blocks. {AGAIN}", _blocks),
)  # fmt: skip


# The data section


def _aligned(offset: int, _: Tensor, section: Section) -> str:
    if offset % section.alignment == 0:
        return ""
    return f"has its data at {offset}, not a multiple of the alignment {section.alignment}"


def _held(offset: int, tensor: Tensor, section: Section) -> str:
    left = section.size - section.start - offset
    start = section.start + offset
    if tensor.type.origin and tensor.n_bytes * 8 < tensor.n_elements:
        return f"has {tensor.n_bytes} bytes from {start} on, less than a bit per element"
    if left >= tensor.n_bytes:
        return ""
    return f"needs {tensor.n_bytes} bytes from {start} on, but the file has {max(left, 0)}"


def _apart(_: int, tensor: Tensor, section: Section) -> str:
    other = section.shared.get(tensor.places[0])
    return f"shares bytes with {other.label}" if other else ""


PLACE = (
    Rule("tensor-alignment", "error", FORMAT, "offset",
         "The data of a tensor does not start at a multiple of the alignment.", _aligned),
    Rule("tensor-data", "error", FORMAT, "offset",
         f"The data of a tensor runs past the end of the file. {AGAIN}", _held, TRUNCATED.advice),
    Rule("tensor-shared", "warning", LLAMA_CPP, "offset",
         "Two tensors share bytes; llama.cpp refuses the file.", _apart),
)  # fmt: skip
"""Where the data of a tensor is; asked of tensors that break no rule of ``TENSOR``."""


def _zero(padding: bytes, *_: object) -> str:
    return "is not all zero" if padding.strip(b"\0") else ""


def _trailing(count: int, _: object, file: GgufFile) -> str:
    begins = bytes(file.data[len(file.data) - count :][:4]) == MAGIC
    joined = ": another GGUF, as cat puts files one behind the other" if begins else ""
    return f"{count} of them{joined}" if count > 0 else ""


SECTION = (
    Rule("padding", "warning", FORMAT, "padding",
         "Padding contains bytes other than zero. Something may be hidden there.", _zero),
    Rule("trailing-bytes", "warning", FORMAT, "trailing_bytes",
         "The file has bytes after the last tensor. Something may be hidden there.", _trailing),
)  # fmt: skip

RULES = (
    UNFINISHED,
    *STRUCTURE,
    *HEADER,
    *ENTRY,
    *(rule for rules in KEYS.values() for rule in rules),
    *NAME,
    *TENSOR,
    FORK_TYPE,
    *PLACE,
    *SECTION,
)
