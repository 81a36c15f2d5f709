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


def conversion_document(done: Conversion) -> dict[str, object]:
    """Return a conversion as a JSON document."""
    from mtkit.base.record import fields

    return {
        "schema": "mtkit.convert/1",
        "output": done.path,
        "files": list(done.paths),
        "format": done.format_name,
        "losses": [_loss(loss) for loss in done.losses],
        "assumptions": list(done.assumptions),
        "verified": [
            {
                "as": one.reader,
                "equal": one.equal,
                "explained": one.explained,
                "total": one.total,
                "decoded": one.decoded,
                "refused": one.refused,
                "unable": one.unable,
                "spec_equal": one.spec_equal,
                "examples": list(one.examples),
                "losses": [_loss(loss) for loss in one.losses],
            }
            for one in done.verified
        ],
        "sizes": dict(done.sizes),
        "model": done.model and {name: getattr(done.model, name) for name in fields(done.model)},
    }


def _loss(loss: Loss) -> dict[str, str]:
    return {"code": loss.code, "field": loss.field, "effect": loss.effect}


def warnings_and_notes(done: Conversion) -> tuple[list[Loss], list[Loss]]:
    """Return the losses that show in a text, and those that no text here showed."""
    losses = [*done.losses, *(loss for one in done.verified for loss in one.losses)]
    shows = any(one.equal < one.total or one.decoded < one.total for one in done.verified)
    warnings = [loss for loss in losses if shows and loss.code not in NOTES]
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


def report_lines(done: Conversion, *, verbose: bool) -> list[str]:
    """Return the lines of a pipe: what, a tab, and what is said of it."""
    from mtkit.base.escape import printable

    sizes = dict(done.sizes)
    lines = [f"{printable(done.path)}\twritten, {sizes['total']} bytes"]
    lines += [f"  beside it\t{printable(path)}" for path in done.paths[1:]]
    if done.model is not None:
        lines.append(f"  model\t{model_text(done.model)}")
        lines += [f"  note\t{text}" for text in done.model.notes]
    lines += [f"  assumed\t{text}" for text in done.assumptions]
    lines += [f"  verified\t{verification_verdict(one)}" for one in done.verified]
    warnings, notes = warnings_and_notes(done)
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


def format_examples(one: Verification) -> str:
    """Return the first texts that get other ids, in quotes."""
    from mtkit.base.escape import escape

    shown = [
        f'"{escape(text[:_EXAMPLE_LETTERS])}{"…" * (len(text) > _EXAMPLE_LETTERS)}"'
        for text in one.examples
    ]
    return ", ".join([*shown, *["…"] * (one.total - one.equal > len(shown))])


def verification_verdict(one: Verification) -> str:
    """Say how what was written compares with its source, for one reader."""
    if one.unable:
        return f"by {one.reader}: cannot be run: {one.unable}"
    parts = []
    if one.spec_equal is not None:
        parts.append("same specification" if one.spec_equal else "another specification")
    text = f"same ids on {one.equal} of {one.total} texts"
    if one.explained:
        text += f" ({one.explained} differ as listed: {format_examples(one)})"
    parts.append(text)
    if one.decoded < one.total:
        parts.append(f"{one.decoded} decode to the same text")
    if one.refused:
        parts.append(f"the source has no tokens for {one.refused} more")
    return f"read back by {one.reader}: " + ", ".join(parts)


_MOST_IDS = 8


def show_conversion(done: Conversion, *, verbose: bool) -> None:
    """Show what was written: that it is right, what was assumed, what it does not keep."""
    screen = Screen()
    sizes = dict(done.sizes)
    main, others = done.verified[:1], done.verified[1:]
    parts = join_parts([size_part(sizes["total"]), *map(_equal, main)])
    differ = any(one.equal < one.total for one in main)
    good = None if differ else True
    screen.verdict(part("name", done.path), output.Escaped("   "), *parts, good=good)
    rows: list[tuple[str, list[object]]] = [
        ("  model", [model_text(done.model)] if done.model else []),
        ("  beside it", join_parts([part("name", path) for path in done.paths[1:]], ", ")),
    ]
    for text in done.model.notes if done.model else ():
        rows.append(("  note", [text]))
    for one in main if differ else ():
        which = f"{count_part(one.total - one.equal, 'text')}: {format_examples(one)}"
        rows.append(("  differ", [output.Escaped(which)]))
    for text in done.assumptions:
        rows.append(("  assumed", [text]))
    for one in others:
        good = one.equal == one.total and not one.unable
        found = output.Escaped(f"! {verification_verdict(one).partition(': ')[2]}")
        said = _equal(one) if good else part("warning", found)
        rows.append((f"  {one.reader}", [said]))
    screen.facts((name, parts) for name, parts in rows if parts)
    warnings, notes = warnings_and_notes(done)
    for head, role, losses in (("!", "warning", warnings), ("·", "dim", notes * verbose)):
        for effect, where in loss_texts(losses, verbose=verbose):
            screen.line(part(role, f"{head} "), effect, part("dim", where), indent=2, hanging=2)
    if notes and not verbose:
        none = "none changes these texts" if len(notes) > 1 else "it changes none of these texts"
        said = (
            f"{count_part(len(notes), 'note')} on what {done.format_name} does not keep; {none} ("
        )
        more = (part("hint", "-v"), part("dim", " for details)"))
        screen.line(part("dim", said), *more, indent=2, hanging=2)


def _equal(one: Verification) -> object:
    text = sticky(f"{one.equal} of {one.total} texts") + " get the same ids"
    return part("good" if one.equal == one.total else "warning", output.Escaped(text))


def show_refusal(error: LossError, tokenizer: Tokenizer, to: str, options: WriteOptions) -> None:
    """Show why nothing was written, one text with both id lists, and what to type."""
    from mtkit.conversion.tokenizer import find_refusal

    screen = Screen(stderr=True)
    found = find_refusal(tokenizer, to, options)
    if found is None:
        screen.error(error)
        return
    texts = sticky(f"{found.different} of {found.total} texts")
    screen.verdict(
        part("bad", "not written: "),
        texts,
        " would get different ids in ",
        part("name", to),
        good=False,
    )
    for effect, where in loss_texts(found.losses, verbose=False):
        screen.line(effect, part("dim", where), indent=2, hanging=2)
    if found.text:
        screen.line(output.Escaped(f'"{token_text(found.text.encode())}"'), indent=4, hanging=2)
        screen.facts(_refusal_ids(found))
    codes = dict.fromkeys(loss.code for loss in found.losses)
    said = " ".join(f"--allow-loss {code}" for code in codes)
    screen.line("write it anyway: ", part("hint", said), indent=2, hanging=2)


def _refusal_ids(found: Refusal) -> Iterator[tuple[str, list[object]]]:
    """Yield the ids of both sides, from shortly before where they part."""
    pairs = zip(found.here, found.there, strict=False)
    shortest = min(len(found.here), len(found.there))
    first = next((at for at, (here, there) in enumerate(pairs) if here != there), shortest)
    start = max(first - 2, 0)
    for name, ids in (("    here", found.here), ("    there", found.there)):
        shown = " ".join(map(str, ids[start : start + _MOST_IDS]))
        cut = f"{'… ' * (start > 0)}{shown}{' …' * (len(ids) > start + _MOST_IDS)}"
        yield name, [part("id", cut)]


class FormatResult(Record):
    """What became of one format.

    Attributes:
        done: What was written; None where it cannot hold the tokenizer.
    """

    name: str
    done: Conversion | None
    error: MtkitError | None


def convert_to_all(tokenizer: Tokenizer, folder: str, **choices: Any) -> list[FormatResult]:
    """Write a tokenizer in every format, each into a subfolder of its name."""
    from mtkit.conversion.tokenizer import convert
    from mtkit.errors import AnswerNo, UnsupportedError
    from mtkit.formats import FORMATS, get_format

    tried = []
    for name in sorted(one for one in FORMATS if hasattr(get_format(one), "write")):
        try:
            done = convert(tokenizer, os.path.join(folder, name, ""), to=name, **choices)
            tried.append(FormatResult(name, done, None))
        except (AnswerNo, UnsupportedError) as error:
            tried.append(FormatResult(name, None, error))
    return tried


def show_formats(tried: list[FormatResult], *, as_json: bool) -> None:
    """Print a row for each format: the file and how many texts get the same ids, or why not."""
    from mtkit.commands import output

    if as_json:
        formats = [
            {
                "format": one.name,
                "error": None if one.error is None else str(one.error),
                "conversion": None if one.done is None else conversion_document(one.done),
            }
            for one in tried
        ]
        output.write_json({"schema": "mtkit.convert-all/1", "formats": formats})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen

        heads = ("format:name", "file:name", "size>", "ids")
        rows = [
            (name, path, "" if size is None else output.format_size(size), said)
            for name, path, size, said in map(_format_row, tried)
        ]
        Screen().table(heads, rows, elastic=3)
    else:
        output.write_rows(map(_format_row, tried))


def _format_row(one: FormatResult) -> tuple[str, str, int | None, str]:
    if one.done is None:
        return one.name, "", None, f"not written: {one.error.what if one.error else ''}"
    first = one.done.verified[0]
    size = dict(one.done.sizes)["total"]
    return one.name, one.done.path, size, f"{first.equal} of {first.total} texts get the same ids"
