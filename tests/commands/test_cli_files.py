"""Files on the command line: damage is one clear line, and a target appears whole or not at all."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from screens import check_screens, screen
from support import FIXTURES, Run, one_line

from mtkit.commands.output import write_json
from mtkit.formats.mtok.extension import append_extension, find_extension
from mtkit.gguf.file import HEAD_BYTES, other_kind

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.lists(st.integers(0, 99_999), min_size=15)
    | st.dictionaries(st.text(), inner),
)  # fmt: skip
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


@pytest.mark.parametrize("table", ["PROG", "DECO"])
def test_tables_of_another_version_are_named_once_and_not_used(
    mtkit: Run, tmp_path: Path, table: str
) -> None:
    target = tmp_path / "old.mtok"
    assert mtkit("convert", BBPE, "--to", "mtok", "-o", target).returncode == 0
    whole = find_extension(target.read_bytes())
    assert whole is not None
    sections = {tag: bytes(content) for tag, content in whole.sections.items()}
    sections[table] = (9999).to_bytes(4, "little") + sections[table][4:]
    parts = [(tag, whole.flags[tag], content) for tag, content in sections.items()]
    target.write_bytes(append_extension(target.read_bytes()[: whole.base_length], parts))
    done = mtkit("encode", "-t", target, "Hello, MNN!")
    right = mtkit("encode", "-t", BBPE, "Hello, MNN!")
    assert (done.returncode, done.stdout) == (0, right.stdout)
    assert right.stderr == b""
    assert re.fullmatch(rb"mtkit: .*old.mtok: warning: .*version is 9999.*\n", done.stderr)


def test_a_conversion_on_a_terminal(tmp_path: Path) -> None:
    """What changes no text is a note; what does is shown."""
    target = tmp_path / "x.gguf"
    found = check_screens("convert", BBPE, "--to", "gguf", "-o", target, "--force")
    assert found[120].words.endswith(
        "277 kB · 203 of 203 texts get the same ids "
        'assumed pre-tokenizer named "qwen2" (its rules are the same) '
        'assumed architecture "llama" (the tokenizer names none) '
        "9 notes on what gguf does not keep; none changes these texts (-v for details)"
    )
    assert len(screen("convert", BBPE, "--to", "gguf", "-o", target, "--force", "-v").lines) > 9
    words = check_screens("convert", SPM, "--to", "mtok", "-o", target, "--force")[80].words
    assert "203 of 203 texts get the same ids" in words
    assert "MNN's loader ! same ids on 198 of 203 texts (5 differ as listed: " in words
    assert re.search(r"! [a-z][^!]* ids-special", words)


def test_a_refusal_on_a_terminal_shows_a_text_and_what_to_type(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer.json"
    source.write_text(
        json.dumps(json.loads(BBPE.read_bytes()) | {"normalizer": {"type": "Lowercase"}})
    )
    target = tmp_path / "x.gguf"
    found = check_screens("convert", source, "--to", "gguf", "-o", target, code=4)[80]
    assert found.lines[0] == "✗ not written: 76 of 203 texts would get different ids in gguf"
    here, there = (
        re.search(rf"{name} +([\d ]+)", "\n".join(found.lines))[1].split()  # type: ignore[index]
        for name in ("here", "there")
    )
    assert here == ["701", "391", "11", "303", "77", "77", "0"]
    assert there == ["39", "311", "391", "11", "536", "45", "45", "0"]
    assert "write it anyway: --allow-loss ids --allow-loss ids-possible" in found.words
    assert not target.exists()
    cannot = check_screens("convert", BBPE, "--to", "spm", "-o", target, code=4)[120]
    assert "spm cannot hold this tokenizer" in cannot.lines[0]


def test_an_error_on_a_terminal_has_its_hint_on_a_line(tmp_path: Path) -> None:
    found = check_screens("inspect", tmp_path / "none.gguf", code=2)[120]
    assert found.lines[0].startswith("✗ ")
    assert found.lines[-2].startswith("  name a file")


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
        assert "has 8589934592 bytes" in one_line(mtkit("inspect", file), 3)


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
            "pre_tokenizer: Split: a backreference (\\1) is not supported",
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


def test_a_comparison_on_a_terminal(tmp_path: Path) -> None:
    """The verdict first, then where the two part, in characters as people read them."""
    other = tmp_path / "tokenizer.json"
    other.write_text(
        json.dumps(json.loads(BBPE.read_bytes()) | {"normalizer": {"type": "Lowercase"}})
    )
    found = check_screens("compare", BBPE, other, code=1)
    assert found[80].lines[:5] == [
        "✗ 76 of 200 texts differ, first at text 4, stage: normalizer",
        "",
        "text 4  normalizer",
        '  text  "Hello, MNN!"',
        "  A     39 H  311 el  391 lo  11 ,  536 ·M  45 N  45 N  0 !",
    ]
    assert len(found[80].lines) <= 24
    assert (
        screen("compare", BBPE, BBPE).lines[0] == "✓ 200 texts · 4,788 tokens · all ids are equal"
    )
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("low\nHigh\n" + "x " * 500 + "Z\n")
    lines = screen("compare", BBPE, other, "-f", corpus, "-n", 5).words
    assert lines.startswith("✗ 2 of 3 lines differ, first at line 2")
    assert "1001 characters A 498 tokens … 1628 ·x 1628 ·x 796 ·Z B 498" in lines


def _foreign(folder: Path) -> dict[str, Path]:
    """Files of other kinds that people name: what the error calls them -> the file."""
    import io
    import zipfile

    import numpy as np
    from safetensors.numpy import save

    def zipped(name: str, content: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, content)
        return out.getvalue()

    array = io.BytesIO()
    np.save(array, np.zeros(3))
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"
    pickled = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01u."
    contents = {
        "safetensors": save({"a": np.zeros((2, 2), np.float32)}),
        "PyTorch checkpoint": zipped("pytorch_model/data.pkl", b"\x80\x02}q\x00."),
        "Python pickle": pickled,
        "zip archive": zipped("tokenizer.json", b"{}"),
        "ONNX model": b"\x08\x08\x12\x07pytorch\x1a\x052.4.0" + b"\0" * 40,
        "web page": b"\n<!DOCTYPE html>\n<html><head><title>404</title></head></html>\n",
        "Git LFS pointer": lfs,
        "Xet pointer": b"# xet version 0\nfilesize = 12345\nhash = '0'\n",
        "numpy array": array.getvalue(),
    }
    for name, content in contents.items():
        (folder / f"{name}.gguf").write_bytes(content)
    return {name: folder / f"{name}.gguf" for name in contents}


def test_files_of_other_kinds_are_named(mtkit: Run, tmp_path: Path) -> None:
    for name, path in _foreign(tmp_path).items():
        inspected = [] if name == "safetensors" else [["inspect", path]]  # which it shows
        for args in (*inspected, ["encode", "x", "-t", path], ["dump", "metadata", path]):
            said = one_line(mtkit(*args), 3)
            assert name in said, said
            assert str(path) in said


def test_tokenizers_are_not_taken_for_files_of_other_kinds() -> None:
    for path in FIXTURES.glob("*/*"):
        if path.name not in ("vocab.gguf",):
            assert other_kind(path.read_bytes()[:HEAD_BYTES]) is None, path


def test_json_is_indented_on_a_terminal_and_a_line_in_a_pipe(mtkit: Run) -> None:
    text = "a text of several words, so that its document does not fit one line of a terminal"
    args = ("encode", text, "-t", BBPE, "--json")
    piped = mtkit(*args).stdout.decode()
    shown = screen(*args).text
    assert piped.count("\n") == 1
    assert shown.count("\n") > 20
    assert json.loads(shown) == json.loads(piped)


@given(_JSON)
def test_indented_json_is_the_same_document(value: object) -> None:
    written = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORCE_COLOR", "always")  # as on a terminal
        patch.setattr(sys, "stdout", io.TextIOWrapper(written))
        write_json(value)
        shown = written.getvalue().decode()
    assert json.loads(shown) == json.loads(json.dumps(value))
    for line in shown.split("\n"):
        assert line == line.rstrip()
