"""What ``mtkit convert`` says in a pipe, and as JSON."""

from __future__ import annotations

from mtkit.commands.output import grouped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.conversion.convert import Conversion, Model
    from mtkit.conversion.verify import Verified
    from mtkit.formats.contract import Loss

_LETTERS = 30
NOTES = ("chat", "metadata")
"""Codes of losses that change no ids and no text."""
MOST_LOSSES = 3
"""Of one code and one part of the specification, each on a line of its own."""


def document(done: Conversion) -> dict[str, object]:
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
        for loss, more in _folded(losses, verbose=verbose)
    ]


def loss_texts(losses: Sequence[Loss], *, verbose: bool) -> list[tuple[str, str]]:
    """Return what each loss changes, and its code and field; folded as ``loss_lines``."""
    return [
        (f"{loss.effect}{more}", f"  {loss.code}{f', {loss.field}' * verbose}")
        for loss, more in _folded(losses, verbose=verbose)
    ]


def _folded(losses: Sequence[Loss], *, verbose: bool) -> Iterator[tuple[Loss, str]]:
    groups: dict[tuple[str, str], list[Loss]] = {}
    for loss in losses:
        groups.setdefault((loss.code, loss.field.partition(".")[0]), []).append(loss)
    for (_, part), group in groups.items():
        folded = len(group) > MOST_LOSSES and not verbose
        more = f" (and {grouped(len(group) - 1)} more of {part}; -v lists them)" if folded else ""
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
    lines += [f"  verified\t{verdict(one)}" for one in done.verified]
    warnings, notes = warnings_and_notes(done)
    lines += loss_lines("lost", warnings, verbose=verbose)
    lines += loss_lines("note", notes, verbose=verbose)
    if "base" in sizes:
        base, extension = (sizes[name] for name in ("base", "extension"))
        lines.append(f"  size\tbase {base} bytes, extension {extension} bytes")
    return lines


def model_text(model: Model) -> str:
    """Return what was written of a model in a line."""
    tensors = f"{grouped(model.tensors)} tensors"
    return f"{model.architecture}, {grouped(model.parameters)} parameters, {tensors}, {model.type}"


def examples(one: Verified) -> str:
    """Return the first texts that get other ids, in quotes."""
    from mtkit.base.escape import escape

    shown = [f'"{escape(text[:_LETTERS])}{"…" * (len(text) > _LETTERS)}"' for text in one.examples]
    return ", ".join([*shown, *["…"] * (one.total - one.equal > len(shown))])


def verdict(one: Verified) -> str:
    """Say how what was written compares with its source, for one reader."""
    if one.unable:
        return f"by {one.reader}: cannot be run: {one.unable}"
    parts = []
    if one.spec_equal is not None:
        parts.append("same specification" if one.spec_equal else "another specification")
    text = f"same ids on {one.equal} of {one.total} texts"
    if one.explained:
        text += f" ({one.explained} differ as listed: {examples(one)})"
    parts.append(text)
    if one.decoded < one.total:
        parts.append(f"{one.decoded} decode to the same text")
    if one.refused:
        parts.append(f"the source has no tokens for {one.refused} more")
    return f"read back by {one.reader}: " + ", ".join(parts)
