"""``mtkit diff``: what differs between two GGUF files."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.named import gguf_named
from mtkit.commands.options import AS_JSON, application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.commands.terminal import Screen
    from mtkit.inspection.difference import Difference, TensorChange

app = application()

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_MOST = 40
"""Tensors on a terminal."""


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="A", help="A GGUF.")],
    right: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    values: Annotated[
        bool, typer.Option("--values", help="Measure how far tensors are apart as numbers.")
    ] = False,
    as_json: AS_JSON = False,
) -> None:
    """Show what differs between two GGUF files; exit code 1 when anything does.

    Metadata, tensors (shape, type, bytes; --values: the largest and the mean error after
    dequantisation), chat template. In a pipe a row for each: metadata, key, added, removed or
    changed, before, after; tensor, name, the same, shape and type before and after, errors.

    \b
    Examples:
      mtkit diff model.gguf renamed.gguf
      mtkit diff model-f16.gguf model-q4_0.gguf --values
    """
    from shlex import join

    from mtkit.base.binary import Source
    from mtkit.errors import UsageError
    from mtkit.formats import is_tokenizer
    from mtkit.gguf import open_gguf
    from mtkit.gguf.magic import MAGIC
    from mtkit.inspection.difference import difference
    from mtkit.inspection.difference_text import document

    sources = [Source.open(gguf_named(name)) for name in (left, right)]
    for source in sources:
        if bytes(source.data[:4]) != MAGIC and is_tokenizer(source):
            hint = f"tokenizers of any format: mtkit compare {join((left, right))}"
            raise UsageError("is not a GGUF", source=source.name, hint=hint)
    a, b = map(open_gguf, sources)
    for file in (a, b):
        count = file.metadata.get("split.count")
        if type(count) is int and count > 1:
            hint = "mtkit merge joins them first"
            raise UsageError("is one of several files", source=file.name, hint=hint)
    done = difference(a, b, values=values)
    if as_json:
        output.write_json(document(done))
    elif output.is_terminal():
        _show(done)
    else:
        output.write_rows(_rows(done))
    if not done.equal:
        raise typer.Exit(1)


def _errors(change: TensorChange) -> Sequence[str]:
    found = change.errors
    if found is None:
        return ()
    return f"{found.largest:.6g}", f"{found.rmse:.6g}", f"{found.cosine:.8f}"


def _rows(done: Difference) -> Iterator[Sequence[object]]:
    from mtkit.inspection.difference_text import sides, texts

    for key in done.keys:
        yield ("metadata", key.key, key.change, *texts(key))
    for tensor in done.tensors:
        yield ("tensor", tensor.name, tensor.change, *sides(tensor), *_errors(tensor))


def _show(done: Difference) -> None:
    from mtkit.commands.terminal import Screen, count, part
    from mtkit.inspection.difference import TEMPLATE
    from mtkit.inspection.difference_text import sides, texts, verdict

    screen = Screen()
    screen.verdict(verdict(done), good=done.equal)
    if done.keys:
        screen.heading("metadata", count(len(done.keys), "key"))
        rows: list[Sequence[object]] = [
            (_SIGNS[one.change], one.key, *texts(one)) for one in done.keys
        ]
        screen.table(("", "key:name", "before", "after"), rows, elastic=3)
    for key in done.keys:
        if key.key.startswith(TEMPLATE) and all(isinstance(one, str) for one in key.values):
            _template(screen, *key.values)
    if done.tensors:
        screen.heading("tensors", f"{count(len(done.tensors))} of {count(done.n_tensors)}")
        heads = ["", "tensor:name", "before", "after"]
        if any(one.errors for one in done.tensors):
            heads += ["largest error>", "rmse>", "cosine>"]
        rows = [
            (_SIGNS[one.change], one.name, *sides(one), *_errors(one))
            for one in done.tensors[:_MOST]
        ]
        screen.table(heads, [[*row, *[""] * (len(heads) - len(row))] for row in rows], elastic=1)
        if len(done.tensors) > _MOST:
            screen.line(part("dim", f"and {count(len(done.tensors) - _MOST)} more; --json has all"))


def _template(screen: Screen, before: str, after: str) -> None:
    """Show two templates as a unified difference."""
    from difflib import unified_diff

    from mtkit.commands.terminal import part

    screen.heading("chat template")
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    roles = {"+": "good", "-": "bad", "@": "dim"}
    for line in list(lines)[2:]:
        screen.line(part(roles.get(line[:1], ""), line[:400]), indent=2, hanging=2)
