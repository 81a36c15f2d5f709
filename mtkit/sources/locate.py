"""Which file a name stands for: a path, a folder, a model repository, or the user's default.

Tokenizers and models are looked up alike: a path that exists wins, then a repository (ORG/NAME) in
the hub's local cache, then a model of Ollama or LM Studio, then a published encoding in tiktoken's
cache; in a folder, the first file that qualifies. Without a name the user's setting counts, else
the file that ships with mtkit.
"""

from __future__ import annotations

import os

from mtkit.base.binary import expand_home, package_file, read_head
from mtkit.base.record import Record
from mtkit.errors import UsageError, system_message, wording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class FileKind(Record):
    """A kind of file to locate.

    Attributes:
        shipped: File in ``data`` that ships with mtkit.
        files: Names, as published repositories use them, that stand for a folder; the first counts.
        hint: What to name where there is no such file, in a shell and in Python.
        elsewhere: The same for commands without ``--download``; empty: as ``fetch``.
    """

    key: str
    shipped: str
    files: tuple[str, ...]
    lacks: str
    hint: tuple[str, str]
    fetch: tuple[str, str]
    elsewhere: str = ""
    takes_pipe: bool = False
    takes_encodings: bool = False


TOKENIZER = FileKind(
    "tokenizer",
    "default.mtok",
    (
        "tokenizer.json",
        "tekken*.json",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece*.model",
        "spm.model",
        "tiktoken.model",
        "*.model.v*",
        "*.tiktoken",
        "vocab.json",
        "vocab.txt",
        "rwkv_vocab*.txt",
        "tokenizer.jsonl",
        "*.mtok",
        "tokenizer.txt",
        "*.model",
        "tokenizer.bin",
        "*.gguf",
    ),
    "is a folder without a tokenizer",
    ("name a file, a folder, or - for standard input", "name a file or a folder"),
    (
        "--download fetches the tokenizer of a model repository",
        "download=True fetches the tokenizer of a model repository",
    ),
    "mtkit inspect {name} --download fetches its tokenizer",
    takes_pipe=True,
    takes_encodings=True,
)
MODEL = FileKind(
    "model",
    "default-model.gguf",
    ("*.gguf",),
    "is a folder without a .gguf file",
    ("name a .gguf file, a folder, or a model of Ollama, LM Studio or the HuggingFace cache",) * 2,
    ("--download fetches it", "mtkit generate --download fetches it"),
    'to download: hf download {name} --include "*.gguf"',
)


class Location(Record):
    """The file that a name stands for.

    Attributes:
        overrides: What reading it needs besides the file: which published encoding it is.
        which: For people, where the name does not say which file it is; else empty.
        is_folder: Whether the name is that of the folder around the file.
    """

    path: str
    overrides: Mapping[str, object] | None = None
    which: str = ""
    is_folder: bool = False


ADAPTER = "adapter_config.json"
"""Marks the folder of a LoRA adapter."""
_TENSOR_COUNT = slice(8, 16)
"""Bytes of a GGUF's header that hold the number of tensors."""
_OLD = ".bin"
_PACKED = (_OLD, ".llamafile", ".exe")
"""Ends of the names of models before GGUF, and in llamafiles, and of other files."""
_PROJECTOR = "mmproj"
"""How llama.cpp's converter names the image half of a model, which is not a model by itself."""


def locate(
    name: str | None, kind: FileKind = TOKENIZER, *, download: bool | None = None
) -> Location:
    """Return the file that a name stands for.

    Args:
        name: A path, a folder, ORG/NAME, "-" if the kind allows it; None for the user's default.
        download: Fetch the tokenizer or GGUF of a repository that the hub's local cache lacks, or
            has other files of; None: the command has no such option, as the error's hint says.
    """
    hint, origin = wording(*kind.hint), ""
    if name is None:
        from mtkit.sources import config

        name, origin = config.find(kind.key)
        if name is None:
            return Location(shipped(kind), None, f"the {kind.key} that ships with mtkit")
        hint = f"the settings name it: mtkit config {kind.key}, or MTKIT_{kind.key.upper()}"
    path, overrides = expand_home(name), None
    if name == "-" and kind.takes_pipe:
        path = name
    elif not os.path.exists(path):
        _check_access(path)
        path, overrides = _find_in_caches(path, kind, hint, download=download)
    which = path if path != expand_home(name) else ""
    is_folder = os.path.isdir(path)
    if is_folder:
        path = which = _of_folder(path, kind)
        beside = sum(entry.endswith(".gguf") for entry in os.listdir(os.path.dirname(path)))
        if path.endswith(".gguf") and beside > 1:
            which += f", the first of {beside} .gguf files"
    if path.endswith(_PACKED if kind is MODEL else _OLD):
        from mtkit.sources.stores import runnable

        whole, path = path, runnable(path)
        which = f"{path}, made of {whole}" if path != whole else which
    return Location(path, overrides, f"{path} ({origin})" if origin else which, is_folder)


def _of_folder(name: str, kind: FileKind) -> str:
    path = in_folder(name, kind.files)
    if path is None:
        _check_access(os.path.join(name, ADAPTER))  # a folder may be listed that cannot be entered
        if os.path.isfile(os.path.join(name, ADAPTER)):
            hint = "mtkit convert FOLDER --to gguf --base MODEL converts it"
            raise UsageError("is the folder of a LoRA adapter", source=name, hint=hint)
        if not os.listdir(name):
            raise UsageError("is an empty folder", source=name)
        raise UsageError(kind.lacks, source=name, hint=f"looked for {', '.join(kind.files)}")
    return path


def shipped(kind: FileKind) -> str:
    """Return the path of the file that ships with mtkit."""
    return package_file(kind.shipped)


def _check_access(name: str) -> None:
    """Check that every folder on the path may be entered."""
    try:
        os.stat(name)
    except PermissionError as error:
        raise UsageError(system_message(error), source=name) from None
    except (OSError, ValueError):
        pass  # it is not there, or no name of a file


def _find_in_caches(
    name: str, kind: FileKind, hint: str, *, download: bool | None
) -> tuple[str, Mapping[str, object] | None]:
    """Return the folder or file of a model in a cache, and what reading it needs.

    ``hint`` is for a name that no cache can have.
    """
    import re

    from mtkit.sources import hub, stores
    from mtkit.sources.remote import is_remote

    if is_remote(name):
        what = "is a URL, which only mtkit inspect, check and dump read"
        raise UsageError(what, source=name, hint="download the file")
    if kind is MODEL and (file := hub.find_gguf(name)) is not None:
        return file, None
    path = hub.find(name) or stores.find(name)
    bare = re.sub(r"^(hf\.co|huggingface\.co)/", "", name)
    if path is None and bare != name:  # as Ollama names repositories
        return _find_in_caches(bare, kind, hint, download=download)
    is_part = path and os.path.isdir(path) and in_folder(path, kind.files) is None
    if path is not None and not (download and is_part):
        return path, None
    can_fetch = kind is MODEL and download is False
    way = "-m ORG/NAME:QUANT --download fetches one"
    other = wording(way, f"mtkit generate {way}") if can_fetch else ""
    if hub.parse(hub.split_quant(name)[0] if kind is MODEL else name) is None:
        if other and re.fullmatch(r"\w[\w.-]*:\w[\w.-]*", name):  # as Ollama has it
            hint += f"; {other}"
        raise UsageError("no such file", source=name, hint=hint)
    if download:
        return hub.download_gguf(name) if kind is MODEL else _download(name, kind), None
    if kind.takes_encodings:
        encoding, path = _find_encoding(name)
        if path is not None:
            return path, {"encoding": encoding, "published": True}
    how = (download is None and kind.elsewhere) or wording(*kind.fetch)
    fetch = how.format(name=hub.split_quant(name)[0] if "/" in name else "ORG/NAME")
    if "/" not in name:
        is_name = hint == wording(*kind.hint) and not re.search(r"\.[a-z]\w*$", name)
        fetch = f"{hint}; {other or fetch}"
        raise UsageError("no such file", source=name, hint=fetch if is_name else hint)
    what = "no such file, and no model of that name in the local HuggingFace cache"
    raise UsageError(what, source=name, hint=fetch)


def _download(name: str, kind: FileKind) -> str:
    from mtkit.sources import hub

    folder = hub.download(name)
    if in_folder(folder, kind.files) is None:  # offline, the client returns what its cache has
        what = "HuggingFace has no tokenizer for it, or cannot be reached"
        raise UsageError(what, source=name, hint=f"looked for {', '.join(kind.files)}")
    return folder


def _find_encoding(name: str) -> tuple[str | None, str | None]:
    """Return the published encoding of a name, and its rank file in tiktoken's cache.

    Anybody may have written that file, in a folder of /tmp for instance, so its ranks are compared.
    """
    from mtkit.sources import encodings

    encoding = encodings.encoding_of(name)
    path = encodings.find_ranks(encoding) if encoding is not None else None
    if path is None and encoding is not None and name != "gpt2":  # gpt2 is a repository, too
        what = f"no such file; tiktoken's local cache lacks the encoding {encoding}"
        fetch = f"python -c 'import tiktoken; tiktoken.get_encoding(\"{encoding}\")' fetches it"
        raise UsageError(what, source=name, hint=fetch)
    return encoding, path


def in_folder(folder: str, files: tuple[str, ...]) -> str | None:
    """Return the path of the first of the files that a folder has."""
    from fnmatch import fnmatchcase

    names = sorted(os.listdir(folder), key=lambda name: (name.startswith(_PROJECTOR), name))
    if files == MODEL.files:  # what mtkit convert made of the tokenizer alone is no model
        names.sort(key=lambda name: _lacks_weights(os.path.join(folder, name)))
    for pattern in files:
        for name in names:
            alone = name == "vocab.json" and "merges.txt" not in names  # others have one, too
            path = os.path.join(folder, name)
            if fnmatchcase(name, pattern) and not alone and os.path.isfile(path):
                return path
    return None


def _lacks_weights(path: str) -> bool:
    """Tell whether a file is a GGUF without tensors, as vocabularies are."""
    head = read_head(path, _TENSOR_COUNT.stop)
    return len(head) == _TENSOR_COUNT.stop and not any(head[_TENSOR_COUNT])


def models_of(name: str) -> list[str]:
    """Return the models of a folder that holds nothing but models, else the name itself.

    A set of shards is listed by its first file, or by all of them where that one is missing.
    """
    import re

    folder = expand_home(name)
    if not os.path.isdir(folder):
        return [name]
    first = in_folder(folder, TOKENIZER.files)
    if first is None or not first.endswith(".gguf"):
        return [name]
    models = sorted(entry for entry in os.listdir(folder) if entry.endswith(".gguf"))
    shard = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
    return [
        os.path.join(folder, entry)
        for entry in models
        if (start := shard.sub(r"-00001-of-\1.gguf", entry)) == entry or start not in models
    ]
