"""Models of Ollama and LM Studio on this machine, by the names that those use, and in llamafiles.

Ollama: ``manifests/HOST/NAMESPACE/MODEL/TAG`` is JSON that names layers by digest; the layer of the
model is the file ``blobs/sha256-DIGEST``. LM Studio: ``models/PUBLISHER/REPOSITORY/*.gguf``; the
file ``.lmstudio-home-pointer`` says where the folder was moved to. A manifest comes from a server,
so nothing of it becomes a path unless it matches a pattern.

llama.cpp runs a file, not a part of one: the model in a llamafile is copied to the cache once, and
one in a format before GGUF is written there as a GGUF.
Source: ollama/ollama, types/model/name.go, manifest; LM Studio's folder.
"""

from __future__ import annotations

import os

from mtkit.errors import FormatError, MtkitError, UsageError, system_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OLLAMA, LM_STUDIO = "ollama:", "lmstudio:"
LLAMAFILES = (".llamafile", ".llamafile.exe", ".exe")
_MODEL = "application/vnd.ollama.image.model"
_MOST_BYTES = 1 << 22
"""Of a manifest."""


def find(name: str) -> str | None:
    """Return the file or folder of a model that Ollama or LM Studio has; None: neither does.

    ``ollama:NAME`` and ``lmstudio:NAME`` look in one of them only.
    """
    if name.startswith(OLLAMA):
        path, hint = _ollama(name.removeprefix(OLLAMA)), "ollama pull fetches it"
    elif name.startswith(LM_STUDIO):
        path, hint = _lm_studio(name.removeprefix(LM_STUDIO)), "PUBLISHER/REPOSITORY names it"
    else:
        return _ollama(name) or _lm_studio(name)
    if path is None:
        program = "Ollama" if name.startswith(OLLAMA) else "LM Studio"
        raise UsageError(f"{program} has no model of that name here", source=name, hint=hint)
    return path


def _parts(text: str) -> list[str] | None:
    """Return the parts of a name between slashes; None where one is not safe as a folder."""
    import re

    parts = text.split("/")
    safe = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?", re.ASCII)
    return parts if all(safe.fullmatch(part) and ".." not in part for part in parts) else None


def _ollama(name: str) -> str | None:
    path, colon, tag = name.partition(":")
    parts, tags = _parts(path), _parts(tag if colon else "latest")
    if parts is None or tags is None or len(tags) != 1 or len(parts) > 3:
        return None
    whole = [*("registry.ollama.ai", "library")[: 3 - len(parts)], *parts, *tags]
    for folder in _ollama_folders():
        manifest = os.path.join(folder, "manifests", *whole)
        if os.path.isfile(manifest):
            return _blob(manifest, os.path.join(folder, "blobs"))
    return None


def _ollama_folders() -> Iterator[str]:
    own = os.environ.get("OLLAMA_MODELS")
    if own:
        yield os.path.expanduser(own)
        return
    yield os.path.expanduser(os.path.join("~", ".ollama", "models"))
    yield "/usr/share/ollama/.ollama/models"  # of the service that its installer makes on Linux


def _blob(manifest: str, folder: str) -> str:
    """Return the path of the model that a manifest names."""
    import json
    import re

    try:
        with open(manifest, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
        document = json.loads(text) if len(text) <= _MOST_BYTES else None
    except OSError as error:
        raise UsageError(system_message(error), source=manifest) from None
    except (ValueError, RecursionError):
        document = None
    layers = document.get("layers") if isinstance(document, dict) else None
    if not isinstance(layers, list):
        raise FormatError("is not a manifest of Ollama", source=manifest, hint="ollama pull it")
    for number, layer in enumerate(layers):
        if not isinstance(layer, dict) or layer.get("mediaType") != _MODEL:
            continue
        field, digest, size = f"layers[{number}].digest", layer.get("digest"), layer.get("size")
        match = re.fullmatch(r"sha256[:-]([0-9a-f]{64})", digest) if type(digest) is str else None
        if match is None:
            raise FormatError("is not a SHA-256", source=manifest, field=field)
        path = os.path.join(folder, f"sha256-{match[1]}")
        if not os.path.isfile(path):
            raise FormatError(f"{path} is missing", source=manifest, field=field)
        n_bytes = os.path.getsize(path)
        if type(size) is int and size != n_bytes:
            what = f"{path} has {n_bytes} bytes, not {size}"
            raise FormatError(what, source=manifest, field=field, hint="ollama pull it again")
        return path
    raise FormatError("names no model", source=manifest, field="layers")


def _lm_studio(name: str) -> str | None:
    parts = _parts(name)
    if parts is None or len(parts) != 2:
        return None
    for folder in _lm_studio_folders():
        path = os.path.join(folder, *parts)
        if os.path.isdir(path):
            return path
    return None


def _lm_studio_folders() -> Iterator[str]:
    home = os.path.expanduser("~")
    try:
        with open(os.path.join(home, ".lmstudio-home-pointer"), encoding="utf-8") as file:
            moved = file.read(4096).strip()
        if os.path.isabs(moved):
            yield os.path.join(moved, "models")
    except (OSError, ValueError):
        pass
    yield os.path.join(home, ".lmstudio", "models")
    yield os.path.join(home, ".cache", "lm-studio", "models")


def holds_model(path: str) -> bool:
    """Tell whether a file is a llamafile with a model, or one in a format before GGUF."""
    from mtkit.base.binary import Source, read_head
    from mtkit.gguf import ggml

    if ggml.sniff(read_head(path, 4)):
        return True
    # A part of a file is a view of it.
    return path.endswith(LLAMAFILES) and isinstance(Source.open(path).data, memoryview)


def runnable(path: str) -> str:
    """Return the path of the GGUF that is made of such a file, once; of others their own."""
    from mtkit.base.binary import Source
    from mtkit.base.files import write_files
    from mtkit.base.process import cache_folder
    from mtkit.gguf import ggml

    if not holds_model(path):
        return path
    source, status = Source.open(path), os.stat(path)
    folder = cache_folder("models")
    stem = os.path.splitext(os.path.basename(path))[0]
    copy = os.path.join(folder, f"{stem}-{status.st_size:x}-{status.st_mtime_ns:x}.gguf")
    if not os.path.isfile(copy):
        is_old = ggml.sniff(bytes(source.data[:4]))
        try:
            chunks = ggml.read(source).chunks() if is_old else iter((source.data,))
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise UsageError(system_message(error), source=folder) from None
        except MtkitError as error:
            raise error.located(path) from None
        write_files({copy: chunks}, force=True)
    return copy
