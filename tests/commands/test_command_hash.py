"""``mtkit hash --xxh64`` is xxHash's own, and a manifest has a line for each name or none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from screens import screen
from support import Run, measured, one_line, reference

import mtkit as package
from mtkit.errors import MissingExtra, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.digests import available, digests, line, manifest
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

MODEL = os.path.join(os.path.dirname(package.__file__), "data", "default-model.gguf")


def small(name: str = "a") -> bytes:
    return gguf_bytes([Key("k", "u32", 1)], [NewTensor(name, (4,), TENSOR_TYPES[0], bytes(16))])


def test_xxh64_is_that_of_its_package(mtkit: Run) -> None:
    xxhash = reference("xxhash")
    file = open_gguf(MODEL)
    whole, wanted = xxhash.xxh64(), []
    for tensor in file.tensors:
        data = bytes(file.tensor_data(tensor))
        whole.update(data)
        wanted.append(f"xxh64     {xxhash.xxh64(data).hexdigest()}  {MODEL}:{tensor.name}")
    wanted.append(f"xxh64     {whole.hexdigest()}  {MODEL}")
    done = mtkit("hash", MODEL, "--xxh64")
    assert done.stdout.decode().splitlines() == wanted
    assert mtkit("hash", MODEL, "--xxh64", "--no-layer").stdout.decode().split()[:1] == ["xxh64"]


def test_names_that_are_not_utf8_are_found_again(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "odd.gguf").write_bytes(small("\udcff\x1b[1m\u2028"))
    done = mtkit("hash", "odd.gguf")
    assert b"odd.gguf:\\xff\\x1b[1m\\u2028\n" in done.stdout
    (tmp_path / "m").write_bytes(done.stdout)
    assert mtkit("hash", "odd.gguf", "--check", "m").returncode == 0
    (tmp_path / "raw").write_bytes(  # as other programs write it
        done.stdout.replace(b"\\xff\\x1b[1m\\u2028", b"\xff\x1b[1m\xe2\x80\xa8")
    )
    assert mtkit("hash", "odd.gguf", "--check", "raw").returncode == 0
    shown = screen("hash", tmp_path / "odd.gguf").text
    assert "\\xff\\x1b[1m\\u2028" in shown.replace("\n", "")
    assert "\x1b[1m" not in shown


def test_a_manifest_of_llama_gguf_hash_is_checked(mtkit: Run, tmp_path: Path) -> None:
    reference("xxhash")
    (tmp_path / "m").write_bytes(mtkit("hash", MODEL, "--xxh64").stdout)
    assert mtkit("hash", MODEL, "--check", "m").returncode == 0
    changed = (tmp_path / "m").read_bytes().replace(b"xxh64     ", b"xxh64     0", 1)
    (tmp_path / "m").write_bytes(changed)
    assert mtkit("hash", MODEL, "--check", "m").stdout.count(b"differs") == 1


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(small())
    monkeypatch.setitem(sys.modules, "xxhash", None)
    assert available() == ["sha256", "sha1", "uuid"]
    with pytest.raises(MissingExtra, match=r"xxh64 needs xxhash; pip install \"mtkit\[hash\]\""):
        list(digests([open_gguf(str(path))], ["xxh64"]))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_name_with_a_line_break_does_not_forge_a_line(
    mtkit: Run, tmp_path: Path, end: str
) -> None:
    forged = f"a{end}sha256    {'0' * 64}  other.gguf"
    (tmp_path / "forged.gguf").write_bytes(small(forged))
    done = mtkit("hash", "forged.gguf")
    assert "line break" in one_line(done, 4)
    assert done.stdout == b""
    assert mtkit("hash", "forged.gguf", "--json").returncode == 0
    with pytest.raises(UnsupportedError, match="line break"):
        line("sha1", "0", f"a{end}b", "t")


@pytest.mark.parametrize("letter", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", " ", ":"])
def test_other_odd_names_come_back(letter: str) -> None:
    rows = [("sha1", "00", f"a{letter}b.gguf:t{letter}u"), ("sha1", "01", f"a{letter}b.gguf")]
    text = "\n".join(line(name, said, file, "") for name, said, file in rows)
    assert manifest(text + "\r\n\n", "m") == rows


@pytest.mark.parametrize("command", [("hash",), ("check", "--deep"), ("diff",)])
def test_a_model_that_is_read_once_does_not_fill_the_memory(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """A mapping counts page by page, and numpy some forty megabytes."""
    size, count = 160 << 20, 16
    zeros = bytes(size // count)
    tensors = [NewTensor(f"{n}", (len(zeros) // 4,), TENSOR_TYPES[0], zeros) for n in range(count)]
    data = gguf_bytes([Key("k", "u32", 1)], tensors)
    paths = [tmp_path / "a.gguf", tmp_path / "b.gguf"][: 1 + (command == ("diff",))]
    for path in paths:
        path.write_bytes(data)
    _, _, peak, _, stderr = measured(sys.executable, "-m", "mtkit", *command, *paths)
    assert stderr == b""
    assert peak < ((110 if command == ("check", "--deep") else 64) << 20)
