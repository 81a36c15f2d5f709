"""A named pipe is read once, or refused: nobody waits for a writer that does not come."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from mtkit.base import binary
from mtkit.base.binary import map_file
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(binary, "_WRITER_SECONDS", 0.5)
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


@pytest.mark.parametrize("data", [b"", b"a", b"text" * 100_000])
@pytest.mark.parametrize("seconds", [0.0, 0.2, 1.5])
def test_a_pipe_is_read_once(pipe: str, data: bytes, seconds: float) -> None:
    def write() -> None:
        with open(pipe, "wb", buffering=0) as file:
            time.sleep(seconds)  # the writer is there, and takes its time
            file.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    assert map_file(pipe) == data
    writer.join()
    with pytest.raises(UsageError, match="a pipe that nobody writes to"):
        map_file(pipe)


def test_what_is_piped_already(pipe: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"here")
    os.close(writing)
    if os.path.exists(f"/dev/fd/{reading}"):
        assert map_file(f"/dev/fd/{reading}") == b"here"
    os.close(reading)
    begun = time.monotonic()
    with pytest.raises(UsageError, match=f"^{pipe}: "):
        map_file(pipe)
    assert time.monotonic() - begun < 30
