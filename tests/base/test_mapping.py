"""Files that cannot be mapped: those that are none are read, and a lack of memory is said."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from mtkit.base import binary
from mtkit.errors import ResourceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("number", "is_read"), [(errno.ENODEV, True), (errno.ENOMEM, False)])
def test_what_cannot_be_mapped(
    number: int, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(binary, "MappedFile", refuse)
    path = tmp_path / "file"
    path.write_bytes(b"content")
    if is_read:
        assert bytes(binary.map_file(str(path))) == b"content"
        return
    with pytest.raises(ResourceError, match=f"{path.name}: cannot be mapped: this process may"):
        binary.map_file(str(path))
