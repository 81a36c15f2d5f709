"""Files as the base reads and writes them: whole or not at all, text, bytes, named pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import posix

from mtkit.base import binary
from mtkit.base import files as whole_files
from mtkit.base.binary import map_file
from mtkit.base.files import (
    WholeFiles,
    check_target,
    folder_for,
    is_text_file,
    visible_files,
    write_files,
)
from mtkit.base.packed import places_of_byte, whole
from mtkit.errors import ResourceError, UsageError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def forked(work: object) -> int:
    """Do something in a child; return its pid."""
    pid = os.fork()
    if not pid:
        try:
            work()  # type: ignore[operator]
        except SystemExit as stop:
            os._exit(int(str(stop.code)))
        finally:
            os._exit(99)
    return pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_in_the_middle(tmp_path: Path, number: signal.Signals) -> None:
    """The old file stays; a part that a kill left is removed by the next writer."""
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield b"new"
        (tmp_path / "begun").touch()
        time.sleep(60)

    def ended() -> None:
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        write_files({str(path): pieces()}, force=True)

    pid = forked(ended)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    os.kill(pid, number)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert path.read_bytes() == b"old"
    if number == signal.SIGKILL:
        assert code == -9
        (part,) = tmp_path.glob(f"a.{pid}.*.part")
        assert names(tmp_path) == ["a", part.name, "begun"]
    else:
        assert code == 128 + number
        assert names(tmp_path) == ["a", "begun"]
    write_files({str(path): b"newer"}, force=True)
    assert names(tmp_path) == ["a", "begun"]
    assert path.read_bytes() == b"newer"


def test_a_signal_that_something_else_handles_stays_its(tmp_path: Path) -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        with WholeFiles([str(tmp_path / "a")]):
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, old)
    with WholeFiles([str(tmp_path / "a")]):
        assert signal.getsignal(signal.SIGTERM) != old
    assert signal.getsignal(signal.SIGTERM) == old


def test_a_part_that_another_process_writes_stays(tmp_path: Path) -> None:
    """Its process may be on another machine, where its number says nothing."""
    path = tmp_path / "a"
    pid = forked(lambda: None)
    os.waitpid(pid, 0)
    part = tmp_path / f"a.{pid}.0.part"
    part.write_bytes(b"x")
    with part.open("rb") as file:
        assert whole_files.lock(file.fileno())
        write_files({str(path): b"new"})
        assert part.exists()
    write_files({str(path): b"newer"}, force=True)
    assert names(tmp_path) == ["a"]


def test_a_dead_part_with_the_number_of_this_process(tmp_path: Path) -> None:
    """The first process of a container has the same number each time; its own part is locked."""
    part = tmp_path / f"a.{os.getpid()}.part"
    part.write_bytes(b"half")
    write_files({str(tmp_path / "a"): b"new"})
    assert names(tmp_path) == ["a"]
    with WholeFiles([str(tmp_path / "b")]) as files:
        parts = {files.part(str(tmp_path / "b")) for _ in range(3)}
        assert len(parts) == 3
        assert all(map(os.path.exists, parts))


def test_threads_that_write_one_file(tmp_path: Path) -> None:
    path, torn = tmp_path / "a", []

    def write(number: int) -> None:
        for _ in range(20):
            write_files({str(path): bytes([number]) * 30_000}, force=True)
            data = path.read_bytes()
            if len(data) != 30_000 or len(set(data)) != 1:
                torn.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (torn, names(tmp_path)) == ([], ["a"])


def test_files_beside_others_are_regular_and_not_endless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe is nobody's file, and a sparse one costs no memory before it is refused."""
    (tmp_path / "short").write_bytes(b"text")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(2_500_000_000)
    os.symlink("nothing", tmp_path / "link")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    read = {name: binary.read_head(str(tmp_path / name), 2) for name in names(tmp_path)}
    assert read == {"short": b"te", "long": bytes(2), "link": b"", "folder": b"", "pipe": b""}
    for name in ("link", "folder", "pipe", "none"):
        assert binary.read_beside(str(tmp_path / name)) is None
    assert binary.read_beside(str(tmp_path / "short")) == b"text"
    with pytest.raises(ResourceError, match="long: has more than"):
        binary.read_beside(str(tmp_path / "long"))
    monkeypatch.setattr(binary, "UNMAPPED_BYTES", 3)
    with pytest.raises(ResourceError, match="more than 3 bytes"):
        binary.Source("x", b"", folder=str(tmp_path)).beside("short")


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    """Without force the second one is refused, whenever it looked."""
    path, other = tmp_path / "a", tmp_path / "b"
    with WholeFiles([str(other), str(path)]) as late:
        late.write(str(other), b"late")
        late.write(str(path), b"late")
        path.write_bytes(b"first")
        with pytest.raises(UsageError, match="another process made it"):
            late.appear()
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_two_writers_of_one_set(tmp_path: Path) -> None:
    """With force the files are those of one of them."""
    paths = [str(tmp_path / name) for name in "abcd"]

    def writer(mark: bytes) -> None:
        for _ in range(10):
            write_files(dict.fromkeys(paths, mark), force=True)
        os._exit(0)

    pids = [forked(lambda mark=mark: writer(mark)) for mark in (b"1", b"2")]
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    assert len({Path(path).read_bytes() for path in paths}) == 1
    assert names(tmp_path) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("force", [False, True])
def test_the_last_file_of_a_set_stands_with_all_others_or_not_at_all(
    tmp_path: Path, force: bool
) -> None:
    """A process that ends between two names."""
    paths = [tmp_path / name for name in "abc"]
    if force:
        for path in paths:
            path.write_bytes(b"old")
    for end in range(1, 5):

        def ended(end: int = end) -> None:
            left = end

            def counted(call: object) -> object:
                def wrapped(*args: object) -> None:
                    nonlocal left
                    left -= 1
                    if not left:
                        os._exit(9)
                    call(*args)  # type: ignore[operator]

                return wrapped

            for name in ("replace", "link"):
                setattr(os, name, counted(getattr(os, name)))
            write_files({str(path): b"new" for path in paths}, force=force)
            os._exit(0)

        os.waitpid(forked(ended), 0)
        found = [path.read_bytes() if path.exists() else b"" for path in paths]
        assert not found[-1] or len(set(found)) == 1
        for path in paths:
            path.write_bytes(b"old") if force else path.unlink(missing_ok=True)


def test_a_full_disk_leaves_no_folder(tmp_path: Path) -> None:
    def full() -> Iterator[bytes]:
        yield b"x"
        raise OSError(28, "No space left on device")

    out = tmp_path / "made" / "too"
    with pytest.raises(ResourceError, match="No space left"), folder_for(str(out)):
        write_files({str(out / "a"): b"whole", str(out / "b"): full()})
    assert names(tmp_path) == []
    out.mkdir(parents=True)
    with pytest.raises(ResourceError), folder_for(str(out)):
        write_files({str(out / "a"): full()})
    assert names(out) == []


def test_a_file_where_a_folder_is_to_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(b"whole")
    with pytest.raises(UsageError, match="is a file, not a folder"), folder_for(str(file)):
        pytest.fail("the body ran")
    assert file.read_bytes() == b"whole"


def test_what_a_shell_redirected_is_no_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/stdout")
    with (tmp_path / "red").open("wb") as file:
        for name in (f"/proc/self/fd/{file.fileno()}", f"/dev/fd/{file.fileno()}", str(link)):
            with pytest.raises(UsageError, match="a device, not a file"):
                check_target(name, force=True)
    check_target("/dev/shm/mtkit-nothing-here" if os.path.isdir("/dev/shm") else str(link) + "x")


@pytest.mark.parametrize("locked", [False, True])
def test_one_folder_under_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, locked: bool
) -> None:
    monkeypatch.setattr(whole_files, "_PATIENCE", 0.1)
    (tmp_path / "here").mkdir()
    (tmp_path / "there").symlink_to(tmp_path / "here")
    paths = [tmp_path / "here" / "one", tmp_path / "there" / "two"]
    folder = os.open(tmp_path / "here", os.O_RDONLY)
    try:
        if locked:  # by somebody who does not rename files
            fcntl = posix("fcntl")
            fcntl.flock(folder, fcntl.LOCK_EX)
        write_files({str(path): b"x" for path in paths})
    finally:
        os.close(folder)
    assert [path.read_bytes() for path in paths] == [b"x", b"x"]


def test_files_of_a_folder_are_in_order_and_hidden_ones_are_left(tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.py", "a/.d", ".git/e", "a/b/f"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    found = [path[len(str(tmp_path)) + 1 :] for path in visible_files(str(tmp_path))]
    assert found == ["b.txt", "a/c.py", "a/b/f"]


def test_text_is_utf8_without_nul(tmp_path: Path) -> None:
    cases = {
        b"int main() {}": True,
        "文".encode() * 8000: True,  # the part that is looked at ends within a character
        b"": False,
        b"GGUF\x03\0\0\0": False,
        b"\xff\xfea": False,
    }
    for number, (content, expected) in enumerate(cases.items()):
        path = tmp_path / str(number)
        path.write_bytes(content)
        assert is_text_file(str(path)) is expected
    assert not is_text_file(str(tmp_path / "nothing"))


def test_a_view_of_a_whole_object_is_that_object() -> None:
    data = b"abcd" * 9
    assert whole(memoryview(data)) is data
    assert whole(memoryview(data).cast("I").cast("B")) is data
    assert whole(memoryview(data)[1:]) == data[1:]
    assert whole(memoryview(bytearray(data))) == data


@pytest.mark.parametrize("data", [b"", b"a", b"b", b"aab", b"baa", b"abba", b"bab", b"babab"])
def test_places_of_a_byte(data: bytes) -> None:
    assert places_of_byte(data, ord("a")) == [at for at, c in enumerate(data) if c == ord("a")]


named_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(binary, "_WRITER_SECONDS", 0.5)
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


@named_pipes
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


@named_pipes
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


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_part_of_a_dead_process_that_nobody_waited_for_is_removed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    part = tmp_path / f"a.{child.pid}.0.part"
    part.write_bytes(b"half")
    write_files({str(tmp_path / "a"): b"whole"})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    child.wait()
