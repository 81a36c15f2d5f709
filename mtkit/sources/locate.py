"""Which file a name stands for: a path, a folder, a model repository, or the user's default.

Tokenizers and models are found alike: what is there under the name wins, then a repository
(ORG/NAME) in the hub's local cache, then a model of Ollama or LM Studio, then a published encoding
in tiktoken's; in a folder, the first of the files that can be meant. Without a name the user's
setting counts, else the file that ships with mtkit.
"""

from __future__ import annotations

import os

from mtkit.base.binary import package_file
from mtkit.base.record import Record
from mtkit.errors import UsageError, system_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class FileKind(Record):
    """What is looked for.

    Attributes:
        shipped: File in ``data`` that ships with mtkit.
        files: What stands for a folder, as published repositories call it: the first that is there.
        hint: What to name where there is no such file.
        elsewhere: The same for commands without ``--download``; empty: as ``fetch``.
    """

    key: str
    shipped: str
    files: tuple[str, ...]
    lacks: str
    hint: str
    fetch: str
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
        "*.mtok",
        "tokenizer.txt",
        "*.model",
        "tokenizer.bin",
        "*.gguf",
    ),
    "is a folder without a tokenizer",
    "name a file, a folder, or - for standard input",
    "--download fetches the tokenizer of a model repository",
    "mtkit inspect {name} --download fetches its tokenizer",
    takes_pipe=True,
    takes_encodings=True,
)
MODEL = FileKind(
    "model",
    "default-model.gguf",
    ("*.gguf",),
    "is a folder without a .gguf file",
    "name a .gguf file, a folder, or a repository in the local HuggingFace cache",
    'to download: hf download {name} --include "*.gguf"',
)


class Location(Record):
    """The file that a name stands for.

    Attributes:
        overrides: What reading it needs that only the name tells: which published encoding it is.
        which: What a person is told of it where the name does not say which file it is, else "".
    """

    path: str
    overrides: Mapping[str, object] | None = None
    which: str = ""


ADAPTER = "adapter_config.json"
"""What tells a LoRA adapter's folder."""
_TENSOR_COUNT = slice(8, 16)
"""Bytes of a GGUF's header that have the number of tensors."""
_PROJECTOR = "mmproj"
"""How llama.cpp's converter names the image half of a model, which is not a model by itself."""


def locate(
    name: str | None, wanted: FileKind = TOKENIZER, *, download: bool | None = None
) -> Location:
    """Return the file that a name stands for.

    Args:
        name: A path, a folder, ORG/NAME, "-" where that is taken; None for the user's default.
        download: Fetch the tokenizer of a repository that the hub's local cache lacks, or has
            other files of; None: the command has no such option, which an error takes into account.
    """
    hint, origin = wanted.hint, ""
    if name is None:
        from mtkit.sources import config

        name, origin = config.find(wanted.key)
        if name is None:
            return Location(shipped(wanted), None, f"the {wanted.key} that ships with mtkit")
        hint = f"the settings name it: mtkit config {wanted.key}, or MTKIT_{wanted.key.upper()}"
    path, overrides = os.path.expanduser(name), None
    if name == "-" and wanted.takes_pipe:
        path = name
    elif not os.path.exists(path):
        _check_way(path)
        path, overrides = _in_cache(path, wanted, hint, download=download)
    which = path if path != os.path.expanduser(name) else ""
    if os.path.isdir(path):
        path = which = _of_folder(path, wanted)
        beside = sum(entry.endswith(".gguf") for entry in os.listdir(os.path.dirname(path)))
        if path.endswith(".gguf") and beside > 1:
            which += f", the first of {beside} .gguf files"
    return Location(path, overrides, f"{path} ({origin})" if origin else which)


def _of_folder(name: str, wanted: FileKind) -> str:
    """Return the file that stands for a folder."""
    found = in_folder(name, wanted.files)
    if found is None:
        _check_way(os.path.join(name, ADAPTER))  # a folder may be listed that cannot be entered
        if os.path.isfile(os.path.join(name, ADAPTER)):
            hint = "mtkit convert FOLDER --to gguf --base MODEL converts it"
            raise UsageError("is the folder of a LoRA adapter", source=name, hint=hint)
        if not os.listdir(name):
            raise UsageError("is an empty folder", source=name)
        raise UsageError(wanted.lacks, source=name, hint=f"looked for {', '.join(wanted.files)}")
    return found


def shipped(wanted: FileKind) -> str:
    """Return the path of the file that ships with mtkit."""
    return package_file(wanted.shipped)


def _check_way(name: str) -> None:
    """See that no folder on the way keeps the file back."""
    try:
        os.stat(name)
    except PermissionError as error:
        raise UsageError(system_message(error), source=name) from None
    except (OSError, ValueError):
        pass  # it is not there, or no name of a file


def _in_cache(
    name: str, wanted: FileKind, hint: str, *, download: bool | None
) -> tuple[str, Mapping[str, object] | None]:
    """Return the folder of a repository, or a published encoding and what reading it needs.

    ``hint`` is what to do where no name can be one.
    """
    from mtkit.sources import hub, stores
    from mtkit.sources.remote import is_remote

    if is_remote(name):
        what = "is a URL, which only mtkit inspect, check and dump read"
        raise UsageError(what, source=name, hint="download the file")
    found = hub.find(name) or stores.find(name)
    is_part = found and os.path.isdir(found) and in_folder(found, wanted.files) is None
    if found is not None and not (download and is_part):
        return found, None
    if hub.parse(name) is None:
        raise UsageError("no such file", source=name, hint=hint)
    if download:
        made = hub.download(name)
        if in_folder(made, wanted.files) is None:  # the client gives what it has where it is alone
            what = "HuggingFace has no tokenizer for it, or cannot be reached"
            raise UsageError(what, source=name, hint=f"looked for {', '.join(wanted.files)}")
        return made, None
    if wanted.takes_encodings:
        from mtkit.sources import encodings

        encoding = encodings.encoding_of(name)
        path = encodings.find_ranks(encoding) if encoding is not None else None
        if path is not None:  # the folder may be anybody's, as one in /tmp is: ranks are compared
            return path, {"encoding": encoding, "published": True}
        if encoding is not None and name != "gpt2":  # which is a repository, too
            what = f"no such file; tiktoken's local cache lacks the encoding {encoding}"
            fetch = f"python -c 'import tiktoken; tiktoken.get_encoding(\"{encoding}\")' fetches it"
            raise UsageError(what, source=name, hint=fetch)
    how = (download is None and wanted.elsewhere) or wanted.fetch
    fetch = how.format(name=name if "/" in name else "ORG/NAME")
    if "/" not in name:
        is_name = hint == wanted.hint and not os.path.splitext(name)[1]
        raise UsageError("no such file", source=name, hint=f"{hint}; {fetch}" if is_name else hint)
    what = "no such file, and no model of that name in the local HuggingFace cache"
    raise UsageError(what, source=name, hint=fetch)


def in_folder(folder: str, files: tuple[str, ...]) -> str | None:
    """Return the path of the first of the files that a folder has."""
    from fnmatch import fnmatchcase

    names = sorted(os.listdir(folder), key=lambda name: (name.startswith(_PROJECTOR), name))
    if files == MODEL.files:  # one that mtkit convert wrote of the tokenizer is no model
        names.sort(key=lambda name: _lacks_weights(os.path.join(folder, name)))
    for wanted in files:
        for name in names:
            alone = name == "vocab.json" and "merges.txt" not in names  # others have one, too
            path = os.path.join(folder, name)
            if fnmatchcase(name, wanted) and not alone and os.path.isfile(path):
                return path
    return None


def _lacks_weights(path: str) -> bool:
    """Tell whether a file is a GGUF without tensors, as vocabularies are."""
    try:
        with open(path, "rb") as file:
            head = file.read(_TENSOR_COUNT.stop)
    except OSError:
        return False
    return len(head) == _TENSOR_COUNT.stop and not any(head[_TENSOR_COUNT])
