"""Files on the command line: damage is one clear line, and a target appears whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES, one_line, reference

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
SPM = FIXTURES / "spm-bpe" / "tokenizer.model"


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"{", b'{"model": {}}', b"GGUF", b"430 4\n"])
def test_a_damaged_file_is_one_clear_line(mtkit: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    assert "x.bin" in one_line(mtkit("encode", "x", "-t", path), 3)
    assert "x.bin" in one_line(mtkit("inspect", path), 3)


def test_a_web_page_is_called_one_whatever_it_was_taken_for(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b"<!doctype html><html>")
    for args in (["inspect", path], ["encode", "x", "-t", path]):
        assert "web page" in one_line(mtkit(*args), 3)


def test_several_files_have_a_folder(mtkit: Run, tmp_path: Path) -> None:
    for target, made in (("made", ["made/tokenizer.json", "made/tokenizer_config.json"]),
                         ("own.json", ["own.json", "tokenizer_config.json"])):  # fmt: skip
        done = mtkit("convert", BBPE, "--to", "hf", "-o", tmp_path / target, "--json")
        files = [str(tmp_path / name) for name in made]
        assert json.loads(done.stdout)["files"][: len(files)] == files
    assert mtkit("convert", BBPE, "--to", "gguf", "-o", tmp_path / "one", "-q").returncode == 0
    assert (tmp_path / "one").is_file()


def test_convert_says_what_it_did(mtkit: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.mtok"
    done = mtkit("convert", BBPE, "--to", "mtok", "-o", target, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["output"] == str(target)
    assert {"losses", "assumptions", "verified"} <= set(document)
    assert target.exists()
    again = mtkit("convert", BBPE, "--to", "mtok", "-o", target)
    assert "--force" in one_line(again, 2)
    assert mtkit("convert", BBPE, "--to", "mtok", "-o", target, "--force").returncode == 0
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_on_a_terminal_convert_reports_in_two_columns(tmp_path: Path) -> None:
    pexpect = reference("pexpect")
    args = ["-m", "mtkit", "convert", str(SPM), "--to", "mtok", "-o", str(tmp_path / "x.mtok")]
    child = pexpect.spawn(
        sys.executable, args, encoding="utf-8", env={**os.environ, "COLUMNS": "60"}
    )
    child.expect(pexpect.EOF)
    first, *rows = child.before.splitlines()
    assert "written" in first
    heads = {row[:20].rstrip() for row in rows}
    assert {"  assumed", "  MNN's loader lacks", "  verified", "  size", ""} == heads
    assert max(map(len, rows)) <= 60


def test_refused_conversions_leave_nothing(mtkit: Run, tmp_path: Path) -> None:
    one_line(mtkit("convert", BBPE, "--to", "spm", "-o", tmp_path / "x.model"), 4)
    assert not (tmp_path / "x.model").exists()


def test_convert_never_writes_over_its_input(mtkit: Run, tmp_path: Path) -> None:
    copy = tmp_path / "tokenizer.json"
    copy.write_bytes(BBPE.read_bytes())
    done = mtkit("convert", copy, "--to", "hf", "--force")
    assert "source itself" in one_line(done, 2)
    assert copy.read_bytes() == BBPE.read_bytes()


def test_only_files_are_replaced_and_links_stay_links(mtkit: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "a device" in one_line(mtkit("convert", BBPE, "--to", "hf", "-o", pipe, "--force"), 2)
    assert pipe.is_fifo()
    real, link = tmp_path / "real.mtok", tmp_path / "link.mtok"
    real.write_bytes(b"old")
    link.symlink_to(real.name)
    assert mtkit("convert", SPM, "--to", "mtok", "-o", link, "--force").returncode == 0
    assert link.is_symlink()
    assert real.read_bytes().startswith(b"430 ")


def test_a_long_file_is_refused_before_it_is_read(mtkit: Run, tmp_path: Path) -> None:
    for source in (SPM, BBPE):
        file = tmp_path / "long.bin"
        file.write_bytes(source.read_bytes())
        os.truncate(file, 1 << 33)  # sparse
        assert "8589934592 bytes long" in one_line(mtkit("inspect", file), 3)


def test_a_device_is_refused_where_a_tokenizer_would_have_ended(mtkit: Run) -> None:
    assert one_line(mtkit("inspect", "/dev/zero"), 5) == (
        "mtkit: /dev/zero: is longer than 268435456 bytes and no file that could be mapped;"
        " save it to a file first\n"
    )


def test_a_tokenizer_that_multiplies_its_text_is_stopped(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
    steps = {"type": "Sequence", "normalizers": [step] * 8}
    file.write_text(json.dumps({**json.loads(BBPE.read_bytes()), "normalizer": steps}))
    for form in ("--ids", "--json"):
        assert one_line(mtkit("encode", "a", "-t", file, form), 5) == (
            f"mtkit: {file}: Replace: the text becomes more than 1048576 bytes longer\n"
        )


def test_a_fault_that_shows_only_in_use_names_the_file(mtkit: Run, tmp_path: Path) -> None:
    document = json.loads(BBPE.read_bytes())
    for fault, says in (
        ({"type": "FixedLength", "length": 0}, "pieces of 0 characters never end"),
        (
            {
                "type": "Split",
                "pattern": {"Regex": "(a)\\1"},
                "behavior": "Isolated",
                "invert": False,
            },
            "split pattern",
        ),
    ):
        file = tmp_path / "tokenizer.json"
        file.write_text(json.dumps({**document, "pre_tokenizer": fault}))
        for last in ([], ["--trace"]):
            line = one_line(mtkit("encode", "ab", "-t", file, *last), 4)
            assert line.startswith(f"mtkit: {file}: ")
            assert says in line


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    for args in (["--version"], ["--help"], ["encode", "x"], ["formats"], ["encode", "--help"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "mtkit", *args],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                cwd=tmp_path,
            )
        assert (done.returncode, done.stderr) == (5, b"mtkit: No space left on device\n"), args
