"""One way to find a file: tokenizers and models, by path, folder, repository name or default."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from screens import screen

from mtkit.errors import UsageError
from mtkit.sources.locate import ADAPTER, MODEL, TOKENIZER, FileKind, locate, shipped

if TYPE_CHECKING:
    from pathlib import Path


COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the user's settings and cache."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "MTKIT_MODEL", "MTKIT_TOKENIZER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def repository(home: Path, name: str, *files: str) -> Path:
    """Lay out a repository of empty files as the hub's client does; return its snapshot."""
    folder = home / "hub" / ("models--" + name.replace("/", "--"))
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    for file in files:
        (folder / "blobs" / file).write_bytes(b"")
        (snapshot / file).symlink_to(f"../../blobs/{file}")
    return snapshot


@pytest.mark.parametrize("revision", ["", "@main", f"@{COMMIT}"])
def test_a_model_by_the_name_of_its_repository(tmp_path: Path, revision: str) -> None:
    files = ("config.json", "m-Q8_0.gguf", "m-Q4_0.gguf", "tokenizer.json")
    snapshot = repository(tmp_path / "home", "Own/tiny", *files)
    assert locate(f"Own/tiny{revision}", MODEL).path == str(snapshot / "m-Q4_0.gguf")
    assert locate(f"Own/tiny{revision}", TOKENIZER).path == str(snapshot / "tokenizer.json")


def test_the_image_half_of_a_model_is_taken_last(tmp_path: Path) -> None:
    snapshot = repository(tmp_path / "home", "Own/sees", "mmproj-F16.gguf", "qwen-Q4_0.gguf")
    assert locate("Own/sees", MODEL).path == str(snapshot / "qwen-Q4_0.gguf")
    alone = repository(tmp_path / "home", "Own/eye", "mmproj-F16.gguf")
    assert locate("Own/eye", MODEL).path == str(alone / "mmproj-F16.gguf")


@pytest.mark.parametrize("wanted", [TOKENIZER, MODEL], ids=lambda wanted: wanted.key)
def test_without_a_name_the_setting_counts(
    wanted: FileKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert locate(None, wanted).path == shipped(wanted)
    name = wanted.files[-1]
    snapshot = repository(tmp_path / "home", "Own/default", f"a{name}")
    monkeypatch.setenv(f"MTKIT_{wanted.key.upper()}", "Own/default")
    assert locate(None, wanted).path == str(snapshot / f"a{name}")
    monkeypatch.setenv(f"MTKIT_{wanted.key.upper()}", "nowhere")
    with pytest.raises(UsageError, match=f"mtkit config {wanted.key}, or MTKIT_"):
        locate(None, wanted)


@pytest.mark.parametrize("wanted", [TOKENIZER, MODEL], ids=lambda wanted: wanted.key)
def test_what_is_not_there_is_said(wanted: FileKind, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file; ") as caught:
        locate("nowhere.bin", wanted)
    assert caught.value.hint == wanted.hint
    with pytest.raises(UsageError, match="no such file; ") as caught:
        locate("nowhere", wanted, download=False)
    assert caught.value.hint == f"{wanted.hint}; {wanted.fetch.format(name='ORG/NAME')}"
    with pytest.raises(UsageError, match="no model of that name") as caught:
        locate("Own/none", wanted, download=False)
    assert caught.value.hint == wanted.fetch.format(name="Own/none")
    with pytest.raises(UsageError, match="is an empty folder"):
        locate(str(tmp_path), wanted)
    (tmp_path / "notes").touch()
    with pytest.raises(UsageError, match=f"{wanted.lacks}; looked for .*gguf"):
        locate(str(tmp_path), wanted)
    (tmp_path / ADAPTER).touch()
    with pytest.raises(UsageError, match="is the folder of a LoRA adapter; mtkit convert"):
        locate(str(tmp_path), wanted)
    with pytest.raises(UsageError, match=r"is a URL, .*; download the file"):
        locate("https://example.org/model.gguf", wanted)


def test_a_pipe_holds_a_tokenizer_and_no_model() -> None:
    assert locate("-").path == "-"
    with pytest.raises(UsageError, match="no such file"):
        locate("-", MODEL)


def test_a_command_says_which_model_it_took(tmp_path: Path) -> None:
    snapshot = repository(tmp_path / "home", "Own/tiny")
    blob = snapshot.parent.parent / "blobs" / "m"
    blob.write_bytes(b"no model")
    (snapshot / "m.gguf").symlink_to(blob)
    done = screen("logits", "Hello", "-m", "Own/tiny", columns=300)
    assert done.code == 3, done.text
    taken, error, *_ = done.lines
    assert taken == f"using {snapshot / 'm.gguf'}"
    assert "m.gguf" in error


def test_a_folder_that_may_not_be_entered_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, looked = str(tmp_path / "closed" / "model.gguf"), os.stat

    def stat(name: Any, *others: Any, **options: Any) -> os.stat_result:
        if name == path:
            raise PermissionError(13, "Permission denied", path)
        return looked(name, *others, **options)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(UsageError, match=r"model\.gguf: Permission denied"):
        locate(path)


@pytest.mark.parametrize("wanted", [TOKENIZER, MODEL])
def test_a_folder_that_may_only_be_listed_says_so(
    wanted: FileKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tokenizer.json", "model.gguf"):
        (tmp_path / name).write_text("{}")
    looked = os.stat

    def stat(name: Any, *others: Any, **options: Any) -> os.stat_result:
        if os.path.dirname(str(name)) == str(tmp_path):
            raise PermissionError(13, "Permission denied", name)
        return looked(name, *others, **options)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(UsageError, match="Permission denied"):
        locate(str(tmp_path), wanted)
