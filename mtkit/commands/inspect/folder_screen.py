"""``mtkit inspect`` of a model folder on a terminal: a screen as that of a GGUF."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.commands import output
from mtkit.commands.inspect.plan import memory_parts
from mtkit.commands.inspect.screen import model_facts, planned_ctx, tensor_facts, tokenizer_parts
from mtkit.commands.terminal import Screen, count, joined, part, size, sticky

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.conversion.folder_report import FolderReport
    from mtkit.errors import MtkitError

_NUMBERS = (
    ("layers", ("num_hidden_layers", "n_layer", "n_layers", "num_layers")),
    ("embedding", ("hidden_size", "n_embd", "d_model", "dim")),
    ("heads", ("num_attention_heads", "n_head", "n_heads", "num_heads")),
    ("feed-forward", ("intermediate_size", "n_inner", "ffn_dim", "d_ff")),
    ("experts", ("num_local_experts", "num_experts", "n_routed_experts")),
)
"""What config.json says of a model that is not converted, by its usual fields."""
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length")
_MOST_MISSING = 3


def show_screen(report: FolderReport, *, is_alone: bool) -> None:
    """Print a screen; what follows it, where it is not alone, has the tensors."""
    screen, found = Screen(), report.survey
    title: list[object] = [part("dim", "HuggingFace model"), size(found.n_bytes)]
    if report.gguf is not None:
        title.append(report.gguf.name)
    title.append("/".join(found.types))
    screen.line(part("name", found.path), output.Escaped("   "), *joined(title), hanging=2)
    output.write("\n")
    screen.facts((name, parts) for name, parts in _facts(report, is_alone=is_alone) if parts)


def _facts(report: FolderReport, *, is_alone: bool) -> Iterator[tuple[str, list[object]]]:
    found, gguf = report.survey, report.gguf
    if gguf is not None:
        names = part("name", gguf.architecture), part("dim", f"({report.class_name})")
        yield from model_facts(gguf, joined(names, sticky(" ")))
    else:
        yield from _of_config(report)
    if report.vocabulary is not None:
        yield "tokenizer", joined(tokenizer_parts(report.vocabulary))
    elif report.without_tokenizer is not None:
        yield "tokenizer", _failed(report.without_tokenizer)
    for text in report.notes:
        yield "note", [output.Escaped(printable(text))]
    total = sum(n_bytes for _, _, n_bytes in found.types.values()) or 1
    yield (
        "weights",
        joined(
            sticky(f"{output.cell(kind)} {n_bytes / total:.0%} ({count(tensors, 'tensor')})")
            for kind, (tensors, _, n_bytes) in found.types.items()
        ),
    )
    yield "files", _files(report)
    wrong = [one for one in found.findings if one.rule.severity != "note"]
    if wrong:
        said = part("warning", f"! {count(len(wrong), 'finding')}")
        yield "check", [said, "   ", part("hint", f"mtkit check {found.path}")]
    if report.refused is not None and report.gguf is not None:
        yield "as GGUF", [part("bad", "✗ "), "a model has a tokenizer in its file"]
    elif report.refused is not None:
        yield "as GGUF", _failed(report.refused)
    else:
        sizes = [sticky(f"{kind.upper()} {output.size(n)}") for kind, n in report.sizes.items()]
        hint = part("hint", f"mtkit convert {found.path} --to gguf")
        yield "as GGUF", [*joined(sizes), "   ", hint]
    if gguf is not None:
        yield "memory", memory_parts(gguf, planned_ctx(gguf))
        if is_alone:
            yield from tensor_facts(gguf)
    if is_alone:
        options = ["--tensors", *["--metadata", "--layers", "--plan"] * (gguf is not None), "--all"]
        yield "", [part("hint", f"{', '.join(options)} for more")]


def _failed(error: MtkitError) -> list[object]:
    """Say why something is not there, without the path, which is above."""
    text = ": ".join(filter(None, (error.field, error.what)))
    shown: list[object] = [part("bad", "✗ "), output.Escaped(printable(text))]
    return [*shown, "   ", part("hint", printable(error.hint))] if error.hint else shown


def _of_config(report: FolderReport) -> Iterator[tuple[str, list[object]]]:
    """Yield what config.json says by its usual fields."""
    from mtkit.architectures.config import Config

    config = Config(report.survey.config)
    numbers = [(name, _count(config.get(*names))) for name, names in _NUMBERS]
    said = [sticky(f"{name} {text}") for name, text in numbers if text]
    parameters = sticky(f"{output.amount(report.survey.parameters)} parameters")
    if report.survey.missing:
        parameters = output.Escaped(f"{parameters} in the files that are there")
    yield "architecture", joined([part("name", report.class_name or "?"), parameters, *said])
    trained = _count(config.get(*_CONTEXT))
    yield "context", [sticky(f"{trained} trained")] if trained else []


def _count(value: Any) -> str:
    return output.grouped(value) if type(value) is int and 0 < value < 1 << 40 else ""


def _files(report: FolderReport) -> list[object]:
    files = report.survey.files
    missing: Sequence[str] = [name for name, n_bytes in files.items() if n_bytes is None]
    if not missing:
        return joined([output.grouped(len(files)), "all present"])
    named = [part("name", name) for name in missing[:_MOST_MISSING]]
    more = part("dim", f"{len(missing) - _MOST_MISSING} more") if len(missing) > len(named) else ""
    return joined(
        [output.grouped(len(files)), part("bad", f"{len(missing)} missing"), *named, more]
    )
