"""A tokenizer's file that is truncated while it is in use is an error, and no signal."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kills import ended, forked
from support import FIXTURES

import mtkit
from mtkit import cli
from mtkit.base import binary
from mtkit.base.binary import MappedFile, Source, map_file
from mtkit.base.files import write_files
from mtkit.errors import FormatError, ResourceError
from mtkit.sources.locate import MODEL, TOKENIZER, shipped

ROOT = Path(__file__).parents[2]
CHANGED = "was truncated or overwritten while it was in use; load it again"
guarded = pytest.mark.skipif(
    sys.platform == "win32", reason="a file that is mapped cannot be truncated there"
)
AFTER = """
import mtkit, os, sys
{before}
tokenizer = mtkit.load(sys.argv[1])
{after}
os.truncate(sys.argv[1], 100)
for use in (tokenizer.encode_ids, tokenizer.encode_array, tokenizer.encode,
            lambda text: tokenizer.encode_batch_ids([text]), lambda _: tokenizer.decode([1, 2]),
            lambda text: tokenizer.encode_ids(text * 1000), lambda _: tokenizer.spec):
    try:
        use("hello")
    except mtkit.MtkitError as error:
        assert "was truncated or overwritten" in str(error), error
        assert sys.argv[1] in str(error), error
    else:
        print("an answer")
"""


def used(path: Path, before: str = "", after: str = "") -> subprocess.CompletedProcess[str]:
    """Use a tokenizer whose file is truncated, in a process of its own."""
    code = AFTER.format(before=before, after=after)
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, capture_output=True, check=False, text=True, encoding="utf-8")


@pytest.fixture
def mtok(tmp_path: Path) -> Path:
    """Return a .mtok with tables, which may be changed."""
    pytest.importorskip("mtkit._native")
    path = tmp_path / "tøkenizer.mtok"
    shutil.copy(shipped(TOKENIZER), path)
    return path


@pytest.mark.parametrize("name", ["bbpe-8k/vocab.gguf", "bbpe-8k/tokenizer.json"])
@guarded
def test_of_other_files_nothing_stays_in_use(name: str, tmp_path: Path) -> None:
    path = tmp_path / name.replace("/", "-")
    shutil.copy(FIXTURES / name, path)
    done = used(path)
    assert (done.returncode, done.stdout.count("an answer")) == (0, 7), done.stderr


@guarded
def test_tables_that_are_gone_are_an_error(mtok: Path) -> None:
    done = used(mtok)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


HANDLERS = {
    "faulthandler before": ("import faulthandler; faulthandler.enable()", ""),
    "faulthandler after": ("", "import faulthandler; faulthandler.enable()"),
    "another before": ("import signal; signal.signal(signal.SIGBUS, lambda *_: 1/0)", ""),
    "ignored before": ("import signal; signal.signal(signal.SIGBUS, signal.SIG_IGN)", ""),
}


@pytest.mark.parametrize("name", HANDLERS)
@guarded
def test_other_handlers(name: str, mtok: Path) -> None:
    done = used(mtok, *HANDLERS[name])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_where_another_handler_came_later_the_file_is_read(mtok: Path) -> None:
    """It may never ask the one below it."""
    code = """
import mtkit, signal, sys
mtkit.load()
signal.signal(signal.SIGBUS, lambda *_: None)
from mtkit.base.binary import map_file
print(type(map_file(sys.argv[1], guard=True)).__name__)
"""
    if sys.platform == "win32":
        pytest.skip("there is no SIGBUS")
    done = subprocess.run([sys.executable, "-c", code, str(mtok)], capture_output=True, check=True)
    assert done.stdout.split() == [b"bytes"]


@pytest.mark.parametrize(
    "fault",
    [
        "os.kill(os.getpid(), signal.SIGBUS)",
        "data = mmap.mmap(os.open(file, os.O_RDWR), 0); os.truncate(file, 0); data[0]",
    ],
)
@guarded
def test_other_faults_end_the_process_as_they_did(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(bytes(10_000))
    code = f"import mmap, mtkit, os, signal, sys; file = sys.argv[1]; mtkit.load(); {fault}"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGBUS


@guarded
def test_last_bytes_that_are_gone_are_noticed_without_a_signal(mtok: Path) -> None:
    tokenizer = mtkit.load(mtok)
    right = tokenizer.encode_ids("hello")
    with mtok.open("r+b") as file:
        file.truncate(mtok.stat().st_size - 1)
    with pytest.raises(FormatError, match=CHANGED):
        tokenizer.encode_ids("hello")
    shutil.copy(shipped(TOKENIZER), mtok)  # what was read meanwhile may be remembered
    with pytest.raises(FormatError, match=CHANGED):
        tokenizer.encode_ids("hello")
    assert mtkit.load(mtok).encode_ids("hello") == right


@guarded
def test_guards_end_with_their_mappings(mtok: Path) -> None:
    for _ in range(100):
        mapped = map_file(str(mtok), guard=True)
        assert isinstance(mapped, MappedFile)
        assert mapped.guard is not None
        mapped.close()
        assert mapped.guard is None


@guarded
def test_without_a_guard_nothing_is_asked(mtok: Path) -> None:
    sources = [Source.open(str(mtok), guard=guard) for guard in (False, True)]
    os.truncate(mtok, 100)
    sources[0].require_whole()
    with pytest.raises(FormatError, match=CHANGED):
        sources[1].require_whole()
    Source("", b"").require_whole()


@guarded
def test_a_command_answers_for_the_files_that_it_mapped(mtok: Path) -> None:
    before = map_file(str(mtok), guard=True)
    os.truncate(mtok, 100)
    with binary.guard_all():
        del before


@guarded
def test_neighbors_that_truncate(mtok: Path) -> None:
    """Ten thousand cases: ``python -m tools.truncations``."""
    tool = ROOT / "tools" / "truncations.py"
    command = [sys.executable, str(tool), "--cases", "60", "--mtok", str(mtok)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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


@pytest.mark.parametrize("size", [0, 5000, 99_999])
@guarded
def test_what_a_command_reads_is_asked_at_its_end(size: int, tmp_path: Path) -> None:
    pytest.importorskip("mtkit._native")
    path, target = tmp_path / "model", tmp_path / "copy"
    path.write_bytes(b"x" * 100_000)

    def command() -> None:
        with binary.guard_all():
            data = map_file(str(path))
            binary.require_whole()
            os.truncate(path, size)
            assert set(data[:size]) <= {ord("x")}  # no signal; what is gone are zeros
            said = "was truncated or overwritten while it was read|it is copied from became shorter"
            for content in (bytes(data), iter([data])):
                with pytest.raises(ResourceError, match=said):
                    write_files({str(target): content})
            assert [file.name for file in tmp_path.iterdir()] == ["model"]

    with pytest.raises(ResourceError, match=r"model: was truncated .*run the command again"):
        command()
    write_files({str(target): b"a later command in the same process"})


LINES = """
inspect m.gguf; token hello -t m.gguf; report m.gguf -o new.html; check m.gguf; hash m.gguf;
dump metadata m.gguf; edit m.gguf --set general.name=x -o new.gguf; diff m.gguf m.gguf;
edit m.gguf --set general.file_type=7 --in-place; convert-endian m.gguf -o new.gguf;
split m.gguf --max-tensors 20 -o new; quantize m.gguf new.gguf Q8_0 --allow-requantize;
convert m.gguf --to hf-model -o new/; sx quantize-embeddings m.gguf -o new; logits hi -m m.gguf;
trim m.gguf --keep ids -o new.gguf; imatrix -m m.gguf -f ids -o new.gguf
"""


@pytest.mark.parametrize("line", [line.strip() for line in LINES.split(";")])
@guarded
def test_a_model_that_is_truncated_under_a_command(line: str, tmp_path: Path) -> None:
    """As soon as it is mapped, to any length: a line, exit code 5, and no file."""
    pytest.importorskip("mtkit._native")
    shutil.copy(shipped(MODEL), tmp_path / "m.gguf")
    (tmp_path / "ids").write_text("5\n6\n7\n")
    errors = tmp_path / "errors"
    rng = Random(line)

    def run() -> int:
        real = binary.Source.__init__

        def truncate(source: Source, name: str, data: Any, **others: Any) -> None:
            real(source, name, data, **others)
            if name == "m.gguf" and isinstance(data, MappedFile):
                os.truncate(name, rng.randrange(len(data)))

        binary.Source.__init__ = truncate  # type: ignore[method-assign]  # this is a fork
        os.chdir(tmp_path)
        sys.stderr = errors.open("w", buffering=1)
        return cli.main(line.split())

    assert ended(forked(run)) == 5, errors.read_text()
    said = errors.read_text()
    assert said.count("\n") == 1
    assert "m.gguf: was truncated" in said or "m.gguf: is being truncated" in said
    assert {path.name for path in tmp_path.iterdir()} == {"m.gguf", "ids", "errors"}


def test_files_that_are_read_do_not_stay_open(tmp_path: Path) -> None:
    pytest.importorskip("mtkit._native")
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    count = len(os.listdir("/dev/fd"))

    def run() -> None:
        with binary.guard_all():
            for _ in range(20):
                assert map_file(str(path))
            assert len(os.listdir("/dev/fd")) <= count + 1
            mapped = map_file(str(path))
            os.truncate(path, 500)
            del mapped  # what was closed meanwhile counts, too

    with pytest.raises(ResourceError, match="was truncated"):
        run()
