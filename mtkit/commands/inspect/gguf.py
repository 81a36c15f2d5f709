"""``mtkit inspect`` of a GGUF: choosing, ordering, and the rows of a pipe."""

from __future__ import annotations

from mtkit.commands import output, values
from mtkit.commands.inspect.view import View
from mtkit.inspection.gguf import inspect_gguf
from mtkit.inspection.value_text import float32_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.inspection.gguf import GgufReport
    from mtkit.inspection.vocabulary import Vocabulary


def show(
    source: Source,
    *,
    sections: Sequence[str],
    everything: bool,
    pattern: str | None,
    sort: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Inspect and print.

    Without ``sections`` a pipe gets all but the layers, a terminal what its screen holds, or with
    ``everything`` all; a pattern or an order is asked of the metadata and the tensors.
    """
    report = inspect_gguf(source)
    view = View(report, pattern, sort)
    if as_json:
        from mtkit.inspection.document import gguf_document

        output.write_json(gguf_document(report, view.keys, view.tensors))
        return
    if not quiet:
        said = [finding for finding in report.findings if finding.rule.severity != "note"]
        output.warn(report.file.name, [str(finding) for finding in said])
    whole = ("summary", "metadata", "tensors", "places")
    if output.is_terminal():
        from mtkit.commands.inspect.screen import show_screen

        asked = ("metadata", "tensors") if pattern or sort else ("summary",)
        show_screen(view, sections or (whole if everything else asked))
        return
    output.write_rows(_rows(view, sections or whole))


def _rows(view: View, sections: Sequence[str]) -> Iterator[Sequence[object]]:
    report = view.report
    if "summary" in sections:
        yield from _summary(report)
    if "metadata" in sections:
        for row in values.metadata_rows(report.file.metadata, view.keys, is_whole=False):
            yield "metadata", *row
    if "tensors" in sections:
        for tensor in view.tensors:
            yield "tensor", *values.tensor_row(tensor)
    if "layers" in sections:
        for group in report.layers:
            count = len(group.tensors)
            yield "layer", group.name, group.kind, count, group.parameters, group.n_bytes
    if "places" in sections:
        for purpose, n_bytes in report.places:
            yield "place", purpose, n_bytes


def _summary(report: GgufReport) -> Iterator[Sequence[object]]:
    from mtkit.inspection.document import header

    yield "header", "path", report.file.name
    for name, value in header(report.file).items():
        yield "header", name, value
    yield "content", "kind", report.content.kind
    for name, value in report.content.facts:
        if isinstance(value, float):
            value = float32_text(value)
        for item in value if isinstance(value, list) else [value]:
            yield "content", name, item
    yield from model_rows(report)
    for shard in report.shards.shards if report.shards else ():
        yield "shard", shard.path, "present" if shard.file else "missing"


def model_rows(report: GgufReport) -> Iterator[Sequence[object]]:
    """Yield what a model is."""
    yield "model", "name", report.name
    yield "model", "architecture", report.architecture
    yield "model", "file_type", report.file_type
    yield "model", "parameters", report.parameters
    yield "model", "bits_per_weight", f"{report.bits_per_weight:.4f}"
    for mix in report.mix:
        yield "quantization", mix.type, mix.tensors, mix.parameters, mix.n_bytes
    for item in report.hyperparameters:
        value = item.value
        if isinstance(value, float):  # f32 in every model file
            value = float32_text(value)
        yield "hyperparameter", item.name, str(value) if isinstance(value, list) else value
    if report.vocabulary:
        yield from tokenizer_rows(report.vocabulary)
    yield "memory", "weights", report.weights
    yield "memory", "cache_per_token", report.cache_per_token


def tokenizer_rows(found: Vocabulary) -> Iterator[Sequence[object]]:
    """Yield what a tokenizer is."""
    yield "tokenizer", "model", found.model
    yield "tokenizer", "pre", found.pre
    yield "tokenizer", "tokens", found.tokens
    yield "tokenizer", "merges", found.merges
    for type_name, count in found.types:
        yield "tokenizer", "type", type_name, count
    for special in found.special_ids:
        yield "tokenizer", "special_id", special.role, special.token_id, special.text
    for flag, is_set in found.flags:
        yield "tokenizer", flag, is_set
    for template in found.chat_templates:
        yield "tokenizer", "chat_template", template
