"""``mtkit edit``, ``split``, ``merge``, ``convert-endian``, ``hash``: files, rows, refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from screens import check_screens
from support import FIXTURES, one_line

import mtkit as package
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

if TYPE_CHECKING:
    from conftest import Run

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


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--set", "general.name=x"], "-o NEW.gguf"),
        (["-o", "new.gguf"], "no changes given"),
        ([], "no changes given"),
        (["--set", "general.name"], "no value for general.name; --set general.name=VALUE"),
        (["--set-file", "a.b="], "no file for a.b; --set-file a.b=FILE"),
        (["--rename-key", "a.b"], "no new name for a.b; --rename-key a.b=NEW"),
        (["-o", "new.gguf", "--set", "=x"], "no name in front of =; --set NAME=x"),
        (["-o", "-", "--unset", "general.name"], "no output file"),
        (["-o", "new.gguf", "--set", "a=u8:256"], "out of range"),
        (["-o", "new.gguf", "--set", "general.name=bool: text"], "write string:"),
        (["-o", "new.gguf", "--set-file", f"llama.block_count={MODEL}"], "is a string"),
        (["-o", "new.gguf", "--set", "new.key=x"], "its type is needed"),
        (["-o", "new.gguf", "--set", "a=bool:yes"], "true or false"),
        (["-o", "new.gguf", "--unset", "general.nam"], "is it general.name?"),
        (["-o", "new.gguf", "--rename-tensor", "a=b"], "no such tensor"),
        (["-o", "no/such/folder/new.gguf", "--unset", "general.name"], "folder"),
        (["-o", MODEL, "--unset", "general.name"], "already exists"),
        (["-o", "new.gguf", "--set", "general.alignment=u32:12"], "power of two"),
    ],
)
def test_what_cannot_be_edited(mtkit: Run, tmp_path: Path, args: list[str], said: str) -> None:
    assert said in one_line(mtkit("edit", MODEL, *args), 2)
    assert not list(tmp_path.glob("*.gguf*"))


def test_a_dry_run_writes_nothing(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("edit", MODEL, "--unset", "general.name", "--dry-run", "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["written"]) == ("mtkit.edit/1", None)
    assert document["changes"][0]["before"]
    assert not mtkit("split", MODEL, "--max-tensors", "9", "--dry-run").stderr
    assert not list(tmp_path.glob("*.gguf*"))


def test_the_file_itself_can_be_the_new_one(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Path(MODEL).read_bytes())
    done = mtkit("edit", path, "-o", path, "--force", "--set", "general.name=itself")
    assert done.returncode == 0
    assert open_gguf(path).metadata["general.name"] == "itself"


def copied(tmp_path: Path, name: str = "model.gguf") -> Path:
    path = tmp_path / name
    path.write_bytes(Path(MODEL).read_bytes())
    return path


def test_an_edit_in_place(mtkit: Run, tmp_path: Path) -> None:
    path = copied(tmp_path)
    size = path.stat().st_size
    dry = mtkit("edit", path, "--set", "llama.block_count=u32:5", "--in-place", "--dry-run")
    assert dry.stdout == b"set\tllama.block_count\t4\t5\n"
    assert path.read_bytes() == Path(MODEL).read_bytes()
    done = mtkit("edit", path, "--set", "llama.block_count=u32:5", "--in-place", "--json")
    assert json.loads(done.stdout)["written"] == str(path)
    assert (open_gguf(path).metadata["llama.block_count"], path.stat().st_size) == (5, size)
    long = "general.name=" + "long" * 40
    assert "in place" in one_line(mtkit("edit", path, "--set", long, "--in-place"), 2)
    assert "in place" in one_line(mtkit("edit", path, "--set", long, "--in-place", "--dry-run"), 2)
    for args in (["-o", "new.gguf"], []):
        done = mtkit("edit", *([path] if args else ["-"]), "--set", "a=u8:1", "--in-place", *args)
        assert "--in-place edits the file" in one_line(done, 2)
    assert "no changes given" in one_line(mtkit("edit", path, "--in-place"), 2)
    assert [one.name for one in tmp_path.glob("model*")] == ["model.gguf"]


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


def test_cut_joined_and_hashed(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("split", MODEL, "--max-size", "1Mi", "-o", "parts")
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    count = len(rows)
    assert rows[0][0] == os.path.join("parts", f"default-model-00001-of-{count:05d}.gguf")
    assert sum(int(row[1]) for row in rows) == len(open_gguf(MODEL).tensors)
    first = rows[0][0]
    assert "is one of the shards" in one_line(mtkit("merge", first, "-o", first, "--force"), 2)
    assert mtkit("merge", first, "-o", "whole.gguf").returncode == 0
    assert (tmp_path / "whole.gguf").read_bytes() == Path(MODEL).read_bytes()
    assert "already exists" in one_line(mtkit("merge", first, "-o", "whole.gguf"), 2)
    every = [row[0] for row in rows]
    for words in (["parts"], ["parts/"], every, [*every[1:], first], [first, "again.gguf"]):
        assert mtkit("merge", *words).returncode == 0, words
        name = "again.gguf" if "again.gguf" in words else "default-model.gguf"
        assert (tmp_path / name).read_bytes() == Path(MODEL).read_bytes()
        (tmp_path / name).unlink()
    assert "is not a shard" in one_line(mtkit("merge", *every, "whole.gguf"), 2)
    (tmp_path / "none").mkdir()
    assert "without shards" in one_line(mtkit("merge", "none"), 2)
    shutil.copy(tmp_path / first, tmp_path / "parts" / "b-00001-of-00002.gguf")
    assert "several models" in one_line(mtkit("merge", "parts"), 2)
    (tmp_path / "parts" / "b-00001-of-00002.gguf").unlink()
    for wrong in ("0", "2X", "-1", "G", "1.5G"):
        assert "is not a size" in one_line(mtkit("split", MODEL, "--max-size", wrong), 2)
    assert "no size given" in one_line(mtkit("split", MODEL), 2)

    manifest = mtkit("hash", "whole.gguf", "--all").stdout
    in_parts = mtkit("hash", first, "--all").stdout.replace(first.encode(), b"whole.gguf")
    assert in_parts == manifest
    later = rows[1][0]
    assert "name parts" in one_line(mtkit("hash", later), 2)
    assert mtkit("diff", first, MODEL).returncode == 0
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
    (tmp_path / "wrong").write_text("sha256 only\n")
    assert "line 1" in one_line(mtkit("hash", MODEL, "--check", "wrong"), 3)


def test_the_other_byte_order_and_back(mtkit: Run, tmp_path: Path) -> None:
    done = mtkit("convert-endian", MODEL, "-o", "big.gguf", "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["written"]) == ("mtkit.convert-endian/1", True)
    assert b"header\tbyte_order\tbig\n" in mtkit("inspect", "big.gguf").stdout
    assert "already exists" in one_line(mtkit("convert-endian", MODEL, "-o", "big.gguf"), 2)
    row = mtkit("convert-endian", "big.gguf", "-o", "back.gguf").stdout.split(b"\t")
    assert (row[0], int(row[1])) == (b"back.gguf", len(open_gguf(MODEL).tensors))
    assert (tmp_path / "back.gguf").read_bytes() == Path(MODEL).read_bytes()
    same = tmp_path / "back.gguf"
    assert mtkit("convert-endian", same, "-o", same, "--force").returncode == 0
    assert same.read_bytes() == (tmp_path / "big.gguf").read_bytes()
    assert not mtkit("convert-endian", MODEL, "-o", "none.gguf", "--dry-run").stderr
    assert not (tmp_path / "none.gguf").exists()
    assert "-o NEW.gguf" in one_line(mtkit("convert-endian", MODEL, "-o", "-"), 2)


def test_a_tokenizer_has_one_hash(mtkit: Run, tmp_path: Path) -> None:
    source = FIXTURES / "bbpe-8k" / "tokenizer.json"
    mtkit("convert", source, "--to", "mtok", "-o", "t.mtok")
    one, other = (mtkit("hash", path, "--tokenizer").stdout.split() for path in (source, "t.mtok"))
    assert one[:2] == other[:2]
    another = mtkit("hash", FIXTURES / "spm-bpe" / "tokenizer.model", "--tokenizer").stdout.split()
    assert another[1] != one[1]


def test_a_type_that_changes_is_shown(mtkit: Run) -> None:
    done = mtkit("edit", MODEL, "--set", "llama.block_count=u64:4", "--dry-run")
    assert done.stdout == b"set\tllama.block_count\tu32: 4\tu64: 4\n"


def test_one_hash_has_no_manifest(mtkit: Run) -> None:
    assert "cannot be combined with --check" in one_line(
        mtkit("hash", MODEL, "--tokenizer", "-c", "missing"), 2
    )


def test_screens(tmp_path: Path) -> None:
    shown = check_screens("split", MODEL, "--max-tensors", "12", "--dry-run")
    assert "tensors" in shown[80].words
    check_screens("edit", MODEL, "--set", "general.name=a" + "b" * 300, "--dry-run")
    (tmp_path / "m").write_text("sha256    " + "0" * 64 + "  a.gguf\n")
    bad = check_screens("hash", MODEL, "--check", tmp_path / "m", code=1)
    assert "0 of 1 hashes agree" in bad[80].words


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("edit odd.gguf -o new.gguf --set a=u8:1", ["5 bytes behind the tensors"]),
        ("split odd.gguf --max-tensors 9", ["split.count", "5 bytes behind the tensors"]),
        ("merge part-00001-of-00001.gguf -o new.gguf", ["5 bytes behind the tensors"]),
    ],
)
def test_what_is_not_kept_is_said(line: str, said: list[str], mtkit: Run, tmp_path: Path) -> None:
    """The value 0 of split.count is what joining files with llama-gguf-split leaves."""
    for name, count in (("odd.gguf", 0), ("part-00001-of-00001.gguf", 1)):
        made = mtkit("edit", MODEL, "-o", name, "--set", f"split.count=u16:{count}")
        assert made.returncode == 0, made.stderr
        with (tmp_path / name).open("ab") as file:
            file.write(b"extra")
    done = mtkit(*line.split())
    assert done.returncode == 0, done.stderr
    name = line.split()[1]
    wanted = [f"mtkit: {name}: warning: {what}: not kept" for what in said]
    assert done.stderr.decode().splitlines() == wanted


def test_a_file_of_a_set_may_have_keys_of_its_own(mtkit: Run, tmp_path: Path) -> None:
    assert mtkit("split", MODEL, "--max-tensors", "20").returncode == 0
    first, second = sorted(tmp_path.glob("*-0000[12]-of-*.gguf"))
    edited = mtkit("edit", second.name, "-o", second.name, "--set", "a.b=u8:1", "--force")
    assert edited.returncode == 0, edited.stderr
    done = mtkit("merge", first.name, "-o", "new.gguf")
    assert done.returncode == 0
    assert done.stderr.decode() == f"mtkit: {second.name}: warning: a.b: not kept\n"


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


def test_a_file_whose_edit_was_cut_short_is_no_source(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(Path(MODEL).read_bytes())
    (tmp_path / "m.gguf.journal").write_bytes(b"")
    for line in (
        "split m.gguf --max-tensors 9",
        "convert-endian m.gguf -o new.gguf",
        "quantize m.gguf --type Q8_0 --allow-requantize -o new.gguf",
        "trim m.gguf --keep ids.txt -o new.gguf",
    ):
        (tmp_path / "ids.txt").write_text("1\n2\n")
        done = mtkit(*line.split())
        assert "an earlier edit was interrupted" in one_line(done, 2)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a.n=u8[]:[1, 2, 3, 4, 5, 6, 7]", "7: 1 2 3 4 5 6 …"),
        ("a.f=f32:1e-50", "0.0"), ("a.f=f32:0.1", "0.1"), ("a.f=f32[]:[0.1, 2]", "[0.1, 2.0]"),
        ("a.b=bool[]:[true, false]", "[true, false]"), ('a.s=string[]:["a\\u0000"]', '["a\\x00"]'),
    ],
)  # fmt: skip
def test_the_value_shown_is_the_one_written(value: str, shown: str, mtkit: Run) -> None:
    done = mtkit("edit", MODEL, "-o", "new.gguf", "--set", value)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().rstrip("\n").split("\t")[-1] == shown.replace("\\", "\\\\")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a.f=f32:1e39", "a number in its range"), ("a.f=f32:1e400", "a number in its range"),
        ("a.f=f32[]:[1e39]", "numbers in its range"), ("a.f=f64[]:[1e400]", "numbers in its range"),
        ('a.s=string[]:["\\ud800"]', "half of a surrogate pair"),
        ("general.alignment=u32:2147483648", "every tensor could be padded"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_written(value: str, said: str, mtkit: Run) -> None:
    assert said in one_line(mtkit("edit", MODEL, "-o", "new.gguf", "--set", value), 2)


def test_an_alignment_is_a_whole_number(mtkit: Run) -> None:
    rename = "general.architecture=general.alignment"
    done = mtkit("edit", MODEL, "-o", "new.gguf", "--rename-key", rename)
    assert "general.alignment: is not a whole number" in one_line(done, 2)


def test_a_pipe_is_not_edited_in_place(mtkit: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.gguf")
    done = mtkit("edit", "f.gguf", "--set", "general.name=x", "--in-place")
    assert "is not a regular file" in one_line(done, 2)
