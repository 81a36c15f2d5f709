"""A GGUF to be written: the keys and tensors of another file, some of them changed.

Keys are kept as the bytes of their file, so that unchanged ones stay as they are, odd or not;
tensor data is never copied in memory.

Values of keys are as people type them: ``u32:128``, ``str:a name``, ``f32[]:[0.5, 1]``
(``parse_key``). ``file_oddities`` lists what a file has that would be lost if it were written anew
from its keys and tensors.
"""

from __future__ import annotations

import struct
from math import isinf

from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.rules import ALIGNMENT, INTEGERS, LOOKED_AT_BYTES, UNFINISHED, fork_type_text
from mtkit.gguf.types import BY_NAME, VALUE_TYPES
from mtkit.gguf.writer import VERSION, Key, NewTensor, file_chunks, header_chunks, key_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.gguf.file import GgufFile, Metadata, Tensor


TYPE_SYNONYMS = {
    "str": "string",
    "uint8": "u8",
    "int8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "uint32": "u32",
    "int32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "float": "f32",
    "float32": "f32",
    "float64": "f64",
}
"""Names of other tools -> ours."""
_TYPE_NAMES = frozenset(BY_NAME) - {"array"}
_INTEGER_NAMES = frozenset({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"})


def parse_key(name: str, text: str, metadata: Metadata, usual: str | None = None) -> Key:
    """Parse the value of a key; without a type, it has that of the file's key, else the usual."""
    head, colon, rest = text.partition(":")
    kind = TYPE_SYNONYMS.get(head.removesuffix("[]"), head.removesuffix("[]"))
    if colon and kind in _TYPE_NAMES:
        kind += "[]" * head.endswith("[]")
    elif name in metadata:
        kind, rest = metadata.type_name(name), text
    elif usual is not None:
        kind, rest = usual, text
    else:
        raise UsageError(
            "is new, so its type is needed",
            field=shown(name),
            hint=f"--set {shown(name)}=TYPE:VALUE, TYPE one of {' '.join(sorted(_TYPE_NAMES))}",
        )
    key = Key(name, kind, _parse_value(name, kind, rest))
    key_bytes(key)  # numbers in their range
    return key


def _parse_value(name: str, kind: str, text: str) -> Any:
    if kind.endswith("[]"):
        return _parse_array(name, kind.removesuffix("[]"), text)
    if kind == "string":
        return text
    if kind == "bool":
        if text not in ("true", "false"):
            raise _value_error(name, kind, text, "true or false")
        return text == "true"
    try:
        return int(text, 0) if kind in _INTEGER_NAMES else _as_stored(kind, float(text), text)
    except (ValueError, OverflowError):
        raise _value_error(name, kind, text, "a number in its range") from None


def _parse_array(name: str, kind: str, text: str) -> list[Any]:
    import json

    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    types: tuple[type, ...] = (int,) if kind in _INTEGER_NAMES else (int, float)
    types = {"string": (str,), "bool": (bool,)}.get(kind, types)
    if not isinstance(values, list) or not all(
        isinstance(value, types) and (kind == "bool") == isinstance(value, bool) for value in values
    ):
        raise _value_error(name, f"{kind}[]", text, "a JSON array of such values")
    if kind not in ("f32", "f64"):
        return values
    try:
        return [_as_stored(kind, value, text) for value in values]
    except OverflowError:
        raise _value_error(name, f"{kind}[]", text, "an array of numbers in its range") from None


def _as_stored(kind: str, value: float, text: str) -> float:
    """Return a number as it is read back; one that became infinite by itself is too large."""
    code = f"<{BY_NAME[kind].code}"
    (number,) = struct.unpack(code, struct.pack(code, value))
    if isinf(number) and "inf" not in text.lower():
        raise OverflowError
    return float(number)


def _value_error(name: str, kind: str, text: str, expectation: str) -> UsageError:
    what = f"is of type {kind}: {quoted(text)} is not {expectation}"
    return UsageError(what, field=shown(name), hint="write string:… to make it text")


def file_oddities(file: GgufFile) -> Iterator[str]:
    """Say how the bytes of a file differ from those of its keys and tensors written anew."""
    if not file.tensors:
        if file.trailing_bytes:
            yield f"{file.trailing_bytes} bytes behind the keys: not kept"
        return
    if _is_filled(file.data[file.table_end : file.data_offset]):
        yield "padding in front of the tensors that is not zero: not kept"
    if next(misplaced_tensors(file), None):
        yield "the tensors are laid out anew, one behind the other"
    if any(map(_is_filled, _gaps(file))):
        yield "bytes between the tensors that are not zero: not kept"
    end = max(file.data_offset + tensor.offset + tensor.n_bytes for tensor in file.tensors)
    if len(file.data) < end + -end % file.alignment:
        yield "padding is added behind the last tensor"
    if file.trailing_bytes:
        yield f"{file.trailing_bytes} bytes behind the tensors: not kept"


def misplaced_tensors(file: GgufFile) -> Iterator[tuple[Tensor, int]]:
    """Yield tensors whose data is not right behind that of the tensor before, and where it ends."""
    end = 0
    for tensor in file.tensors:
        if tensor.offset != end:
            yield tensor, end
        end = tensor.offset + -(-tensor.n_bytes // file.alignment) * file.alignment


def _is_filled(padding: memoryview) -> bool:
    """Whether padding is not all zero, as far as it is read: a gap may have gigabytes."""
    return bool(bytes(padding[:LOOKED_AT_BYTES]).strip(b"\0"))


def _gaps(file: GgufFile) -> Iterator[memoryview]:
    """Yield what stands behind each tensor, up to the next one or to the end of its padding."""
    at = file.data_offset
    for tensor in sorted(file.tensors, key=lambda tensor: tensor.offset):
        start = file.data_offset + tensor.offset
        yield file.data[at:start]
        at = max(at, start + tensor.n_bytes)
    yield file.data[at : at + -at % file.alignment]


MAX_ALIGNMENT = 1 << 20
"""No loader needs more than a page, and 2^31 would pad one tensor to 2 GiB."""


class KeptKey(Record):
    """A key with its value as the bytes of a file."""

    name: str
    data: memoryview


class Draft:
    """Keys and tensors of a file that is to be written.

    Attributes:
        keys: Name -> key, in the order of the file.
        tensors: Name -> tensor, in the order of the table; data follows in that order.
    """

    def __init__(
        self,
        keys: Iterable[KeptKey | Key] = (),
        tensors: Iterable[NewTensor] = (),
        version: int = VERSION,
    ) -> None:
        self.version = version
        self.keys = {key.name: key for key in keys}
        self.tensors = {tensor.name: tensor for tensor in tensors}

    @staticmethod
    def of(file: GgufFile) -> Draft:
        """Return the keys and tensors of a file."""
        refuse_unfinished(file)
        if file.version == 1 or file.byte_order != "little":
            what = f"version {file.version}, {file.byte_order}-endian, is not rewritten"
            raise UnsupportedError(what, source=file.name)
        tensors = (new_tensor(file, tensor) for tensor in file.tensors)
        return Draft(kept_keys(file), tensors, file.version)

    @property
    def alignment(self) -> object:
        """Alignment of every tensor, in bytes."""
        key = self.keys.get(ALIGNMENT)
        if key is None:
            return DEFAULT_ALIGNMENT
        return key.value if isinstance(key, Key) else _whole_number(key)

    def set(self, key: Key) -> None:
        """Set a key, in its place or behind the others."""
        if key.name == ALIGNMENT and isinstance(key.value, int) and key.value > MAX_ALIGNMENT:
            what = f"is {key.value}: every tensor could be padded by as many bytes"
            raise UsageError(what, field=ALIGNMENT, hint=f"at most {MAX_ALIGNMENT}")
        self.keys[key.name] = key

    def unset(self, name: str) -> None:
        """Drop a key."""
        _check_known(self.keys, name, "key")
        del self.keys[name]

    def rename_key(self, old: str, new: str) -> None:
        """Give a key another name, in its place."""
        _check_renamable(self.keys, old, new, "key")
        self.keys = {
            (new if name == old else name): _rename_key(key, new) if name == old else key
            for name, key in self.keys.items()
        }

    def rename_tensor(self, old: str, new: str) -> None:
        """Give a tensor another name, in its place."""
        _check_renamable(self.tensors, old, new, "tensor")
        self.tensors = {
            (new if name == old else name): replace(tensor, name=new) if name == old else tensor
            for name, tensor in self.tensors.items()
        }

    def chunks(self) -> Iterator[Buffer]:
        """Give the bytes of the file, piece by piece; all checks are done before the first."""
        keys, tensors = self._parts()
        return file_chunks(keys, tensors, self.alignment, self.version)

    def header(self) -> tuple[bytes, list[int]]:
        """Return the header, and the offset of each tensor in the data."""
        head, offsets = header_chunks(*self._parts(), self.alignment, self.version)
        return b"".join(head), offsets

    def _parts(self) -> tuple[list[Buffer], list[NewTensor]]:
        keys: list[Buffer] = [
            key.data if isinstance(key, KeptKey) else key_bytes(key) for key in self.keys.values()
        ]
        return keys, list(self.tensors.values())


def kept_keys(file: GgufFile) -> Iterator[KeptKey]:
    """Yield the keys of a file with the bytes that it has for them."""
    for key, data in file.key_bytes():
        yield KeptKey(key, data)


def new_tensor(file: GgufFile, tensor: Tensor) -> NewTensor:
    """Return a tensor of a file, to be written to another."""
    return NewTensor(tensor.name, tensor.shape, tensor.type, file.tensor_data(tensor))


def refuse_unfinished(file: GgufFile) -> None:
    """Refuse a file whose edit in place was interrupted: it is half old, half new."""
    if any(finding.rule is UNFINISHED for finding in file.findings):
        what = "an earlier edit was interrupted"
        raise UsageError(what, source=file.name, hint=UNFINISHED.advice)


def refuse_forks(tensors: Iterable[Tensor], source: str) -> None:
    """Refuse a tensor of a fork's type: only the fork knows its values."""
    for tensor in tensors:
        if what := fork_type_text(tensor.type):
            hint = f"use {tensor.type.origin}, or the original model"
            raise UnsupportedError(what, source=source, field=tensor.label, hint=hint)


def _whole_number(key: KeptKey) -> int:
    """Return the value of a whole number, whatever its type."""
    name = 8 + len(key.name.encode("utf-8", "surrogateescape"))
    kind = VALUE_TYPES.get(int.from_bytes(key.data[name : name + 4], "little"))
    if kind not in INTEGERS:
        raise UsageError("is not a whole number", field=key.name)
    (value,) = struct.unpack(f"<{kind.code}", key.data[name + 4 :])
    return int(value)


def _rename_key(key: KeptKey | Key, name: str) -> KeptKey | Key:
    if isinstance(key, Key):
        return replace(key, name=name)
    rest = key.data[8 + len(key.name.encode("utf-8", "surrogateescape")) :]
    raw = name.encode("utf-8", "surrogateescape")
    return KeptKey(name, memoryview(struct.pack("<Q", len(raw)) + raw + bytes(rest)))


def _check_known(names: Iterable[str], name: str, kind: str) -> None:
    if name not in names:
        from difflib import get_close_matches

        near = get_close_matches(name, names, n=1)
        lists = f"mtkit inspect FILE --all lists the {kind}s"
        hint = f"is it {shown(near[0])}?" if near else lists
        raise UsageError(f"no such {kind}", field=shown(name), hint=hint)


def _check_renamable(names: Iterable[str], old: str, new: str, kind: str) -> None:
    _check_known(names, old, kind)
    if not new:
        raise UsageError(f"the new name of a {kind} is empty", field=shown(old))
    if new in names and new != old:
        raise UsageError(f"there is such a {kind} already", field=shown(new))
