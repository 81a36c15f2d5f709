"""``mtkit hash``: hashes of tensor data, and of what a tokenizer does."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_gguf
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf import GgufFile

    Digest = tuple[str, str, str]
    """Algorithm, hash, and tensor or nothing for the whole; or algorithm, name and verdict."""


OPTIONS = {
    "file": Option("", "GGUF or tokenizer file.", "FILE"),
    "sha256": Option("--sha256", "SHA-256, the default."),
    "sha1": Option("--sha1", "SHA-1."),
    "xxh64": Option("--xxh64", "xxHash, 64 bits, fast; needs mtkit[hash]."),
    "uuid": Option("--uuid", "A UUID (version 5) of the whole model."),
    "every": Option("--all", "All hashes that are available here."),
    "no_layer": Option("--no-layer", "Hash only the whole model, not each tensor."),
    "check": Option("-c --check", "Compare with the hashes in this file.", "MANIFEST"),
    "tokenizer": Option("--tokenizer", "Hash what the tokenizer does."),
}


def hash_(
    file: str,
    sha256: bool = False,
    sha1: bool = False,
    xxh64: bool = False,
    uuid: bool = False,
    every: bool = False,
    no_layer: bool = False,
    check: str | None = None,
    tokenizer: bool = False,
    as_json: bool = False,
) -> None:
    """Hash the tensor data as llama-gguf-hash does; metadata does not change the hashes.

    Each line: algorithm, hash, file:tensor; the last lines are for the whole model, with all shards
    if you name the first. With --check, exit code 1 if a hash differs. --tokenizer hashes what a
    tokenizer does, in any format: its tokens, and the ids of built-in texts and of each token's
    text. Below come the parts, which show in what two tokenizers differ.

    \b
    Examples:
      mtkit hash model.gguf > model.manifest
      mtkit hash model.gguf --check model.manifest
      mtkit hash tokenizer.json --tokenizer
    """
    from mtkit.errors import UsageError
    from mtkit.gguf.digests import ALGORITHMS, available

    if tokenizer and (check is not None or sha256 or sha1 or xxh64 or uuid or every or no_layer):
        raise UsageError("--tokenizer cannot be combined with --check or an algorithm")
    if tokenizer:
        _write_fingerprint(file, as_json=as_json)
        return
    files = _open_model(file)
    if check is not None:
        _write_check(_check(files, check), as_json=as_json)
        return
    options = {"sha256": sha256, "sha1": sha1, "xxh64": xxh64, "uuid": uuid}
    names = [name for name in ALGORITHMS if options[name]] or ["sha256"]
    rows = _digests(files, available() if every else names, tensors=not no_layer)
    _write_hashes(file, rows, as_json=as_json)


command = Command(hash_, OPTIONS)


def _write_fingerprint(file: str, *, as_json: bool) -> None:
    from mtkit.commands.inputs import load_tokenizer
    from mtkit.tokenizer.digest import digests

    digest, parts = digests(load_tokenizer(file))
    if as_json:
        document = {"schema": "mtkit.tokenizer-hash/1", "file": file, "hash": digest}
        output.write_json({**document, "parts": parts})
    else:
        lines = [f"tokenizer {digest}  {file}", *(f"  {name} {parts[name]}" for name in parts)]
        output.write("".join(f"{line}\n" for line in lines))


def _open_model(path: str) -> Sequence[GgufFile]:
    from mtkit.errors import FormatError, UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import all_files

    try:
        first = open_gguf(find_gguf(path))
    except FormatError as error:
        if error.field == "magic":
            error.hint += "; --tokenizer hashes a tokenizer"
        raise
    files = all_files(first)
    if not any(file.tensors for file in files):
        hint = "add --tokenizer to hash its vocabulary"
        raise UsageError("has no tensors to hash", source=path, hint=hint)
    return files


def _digests(files: Sequence[GgufFile], names: Sequence[str], *, tensors: bool) -> list[Digest]:
    """Hash, with a progress bar where it takes a while."""
    from mtkit.commands.terminal import byte_progress
    from mtkit.gguf.digests import digests

    total = sum(tensor.n_bytes for file in files for tensor in file.tensors)
    show, n_read = byte_progress("hash"), 0

    def progress(n_bytes: int) -> None:
        nonlocal n_read
        n_read += n_bytes
        show(n_read, total)

    rows = list(digests(files, names, tensors=tensors, progress=progress))
    show(total, total)  # some tensors are not read
    return rows


def _check(files: Sequence[GgufFile], path: str) -> list[Digest]:
    """Compare with a manifest; return algorithm, name and verdict."""
    from mtkit.base.binary import Source
    from mtkit.errors import UsageError
    from mtkit.gguf.digests import ALGORITHMS, check_manifest, manifest

    text = bytes(Source.open(path).data).decode("utf-8", "surrogateescape")
    entries = manifest(text, path)
    names = [name for name in ALGORITHMS if any(entry[0] == name for entry in entries)]
    if not names:
        raise UsageError("has no hash that can be computed here", source=path)
    tensors = {tensor.name for file in files for tensor in file.tensors}
    return check_manifest(entries, _digests(files, names, tensors=True), tensors)


def _write_hashes(file: str, rows: Sequence[Digest], *, as_json: bool) -> None:
    from mtkit.base.escape import printable
    from mtkit.gguf.digests import line

    if as_json:
        hashes = [dict(zip(("algorithm", "hash", "tensor"), row, strict=True)) for row in rows]
        output.write_json({"schema": "mtkit.hash/1", "file": file, "hashes": hashes})
        return
    lines = [printable(line(name, digest, file, tensor)) for name, digest, tensor in rows]
    output.write("".join(f"{text}\n" for text in lines))


def _write_check(rows: Sequence[Digest], *, as_json: bool) -> None:
    wrong = [row for row in rows if row[2] != "ok"]

    def document(rows: Sequence[Digest]) -> dict[str, object]:
        documents = [dict(zip(("algorithm", "name", "verdict"), row, strict=True)) for row in rows]
        return {"schema": "mtkit.hash-check/1", "equal": not wrong, "rows": documents}

    def show(rows: Sequence[Digest]) -> None:
        from mtkit.commands.terminal import Screen

        screen = Screen()
        screen.verdict(f"{len(rows) - len(wrong)} of {len(rows)} hashes agree", good=not wrong)
        if wrong:
            screen.table(("algorithm", "name:name", "verdict:bad"), wrong, elastic=1)

    output.write_report(rows, as_json=as_json, document=document, screen=show, rows=list)
    if wrong:
        raise SystemExit(1)
