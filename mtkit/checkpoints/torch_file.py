"""A file of weights as ``torch.save`` writes it: pytorch_model.bin, consolidated.00.pth.

Since torch 1.6 it is a zip whose entries are not compressed: ``NAME/data.pkl`` describes the
tensors, ``NAME/data/KEY`` are their numbers, which stay in the mapped file. Before, it was pickles
one after another (a magic number, a version, the machine's sizes, the tensors, the keys of the
storages) and then, for each key, an i64 count and that many numbers.

Two readers of a zip may see two different files: entries that overlap, that two lists tell
differently, that stand twice or are compressed are errors. So is a tensor that reaches beyond its
storage, or has more numbers than that (a stride of 0 makes terabytes of one number).

Source: torch, serialization.py (``_save``, ``_legacy_load``), _utils.py (``_rebuild_tensor``);
PKWARE, APPNOTE.TXT 4.3 to 4.5.
"""

from __future__ import annotations

from math import prod

from mtkit.base.binary import Reader
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.base.rules import BrokenRule, Finding
from mtkit.checkpoints.pickles import (
    DAMAGE,
    NUMBERS,
    PICKLE,
    STORAGES,
    UNTYPED,
    Call,
    Machine,
    Name,
    Stored,
    Table,
    kind_of,
    read_pickle,
)
from mtkit.checkpoints.safetensors import BITS, Header, Weight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from mtkit.base.binary import Source

RULES = (PICKLE, DAMAGE)
ZIP_MAGIC = b"PK\3\4"
_END, _END_64, _LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_END_BYTES, _LOCATOR_BYTES = 22, 20
_ENTRY, _ENTRY_BYTES = b"PK\1\2", 46
_NONE_32 = (1 << 32) - 1
_ZIP_64 = 1
_ENCRYPTED, _SIZES_BEHIND = 1, 8
_MOST_ENTRIES = 1 << 18
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001
_MOST_AXES = 8
_WRAPPERS = ("state_dict", "model", "module", "model_state_dict")
"""Names under which training programs put the tensors."""
_PARAMETERS = ("_rebuild_parameter", "_rebuild_parameter_with_state")


class Entry(Record):
    """An entry of a zip: where its data are in the file."""

    offset: int
    n_bytes: int


def fault(what: str, field: str = DAMAGE.field, offset: int | None = None) -> NoReturn:
    """Raise that the file is damaged."""
    raise BrokenRule(Finding(DAMAGE, field, what, offset))


def read(source: Source) -> Header:
    """Read which tensors there are; their numbers stay in the file.

    Raises:
        BrokenRule: The file is damaged, or asks for more than tensors.
    """
    data = memoryview(source.data)
    if bytes(data[:4]) == ZIP_MAGIC:
        entries = zip_entries(data)
        storages, state = _open_zip(data, entries)
    elif bytes(data[:1]) == b"\x80":
        storages, state = _open_legacy(data)
    else:
        from mtkit.gguf.file import HEAD_BYTES, other_kind

        kind = other_kind(bytes(data[:HEAD_BYTES])) or ("is no file of torch.save", "")
        raise BrokenRule(Finding(DAMAGE, "file", kind[0], 0, kind[1]))
    tensors = _state_dict(state)
    weights = []
    for name, value in tensors.items():
        weights.append(_weight(name, value, storages))
    return Header(0, {}, tuple(weights))


# The zip


def zip_entries(data: memoryview) -> dict[str, Entry]:
    """Return the entries of a zip, none of which is compressed.

    Raises:
        BrokenRule: The zip is damaged, or could be read in two ways.
    """
    at = len(data) - _END_BYTES
    if at < 0 or bytes(data[at : at + 4]) != _END:  # a comment would be a place to hide another
        fault("has no end of a zip, or a comment behind it", "zip")
    reader = Reader(data, offset=at + 4)
    disks = reader.u16("zip"), reader.u16("zip")
    counts = reader.u16("zip"), reader.u16("zip")
    n_bytes, start = reader.u32("zip"), reader.u32("zip")
    count, end = counts[0], at
    locator = at - _LOCATOR_BYTES
    if locator >= 0 and bytes(data[locator : locator + 4]) == _LOCATOR:
        place = Reader(data, offset=locator + 8).u64("zip")
        if place > locator - 56 or bytes(data[place : place + 4]) != _END_64:
            fault("has no zip64 end where it says", "zip", locator)
        reader = Reader(data, offset=place + 24)
        counts = reader.u64("zip"), reader.u64("zip")
        n_bytes, start = reader.u64("zip"), reader.u64("zip")
        count, end = counts[0], place
    if disks != (0, 0) or counts[0] != counts[1] or start + n_bytes != end:
        fault("is a zip whose list of entries is not where its end says", "zip", at)
    if count > min(_MOST_ENTRIES, n_bytes // _ENTRY_BYTES):
        fault(f"is a zip of {count} entries", "zip", at)
    entries: dict[str, Entry] = {}
    spans = []
    reader = Reader(data[:end], offset=start)
    for _ in range(count):
        name, entry, span = _zip_entry(data, reader, start)
        if name in entries:
            fault("is in the zip twice", f"entry {quoted(name)}", span[0])
        entries[name] = entry
        spans.append(span)
    if reader.left:
        fault("has something behind its list of entries", "zip", reader.offset)
    last = 0
    for first, stop in sorted(spans):
        if first < last:
            fault("has entries that overlap", "zip", first)
        last = stop
    return entries


def _zip_entry(data: memoryview, reader: Reader, limit: int) -> tuple[str, Entry, tuple[int, int]]:
    """Return name, entry, and what it takes of the file from its own header on."""
    at = reader.offset
    if reader.take(4, "zip") != _ENTRY:
        fault("has a list of entries with something else in it", "zip", at)
    reader.view(4, "zip")
    flags, method = reader.u16("zip"), reader.u16("zip")
    reader.view(8, "zip")
    packed, size = reader.u32("zip"), reader.u32("zip")
    name_bytes, extra_bytes, note_bytes = (reader.u16("zip") for _ in range(3))
    reader.view(8, "zip")
    place = reader.u32("zip")
    raw = reader.take(name_bytes, "zip")
    extra = reader.take(extra_bytes, "zip")
    reader.view(note_bytes, "zip")
    size, packed, place = _zip_64(extra, (size, packed, place))
    name = raw.decode("utf-8", "replace")
    field = f"entry {quoted(name)}"
    if method or packed != size:
        fault("is compressed, which torch.save never does", field, at)
    if flags & _ENCRYPTED:
        fault("is encrypted", field, at)
    local = Reader(data[:limit], offset=min(place, limit))
    if local.take(4, field) != ZIP_MAGIC:
        fault("is not where the zip says", field, place)
    local.view(2, field)
    local_flags, local_method = local.u16(field), local.u16(field)
    local.view(8, field)
    local_packed, local_size = local.u32(field), local.u32(field)
    lengths = local.u16(field), local.u16(field)
    same_name = local.take(lengths[0], field) == raw
    extra = local.take(lengths[1], field)
    if not (local_flags & _SIZES_BEHIND and not local_size):
        local_size, local_packed, _ = _zip_64(extra, (local_size, local_packed, 0))
        if (local_size, local_packed) != (size, size):
            fault("has two sizes", field, place)
    if not same_name or local_method or local_flags & _ENCRYPTED:
        fault("is another in its own header than in the list", field, place)
    start = local.offset
    local.view(size, field)
    return name, Entry(start, size), (place, start + size)


def _zip_64(extra: bytes, numbers: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return size, packed size and place, with those that need 64 bits from the extra field."""
    reader = Reader(extra)
    while reader.left >= 4:
        kind, size = reader.u16("zip"), reader.u16("zip")
        part = Reader(reader.take(min(size, reader.left), "zip"))
        if kind == _ZIP_64:
            values = [part.u64("zip") if n == _NONE_32 else n for n in numbers]
            return values[0], values[1], values[2]
    return numbers


class _Storages:
    """Where the numbers are.

    Attributes:
        places: Key -> its data.
    """

    def __init__(self, places: Mapping[str, Entry]) -> None:
        self.places = places
        self.types: dict[str, tuple[str, int]] = {}

    def locate(self, stored: Stored, dtype: str = "") -> tuple[str, Entry]:
        """Return the type and the place of a storage."""
        if len(stored.key) not in (5, 6) or stored.key[5:] not in ((), (None,)):
            fault("has a storage that is a part of another, or is not described as torch does")
        kind, key, count = stored.key[1], stored.key[2], stored.key[4]
        if type(kind) is not Name or type(key) is not str or type(count) is not int or count < 0:
            fault("has a storage that is not described as torch does")
        if kind.text in UNTYPED:
            own, bits = dtype, 8
        else:
            own = STORAGES.get(kind.text.removeprefix("torch."), "")
            bits = BITS.get(own, 0)
        if not own:
            fault(f"has a storage of {quoted(kind.text)}")
        entry = self.places.get(key)
        if entry is None:
            fault(f"has no storage {quoted(key)}, which a tensor needs")
        if entry.n_bytes * 8 != count * bits:
            what = f"has {entry.n_bytes} bytes, not what {count} of {quoted(kind.text)} take"
            fault(what, f"storage {quoted(key)}", entry.offset)
        return own, entry


def _open_zip(data: memoryview, entries: Mapping[str, Entry]) -> tuple[_Storages, Any]:
    roots = [name.removesuffix("/data.pkl") for name in entries if name.endswith("/data.pkl")]
    if len(roots) != 1 or any(not name.startswith(f"{roots[0]}/") for name in entries):
        fault("is a zip, but not of torch.save: it needs one folder with data.pkl", "zip")
    root = roots[0]
    if f"{root}/constants.pkl" in entries or f"{root}/version" not in entries:
        fault("is a program (TorchScript), not weights", "zip")
    order = entries.get(f"{root}/byteorder")
    if order is not None and bytes(data[order.offset : order.offset + order.n_bytes]) != b"little":
        fault("has big-endian numbers", "byteorder", order.offset)
    head = entries[f"{root}/data.pkl"]
    state = read_pickle(data[head.offset : head.offset + head.n_bytes])
    start = f"{root}/data/"
    places = {name.removeprefix(start): e for name, e in entries.items() if name.startswith(start)}
    return _Storages(places), state


# The form before torch 1.6


def _open_legacy(data: memoryview) -> tuple[_Storages, Any]:
    reader = Reader(data)
    if Machine(reader).run() != _LEGACY_MAGIC:
        fault("is a pickle, but not of torch.save", "magic", 0)
    version, sizes = Machine(reader).run(), Machine(reader).run()
    if version != _LEGACY_VERSION:
        fault("is of a version of torch.save that is not known", "version")
    if type(sizes) is not Table or sizes.get("little_endian") is not True:
        fault("has big-endian numbers", "sys_info")
    machine = Machine(reader)
    state, keys = machine.run(), Machine(reader).run()
    if type(keys) is not list or not all(type(key) is str for key in keys):
        fault("has no list of storages", "keys", reader.offset)
    bits: dict[str, int] = {}
    for stored in machine.storages:
        kind, key = (stored.key + (None,) * 3)[1:3]
        if type(kind) is Name and type(key) is str:
            width = BITS.get(STORAGES.get(kind.text.removeprefix("torch."), ""), 8)
            if bits.setdefault(key, width) != width:
                fault("has two types", f"storage {quoted(key)}")
    places: dict[str, Entry] = {}
    for key in keys:
        if key not in bits or key in places:
            fault("has a storage that no tensor needs, or twice", f"storage {quoted(key)}")
        count = reader.u64("storage")
        start = reader.offset
        reader.view(count * bits[key] // 8, f"storage {quoted(key)}")
        places[key] = Entry(start, reader.offset - start)
    if reader.left:
        fault("has something behind its last storage", "file", reader.offset)
    return _Storages(places), state


# The tensors


def _state_dict(state: Any) -> Any:
    """Return the tensors by name, as they are or under one of the names of training programs."""
    if type(state) is Table and not any(type(value) is Call for value in state.values()):
        tables = (state[name] for name in _WRAPPERS if type(state.get(name)) is Table)
        state = next(tables, state)
    if type(state) is not Table:
        fault("is not a table of tensors")
    for name, value in state.items():
        if type(name) is not str or type(value) is not Call:
            what = f"is {kind_of(value)}, not a tensor"
            fault(what, f"tensor {quoted(str(name))}")
    return state


def _description(value: Any) -> tuple[Stored, Any, Any, Any, str]:
    """Return storage, offset, shape, strides and dtype of a tensor."""
    for _ in range(3):  # a parameter of a tensor
        if type(value) is Call and value.arguments:
            name = value.name.rpartition(".")[2]
            if name in _PARAMETERS:
                value = value.arguments[0]
            elif name == "_rebuild_from_type_v2" and len(value.arguments) > 2:
                function, arguments = value.arguments[0], value.arguments[2]
                if type(function) is Name and type(arguments) is tuple:
                    value = Call(function.text, arguments)
    if type(value) is Call and value.name.startswith("torch._utils._rebuild_tensor"):
        parts = value.arguments
        dtype = ""
        if value.name.endswith("_v3") and len(parts) > 6 and type(parts[6]) is Name:
            dtype = NUMBERS.get(parts[6].text.removeprefix("torch."), "")
        if len(parts) >= 4 and type(parts[0]) is Stored:
            shape = parts[2]
            if type(shape) is Call and shape.name == "torch.Size" and shape.arguments:
                shape = shape.arguments[0]
            return parts[0], parts[1], shape, parts[3], dtype
    fault("is not described as torch does", "tensor")


def _weight(name: str, value: Any, storages: _Storages) -> Weight:
    stored, first, shape, strides, dtype = _description(value)
    field = f"tensor {quoted(name)}"
    if not (_are_counts([first]) and _are_counts(shape) and _are_counts(strides)) or (
        len(shape) != len(strides) or len(shape) > _MOST_AXES
    ):
        fault("is not described as torch does", field)
    kind, entry = storages.locate(stored, dtype)
    size, n_elements = BITS[kind] // 8, prod(shape)
    last = first + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if n_elements and (last + 1) * size > entry.n_bytes:
        fault("reaches beyond its storage", field, entry.offset)
    if n_elements * size > entry.n_bytes:
        fault("has more numbers than its storage", field, entry.offset)
    plain = all(
        n == 1 or step == prod(shape[axis + 1 :])
        for axis, (n, step) in enumerate(zip(shape, strides, strict=True))
    )
    offset = entry.offset + (first * size if n_elements else 0)
    return Weight(
        name, kind, tuple(shape), offset, n_elements * size,
        strides=() if plain or not n_elements else tuple(step * size for step in strides),
    )  # fmt: skip


def _are_counts(values: Any) -> bool:
    is_list = isinstance(values, (tuple, list))
    return is_list and all(type(n) is int and 0 <= n < 1 << 48 for n in values)
