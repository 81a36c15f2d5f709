"""``mtkit diff``: what differs between two models, GGUF files or folders."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_folder, find_gguf
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtkit.commands.terminal import Screen
    from mtkit.inspection.difference import Difference, KeyChange, Side, TensorChange


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_MOST = 40
"""Tensors on a terminal."""
_BAR = 12
_WIDE = 90
"""Columns of a terminal from which the RMSE has room."""


OPTIONS = {
    "left": Option("", "GGUF or model folder.", "A"),
    "right": Option("", "GGUF or model folder.", "B"),
    "values": Option("--values", "Dequantize the tensors and measure the error."),
}


def diff(
    left: str,
    right: str,
    values: bool = False,
    as_json: bool = False,
) -> None:
    """Show the differences between two models; exit code 1 if there are any.

    Compares metadata, tensors (shape, type, bytes) and chat templates of two GGUF files, or of
    HuggingFace folders as the GGUF they would become: a converted file equals its folder. In that
    case keys that only carry names (general.*) are listed separately and do not count.

    --values dequantizes the tensors and measures the error of each against A: RMSE, also relative
    to the tensor's standard deviation, and its worst row. Unrelated weights differ by more than
    100%. NaN and infinities are a difference, even if both have them.

    Piped output has a row per difference: metadata or naming, key, added, removed or changed,
    before, after; tensor, name, the same, shape and type before and after, and with --values:
    largest error, RMSE, cosine, relative RMSE, worst row, its relative RMSE; not finite, name, what
    in A, B or both; total, elements, bytes
    before and after, RMSE, relative RMSE.

    \b
    Examples:
      mtkit diff model.gguf renamed.gguf
      mtkit diff model-f16.gguf model-q4_0.gguf --values
      mtkit diff ./Qwen3-0.6B model.gguf --values
    """
    from mtkit.inspection.difference import difference_document, find_difference

    a, b = (_side(name, (left, right)) for name in (left, right))
    difference = find_difference(a, b, values=values, progress=_progress(a))
    if as_json:
        output.write_json(difference_document(difference))
    elif output.is_terminal():
        _show(difference)
    else:
        output.write_rows(_rows(difference))
    if not difference.equal:
        raise SystemExit(1)


command = Command(diff, OPTIONS)


def _side(name: str, both: Sequence[str]) -> Side:
    from mtkit.base.binary import Source
    from mtkit.checkpoints import kind_of
    from mtkit.errors import UsageError
    from mtkit.formats import is_tokenizer
    from mtkit.gguf.shards import open_whole
    from mtkit.inspection.difference import side_of

    folder = find_folder(name)
    if folder is not None:
        from mtkit.conversion.folder_report import folder_side

        return folder_side(folder)
    source = Source.open(find_gguf(name))
    if kind_of(source) == "tokenizer" and is_tokenizer(source):
        from shlex import join

        hint = f"tokenizers of any format: mtkit compare {join(both)}"
        raise UsageError("is not a GGUF", source=source.name, hint=hint)
    return side_of(open_whole(source))


def _progress(side: Side) -> Callable[[int], object]:
    """Return the callback for the number of elements compared."""
    from math import prod

    from mtkit.base.process import ProgressCount
    from mtkit.commands.terminal import Progress

    line = Progress("comparing")
    total = sum(prod(tensor.shape) for tensor in side.tensors.values()) or 1
    line.show(0.0)
    return ProgressCount(lambda elements, total: line.show(elements / total), total)


def _errors(change: TensorChange) -> Sequence[object]:
    errors = change.errors
    if errors is None:
        return ()
    numbers = f"{errors.largest:.6g}", f"{errors.rmse:.6g}", f"{errors.cosine:.8f}"
    return (*numbers, f"{errors.relative:.6g}", errors.worst_row, f"{errors.worst_relative:.6g}")


def _rows(difference: Difference) -> Iterator[Sequence[object]]:
    from mtkit.inspection.difference import key_texts, special_texts, tensor_texts

    for kind, keys in (("metadata", difference.keys), ("naming", difference.naming)):
        for key in keys:
            yield (kind, key.key, key.change, *map(output.Escaped, key_texts(key)))
    converted = (change for change in difference.measured if change.change == "same")
    for tensor in (*difference.tensors, *converted):
        yield ("tensor", tensor.name, tensor.change, *tensor_texts(tensor), *_errors(tensor))
    for tensor in difference.special:
        yield ("not finite", tensor.name, *special_texts(tensor))
    if difference.sums is not None:
        sums = difference.sums
        numbers = f"{sums.rmse:.6g}", f"{sums.relative:.6g}"
        yield ("total", sums.elements, *sums.n_bytes, *numbers)


def _show(difference: Difference) -> None:
    from mtkit.commands.terminal import Screen, count_part, part
    from mtkit.inspection.difference import (
        TEMPLATE,
        difference_verdict,
        special_texts,
        tensor_texts,
    )

    screen = Screen()
    screen.verdict(difference_verdict(difference), good=difference.equal)
    if difference.special:
        screen.heading("NaN and infinite values")
        odd = [(change.name, "; ".join(special_texts(change))) for change in difference.special]
        screen.table(["tensor:name", "values"], odd[:_MOST], elastic=0)
    _show_keys(screen, "metadata", difference.keys)
    for key in difference.keys:
        if key.key.startswith(TEMPLATE) and all(isinstance(value, str) for value in key.values):
            _template(screen, *key.values)
    _show_keys(screen, "names", difference.naming, "not counted")
    measured = {change.name for change in difference.measured}
    others = [change for change in difference.tensors if change.name not in measured]
    if others:
        screen.heading(
            "tensors", f"{count_part(len(others))} of {count_part(difference.n_tensors)}"
        )
        rows = [
            (_SIGNS[change.change], change.name, *tensor_texts(change)) for change in others[:_MOST]
        ]
        screen.table(["", "tensor:name", "before", "after"], rows, elastic=1)
        if len(others) > _MOST:
            screen.line(part("dim", f"and {count_part(len(others) - _MOST)} more; --json has all"))
    if difference.sums is not None:
        _show_errors(screen, difference)


def _show_keys(screen: Screen, title: str, keys: Sequence[KeyChange], remark: str = "") -> None:
    from mtkit.commands.terminal import VALUE_LINES, count_part

    if keys:
        screen.heading(title, ", ".join(filter(None, (count_part(len(keys), "key"), remark))))
        rows = [(_SIGNS[change.change], change.key, *_key_parts(change)) for change in keys]
        screen.table(
            ("", "key:name", "before", "after"), rows, elastic=(2, 3), most_lines=VALUE_LINES
        )


def _key_parts(change: KeyChange) -> Iterator[output.Escaped]:
    """Return the values of a key, escaped once; of templates that are shown below, the lengths."""
    from mtkit.commands.terminal import count_part
    from mtkit.inspection.difference import TEMPLATE, key_texts

    if change.key.startswith(TEMPLATE) and all(isinstance(value, str) for value in change.values):
        return (count_part(len(value), "character") for value in change.values)
    return map(output.Escaped, key_texts(change))


def _show_errors(screen: Screen, difference: Difference) -> None:
    """Show the error of each tensor, the largest first, and what all of them take."""
    from math import isfinite

    from mtkit.commands.terminal import count_part, join_parts, part, size_part
    from mtkit.inspection.difference import FOREIGN, format_percent

    sums = difference.sums
    assert sums is not None
    inexact = [
        (change, change.errors)
        for change in difference.measured
        if change.errors and change.errors.rmse
    ]
    inexact.sort(key=lambda pair: -pair[1].relative)
    if inexact:
        screen.heading("errors", "RMSE as a share of the standard deviation in A")
        most = min(inexact[0][1].relative, 1.0)
        has_room = screen.width >= _WIDE
        rows: list[Sequence[object]] = []
        for change, errors in inexact[:_MOST]:
            share = errors.relative
            role = "good" if share < FOREIGN else "bad"
            bar = part(role, "█" * round(_BAR * min(share / most, 1.0)) if isfinite(share) else "")
            kinds = (
                change.types[0] if change.types[0] == change.types[1] else " → ".join(change.types)
            )
            worst = f"{format_percent(errors.worst_relative)} in {errors.worst_row}"
            rmse = [f"{errors.rmse:.2g}"] * has_room
            rows.append((change.name, kinds, format_percent(share), bar, *rmse, worst))
        columns = ["tensor:name", "type", "error>", "", *["RMSE>:dim"] * has_room, "worst row:dim"]
        screen.table(columns, rows, indent=2)
        if len(inexact) > _MOST:
            more = f"and {count_part(len(inexact) - _MOST)} more; --json has all"
            screen.line(part("dim", more), indent=2)
    before, after = sums.n_bytes
    output.write("\n")
    if not sums.elements:
        screen.line("no tensor could be measured: none has the same shape in both")
        return
    exact = (
        difference.n_tensors
        - len(inexact)
        - sum(change.errors is None for change in difference.tensors)
    )
    parts = [
        [part("head", format_percent(sums.relative)), " of the deviation in all"],
        f"RMSE {sums.rmse:.3g}",
        count_part(sums.elements, "element"),
        [count_part(exact, "tensor"), " without error"] if exact else "",
        [size_part(before), " → ", size_part(after)] if before != after else size_part(after),
    ]
    screen.line(*join_parts(parts))


def _template(screen: Screen, before: str, after: str) -> None:
    """Show two templates as a unified difference."""
    from difflib import unified_diff

    from mtkit.commands.terminal import part

    screen.heading("chat template")
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    roles = {"+": "good", "-": "bad", "@": "dim"}
    for line in list(lines)[2:]:
        screen.line(part(roles.get(line[:1], ""), line[:400]), indent=2, hanging=2)
