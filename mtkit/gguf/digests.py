"""Hashes of tensor data, of each tensor and of all: they stay when only metadata changes.

Names, order and spelling are those of llama.cpp's tools, so that manifests are good for both.
Source: examples/gguf-hash/gguf-hash.cpp of llama.cpp; gguf/scripts/gguf_hash.py.
"""

from __future__ import annotations

import hashlib

from mtkit.base.binary import pieces
from mtkit.base.escape import printable, shown
from mtkit.errors import FormatError, MissingExtra, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set
    from typing import Any

    from mtkit.gguf.file import GgufFile

ALGORITHMS = ("sha256", "sha1", "xxh64", "uuid")
_PACKAGE = "xxhash"
NAMESPACE = "ef001206-dadc-5f6d-a15f-3359e577d4e5"
"""Namespace of the UUID (version 5) of a whole model's data."""
_NO_WEIGHTS = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")
"""Ends of names of tensors that carry no weights."""
_PIECE_BYTES = 1 << 20
_WIDTH = 10


def digests(
    files: Sequence[GgufFile],
    algorithms: Sequence[str],
    *,
    tensors: bool = True,
    progress: Callable[[int], object] = lambda _: None,
) -> Iterator[tuple[str, str, str]]:
    """Hash the data of a model in one pass.

    Yields:
        Algorithm, hash, name of the tensor or nothing for the whole.
    """
    whole = {name: _start(name) for name in algorithms}
    tensors_of_files = ((file, tensor) for file in files for tensor in file.tensors)
    for file, tensor in tensors_of_files:
        if tensor.name.endswith(_NO_WEIGHTS):
            continue
        own = {name: _start(name) for name in algorithms if tensors and name != "uuid"}
        for piece in pieces(file.tensor_data(tensor), _PIECE_BYTES):
            for state in (*whole.values(), *own.values()):
                state.update(piece)
            progress(len(piece))
        for name, state in own.items():
            yield name, state.hexdigest(), tensor.name
    for name, state in whole.items():
        digest = state.hexdigest()
        yield name, _uuid(digest) if name == "uuid" else digest, ""


def _uuid(digest: str) -> str:
    from uuid import UUID  # imports a dozen modules

    return str(UUID(digest[:32], version=5))


def available() -> list[str]:
    """Return the algorithms that can be computed here."""
    from importlib.util import find_spec

    return [name for name in ALGORITHMS if name != "xxh64" or find_spec(_PACKAGE)]


def _start(algorithm: str) -> Any:
    if algorithm == "xxh64":
        try:
            import xxhash
        except ImportError:
            what, hint = f"xxh64 needs {_PACKAGE}", 'pip install "mtkit[hash]"'
            raise MissingExtra(what, hint=hint) from None
        return xxhash.xxh64()
    if algorithm == "uuid":
        namespace = bytes.fromhex(NAMESPACE.replace("-", ""))
        return hashlib.sha1(namespace, usedforsecurity=False)
    return hashlib.new(algorithm, usedforsecurity=False)


def line(algorithm: str, digest: str, file: str, tensor: str) -> str:
    """Return a line of a manifest, without its end."""
    if "\n" in file + tensor or "\r" in file + tensor:
        what = "has a line break in a name, which a manifest cannot hold"
        raise UnsupportedError(what, source=shown(file), field=shown(tensor), hint="use --json")
    return f"{algorithm:{_WIDTH}}{digest}  {file}{':' * bool(tensor)}{tensor}"


def manifest(text: str, source: str) -> list[tuple[str, str, str]]:
    """Parse a manifest: algorithm, hash, and file and tensor as written."""
    entries = []
    for number, line_text in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line_text.strip():
            continue
        parts = line_text.split(None, 2)
        if len(parts) != 3 or parts[0] not in ALGORITHMS:
            what = "is not algorithm, hash and name"
            raise FormatError(what, source=source, field=f"line {number}")
        entries.append((parts[0], parts[1].lower(), parts[2]))
    return entries


def check_manifest(
    entries: Sequence[tuple[str, str, str]],
    digests: Iterable[tuple[str, str, str]],
    tensors: Set[str],
) -> list[tuple[str, str, str]]:
    """Compare a manifest, whose file may have had another name, with the hashes of a model.

    Returns:
        Algorithm, name as the manifest has it, and ``ok``, ``differs`` or ``missing``; where it
        lists tensors, the others as ``not listed``.
    """
    hashes = {(algorithm, tensor): digest for algorithm, digest, tensor in digests}
    spellings = {printable(tensor): tensor for tensor in tensors}  # as lines of ours have them
    names = {name for *_, name in entries}
    rows: list[tuple[str, str, str]] = []
    seen = set()
    for algorithm, digest, name in entries:
        tensor = _listed_tensor(name, tensors, names)
        if tensor is None or tensor == "":
            spelling = _listed_tensor(name, spellings.keys(), names)
            tensor = spellings.get(spelling, spelling) if spelling is not None else None
        seen.add(tensor)
        own = hashes.get((algorithm, tensor)) if tensor is not None else None
        verdict = "missing" if own is None else "ok" if own == digest else "differs"
        rows.append((algorithm, name, verdict))
    if seen & tensors:
        rows += [("", name, "not listed") for name in sorted(tensors - seen)]
    return rows


def _listed_tensor(name: str, tensors: Set[str], names: Set[str]) -> str | None:
    """Return the tensor of ``file:tensor``, nothing for ``file``, None for what is not there.

    Names of files and of tensors may both have colons.
    """
    places = [at for at, letter in enumerate(name) if letter == ":"]
    for at in places:
        if name[at + 1 :] in tensors:
            return name[at + 1 :]
    return None if any(name[:at] in names for at in places) else ""
