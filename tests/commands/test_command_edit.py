"""``mtkit edit``, ``split``, ``merge``, ``convert-endian``, ``hash``: files, rows, refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from screens import check_screens
from support import Run, one_line

import mtkit as package
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

MODEL = os.path.join(os.path.dirname(package.__file__), "data", "default-model.gguf")


def test_an_edit_changes_what_is_asked_for(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_bytes("{{ 'é' }}".encode())
    done = mtkit(
        "edit", MODEL, "-o", "new.gguf", "--set", "general.name=renamed",
        "--set", "a.b=bool:false", "--set-file", "tokenizer.chat_template=@chat.jinja",
        "--rename-key", "general.file_type=was",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    assert [row[:2] for row in rows] == [
        ["rename key", "general.file_type"], ["set", "general.name"], ["set", "a.b"],
        ["set", "tokenizer.chat_template"],
    ]  # fmt: skip
    before, after = open_gguf(MODEL), open_gguf(tmp_path / "new.gguf")
    assert after.metadata["general.name"] == "renamed"
    assert after.metadata["a.b"] is False
    assert after.metadata["tokenizer.chat_template"] == "{{ 'é' }}"
    changed = {"general.name", "a.b", "tokenizer.chat_template", "general.file_type", "was"}
    for key in before.metadata.keys() - changed:
        one, other = before.metadata[key], after.metadata[key]
        assert one == other or list(one) == list(other)
    assert [bytes(after.tensor_data(one)) for one in after.tensors] == [
        bytes(before.tensor_data(one)) for one in before.tensors
    ]


def copied(tmp_path: Path, name: str = "model.gguf") -> Path:
    path = tmp_path / name
    path.write_bytes(Path(MODEL).read_bytes())
    return path


def test_the_next_edit_finishes_one_that_was_cut_short(mtkit: Run, tmp_path: Path) -> None:
    path = copied(tmp_path)
    old = path.read_bytes()
    script = (
        "import os, sys\n"
        "from mtkit.cli import main\n"
        "os.lseek = lambda *_: os._exit(9)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    change = ["edit", str(path), "--set", "llama.block_count=u32:5", "--in-place"]
    done = subprocess.run([sys.executable, "-c", script, *change], check=False)
    assert done.returncode == 9
    assert path.read_bytes() == old
    assert Path(f"{path}.journal").exists()
    dry = mtkit("edit", path, "--set", "a=u8:1", "--dry-run")
    assert "was interrupted" in one_line(dry, 2)
    done = mtkit("edit", path, "--in-place")
    assert done.stdout == b"finished\tan edit that was cut short\t\t\n"
    assert open_gguf(path).metadata["llama.block_count"] == 5
    assert not Path(f"{path}.journal").exists()


def test_a_new_file_has_no_journal_of_the_old_one(mtkit: Run, tmp_path: Path) -> None:
    path = copied(tmp_path)
    script = "import os, sys; from mtkit.cli import main; os.lseek = lambda *_: os._exit(9); "
    change = ["edit", str(path), "--set", "llama.block_count=u32:5", "--in-place"]
    argv = [sys.executable, "-c", script + "main(sys.argv[1:])", *change]
    assert subprocess.run(argv, check=False).returncode == 9
    done = mtkit("edit", MODEL, "--set", "general.name=other", "-o", path, "--force")
    assert done.returncode == 0
    assert not Path(f"{path}.journal").exists()
    assert open_gguf(path).metadata["general.name"] == "other"
    assert open_gguf(path).metadata["llama.block_count"] == 4


LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from mtkit.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "args",
    [
        ["edit", "model.gguf", "--set", "llama.block_count=u32:5", "-o", "new.gguf"],
        ["edit", "model.gguf", "--set", "llama.block_count=u32:5", "-o", "model.gguf", "--force"],
        ["edit", "model.gguf", "--set", "llama.block_count=u32:5", "--in-place"],
        ["split", "model.gguf", "--max-tensors", "9", "-o", "."],
        ["convert-endian", "model.gguf", "-o", "new.gguf"],
    ],
)
@pytest.mark.parametrize("limit", [0, 100, 100_000])
def test_a_full_disk_leaves_what_was(tmp_path: Path, args: list[str], limit: int) -> None:
    """A file may grow to so many bytes; the journal of an edit in place is below a hundred."""
    path = copied(tmp_path)
    argv = [sys.executable, "-c", LIMITED, str(limit), *args]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=tmp_path)
    if "--in-place" in args and limit:
        assert done.returncode == (0 if limit > 100 else 5), done.stderr
        subprocess.run([sys.executable, "-m", "mtkit", *args], check=True, cwd=tmp_path)
    else:
        assert b"cannot be written: File too large" in done.stderr
        assert done.returncode == 5
        assert path.read_bytes() == Path(MODEL).read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize(
    "args",
    [
        ["edit", "model.gguf", "--set", "llama.block_count=u32:5", "-o", "new.gguf"],
        ["edit", "model.gguf", "--set", "llama.block_count=u32:5", "--in-place"],
        ["split", "model.gguf", "--max-tensors", "9", "-o", "."],
        ["convert-endian", "model.gguf", "-o", "new.gguf"],
    ],
)
def test_a_folder_that_cannot_be_written(tmp_path: Path, args: list[str]) -> None:
    """The file itself can. Root is asked like anybody, without its right to pass over modes."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = copied(folder)
    folder.chmod(0o555)
    argv = [sys.executable, "-c", AS_ANYBODY, *args]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=folder)
    folder.chmod(0o755)
    assert b"Permission denied" in done.stderr, done.stderr
    assert done.returncode in (2, 5)
    assert path.read_bytes() == Path(MODEL).read_bytes()
    assert [one.name for one in folder.iterdir()] == ["model.gguf"]


AS_ANYBODY = """
import ctypes, os, sys
drop, dac_override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
if os.getuid() == 0:
    assert ctypes.CDLL(None).prctl(drop, dac_override, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-m", "mtkit", *sys.argv[1:]])
"""


def test_a_file_and_its_parts_have_the_same_hashes(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("split", MODEL, "--max-size", "1Mi", "-o", "parts")
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    first = rows[0][0]
    assert sum(int(row[1]) for row in rows) == len(open_gguf(MODEL).tensors)
    shutil.copy(MODEL, tmp_path / "whole.gguf")
    manifest = mtkit("hash", "whole.gguf", "--all").stdout
    in_parts = mtkit("hash", first, "--all").stdout.replace(first.encode(), b"whole.gguf")
    assert in_parts == manifest
    (tmp_path / "manifest").write_bytes(manifest)
    same = mtkit("hash", MODEL, "--check", "manifest")
    assert same.returncode == 0
    assert {row.rsplit("\t")[-1] for row in same.stdout.decode().splitlines()} == {"ok"}
    name = open_gguf(MODEL).tensors[3].name
    mtkit("edit", MODEL, "-o", "other.gguf", "--rename-tensor", f"{name}=renamed")
    other = mtkit("hash", "other.gguf", "--check", "manifest", "--json")
    assert other.returncode == 1
    verdicts = {row["name"]: row["verdict"] for row in json.loads(other.stdout)["rows"]}
    assert verdicts[f"whole.gguf:{name}"] == "missing"
    assert verdicts["renamed"] == "not listed"
    assert verdicts["whole.gguf"] == "ok"
    data = bytearray((tmp_path / "whole.gguf").read_bytes())
    data[-100] ^= 1
    (tmp_path / "bent.gguf").write_bytes(data)
    bent = mtkit("hash", "bent.gguf", "--check", "manifest")
    assert bent.returncode == 1
    assert bent.stdout.count(b"differs") == 7  # the last tensor by three hashes, the whole by four


def test_screens(tmp_path: Path) -> None:
    shown = check_screens("split", MODEL, "--max-tensors", "12", "--dry-run")
    assert "tensors" in shown[80].words
    check_screens("edit", MODEL, "--set", "general.name=a" + "b" * 300, "--dry-run")
    (tmp_path / "m").write_text("sha256    " + "0" * 64 + "  a.gguf\n")
    bad = check_screens("hash", MODEL, "--check", tmp_path / "m", code=1)
    assert "0 of 1 hashes agree" in bad[80].words


def odd(path: Path, kind: str) -> list[str]:
    """Write a model whose bytes are not those of its keys and tensors; returns what is said."""
    data = bytearray(Path(MODEL).read_bytes())
    file = open_gguf(MODEL)
    last = file.tensors[-1]
    if kind == "padding":
        *_, at = last.places
        assert file.data_offset > at + 12
        data[at + 12] = 1
    elif kind == "end":
        tensors = [NewTensor(name, (4,), TENSOR_TYPES[0], bytes(16)) for name in "ab"]
        data = bytearray(gguf_bytes([Key("k", "u32", 1)], tensors)[:-16])
    else:
        *_, at = last.places
        data[at + 4 : at + 12] = (last.offset + 32).to_bytes(8, "little")
        data += b"rest".rjust(36, b"\0")
    path.write_bytes(data)
    return {
        "padding": ["padding in front of the tensors that is not zero: not kept"],
        "end": ["padding is added behind the last tensor"],
        "gap": [
            "the tensors are laid out anew, one behind the other",
            "bytes between the tensors that are not zero: not kept",
            "4 bytes behind the tensors: not kept",
        ],
    }[kind]


@pytest.mark.parametrize("kind", ["padding", "gap", "end"])
def test_what_is_laid_out_otherwise_is_said(kind: str, mtkit: Run, tmp_path: Path) -> None:
    wanted = odd(tmp_path / "odd.gguf", kind)
    done = mtkit("split", "odd.gguf", "--max-tensors", "99")
    assert done.returncode == 0, done.stderr
    said = done.stderr.decode().splitlines()
    assert said == [f"mtkit: odd.gguf: warning: {what}" for what in wanted]


def test_a_pipe_is_not_edited_in_place(mtkit: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.gguf")
    done = mtkit("edit", "f.gguf", "--set", "general.name=x", "--in-place")
    assert "is not a regular file" in one_line(done, 2)
