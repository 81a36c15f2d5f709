"""Files as ``torch.save`` writes them, written without torch."""

from __future__ import annotations

import io
import zipfile

import numpy as np

ROOT = "archive"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
HOOKS = b"ccollections\nOrderedDict\n)R"


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def number(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(key: str, count: int, kind: str = "FloatStorage", *, view: bytes = b"") -> bytes:
    """A persistent id; ``view`` is what the older form has at its end."""
    named = b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n"
    return named + text(key) + text("cpu") + number(count) + view + b"tQ"


def tensor(
    stored: bytes, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, first: int = 0
) -> bytes:
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    arguments = stored + number(first) + numbers(shape) + numbers(strides) + b"\x89" + HOOKS
    return REBUILD + b"(" + arguments + b"tR"


def table(items: dict[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(name) + value for name, value in items.items()) + b"u"


def pickle(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


def zipped(entries: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in {**entries, "version": b"3\n"}.items():
            file.writestr(zipfile.ZipInfo(f"{ROOT}/{name}"), data, method)
    return out.getvalue()


def saved(state: bytes, storages: dict[str, bytes]) -> bytes:
    """A file of torch 1.6 and later."""
    data = {f"data/{key}": value for key, value in storages.items()}
    return zipped({"data.pkl": pickle(state), "byteorder": b"little", **data})


def saved_before(state: bytes, storages: dict[str, tuple[int, bytes]]) -> bytes:
    """A file of torch before 1.6: key -> count and numbers."""
    magic = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"
    sizes = table({"protocol_version": number(1001), "little_endian": b"\x88"})
    keys = b"](" + b"".join(map(text, storages)) + b"e"
    heads = b"".join(map(pickle, (magic, number(1001), sizes, state, keys)))
    return heads + b"".join(n.to_bytes(8, "little") + data for n, data in storages.values())


def state_dict(tensors: dict[str, np.ndarray]) -> bytes:
    """A file of float32 tensors."""
    parts = {
        name: tensor(storage(str(key), array.size), array.shape)
        for key, (name, array) in enumerate(tensors.items())
    }
    data = {str(key): array.tobytes() for key, array in enumerate(tensors.values())}
    return saved(table(parts), data)
