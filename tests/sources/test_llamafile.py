"""The model inside a llamafile is read where a GGUF is, and copied once where llama.cpp runs it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from small_files import gguf_file

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UsageError
from mtkit.gguf import open_gguf
from mtkit.sources.locate import MODEL, locate

HEADS = (b"MZqFpD='\n" + b"\0" * 500, b"jartsr='" + b"\0" * 500, b"\x7fELF" + b"\0" * 500)


def llamafile(
    path: Path, models: tuple[str, ...] = ("m.gguf",), *, head: bytes = HEADS[0], method: int = 0
) -> Path:
    path.write_bytes(head)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(".args", "-m\nm.gguf\n")
        for name in models:
            archive.writestr(name, gguf_file("llama"), method)
        archive.writestr("ui/index.html", "<html>" * 100)
    return path


@pytest.mark.parametrize("head", HEADS)
def test_the_model_is_read(head: bytes, tmp_path: Path) -> None:
    path = llamafile(tmp_path / "a.llamafile", head=head)
    assert bytes(Source.open(str(path)).data) == gguf_file("llama")
    assert open_gguf(str(path)).metadata["tokenizer.ggml.model"] == "llama"
    plain = tmp_path / "a.gguf"
    plain.write_bytes(gguf_file("llama"))
    assert mtkit.load(path).encode("aab").ids == mtkit.load(plain).encode("aab").ids


def test_other_programs_and_zips_are_what_they_were(tmp_path: Path) -> None:
    for name, models in (("none", ()), ("model", ("m.gguf",))):
        path = llamafile(tmp_path / name, models, head=b"")  # a zip, not a program
        assert bytes(Source.open(str(path)).data) == path.read_bytes()
    path = llamafile(tmp_path / "program", ())
    assert bytes(Source.open(str(path)).data) == path.read_bytes()
    (tmp_path / "elf").write_bytes(HEADS[2])
    assert bytes(Source.open(str(tmp_path / "elf")).data) == HEADS[2]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    several = llamafile(tmp_path / "b.llamafile", ("m.gguf", "n.gguf"))
    with pytest.raises(FormatError, match=r"several models: m\.gguf, n\.gguf"):
        Source.open(str(several))
    packed = llamafile(tmp_path / "c.llamafile", method=zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="compressed"):
        Source.open(str(packed))


def test_llama_cpp_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = llamafile(tmp_path / "a.llamafile")
    file = locate(str(path), MODEL)
    assert Path(file.path).read_bytes() == gguf_file("llama")
    assert str(path) in file.which
    before = Path(file.path).stat().st_mtime_ns
    assert locate(str(path), MODEL) == file
    assert Path(file.path).stat().st_mtime_ns == before  # it is not copied again


def test_it_is_not_edited_in_place(tmp_path: Path) -> None:
    path = llamafile(tmp_path / "a.llamafile")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="llamafile"):
        mtkit.edit(path, keys={"general.name": "x"})
    assert path.read_bytes() == before
