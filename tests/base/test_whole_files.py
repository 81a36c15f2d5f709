"""Files appear whole or not at all: a process ends, two write, the disk is full."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import posix

from mtkit.base import files as whole_files
from mtkit.base.files import WholeFiles, check_target, folder_for, write_files
from mtkit.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        assert names(tmp_path) == ["a", f"a.{pid}.part", "begun"]
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
    part = tmp_path / f"a.{pid}.part"
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
        made = files.part(str(tmp_path / "b"))
        with pytest.raises(ResourceError, match="exists"):
            files.part(str(tmp_path / "b"))
        assert os.path.exists(made)


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
