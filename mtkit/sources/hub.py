"""Model repositories in the local cache of HuggingFace's client.

``ORG/NAME`` or ``ORG/NAME@REVISION`` is the folder ``models--ORG--NAME/snapshots/COMMIT`` of the
cache; ``refs/REVISION`` holds the commit of a branch or tag. ``find`` needs no package and no
network; ``download`` needs both, and is only called where the user says so.

Source: huggingface_hub, constants.py (``HF_HUB_CACHE``), file_download.py
(``repo_folder_name``).
"""

from __future__ import annotations

import os
import re

from mtkit.errors import MissingExtra, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAIN = "main"
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_USUAL = "Q4_K_M"
_FEW = 8
"""File names in a message."""
TOKENIZER_FILES = (
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "config.json",
    "chat_template*",
    "additional_chat_templates/*",
    "tekken*.json",
    "*.model",
    "*.model.v*",
    "*.tiktoken",
    "pattern.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "rwkv_vocab*.txt",
    "tokenizer.jsonl",
    "tokenizer.txt",
    "*.mtok",
)
"""What ``download`` fetches: all files that a tokenizer is read from, and no weights."""
MODEL_FILES = (
    "model*.safetensors", "model.safetensors.index.json", "README.md", "modules.json",
    "?_*/config.json", "?_*/model.safetensors",
)  # fmt: skip
"""What it fetches in addition for a whole model, with the modules of sentence-transformers."""
OTHER_WEIGHTS = (
    ("pytorch_model*.bin", "pytorch_model.bin.index.json"),
    ("consolidated*.safetensors", "params.json"),
)
"""What it fetches where a repository has no such safetensors; the first that is there."""


def parse(name: str) -> tuple[str, str] | None:
    """Return repository and revision; None for what cannot be a name on the hub."""
    part = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
    match = re.fullmatch(rf"({part}(?:/{part})?)(?:@([A-Za-z0-9_][\w./-]*))?", name, re.ASCII)
    if match is None or "--" in match[1] or ".." in name:
        return None
    return match[1], match[2] or MAIN


def cache_folder() -> str:
    """Return the folder of the cache, as the hub's client finds it."""
    environ = os.environ
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(variable):
            return os.path.expanduser(environ[variable])
    home = environ.get("HF_HOME")
    if not home:
        base = environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
        home = os.path.join(base, "huggingface")
    return os.path.join(os.path.expanduser(home), "hub")


def find(name: str) -> str | None:
    """Return the folder of a repository in the cache; None where it is not there.

    Without ``refs/main`` (a download by commit) the only snapshot counts. ``NAME`` without an owner
    is the only repository of that name: the hub has given "gpt2" and others an owner.
    """
    parsed = parse(name)
    if parsed is None:
        return None
    repository, revision = parsed
    folder = os.path.join(cache_folder(), "models--" + repository.replace("/", "--"))
    if "/" not in repository and not os.path.isdir(folder):
        from glob import escape, glob

        owned = glob(os.path.join(escape(cache_folder()), f"models--*--{escape(repository)}"))
        folder = owned[0] if len(owned) == 1 else folder
    snapshots = os.path.join(folder, "snapshots")
    commit = revision
    try:
        with open(os.path.join(folder, "refs", revision), encoding="ascii") as file:
            commit = file.read(128).strip()
    except (OSError, ValueError):
        commits = os.listdir(snapshots) if os.path.isdir(snapshots) else []
        if revision == MAIN and len(commits) == 1:
            (commit,) = commits
    if not commit or os.path.basename(commit) != commit or commit in (os.curdir, os.pardir):
        return None
    snapshot = os.path.join(snapshots, commit)
    return snapshot if os.path.isdir(snapshot) else None


def split_quant(name: str) -> tuple[str, str]:
    """Return the repository of ``ORG/NAME:QUANT``, and QUANT: a type, or the name of a file."""
    repository, _, quant = name.partition(":")
    return (repository, quant) if "/" in repository else (name, "")


def find_gguf(name: str) -> str | None:
    """Return the GGUF in the cache that ``ORG/NAME[:QUANT]`` stands for; None: there is none."""
    from glob import escape, glob

    repository, quant = split_quant(name)
    folder = find(repository)
    if folder is None:
        return None
    paths = glob(os.path.join(escape(folder), "**", "*.gguf"), recursive=True)
    file = choose_gguf([os.path.relpath(path, folder) for path in paths], quant)
    return os.path.join(folder, file) if file is not None else None


def choose_gguf(names: Iterable[str], quant: str = "") -> str | None:
    """Return the file of a type, or of that name; without one Q4_K_M, or else the first.

    A set of shards is its first one. Source: llama.cpp, common/arg.cpp (-hf).
    """
    models = sorted(
        (
            name
            for name in names
            if name.endswith(".gguf")
            and "mmproj" not in name.lower()
            and not (_SHARD.search(name) and "-00001-of-" not in name)
        ),
        key=lambda name: (name.count("/"), name),
    )
    if not quant:
        return (choose_gguf(models, _USUAL) or models[0]) if models else None
    for name in models:
        stem = _SHARD.sub("", name).removesuffix(".gguf").lower()
        if quant.lower() in (name.lower(), os.path.basename(name).lower()):
            return name
        if re.search(rf"(?:^|[-._/]){re.escape(quant.lower())}$", stem):
            return name
    return None


def download_gguf(name: str) -> str:
    """Fetch the GGUF that ``ORG/NAME[:QUANT]`` stands for into the cache; return its path.

    The client shows its progress.
    """
    repository, quant = split_quant(name)
    parsed = parse(repository)
    if parsed is None:
        raise UsageError("is not the name of a model repository", source=name, hint="ORG/NAME")
    _client(name)
    from huggingface_hub import HfApi, hf_hub_download

    repository, revision = parsed
    try:
        names = HfApi().list_repo_files(repository, revision=revision)
        file = _choose_of(names, quant, repository)
        start = _SHARD.sub("", file)
        shards = [other for other in names if other != file and _SHARD.sub("", other) == start]
        paths: list[str] = [
            hf_hub_download(repository, part, revision=revision) for part in (file, *shards)
        ]
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001  as in download
        raise _not_fetched(name, error) from None
    return paths[0]


def _choose_of(names: Iterable[str], quant: str, repository: str) -> str:
    file = choose_gguf(names, quant)
    if file is None:
        models = [os.path.basename(name) for name in names if name.endswith(".gguf")]
        what = f"has no GGUF {quant}".rstrip()
        raise UsageError(what, source=repository, hint=", ".join(models[:_FEW]))
    return file


def holds(path: str) -> bool:
    """Tell whether a file lies in the cache, where nothing else may be written."""
    folder = os.path.join(os.path.abspath(cache_folder()), "")
    return os.path.abspath(path).startswith(folder)


def name_of(path: str) -> str:
    """Return the name, without owner, of the repository of a file in the cache; else ""."""
    if not holds(path):
        return ""
    folder = os.path.relpath(os.path.abspath(path), os.path.abspath(cache_folder()))
    return folder.partition(os.sep)[0].removeprefix("models--").rpartition("--")[2]


def download(name: str, *, weights: bool = False) -> str:
    """Fetch the files of a tokenizer, or of a whole model, into the cache; return their folder."""
    parsed = parse(name)
    if parsed is None:
        raise UsageError("is not the name of a model repository", source=name, hint="ORG/NAME")
    _client(name)
    from huggingface_hub import snapshot_download

    repository, revision = parsed
    patterns = [*TOKENIZER_FILES, *(MODEL_FILES if weights else ())]
    try:
        folder: str = snapshot_download(repository, revision=revision, allow_patterns=patterns)
        for others in OTHER_WEIGHTS if weights else ():
            if any(is_weights(name) for name in os.listdir(folder)):
                break
            snapshot_download(repository, revision=revision, allow_patterns=[*others])
    except Exception as error:  # noqa: BLE001  the client's errors have several roots; all say why
        raise _not_fetched(name, error) from None
    return folder


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights that are read."""
    return name.startswith(("model", "pytorch_model", "consolidated")) and name.endswith(
        (".safetensors", ".bin")
    )


def _client(name: str) -> None:
    """Check that the hub's client is installed."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "downloading needs huggingface_hub", source=name, hint='pip install "mtkit[hub]"'
        ) from None


def _not_fetched(name: str, error: Exception) -> UsageError:
    what = str(error).removeprefix("Got: ").split("\n")[0][:200] or type(error).__name__
    return UsageError(f"cannot be downloaded: {what}", source=name)
