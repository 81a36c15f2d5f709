"""Models of Ollama and LM Studio are found by their names, and hostile manifests lead nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from small_gguf import small_gguf

from mtkit.errors import FormatError, UsageError
from mtkit.sources import stores
from mtkit.sources.locate import MODEL, locate

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

DIGEST = "ab" * 32
KIND = "application/vnd.ollama.image.model"


def layer(digest: object = f"sha256:{DIGEST}", **more: object) -> dict[str, Any]:
    return {"mediaType": KIND, "digest": digest, **more}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a store of Ollama with one blob."""
    home = tmp_path / "home"
    folder = tmp_path / "store"
    (folder / "blobs").mkdir(parents=True)
    home.mkdir()
    (folder / "blobs" / f"sha256-{DIGEST}").write_bytes(small_gguf("gpt2", pre="gpt-2"))
    for name, value in (("HOME", home), ("USERPROFILE", home), ("OLLAMA_MODELS", folder)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return folder


def manifest(store: Path, name: str, content: object) -> Path:
    path = store / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


NAMES = {
    "llama3.2": "registry.ollama.ai/library/llama3.2/latest",
    "llama3.2:1b": "registry.ollama.ai/library/llama3.2/1b",
    "me/mine": "registry.ollama.ai/me/mine/latest",
    "hf.co/org/repo-GGUF:Q4_K_M": "hf.co/org/repo-GGUF/Q4_K_M",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("before", ["", "ollama:"])
def test_a_name_of_ollama_is_its_blob(mtkit: Run, store: Path, name: str, before: str) -> None:
    other = {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00"}
    manifest(store, NAMES[name], {"layers": [other, layer()]})
    path = store / "blobs" / f"sha256-{DIGEST}"
    assert locate(before + name).path == locate(before + name, MODEL).path == str(path)
    assert f"header\tpath\t{path}" in mtkit("inspect", before + name).stdout.decode()


def test_what_ollama_does_not_have(store: Path) -> None:
    with pytest.raises(UsageError, match="Ollama has no model"):
        locate("ollama:nothing")
    with pytest.raises(UsageError, match="no such file"):
        locate("nothing:1b")


HOSTILE = [
    layer("sha256:../../../../etc/passwd"),
    layer("../secret"),
    layer(f"sha256:{DIGEST}/../x"),
    layer(f"sha256:{DIGEST}\n"),
    layer(f"sha512:{DIGEST}"),
    layer(DIGEST.upper()),
    layer(None),
    layer(7),
    layer([]),
    layer("sha256:" + "cd" * 32),
    layer(size=5),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_digest_is_refused(store: Path, number: int) -> None:
    (store / "secret").write_bytes(b"GGUF")
    manifest(store, NAMES["llama3.2"], {"layers": [HOSTILE[number]]})
    with pytest.raises(FormatError, match=r"layers\[0\]\.digest: ") as caught:
        locate("ollama:llama3.2")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "null", '{"layers": 5}', '{"layers": [5]}', "[" * 100_000, '{"layers": []}',
     " " * (1 << 22) + "{}", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")],
)  # fmt: skip
def test_a_damaged_manifest_is_one_error(store: Path, content: str) -> None:
    manifest(store, NAMES["llama3.2"], content)
    with pytest.raises(FormatError, match=r"manifest of Ollama|names no model"):
        locate("llama3.2")


@pytest.mark.parametrize(
    "name", ["../x", "a/../b", "..", "a/b/c/d", "a:..", "a:b/c", "a:", ":b", "", "/etc", "a//b",
             "a\0b", "-a", ".a", "a:b:c", "a\n"],
)  # fmt: skip
def test_no_name_leaves_the_store(store: Path, name: str) -> None:
    outside = store / "manifests"
    outside.mkdir()
    for place in ("x", "latest", "b"):
        (store / place).write_text(json.dumps({"layers": [layer()]}), encoding="utf-8")
    assert stores.find(name) is None
    with pytest.raises(UsageError):
        stores.find(f"ollama:{name}")
    with pytest.raises(UsageError):
        stores.find(f"lmstudio:{name}")


@pytest.mark.parametrize("moved", [False, True])
def test_a_name_of_lm_studio_is_its_folder(store: Path, moved: bool) -> None:
    home = store.parent / "home"
    base = store.parent / "elsewhere" if moved else home / ".lmstudio"
    if moved:
        (home / ".lmstudio-home-pointer").write_text(f"{base}\n", encoding="utf-8")
    folder = base / "models" / "org" / "repo-GGUF"
    folder.mkdir(parents=True)
    (folder / "repo-Q4.gguf").write_bytes(small_gguf("gpt2", pre="gpt-2"))
    for name in ("org/repo-GGUF", "lmstudio:org/repo-GGUF"):
        assert locate(name, MODEL).path == str(folder / "repo-Q4.gguf")
