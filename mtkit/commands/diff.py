"""``mtkit diff``: what differs between two GGUF files."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.options import AS_JSON, application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.commands.terminal import Screen
    from mtkit.inspection.difference import Difference, KeyChange, TensorChange

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

    sources = [Source.open(left), Source.open(right)]
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
        output.write_json(_document(done))
    elif output.is_terminal():
        _show(done)
    else:
        output.write_rows(_rows(done))
    if not done.equal:
        raise typer.Exit(1)


def verdict(done: Difference) -> str:
    """Return in a few words what the two files are to each other."""
    if done.equal:
        return "no difference"
    if done.only_metadata:
        return "only the metadata differs, all tensors are the same"
    if done.is_quantisation:
        return "the same tensors in other types: one can be a quantisation of the other"
    if not done.tensors:
        return "the metadata differs"
    return "tensors differ"


def _texts(change: KeyChange) -> tuple[str, str]:
    """Return the value before and after: of arrays only what differs, of types both."""
    from mtkit.commands.values import shortened, whole

    if change.elements:
        pairs = [
            (f"[{place}] {whole(before)}", f"[{place}] {whole(after)}")
            for place, before, after in change.elements
        ]
        more = f" … {change.different} differ" if change.different > len(pairs) else ""
        return tuple(", ".join(texts) + more for texts in zip(*pairs, strict=True))  # type: ignore[return-value]
    sizes = [value for value in change.values if hasattr(value, "element")]
    if change.different and len(sizes) == 2:
        return f"{len(sizes[0])} elements", f"{len(sizes[1])} elements"
    shown = [
        shortened(value, kind) if kind else ""
        for value, kind in zip(change.values, change.types, strict=True)
    ]
    if all(change.types) and change.types[0] != change.types[1]:
        shown = [f"{kind}: {text}" for kind, text in zip(change.types, shown, strict=True)]
    return shown[0], shown[1]


def _sides(change: TensorChange) -> tuple[str, str]:
    return tuple(  # type: ignore[return-value]
        f"{kind} {' × '.join(map(str, shape))}".strip() if kind else ""
        for kind, shape in zip(change.types, change.shapes, strict=True)
    )


def _errors(change: TensorChange) -> Sequence[str]:
    found = change.errors
    if found is None:
        return ()
    return f"{found.largest:.6g}", f"{found.rmse:.6g}", f"{found.cosine:.8f}"


def _rows(done: Difference) -> Iterator[Sequence[object]]:
    for key in done.keys:
        yield ("metadata", key.key, key.change, *_texts(key))
    for tensor in done.tensors:
        yield ("tensor", tensor.name, tensor.change, *_sides(tensor), *_errors(tensor))


def _document(done: Difference) -> dict[str, object]:
    from mtkit.base.escape import printable

    keys = [
        {"key": printable(key.key), "change": key.change, "types": list(key.types),
         "before": _texts(key)[0], "after": _texts(key)[1], "different": key.different}
        for key in done.keys
    ]  # fmt: skip
    tensors = [
        {"name": printable(one.name), "change": one.change,
         "shapes": [list(shape) for shape in one.shapes], "types": list(one.types),
         "errors": one.errors and {"largest": one.errors.largest, "rmse": one.errors.rmse,
                                   "cosine": one.errors.cosine}}
        for one in done.tensors
    ]  # fmt: skip
    return {
        "schema": "mtkit.diff/1",
        "equal": done.equal,
        "only_metadata": done.only_metadata,
        "is_quantisation": done.is_quantisation,
        "metadata": keys,
        "tensors": tensors,
    }


def _show(done: Difference) -> None:
    from mtkit.commands.terminal import Screen, count, part
    from mtkit.inspection.difference import TEMPLATE

    screen = Screen()
    screen.verdict(verdict(done), good=done.equal)
    if done.keys:
        screen.heading("metadata", count(len(done.keys), "key"))
        rows: list[Sequence[object]] = [
            (_SIGNS[one.change], one.key, *_texts(one)) for one in done.keys
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
            (_SIGNS[one.change], one.name, *_sides(one), *_errors(one))
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
