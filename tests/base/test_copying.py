"""Parts of mapped files copied by the system, with holes and without, or by hand."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtkit.base import files
from mtkit.base.binary import map_file
from mtkit.base.files import write_files
from mtkit.errors import ResourceError

BLOCK = 1 << 16


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """Return a file with data and holes in turn, of a length that no block divides."""
    path = tmp_path / "sparse"
    rng = random.Random(7)
    with path.open("wb") as file:
        for at in range(0, 64, 4):
            file.seek(at * BLOCK)
            file.write(rng.randbytes(rng.randrange(1, 2 * BLOCK)))
        file.truncate(66 * BLOCK + 17)
    return path


def refused(number: int) -> object:
    """Return a system call that fails."""

    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


def pieces(data: memoryview, rng: random.Random) -> Iterator[bytes | memoryview]:
    """Yield parts of a file, small and large, and bytes between them."""
    for _ in range(rng.randrange(1, 8)):
        start = rng.randrange(len(data))
        size = rng.choice([rng.randrange(100), rng.randrange(BLOCK), len(data)])
        yield data[start : start + size]
        yield rng.randbytes(rng.randrange(40))


@pytest.mark.parametrize(
    "way",
    [
        "system",
        "short",
        "zero",
        "hole-less",
        "gone",
        "absent",
        "EXDEV",
        "ENOSYS",
        "EINVAL",
        "EOPNOTSUPP",
        "EPERM",
    ],
)
def test_any_parts_in_any_way(
    tmp_path: Path, sparse: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The file has the bytes that were given, whatever the system can do."""
    monkeypatch.setattr(files, "LEAST_COPIED_BYTES", 1000)
    real = os.copy_file_range
    data = memoryview(map_file(str(sparse)))
    if way == "short":  # less than asked for, at last nothing
        steps = iter([5000] * 20)

        def some(source: int, target: int, size: int, *at: int) -> int:
            step = next(steps, 0)
            return real(source, target, min(size, step), *at) if step else 0

        monkeypatch.setattr(os, "copy_file_range", some)
    elif way == "zero":
        monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    elif way == "hole-less":
        monkeypatch.delattr(os, "SEEK_DATA")
    elif way == "absent":
        monkeypatch.delattr(os, "copy_file_range")
    elif way == "gone":
        sparse.rename(tmp_path / "elsewhere")
        sparse.write_bytes(b"another file of that name")
    elif way != "system":
        monkeypatch.setattr(os, "copy_file_range", refused(getattr(errno, way)))
    for seed in range(25):
        wanted = b"".join(pieces(data, random.Random(seed)))
        path = tmp_path / f"{seed}"
        write_files({str(path): pieces(data, random.Random(seed))})
        assert path.read_bytes() == wanted, seed


def test_the_system_copies_and_holes_stay(
    tmp_path: Path, sparse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a large part passes through the process."""
    copied = []
    real = os.copy_file_range

    def counted(*given: int) -> int:
        copied.append(real(*given))
        return copied[-1]

    monkeypatch.setattr(os, "copy_file_range", counted)
    new = tmp_path / "new"
    write_files({str(new): iter([b"head", memoryview(map_file(str(sparse)))])})
    assert new.read_bytes() == b"head" + sparse.read_bytes()
    assert new.stat().st_size == sparse.stat().st_size + 4
    if sparse.stat().st_blocks * 512 < sparse.stat().st_size:  # a file system with holes
        assert 0 < sum(copied) < sparse.stat().st_size
        assert new.stat().st_blocks < 1.5 * sparse.stat().st_blocks


def test_a_hole_of_terabytes(tmp_path: Path) -> None:
    """It takes neither time nor disk."""
    path, new = tmp_path / "a", tmp_path / "b"
    with path.open("wb") as file:
        file.write(b"data")
        file.truncate(1 << 40)
    write_files({str(new): iter([memoryview(map_file(str(path)))])})
    assert new.stat().st_size == 1 << 40
    assert new.stat().st_blocks <= 100
    with new.open("rb") as file:
        assert file.read(6) == b"data\0\0"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_full_disk(
    tmp_path: Path, sparse: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is not tried again by hand; nothing is left."""
    monkeypatch.setattr(os, "copy_file_range", refused(number))
    with pytest.raises(ResourceError, match="cannot be written") as caught:
        write_files({str(tmp_path / "new"): iter([memoryview(map_file(str(sparse)))])})
    assert os.strerror(number) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["sparse"]


@pytest.mark.parametrize("zero", [False, True])
def test_a_file_that_becomes_shorter(
    tmp_path: Path, sparse: Path, monkeypatch: pytest.MonkeyPatch, *, zero: bool
) -> None:
    """What is missing is not taken for a hole."""
    data = memoryview(map_file(str(sparse)))
    os.truncate(sparse, 20 * BLOCK)
    if zero:
        monkeypatch.delattr(os, "SEEK_DATA")
    with pytest.raises(ResourceError, match="became shorter"):
        write_files({str(tmp_path / "new"): iter([data])})
    assert [path.name for path in tmp_path.iterdir()] == ["sparse"]
