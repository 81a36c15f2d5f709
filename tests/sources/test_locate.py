"""One way to find a file: by path, folder, repository name or default, in a folder of a tokenizer,
in the stores of Ollama and LM Studio.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from screens import screen
from small_files import MERGES, PATTERN, sources
from small_gguf import small_gguf
from support import Run

import mtkit
from mtkit.commands.serve import _find_models
from mtkit.errors import FormatError, UsageError
from mtkit.sources import stores
from mtkit.sources.hub import TOKENIZER_FILES
from mtkit.sources.locate import ADAPTER, MODEL, TOKENIZER, FileKind, locate, shipped

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
    assert caught.value.hint == wanted.hint[1]
    with pytest.raises(UsageError, match="no such file; ") as caught:
        locate("nowhere", wanted, download=False)
    way = wanted.fetch[1].format(name="ORG/NAME")
    if wanted is MODEL:
        way = "mtkit generate -m ORG/NAME:QUANT --download fetches one"
    assert caught.value.hint == f"{wanted.hint[1]}; {way}"
    with pytest.raises(UsageError, match="no model of that name") as caught:
        locate("Own/none", wanted, download=False)
    assert caught.value.hint == wanted.fetch[1].format(name="Own/none")
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


PUBLISHED = [
    ("spm", "tokenizer.model"),  # Llama, Gemma
    ("spm", "spiece.model"),  # T5, ALBERT, XLNet, Pegasus
    ("spm", "sentencepiece.bpe.model"),  # XLM-R, mBART, NLLB
    ("spm", "sentencepiece.model"),  # RemBERT
    ("spm", "spm.model"),  # DeBERTa v2
    ("spm", "tokenizer.model.v3"),  # Mistral
    ("spm", "mistral_instruct_tokenizer_240323.model.v3"),
    ("spm", "ice_text.model"),  # ChatGLM
    ("tiktoken", "tiktoken.model"),  # Kimi-K2
    ("tiktoken", "tokenizer.model"),  # Llama 3
    ("tiktoken", "qwen.tiktoken"),
    ("tekken", "tekken.json"),
    ("tekken", "tekken_240911.json"),
    ("hf", "tokenizer.json"),
    ("vocab-merges", "vocab.json"),
    ("wordpiece", "vocab.txt"),
    ("rwkv", "rwkv_vocab_v20230424.txt"),
    ("mnn-text", "tokenizer.txt"),
    ("mtok", "tokenizer.mtok"),
    ("mtok", "qwen.mtok"),
    ("llama2c", "tokenizer.bin"),
    ("gguf", "ggml-vocab.gguf"),
]


def content(kind: str) -> bytes:
    files = sources()
    return bytes(next(files[key].data for key in files if key.partition(":")[0] == kind))


@pytest.mark.parametrize(("kind", "name"), PUBLISHED)
def test_a_folder_with_one_file_is_that_tokenizer(kind: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / name).write_bytes(content(kind))
    for other in ("config.json", "README.md", "model.safetensors"):
        (folder / other).write_bytes(b"{}")
    if kind == "vocab-merges":
        (folder / "merges.txt").write_bytes(MERGES)
    if kind == "tiktoken":
        (folder / "pattern.json").write_bytes(PATTERN)
    assert locate(str(folder)).path == str(folder / name)
    loaded = mtkit.load(folder)
    assert loaded.format_name == kind
    assert loaded.encode_ids("ab") == mtkit.load(folder / name).encode_ids("ab")


def test_what_is_looked_for_is_fetched() -> None:
    """Each name of a folder is among those that --download fetches, weights and GGUFs apart."""
    for name in TOKENIZER.files:
        plain = name.replace("*", "x")
        if name not in ("*.gguf", "tokenizer.bin"):
            assert any(fnmatchcase(plain, pattern) for pattern in TOKENIZER_FILES), name


def test_a_vocab_json_without_merges_is_not_a_tokenizer(tmp_path: Path) -> None:
    """M2M100 and speech models have one beside, or without, the SentencePiece model."""
    (tmp_path / "vocab.json").write_bytes(b'{"a": 0}')
    with pytest.raises(UsageError, match=r"looked for tokenizer\.json, .*vocab\.json"):
        locate(str(tmp_path))
    (tmp_path / "x.model").write_bytes(content("spm"))
    assert locate(str(tmp_path)).path.endswith("x.model")


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


@pytest.mark.parametrize(("name", "served"), [("llama3.2:1b", "llama3.2:1b"), ("me/mine", "mine")])
@pytest.mark.parametrize("before", ["", "ollama:"])
def test_a_server_calls_a_blob_as_ollama_does(
    store: Path, name: str, served: str, before: str
) -> None:
    manifest(store, NAMES[name], {"layers": [layer()]})
    blob = store / "blobs" / f"sha256-{DIGEST}"
    how: dict[str, Any] = {"quiet": True, "download": False}
    assert _find_models([before + name], alias=None, **how) == (f"{served}={blob}",)
    assert _find_models([f"a={before}{name}"], alias=None, **how) == (f"a={blob}",)
    assert _find_models([before + name], alias="b", **how) == (str(blob),)


@pytest.mark.parametrize("name", ["hf.co/org/name:Q4_K_M", "huggingface.co/org/name"])
def test_the_hub_s_address_before_a_name(store: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^org/name.*--download fetches it"):
        locate(name, MODEL, download=False)


@pytest.mark.parametrize("name", ["qwen", "llama3.2", "llama3.2:1b"])
def test_a_name_that_is_nowhere_says_what_fetches_a_model(store: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"LM Studio.*; mtkit generate -m ORG/NAME:QUANT"):
        locate(name, MODEL, download=False)
    with pytest.raises(UsageError) as caught:
        locate("x.gguf", MODEL, download=False)
    assert "fetches" not in str(caught.value)


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
