"""A header changed in its file: old or new at any moment, killed or not, or a journal that says how
to go on (`python -m tools.kills` has more kills).
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kills import FAST_WORKS, SIGNALS, WORKS, Trials, Work
from support import reference

import mtkit
from mtkit.errors import FormatError, ResourceError, UsageError
from mtkit.gguf import in_place, open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import JOURNAL_SUFFIX, is_edit_unfinished
from mtkit.gguf.in_place import InPlace, settle_journal, write_ggufs
from mtkit.gguf.rules import UNFINISHED
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

MODEL = os.path.join(os.path.dirname(mtkit.__file__), "data", "default-model.gguf")
F32 = TENSOR_TYPES[0]
NAME = "general.name"


def change(path: Path, *keys: Key) -> None:
    with InPlace(str(path)) as place:
        file = open_gguf(path)
        draft = Draft.of(file)
        for key in keys:
            draft.set(key)
        place.write(file, draft)


def renamed(path: Path) -> Key:
    """Return another name of the same length."""
    return Key(NAME, "string", "#" * len(open_gguf(path).metadata[NAME]))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(MODEL, tmp_path / "model.gguf"))


def test_the_header_alone_changes(model: Path) -> None:
    before, start = model.read_bytes(), open_gguf(model).data_offset
    inode = model.stat().st_ino
    change(model, renamed(model))
    after = model.read_bytes()
    assert after[start:] == before[start:]
    assert len(after) == len(before)
    assert set(open_gguf(model).metadata[NAME]) == {"#"}
    assert model.stat().st_ino == inode
    assert [path.name for path in model.parent.iterdir()] == ["model.gguf"]
    change(model, renamed(model))  # nothing to do
    assert model.read_bytes() == after


@given(st.integers(0, 80), st.integers(0, 80), st.sampled_from([32, 64, 128]), st.booleans())
def test_padding_takes_up_what_it_can(
    tmp_path_factory: pytest.TempPathFactory, before: int, after: int, alignment: int, whole: bool
) -> None:
    """In place the file is what a new one would be, or it is refused and stays."""
    path = tmp_path_factory.mktemp("place") / "model.gguf"
    tensors = [NewTensor("t", (5,), F32, bytes(range(20)))] if whole else []
    keys = [Key("a", "string", "x" * before), Key("general.alignment", "u32", alignment)]
    data = gguf_bytes(keys, tensors)
    path.write_bytes(data)
    wanted = gguf_bytes([Key("a", "string", "x" * after), keys[1]], tensors)
    if len(wanted) == len(data):
        change(path, Key("a", "string", "x" * after))
        assert path.read_bytes() == wanted
    else:
        with pytest.raises(UsageError, match="in place"):
            change(path, Key("a", "string", "x" * after))
        assert path.read_bytes() == data


def test_tensors_that_would_move_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    tensors = [NewTensor(name, (4,), F32, bytes(16)) for name in "ab"]
    path.write_bytes(gguf_bytes([Key("general.alignment", "u32", 32)], tensors))
    data = path.read_bytes()
    with pytest.raises(UsageError, match=r"would move|in place"):
        change(path, Key("general.alignment", "u32", 16))
    assert path.read_bytes() == data


def dies_at(number: int, seed: int, work: Callable[[], None]) -> bool:
    """Do something in a child that ends at one of its calls of the system; whether it did."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    calls = 0

    def ending(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                if name == "write":
                    call(args[0], args[1][: random.Random(seed).randrange(len(args[1]))])
                os._exit(9)
            return call(*args, **kwargs)

        return wrapped

    for name in ("open", "write", "fsync", "replace", "unlink", "lseek"):
        setattr(os, name, ending(name))
    try:
        work()
    finally:
        os._exit(0)


@pytest.mark.parametrize("seed", range(4))
def test_a_process_that_ends_at_any_call(tmp_path: Path, seed: int) -> None:
    """Old, new or a journal; the next edit finishes it, and may end anywhere as well."""
    path = Path(shutil.copy(MODEL, tmp_path / "model.gguf"))
    old, key = path.read_bytes(), renamed(path)
    change(path, key)
    new = path.read_bytes()
    rng = random.Random(seed)
    seen = set()
    number = 1
    while True:
        path.write_bytes(old)
        died = dies_at(number, seed, lambda: change(path, key))
        while is_edit_unfinished(str(path)):
            seen.add("journal")
            if rng.random() < 0.5:
                dies_at(rng.randrange(1, 8), seed, lambda: InPlace(str(path)).close())
                continue
            with InPlace(str(path)) as place:
                assert place.finished
            assert path.read_bytes() == new
        assert path.read_bytes() in (old, new)
        seen.add("old" if path.read_bytes() == old else "new")
        left = [one for one in tmp_path.iterdir() if one != path]
        assert all(one.name.endswith(".part") for one in left)
        for one in left:
            one.unlink()
        if not died:
            break
        number += 1
    assert seen == {"old", "new", "journal"}
    assert number > 6


def test_a_disk_that_fails_in_the_middle(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal stays, and the next edit is the one that was begun."""
    key = renamed(model)
    write = os.write
    with monkeypatch.context() as patched:

        def full(file: int, data: bytes) -> int:
            if len(data) < 3:
                raise OSError(28, "No space left on device")
            return write(file, data[:2])

        patched.setattr(os, "write", full)
        with pytest.raises(ResourceError, match=r"No space left on device.*next mtkit edit"):
            change(model, key)
    assert is_edit_unfinished(str(model))
    change(model, Key("general.file_type", "u32", 7))
    assert set(open_gguf(model).metadata[NAME]) == {"#"}
    assert open_gguf(model).metadata["general.file_type"] == 7
    assert not is_edit_unfinished(str(model))


def test_who_reads_a_file_whose_edit_was_cut_short_is_told(model: Path, tmp_path: Path) -> None:
    """Behind a link as well, and in the hint of what is damaged because of it."""
    link = tmp_path / "link.gguf"
    link.symlink_to(model)
    assert open_gguf(link).findings == ()
    Path(f"{model}{JOURNAL_SUFFIX}").write_bytes(b"")
    for path in (model, link):
        (finding,) = open_gguf(path).findings
        assert finding.rule is UNFINISHED
        assert str(finding) == (
            "an edit of the file was interrupted; mtkit edit FILE --in-place finishes it"
        )
    os.truncate(model, 100)
    with pytest.raises(FormatError, match=r"metadata_kv_count.*--in-place finishes it$"):
        open_gguf(model)
    first, *others = open_gguf(model, strict=False).findings
    assert first.rule is UNFINISHED
    assert others


def test_no_room_for_the_journal_changes_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = model.read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise ResourceError("cannot be written: No space left on device")

    monkeypatch.setattr(in_place, "write_files", refuse)
    with pytest.raises(ResourceError):
        change(model, renamed(model))
    assert model.read_bytes() == before
    assert not is_edit_unfinished(str(model))


@pytest.mark.parametrize("damage", ["cut", "bent", "empty", "another file", "longer"])
def test_a_journal_that_does_not_belong_here(model: Path, damage: str) -> None:
    key = renamed(model)
    before = model.read_bytes()
    assert any(dies_at(n, 0, lambda: change(model, key)) and is_edit_unfinished(str(model))
               for n in range(1, 20))  # fmt: skip
    journal = Path(f"{model}{JOURNAL_SUFFIX}")
    data = bytearray(journal.read_bytes())
    model.write_bytes(before)
    if damage == "another file":
        model.write_bytes(bytes(len(before)))
    elif damage == "longer":
        model.write_bytes(before + b"x")
    else:
        data[-40] ^= 1
        journal.write_bytes({"cut": data[:-1], "bent": data, "empty": b""}[damage])
    now = model.read_bytes()
    with pytest.raises(UsageError, match=r"journal.*remove it"):
        InPlace(str(model))
    assert model.read_bytes() == now


@pytest.mark.parametrize("size", [0, 16, 40, 41])
def test_a_forged_journal(model: Path, size: int) -> None:
    body = (b"mtkit journal 1\n" + b"\xff" * 40)[:size]
    Path(f"{model}{JOURNAL_SUFFIX}").write_bytes(body + hashlib.sha256(body).digest())
    before = model.read_bytes()
    with pytest.raises(UsageError, match="is not a journal"):
        InPlace(str(model))
    assert model.read_bytes() == before


def test_one_process_at_a_time(model: Path) -> None:
    with InPlace(str(model)), pytest.raises(UsageError, match="another process"):
        InPlace(str(model))
    InPlace(str(model)).close()


def test_a_link_leads_to_the_file(model: Path) -> None:
    link = model.parent / "link.gguf"
    link.symlink_to(model)
    change(link, renamed(model))
    assert link.is_symlink()
    assert set(open_gguf(model).metadata[NAME]) == {"#"}


KILLED_MODEL = Path(MODEL)
KILLS = 4


@pytest.mark.slow
@pytest.mark.parametrize("work", [*WORKS, *FAST_WORKS], ids=lambda work: work.name)
def test_old_new_or_nothing(tmp_path: Path, work: Work) -> None:
    if work.name == "quantize":  # in a child, which ends with the command even while it starts
        reference("llama_cpp")
    trials = Trials(work, KILLED_MODEL, tmp_path / "work")
    rng = Random(work.name)
    assert {trials.run(rng, SIGNALS) for _ in range(KILLS)} <= {"old", "new", "neither", "journal"}


@pytest.mark.slow
def test_the_journal_of_a_file_that_is_replaced(tmp_path: Path) -> None:
    """It would be taken for the new file's; without a file it belongs to nothing."""
    path = tmp_path / "a.gguf"
    journal = Path(f"{path}{JOURNAL_SUFFIX}")
    journal.write_bytes(b"of another program")
    with pytest.raises(UsageError, match="is not a journal"):
        write_ggufs({str(path): KILLED_MODEL.read_bytes()})
    body = struct.pack("<16sQQQ", b"mtkit journal 1\n", 9, 0, 1) + b"ab"
    journal.write_bytes(body + sha256(body).digest())
    write_ggufs({str(path): KILLED_MODEL.read_bytes()})
    assert not journal.exists()
    assert open_gguf(path).findings == ()
    journal.write_bytes(b"of another file")
    with pytest.raises(UsageError, match="is not a journal"):
        settle_journal(str(path), force=True)
    with pytest.raises(UsageError, match="already exists"):
        settle_journal(str(path), force=False)
