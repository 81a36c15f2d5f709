"""``mtkit hash``: hashes of tensor data, and of what a tokenizer does."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.application import application
from mtkit.commands.inputs import find_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.gguf import GgufFile

app = application()


@app.command()
def hash_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="GGUF or tokenizer file.")],
    sha256: Annotated[bool, typer.Option("--sha256", help="SHA-256, the default.")] = False,
    sha1: Annotated[bool, typer.Option("--sha1", help="SHA-1.")] = False,
    xxh64: Annotated[
        bool, typer.Option("--xxh64", help="xxHash, 64 bits, fast; needs mtkit[hash].")
    ] = False,
    uuid: Annotated[
        bool, typer.Option("--uuid", help="A UUID (version 5) of the whole model.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All hashes that are available here.")
    ] = False,
    no_layer: Annotated[
        bool, typer.Option("--no-layer", help="Hash only the whole model, not each tensor.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "-c", "--check", metavar="MANIFEST", help="Compare with the hashes in this file."
        ),
    ] = None,
    tokenizer: Annotated[
        bool, typer.Option("--tokenizer", help="Print one hash of the tokenizer's behavior.")
    ] = False,
    as_json: bool = False,
) -> None:
    """Hash the tensor data as llama-gguf-hash does; metadata does not change the hashes.

    Each line: algorithm, hash, file:tensor; the last lines are for the whole model, with all shards
    if you name the first. With --check, exit code 1 if a hash differs. --tokenizer hashes
    vocabulary, merges and rules of a tokenizer in any format: equal hashes mean that two tokenizers
    work the same way.

    \b
    Examples:
      mtkit hash model.gguf > model.manifest
      mtkit hash model.gguf --check model.manifest
      mtkit hash tokenizer.json --tokenizer
    """
    from mtkit.base.escape import printable
    from mtkit.errors import FormatError, UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.digests import ALGORITHMS, available, line
    from mtkit.gguf.shards import all_files

    if tokenizer and (check is not None or sha256 or sha1 or xxh64 or uuid or every or no_layer):
        raise UsageError("--tokenizer cannot be combined with --check or an algorithm")
    if tokenizer:
        _tokenizer(file, as_json=as_json)
        return
    try:
        first = open_gguf(find_gguf(file))
    except FormatError as error:
        if error.field == "magic":
            error.hint += "; --tokenizer hashes a tokenizer"
        raise
    source = all_files(first)
    if not any(one.tensors for one in source):
        raise UsageError(
            "has no tensors to hash", source=file, hint="add --tokenizer to hash its vocabulary"
        )
    if check is not None:
        _check(source, check, as_json=as_json)
        return
    asked = {"sha256": sha256, "sha1": sha1, "xxh64": xxh64, "uuid": uuid}
    named = [name for name in ALGORITHMS if asked[name]]
    names = available() if every else named or ["sha256"]
    rows = list(_digests(source, names, tensors=not no_layer))
    if as_json:
        hashes = [dict(zip(("algorithm", "hash", "tensor"), row, strict=True)) for row in rows]
        output.write_json({"schema": "mtkit.hash/1", "file": file, "hashes": hashes})
    else:
        lines = [line(name, said, file, tensor) for name, said, tensor in rows]
        if output.is_terminal():
            output.write("".join(f"{printable(one)}\n" for one in lines))
        else:  # names as they are, for --check to find
            text = "".join(f"{one}\n" for one in lines)
            output.write_bytes(text.encode("utf-8", "surrogateescape"))


def _digests(
    source: Sequence[GgufFile], names: list[str], *, tensors: bool
) -> Iterator[tuple[str, str, str]]:
    """Hash, with a progress bar on a terminal's stderr where it takes a while."""
    import sys

    from mtkit.gguf.digests import digests

    total = sum(tensor.n_bytes for file in source for tensor in file.tensors)
    if not sys.stderr.isatty() or total < _WORTH_A_BAR_BYTES:
        yield from digests(source, names, tensors=tensors)
        return
    from functools import partial

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("hash", total=total)
        yield from digests(source, names, tensors=tensors, progress=partial(bar.advance, task))


_WORTH_A_BAR_BYTES = 1 << 28


def _check(source: Sequence[GgufFile], path: str, *, as_json: bool) -> None:
    """Compare with a manifest, whose file may have had another name."""
    from mtkit.base.binary import Source
    from mtkit.errors import UsageError
    from mtkit.gguf.digests import ALGORITHMS, manifest

    text = bytes(Source.open(path).data).decode("utf-8", "surrogateescape")
    said = manifest(text, path)
    names = [name for name in ALGORITHMS if any(row[0] == name for row in said)]
    if not names:
        raise UsageError("has no hash that can be computed here", source=path)
    found = {(row[0], row[2]): row[1] for row in _digests(source, names, tensors=True)}
    tensors = {tensor.name for file in source for tensor in file.tensors}
    listed = {name for *_, name in said}
    rows: list[tuple[str, str, str]] = []
    seen = set()
    for algorithm, digest, name in said:
        tensor = _tensor(name, tensors, listed)
        seen.add(tensor)
        own = found.get((algorithm, tensor)) if tensor is not None else None
        rows.append(
            (algorithm, name, "missing" if own is None else "ok" if own == digest else "differs")
        )
    if seen & tensors:
        rows += [("", name, "not listed") for name in sorted(tensors - seen)]
    wrong = [row for row in rows if row[2] != "ok"]
    if as_json:
        shown = [dict(zip(("algorithm", "name", "verdict"), row, strict=True)) for row in rows]
        output.write_json({"schema": "mtkit.hash-check/1", "equal": not wrong, "rows": shown})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen

        screen = Screen()
        screen.verdict(f"{len(rows) - len(wrong)} of {len(rows)} hashes agree", good=not wrong)
        if wrong:
            screen.table(("algorithm", "name:name", "verdict:bad"), wrong, elastic=1)
    else:
        output.write_rows(rows)
    if wrong:
        raise typer.Exit(1)


def _tensor(name: str, tensors: set[str], listed: set[str]) -> str | None:
    """Return the tensor of ``file:tensor``, nothing for ``file``, None for what is not there.

    Names of files and of tensors may both have colons.
    """
    places = [at for at, letter in enumerate(name) if letter == ":"]
    for at in places:
        if name[at + 1 :] in tensors:
            return name[at + 1 :]
    return None if any(name[:at] in listed for at in places) else ""


def _tokenizer(file: str, *, as_json: bool) -> None:
    from mtkit.commands.inputs import load_tokenizer
    from mtkit.spec.codec import fingerprint

    said = fingerprint(load_tokenizer(file).spec)
    if as_json:
        output.write_json({"schema": "mtkit.tokenizer-hash/1", "file": file, "hash": said})
    else:
        output.write(f"tokenizer {said}  {file}\n")
