"""A GGUF in the making: what another file holds, some of it changed.

Keys are kept as the bytes that a file has for them, so that what nobody changes stays as it is, odd
or not; tensor data is never copied in memory.
"""

from __future__ import annotations

import struct

from mtkit.base.escape import shown
from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.rules import ALIGNMENT, INTEGERS, UNFINISHED
from mtkit.gguf.types import VALUE_TYPES
from mtkit.gguf.writer import VERSION, Key, NewTensor, header, key_bytes, laid_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtkit.base.binary import Buffer
    from mtkit.gguf.file import GgufFile, Tensor


MAX_ALIGNMENT = 1 << 20
"""That is asked for: no loader needs more than a page, and 2^31 would make 2 GiB of one tensor."""


class Kept(Record):
    """A key with its value as the bytes of a file.

    Attributes:
        name: Its name.
        data: Name, type and value, little-endian.
    """

    name: str
    data: memoryview


class Draft:
    """Keys and tensors of a file that is to be written.

    Attributes:
        keys: Name -> key, in the order of the file.
        tensors: Name -> tensor, in the order of the table; data follows in that order.
        version: Of the layout.
    """

    def __init__(
        self,
        keys: Iterable[Kept | Key] = (),
        tensors: Iterable[NewTensor] = (),
        version: int = VERSION,
    ) -> None:
        self.version = version
        self.keys = {key.name: key for key in keys}
        self.tensors = {tensor.name: tensor for tensor in tensors}

    @staticmethod
    def of(file: GgufFile) -> Draft:
        """Return what a file holds.

        Raises:
            UnsupportedError: It is of version 1 or big-endian.
            UsageError: An edit of it was cut short.
        """
        refuse_unfinished(file)
        if file.version == 1 or file.byte_order != "little":
            raise UnsupportedError(
                f"version {file.version}, {file.byte_order}-endian, is not rewritten",
                source=file.name,
            )
        tensors = (new_tensor(file, tensor) for tensor in file.tensors)
        return Draft(kept_keys(file), tensors, file.version)

    @property
    def alignment(self) -> object:
        """What every tensor begins at a multiple of, in bytes.

        Raises:
            UsageError: It is not a whole number.
        """
        key = self.keys.get(ALIGNMENT)
        if key is None:
            return DEFAULT_ALIGNMENT
        return key.value if isinstance(key, Key) else _whole_number(key)

    def set(self, key: Key) -> None:
        """Put a key in the place of one of its name, or behind the others.

        Raises:
            UsageError: It makes every tensor begin at a multiple of more than ``MAX_ALIGNMENT``.
        """
        if key.name == ALIGNMENT and isinstance(key.value, int) and key.value > MAX_ALIGNMENT:
            what = f"is {key.value}: every tensor could be padded by as many bytes"
            raise UsageError(what, field=ALIGNMENT, hint=f"at most {MAX_ALIGNMENT}")
        self.keys[key.name] = key

    def unset(self, name: str) -> None:
        """Drop a key.

        Raises:
            UsageError: There is none of that name.
        """
        _known(self.keys, name, "key")
        del self.keys[name]

    def rename_key(self, old: str, new: str) -> None:
        """Give a key another name, in its place.

        Raises:
            UsageError: There is none of the old name, or one of the new.
        """
        _renamable(self.keys, old, new, "key")
        self.keys = {
            (new if name == old else name): _renamed(key, new) if name == old else key
            for name, key in self.keys.items()
        }

    def rename_tensor(self, old: str, new: str) -> None:
        """Give a tensor another name, in its place.

        Raises:
            UsageError: There is none of the old name, or one of the new.
        """
        _renamable(self.tensors, old, new, "tensor")
        self.tensors = {
            (new if name == old else name): replace(one, name=new) if name == old else one
            for name, one in self.tensors.items()
        }

    def chunks(self) -> Iterator[Buffer]:
        """Give the bytes of the file, piece by piece; all checks are done before the first.

        Raises:
            UsageError: A key or tensor cannot be written.
        """
        keys, tensors = self._parts()
        return laid_out(keys, tensors, self.alignment, self.version)

    def header(self) -> tuple[bytes, list[int]]:
        """Return what stands in front of the data, and where in it each tensor begins.

        Raises:
            UsageError: A key or tensor cannot be written.
        """
        head, offsets = header(*self._parts(), self.alignment, self.version)
        return b"".join(head), offsets

    def _parts(self) -> tuple[list[Buffer], list[NewTensor]]:
        keys: list[Buffer] = [
            key.data if isinstance(key, Kept) else key_bytes(key) for key in self.keys.values()
        ]
        return keys, list(self.tensors.values())


def kept_keys(file: GgufFile) -> Iterator[Kept]:
    """Yield the keys of a file with the bytes that it has for them."""
    for key, data in file.key_bytes():
        yield Kept(key, data)


def new_tensor(file: GgufFile, tensor: Tensor) -> NewTensor:
    """Return a tensor of a file, to be written to another."""
    return NewTensor(tensor.name, tensor.shape, tensor.type, file.tensor_data(tensor))


def refuse_unfinished(file: GgufFile) -> None:
    """Refuse to make a file of one that is neither what it was nor what it is to be.

    Raises:
        UsageError: An edit of it was cut short.
    """
    if any(finding.rule is UNFINISHED for finding in file.findings):
        what = "an earlier edit was interrupted"
        raise UsageError(what, source=file.name, hint=UNFINISHED.advice)


def _whole_number(key: Kept) -> int:
    """Return the value of a whole number, whatever its type.

    Raises:
        UsageError: It is none.
    """
    name = 8 + len(key.name.encode("utf-8", "surrogateescape"))
    kind = VALUE_TYPES.get(int.from_bytes(key.data[name : name + 4], "little"))
    if kind not in INTEGERS:
        raise UsageError("is not a whole number", field=key.name)
    (value,) = struct.unpack(f"<{kind.code}", key.data[name + 4 :])
    return int(value)


def _renamed(key: Kept | Key, name: str) -> Kept | Key:
    if isinstance(key, Key):
        return replace(key, name=name)
    rest = key.data[8 + len(key.name.encode("utf-8", "surrogateescape")) :]
    raw = name.encode("utf-8", "surrogateescape")
    return Kept(name, memoryview(struct.pack("<Q", len(raw)) + raw + bytes(rest)))


def _known(found: Iterable[str], name: str, kind: str) -> None:
    if name not in found:
        from difflib import get_close_matches

        near = get_close_matches(name, found, n=1)
        lists = f"mtkit inspect FILE --all lists the {kind}s"
        hint = f"is it {shown(near[0])}?" if near else lists
        raise UsageError(f"no such {kind}", field=shown(name), hint=hint)


def _renamable(found: Iterable[str], old: str, new: str, kind: str) -> None:
    _known(found, old, kind)
    if not new:
        raise UsageError(f"the new name of a {kind} is empty", field=shown(old))
    if new in found and new != old:
        raise UsageError(f"there is such a {kind} already", field=shown(new))
