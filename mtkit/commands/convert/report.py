"""What ``mtkit convert`` says in a pipe, and as JSON."""

from __future__ import annotations

from mtkit.commands.output import grouped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.conversion.convert import Conversion, Model
    from mtkit.conversion.verify import Verified
    from mtkit.formats.contract import Loss

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


def loss_lines(head: str, losses: Sequence[Loss], *, verbose: bool) -> list[str]:
    """Return a line for each loss; many of one code and part of the specification are one line."""
    groups: dict[tuple[str, str], list[Loss]] = {}
    for loss in losses:
        groups.setdefault((loss.code, loss.field.partition(".")[0]), []).append(loss)
    lines = []
    for (_, part), group in groups.items():
        folded = len(group) > MOST_LOSSES and not verbose
        more = f" (and {grouped(len(group) - 1)} more of {part}; -v lists them)" if folded else ""
        for loss in group[: 1 if folded else None]:
            lines.append(f"  {head}\t{loss.code}: {loss.field}: {loss.effect}{more}")
    return lines


def report_lines(done: Conversion, *, verbose: bool) -> list[str]:
    """Return the lines of a pipe: what, a tab, and what is said of it."""
    from mtkit.base.escape import printable

    sizes = dict(done.sizes)
    lines = [f"{printable(done.path)}\twritten, {grouped(sizes['total'])} bytes"]
    lines += [f"  beside it\t{printable(path)}" for path in done.paths[1:]]
    if done.model is not None:
        lines.append(f"  model\t{model_text(done.model)}")
        lines += [f"  note\t{text}" for text in done.model.notes]
    lines += [f"  assumed\t{text}" for text in done.assumptions]
    lines += loss_lines("lost", done.losses, verbose=verbose)
    for one in done.verified:
        lines += loss_lines(f"{one.reader} lacks", one.losses, verbose=verbose)
    lines += [f"  verified\t{verdict(one)}" for one in done.verified]
    if "base" in sizes:
        base, extension = (grouped(sizes[name]) for name in ("base", "extension"))
        lines.append(f"  size\tbase {base} bytes, extension {extension} bytes")
    return lines


def model_text(model: Model) -> str:
    """Return what was written of a model in a line."""
    tensors = f"{grouped(model.tensors)} tensors"
    return f"{model.architecture}, {grouped(model.parameters)} parameters, {tensors}, {model.type}"


def verdict(one: Verified) -> str:
    """Say how what was written compares with its source, for one reader."""
    if one.unable:
        return f"as {one.reader}: cannot be run: {one.unable}"
    parts = []
    if one.spec_equal is not None:
        parts.append("spec equal" if one.spec_equal else "spec DIFFERS")
    text = f"ids equal on {one.equal} of {one.total} texts"
    if one.explained:
        text += f" ({one.explained} differ as listed)"
    parts.append(text)
    if one.decoded < one.total:
        parts.append(f"{one.decoded} decode alike")
    if one.refused:
        parts.append(f"the source has no tokens for {one.refused} more")
    return f"as {one.reader}: " + ", ".join(parts)
