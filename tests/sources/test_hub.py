"""A name of a model repository stands for its folder in the hub's local cache."""

from __future__ import annotations

import shutil
import sys
import types
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from screens import screen
from support import FIXTURES, Run

from mtkit import load
from mtkit.conversion.tokenizer import convert
from mtkit.errors import MissingExtra, UsageError
from mtkit.sources import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out ``Own/bbpe-8k`` as the hub's client does."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home" / "hub" / "models--Own--bbpe-8k"
    blob = folder / "blobs" / "aa"
    blob.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "bbpe-8k" / "tokenizer.json", blob)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").symlink_to("../../blobs/aa")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "refs" / "v1").write_text("f" * 40)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return folder


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["Own/bbpe-8k", f"Own/bbpe-8k@{COMMIT}", "Own/bbpe-8k@main"])
def test_a_name_is_a_folder_of_the_cache(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "huggingface_hub", raising=False)  # of another test's making
    text = "Hello, MNN! 你好"
    wanted = load(FIXTURES / "bbpe-8k" / "tokenizer.json").encode_ids(text)
    assert load(name).encode_ids(text) == wanted
    assert "huggingface_hub" not in sys.modules


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"])
def test_the_cache_is_where_the_client_has_it(
    variable: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv(variable, str(tmp_path / "other"))
    assert hub.find("Own/bbpe-8k") is None
    inside = "huggingface/hub" if variable == "XDG_CACHE_HOME" else ""
    shutil.copytree(cache, tmp_path / "other" / inside / cache.name, symlinks=True)
    assert hub.find("Own/bbpe-8k") is not None


def test_without_a_ref_the_only_snapshot_counts(cache: Path) -> None:
    shutil.rmtree(cache / "refs")
    assert hub.find("Own/bbpe-8k") == str(cache / "snapshots" / COMMIT)
    (cache / "snapshots" / "other").mkdir()
    assert hub.find("Own/bbpe-8k") is None


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "name",
    ["Own/other", "Own/bbpe-8k@v1", "Own/bbpe-8k@../main", "../Own/bbpe-8k", "Own--bbpe-8k",
     "a/b/c"],
)  # fmt: skip
def test_what_is_not_there_is_said(name: str) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load(name)


def test_a_ref_cannot_lead_out_of_the_cache(cache: Path) -> None:
    for text in ("..", "../../..", "/etc", "", "\xff"):
        (cache / "refs" / "main").write_text(text, encoding="latin-1")
        (cache / "snapshots" / "second").mkdir(exist_ok=True)
        assert hub.find("Own/bbpe-8k") is None


@pytest.mark.usefixtures("cache")
def test_a_file_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Own").mkdir()
    shutil.copy(FIXTURES / "wordpiece" / "tokenizer.json", tmp_path / "Own" / "bbpe-8k")
    tokenizer = load("Own/bbpe-8k")
    assert tokenizer.source == "Own/bbpe-8k"
    assert type(tokenizer.spec.model).__name__ == "WordPiece"


@pytest.mark.usefixtures("cache")
def test_downloading_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"mtkit\[hub\]") as caught:
        load("Own/other", download=True)
    assert caught.value.exit_code == 4
    assert load("Own/bbpe-8k", download=True).vocab_size > 0  # nothing to fetch


@pytest.mark.usefixtures("cache")
def test_downloading_completes_what_is_there_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Path(hub.find("Own/bbpe-8k") or "")
    for file in snapshot.iterdir():
        file.unlink()
    (snapshot / "config.json").write_text("{}")

    def snapshot_download(*_: Any, **__: Any) -> str:
        shutil.copy(FIXTURES / "wordpiece" / "tokenizer.json", snapshot)
        return str(snapshot)

    client = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    with pytest.raises(UsageError, match="without a tokenizer"):
        load("Own/bbpe-8k")
    assert type(load("Own/bbpe-8k", download=True).spec.model).__name__ == "WordPiece"


@pytest.mark.usefixtures("cache")
def test_downloading_asks_for_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def snapshot_download(name: str, *, revision: str, allow_patterns: list[str]) -> str:
        asked.append((name, revision))
        assert not [p for p in allow_patterns if "safetensors" in p or p in ("*", "*.bin")]
        if name == "Own/none":
            raise OSError("Got: offline\nand more")
        return str(FIXTURES / "wordpiece")

    client = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    assert load("Own/other@v2", download=True).encode_ids("a")
    with pytest.raises(UsageError, match="cannot be downloaded: offline") as caught:
        load("Own/none", download=True)
    assert "\n" not in str(caught.value)
    assert asked == [("Own/other", "v2"), ("Own/none", "main")]


@pytest.mark.parametrize(
    ("file", "asks"),
    [("model.safetensors", 1), ("pytorch_model.bin", 2), ("consolidated.safetensors", 3), ("", 3)],
)
def test_weights_in_other_forms_are_fetched_where_there_are_no_safetensors(
    file: str, asks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def snapshot_download(_: str, *, revision: str, allow_patterns: list[str]) -> str:
        assert revision == "main"
        asked.append(allow_patterns)
        if file and any(fnmatchcase(file, pattern) for pattern in allow_patterns):
            (tmp_path / file).touch()
        return str(tmp_path)

    client = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    assert hub.download("Own/model", weights=True) == str(tmp_path)
    assert len(asked) == asks
    assert not file or (tmp_path / file).exists()


@pytest.mark.usefixtures("cache")
def test_conversion_writes_beside_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = convert("Own/bbpe-8k", to="mtok")
    assert done.path == "tokenizer.mtok"
    assert (tmp_path / "tokenizer.mtok").exists()


@pytest.mark.usefixtures("cache")
def test_commands(mtkit: Run) -> None:
    done = mtkit("encode", "Hello", "-t", "Own/bbpe-8k")
    assert done.returncode == 0
    assert done.stderr == b""
    shown = screen("encode", "Hello", "-t", "Own/bbpe-8k").words
    assert "models--Own--bbpe-8k" in shown.replace(" ", "")  # it may be folded
    done = mtkit("encode", "Hello", "-t", "Own/other")
    assert done.returncode == 2
    assert b"--download" in done.stderr


@pytest.mark.usefixtures("cache")
def test_a_name_alone_is_the_only_repository_of_that_name(cache: Path) -> None:
    assert hub.find("bbpe-8k") == hub.find("Own/bbpe-8k")
    shutil.copytree(cache, cache.parent / "models--Other--bbpe-8k", symlinks=True)
    assert hub.find("bbpe-8k") is None
    assert hub.find("*") is None


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "command",
    ["encode x -t", "decode 1 -t", "count -p x -t", "token 1 -t", "inspect", "dump vocab",
     "convert --to mtok", "template"],
)  # fmt: skip
def test_what_would_fetch_it_is_an_option_of_the_command(mtkit: Run, command: str) -> None:
    said = mtkit(*command.split(), "Own/other", *["--user", "hi"] * (command == "template"))
    assert said.returncode == 2
    assert b"--download fetches" in said.stderr
    assert b"--download" in mtkit(command.partition(" ")[0], "--help").stdout


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("command", ["check", "check Own/bbpe-8k --against", "hash"])
def test_a_command_without_the_option_names_one_that_has_it(mtkit: Run, command: str) -> None:
    said = mtkit(*command.split(), "Own/other")
    assert said.returncode == 2
    if command != "hash":  # of a model as well
        assert b"; mtkit inspect Own/other --download fetches its tokenizer" in said.stderr
    assert b"; --download" not in said.stderr
    assert b"--download" not in mtkit(command.partition(" ")[0], "--help").stdout


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("command", ["generate x", "chat x", "logits x", "perplexity -p x"])
def test_a_model_is_fetched_by_an_option_or_the_hubs_own_client(mtkit: Run, command: str) -> None:
    said = mtkit(*command.split(), "-m", "Own/other").stderr
    has_option = command.split(maxsplit=1)[0] in ("generate", "chat")
    assert (b"--download fetches it" if has_option else b"hf download Own/other") in said
    assert (b"--download" in said) == has_option
