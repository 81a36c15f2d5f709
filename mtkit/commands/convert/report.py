"""What ``mtkit convert`` says: in a pipe, as JSON, and on a terminal; and all formats at once.

On a terminal success is one line, and a refusal has one example. ``--to all`` writes a tokenizer in
every format that can hold it, a folder each.
"""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.commands import output
from mtkit.commands.output import format_number
from mtkit.commands.terminal import (
    Screen,
    count_part,
    join_parts,
    part,
    size_part,
    sticky,
    token_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.conversion.tokenizer import Conversion, Model, Refusal
    from mtkit.conversion.verification import Verification
    from mtkit.errors import LossError, MtkitError
    from mtkit.formats.contract import Loss, WriteOptions
    from mtkit.tokenizer.tokenizer import Tokenizer


_EXAMPLE_LETTERS = 30
NOTES = ("chat", "metadata")
"""Codes of losses that change no ids and no text."""
MOST_LOSSES = 3
"""Of one code and one part of the specification, each on a line of its own."""


def conversion_document(conversion: Conversion) -> dict[str, object]:
    """Return a conversion as a JSON document."""
    from mtkit.base.record import fields

    return {
        "schema": "mtkit.convert/1",
        "output": conversion.path,
        "files": list(conversion.paths),
        "written": conversion.is_written,
        "format": conversion.format_name,
        "losses": [_loss(loss) for loss in conversion.losses],
        "assumptions": list(conversion.assumptions),
        "verified": [
            {
                "as": reading.reader,
                "equal": reading.equal,
                "explained": reading.explained,
                "total": reading.total,
                "decoded": reading.decoded,
                "refused": reading.refused,
                "unable": reading.unable,
                "spec_equal": reading.spec_equal,
                "examples": list(reading.examples),
                "losses": [_loss(loss) for loss in reading.losses],
            }
            for reading in conversion.verified
        ],
        "sizes": dict(conversion.sizes),
        "model": conversion.model
        and {name: getattr(conversion.model, name) for name in fields(conversion.model)},
    }


def _loss(loss: Loss) -> dict[str, str]:
    return {"code": loss.code, "field": loss.field, "effect": loss.effect}


def warnings_and_notes(conversion: Conversion) -> tuple[list[Loss], list[Loss]]:
    """Return the losses that show in a text, and those that no text here showed."""
    losses = [
        *conversion.losses,
        *(loss for reading in conversion.verified for loss in reading.losses),
    ]
    shows = any(
        reading.equal < reading.total or reading.decoded < reading.total
        for reading in conversion.verified
    )
    warnings = [
        loss for loss in losses if loss.code == "values" or (shows and loss.code not in NOTES)
    ]
    return warnings, [loss for loss in losses if loss not in warnings]


def loss_lines(head: str, losses: Sequence[Loss], *, verbose: bool) -> list[str]:
    """Return a line for each loss; many of one code and part of the specification are one line."""
    return [
        f"  {head}\t{loss.code}: {loss.field}: {loss.effect}{more}"
        for loss, more in _fold_losses(losses, verbose=verbose)
    ]


def loss_texts(losses: Sequence[Loss], *, verbose: bool) -> list[tuple[str, str]]:
    """Return what each loss changes, and its code and field; folded as ``loss_lines``."""
    return [
        (f"{loss.effect}{more}", f"  {loss.code}{f', {loss.field}' * verbose}")
        for loss, more in _fold_losses(losses, verbose=verbose)
    ]


def _fold_losses(losses: Sequence[Loss], *, verbose: bool) -> Iterator[tuple[Loss, str]]:
    groups: dict[tuple[str, str], list[Loss]] = {}
    for loss in losses:
        groups.setdefault((loss.code, loss.field.partition(".")[0]), []).append(loss)
    for (_, field), group in groups.items():
        folded = len(group) > MOST_LOSSES and not verbose
        more = (
            f" (and {format_number(len(group) - 1)} more of {field}; -v lists them)"
            if folded
            else ""
        )
        for loss in group[: 1 if folded else None]:
            yield loss, more


def write_conversion(conversion: Conversion, *, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Say what was written."""
    if as_json:
        output.write_json(conversion_document(conversion))
    elif output.is_terminal() and not quiet:
        show_conversion(conversion, verbose=verbose)
    elif not quiet:
        lines = report_lines(conversion, verbose=verbose)
        output.write("".join(f"{line}\n" for line in lines))


def report_lines(conversion: Conversion, *, verbose: bool) -> list[str]:
    """Return the lines of a pipe: a label, a tab, and a text."""
    from mtkit.base.escape import printable

    sizes = dict(conversion.sizes)
    verb = "written" if conversion.is_written else "not written (--dry-run)"
    lines = [f"{printable(conversion.path)}\t{verb}, {sizes['total']} bytes"]
    lines += [f"  beside it\t{printable(path)}" for path in conversion.paths[1:]]
    if conversion.model is not None:
        lines.append(f"  model\t{model_text(conversion.model)}")
        lines += [f"  note\t{text}" for text in conversion.model.notes]
    lines += [f"  assumed\t{text}" for text in conversion.assumptions]
    lines += [f"  verified\t{verification_verdict(reading)}" for reading in conversion.verified]
    warnings, notes = warnings_and_notes(conversion)
    lines += loss_lines("lost", warnings, verbose=verbose)
    lines += loss_lines("note", notes, verbose=verbose)
    if "base" in sizes:
        base, extension = (sizes[name] for name in ("base", "extension"))
        lines.append(f"  size\tbase {base} bytes, extension {extension} bytes")
    return lines


def model_text(model: Model) -> str:
    """Return what was written of a model in a line."""
    tensors = f"{format_number(model.tensors)} tensors"
    parameters = f"{format_number(model.parameters)} parameters"
    return f"{model.architecture}, {parameters}, {tensors}, {model.type}"


def format_examples(reading: Verification) -> str:
    """Return the first texts that get other ids, in quotes."""
    from mtkit.base.escape import printable

    examples = [
        f'"{printable(text[:_EXAMPLE_LETTERS])}{"…" * (len(text) > _EXAMPLE_LETTERS)}"'
        for text in reading.examples
    ]
    return ", ".join([*examples, *["…"] * (reading.total - reading.equal > len(examples))])


def verification_verdict(reading: Verification) -> str:
    """Say how what was written compares with its source, for one reader."""
    if reading.unable:
        return f"by {reading.reader}: cannot be run: {reading.unable}"
    parts = []
    if reading.spec_equal is not None:
        parts.append("same specification" if reading.spec_equal else "another specification")
    text = f"same ids on {reading.equal} of {reading.total} texts"
    if reading.explained:
        text += f" ({reading.explained} differ as listed: {format_examples(reading)})"
    parts.append(text)
    if reading.decoded < reading.total:
        parts.append(f"{reading.decoded} decode to the same text")
    if reading.refused:
        parts.append(f"the source has no tokens for {reading.refused} more")
    return f"read back by {reading.reader}: " + ", ".join(parts)


_MOST_IDS = 8


def show_conversion(conversion: Conversion, *, verbose: bool) -> None:
    """Show what was written: that it is right, what was assumed, what it does not keep."""
    screen = Screen()
    sizes = dict(conversion.sizes)
    main, others = conversion.verified[:1], conversion.verified[1:]
    dry = [] if conversion.is_written else ["not written (--dry-run)"]
    parts = join_parts([*dry, size_part(sizes["total"]), *map(_equal, main)])
    differ = any(reading.equal < reading.total for reading in main)
    good = None if differ else True
    screen.verdict(part("name", conversion.path), output.Escaped("   "), *parts, good=good)
    rows: list[tuple[str, list[object]]] = [
        ("  model", [model_text(conversion.model)] if conversion.model else []),
        ("  beside it", join_parts([part("name", path) for path in conversion.paths[1:]], ", ")),
    ]
    for text in conversion.model.notes if conversion.model else ():
        rows.append(("  note", [text]))
    for reading in main if differ else ():
        which = f"{count_part(reading.total - reading.equal, 'text')}: {format_examples(reading)}"
        rows.append(("  differ", [output.Escaped(which)]))
    for text in conversion.assumptions:
        rows.append(("  assumed", [text]))
    for reading in others:
        good = reading.equal == reading.total and not reading.unable
        verdict = output.Escaped(f"! {verification_verdict(reading).partition(': ')[2]}")
        result = _equal(reading) if good else part("warning", verdict)
        rows.append((f"  {reading.reader}", [result]))
    screen.facts((name, parts) for name, parts in rows if parts)
    warnings, notes = warnings_and_notes(conversion)
    for head, role, losses in (("!", "warning", warnings), ("·", "dim", notes * verbose)):
        for effect, where in loss_texts(losses, verbose=verbose):
            screen.line(part(role, f"{head} "), effect, part("dim", where), indent=2, hanging=2)
    if notes and not verbose:
        none = "none changes these texts" if len(notes) > 1 else "it changes none of these texts"
        what = f"on what {conversion.format_name} does not keep"
        note = part("dim", f"{count_part(len(notes), 'note')} {what}; {none} (")
        more = (part("hint", "-v"), part("dim", " for details)"))
        screen.line(note, *more, indent=2, hanging=2)


def _equal(reading: Verification) -> object:
    text = sticky(f"{reading.equal} of {reading.total} texts") + " get the same ids"
    return part("good" if reading.equal == reading.total else "warning", output.Escaped(text))


def show_refusal(error: LossError, tokenizer: Tokenizer, to: str, options: WriteOptions) -> None:
    """Show why nothing was written, one text with both id lists, and what to type."""
    from mtkit.conversion.tokenizer import find_refusal

    screen = Screen(stderr=True)
    refusal = find_refusal(tokenizer, to, options)
    if refusal is None:
        screen.error(error)
        return
    texts = sticky(f"{refusal.different} of {refusal.total} texts")
    screen.verdict(
        part("bad", "not written: "),
        texts,
        " would get different ids in ",
        part("name", to),
        good=False,
    )
    for effect, where in loss_texts(refusal.losses, verbose=False):
        screen.line(effect, part("dim", where), indent=2, hanging=2)
    if refusal.text:
        screen.line(output.Escaped(f'"{token_text(refusal.text.encode())}"'), indent=4, hanging=2)
        screen.facts(_refusal_ids(refusal))
    codes = dict.fromkeys(loss.code for loss in refusal.losses)
    options_text = " ".join(f"--allow-loss {code}" for code in codes)
    screen.line("write it anyway: ", part("hint", options_text), indent=2, hanging=2)


def _refusal_ids(refusal: Refusal) -> Iterator[tuple[str, list[object]]]:
    """Yield the ids of both sides, from shortly before where they part."""
    pairs = zip(refusal.here, refusal.there, strict=False)
    shortest = min(len(refusal.here), len(refusal.there))
    first = next((at for at, (here, there) in enumerate(pairs) if here != there), shortest)
    start = max(first - 2, 0)
    for name, ids in (("    here", refusal.here), ("    there", refusal.there)):
        numbers = " ".join(map(str, ids[start : start + _MOST_IDS]))
        cut = f"{'… ' * (start > 0)}{numbers}{' …' * (len(ids) > start + _MOST_IDS)}"
        yield name, [part("id", cut)]


class FormatResult(Record):
    """What became of one format.

    Attributes:
        conversion: What was written; None where the format cannot hold the tokenizer.
    """

    name: str
    conversion: Conversion | None
    error: MtkitError | None


def convert_to_all(tokenizer: Tokenizer, folder: str, **choices: Any) -> list[FormatResult]:
    """Write a tokenizer in every format, each into a subfolder of its name."""
    from mtkit.conversion.tokenizer import convert
    from mtkit.errors import AnswerNo, UnsupportedError
    from mtkit.formats import FORMATS, written_formats

    results = []
    for name in sorted(FORMATS.keys() & written_formats()):
        try:
            conversion = convert(tokenizer, os.path.join(folder, name, ""), to=name, **choices)
            results.append(FormatResult(name, conversion, None))
        except (AnswerNo, UnsupportedError) as error:
            results.append(FormatResult(name, None, error))
    return results


def write_formats(results: list[FormatResult], *, as_json: bool) -> None:
    """Print a row for each format: the file and how many texts get the same ids, or why not."""
    output.write_report(
        results,
        as_json=as_json,
        document=_formats_document,
        screen=_show_formats,
        rows=lambda results: map(_format_row, results),
    )


def _formats_document(results: list[FormatResult]) -> dict[str, object]:
    formats = [
        {
            "format": result.name,
            "error": None if result.error is None else str(result.error),
            "conversion": result.conversion and conversion_document(result.conversion),
        }
        for result in results
    ]
    return {"schema": "mtkit.convert-all/1", "formats": formats}


def _show_formats(results: list[FormatResult]) -> None:
    heads = ("format:name", "file:name", "size>", "ids")
    rows = [
        (name, path, "" if size is None else output.format_size(size), verdict)
        for name, path, size, verdict in map(_format_row, results)
    ]
    Screen().table(heads, rows, elastic=3)


def _format_row(result: FormatResult) -> tuple[str, str, int | None, str]:
    conversion = result.conversion
    if conversion is None:
        return result.name, "", None, f"not written: {result.error.what if result.error else ''}"
    first = conversion.verified[0]
    verdict = f"{first.equal} of {first.total} texts get the same ids"
    return result.name, conversion.path, dict(conversion.sizes)["total"], verdict
