"""``mtkit inspect``: what is in a model or tokenizer file.

Of several files, or of a folder of models, there is a row for each.
"""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import (
    find_adapter,
    find_folder,
    find_model,
    find_models,
    open_file,
    undescribed_weights,
)
from mtkit.commands.options import Option, parse_whole
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.base.binary import Source


_NAMES = ("path", "format", "bytes", "name", "architecture", "parameters", "file_type", "tokens")


def show_overview(paths: Sequence[str], *, most: int | None, as_json: bool) -> None:
    """Print a row for each file: what it is, its size, the model's name, architecture and type."""
    rows: list[tuple[Any, ...]] = []
    errors: list[MtkitError] = []
    for path in paths:
        try:
            rows.append(_file_row(path, most))
        except MtkitError as error:
            errors.append(error.located(path))
            rows.append((path, *[None] * (len(_NAMES) - 1)))
    output.write_report(
        rows, as_json=as_json, document=_overview_document, screen=_show_table, rows=list
    )
    if errors:
        from mtkit.commands.terminal import raise_last_error

        raise_last_error(errors)


def _overview_document(rows: Sequence[tuple[Any, ...]]) -> dict[str, object]:
    files = [dict(zip(_NAMES, row, strict=True)) for row in rows]
    return {"schema": "mtkit.inspect-files/1", "files": files}


def _file_row(path: str, most: int | None) -> tuple[Any, ...]:
    from mtkit.checkpoints import kind_of
    from mtkit.sources.locate import locate
    from mtkit.sources.remote import MOST_BYTES, is_remote, open_source

    folder = find_folder(path)
    if folder is not None:
        return path, "folder", *_folder_cells(folder)
    adapter = find_adapter(path)
    if adapter is not None:
        return path, "adapter", *_adapter_cells(adapter)
    bare = undescribed_weights(path)
    place = path if is_remote(path) else bare or locate(path).path
    source = open_source(place, most=most or MOST_BYTES)
    kind = kind_of(source)
    if kind == "gguf":
        from mtkit.inspection.gguf import inspect_gguf

        report = inspect_gguf(source)
        tokens = report.vocabulary.tokens if report.vocabulary else None
        model = report.name, report.architecture, report.parameters, report.file_type
        shards = report.shards.shards if report.shards else ()
        size = sum(len(shard.file.data) for shard in shards if shard.file) or len(source.data)
        return path, "gguf", size, *model, tokens
    if kind in ("index", "safetensors"):
        from mtkit.inspection.safetensors import inspect_safetensors

        weights = inspect_safetensors(source)
        return path, "safetensors", weights.n_bytes, None, None, weights.parameters, None, None
    if kind == "imatrix":
        return path, "imatrix", len(source.data), *[None] * 5
    from mtkit.tokenizer.load import load_source

    tokenizer = load_source(source)
    unknown = [None] * 4
    return path, tokenizer.format_name, len(source.data), *unknown, tokenizer.vocab_size


def _folder_cells(path: str) -> tuple[Any, ...]:
    from mtkit.conversion.folder_report import folder_report

    report = folder_report(path)
    architecture = report.gguf.architecture if report.gguf else report.class_name
    tokens = report.vocabulary.tokens if report.vocabulary else None
    types = "/".join(report.survey.types)
    name = report.gguf.name if report.gguf else None
    return report.survey.n_bytes, name, architecture, report.survey.parameters, types, tokens


def _adapter_cells(path: str) -> tuple[Any, ...]:
    from mtkit.inspection.adapter import inspect_adapter

    report = inspect_adapter(path)
    size = sum(report.files.values())
    return size, report.base or None, report.kind, report.parameters, None, None


def _show_table(rows: Sequence[tuple[Any, ...]]) -> None:
    from mtkit.commands.terminal import Screen, part, sticky

    folder = _common_folder([row[0] for row in rows])
    cells: list[tuple[object, ...]] = []
    for path, kind, size, name, architecture, parameters, file_type, tokens in rows:
        if kind is None:
            failed = part("bad", "✗ cannot be read")
            cells.append((path.removeprefix(folder), "", "", "", failed))
            continue
        weights = f"{output.format_amount(parameters)} parameters" if parameters else ""
        facts = [name, architecture, sticky(weights), file_type]
        text = " · ".join(fact for fact in facts if fact)
        cells.append((path.removeprefix(folder), kind, output.format_size(size), tokens, text))
    columns = ("file:name", "format", "size>:dim", "tokens>", "model")
    Screen().table(columns, cells, elastic=4)


def _common_folder(paths: Sequence[str]) -> str:
    """Return the folder, with its last slash, in which all paths as they were named begin."""
    common = os.path.commonprefix(paths)  # noqa: RUF071  cut behind a slash
    return common[: common.rfind(os.sep) + 1]


_PLAN = "Options of --plan"


OPTIONS = {
    "files": Option(
        "",
        "Files or folders, or - for standard input; default: the tokenizer that mtkit "
        "config shows.",
        "[FILE]...",
    ),
    "metadata": Option("--metadata", "Show only the metadata."),
    "tensors": Option("--tensors", "Show only the tensor table."),
    "tensor": Option("--tensor", "Show statistics of one tensor's values.", "NAME"),
    "layers": Option("--layers", "Show only the layers."),
    "in_full": Option("--all", "Show everything, not a summary."),
    "pattern": Option(
        "--filter",
        "Show keys and tensors whose name contains this text or matches this glob.",
        "PATTERN",
    ),
    "sort": Option("--sort", "Sort tensors by name, type, offset, bytes or parameters.", "KEY"),
    "plan": Option("--plan", "Show only the memory that running the model takes."),
    "ctx": Option(
        "-c --ctx", "Context size in tokens.", "N", "--ctx-size", heading=_PLAN, reads=parse_whole
    ),
    "kv_type": Option("--kv-type", "KV cache type.", "TYPE", "--cache-type-k -ctk", heading=_PLAN),
    "swa_full": Option(
        "--swa-full", "Keep a full-size cache for sliding-window layers.", heading=_PLAN
    ),
    "slots": Option("-np --slots", "Number of sequences.", "N", "--parallel", heading=_PLAN),
    "no_mmap": Option("--no-mmap", "Read the file instead of mapping it.", heading=_PLAN),
    "no_repack": Option("--no-repack", "Do not repack the weights.", heading=_PLAN),
    "gpu_layers": Option(
        "-ngl --gpu-layers", "Layers to offload to GPUs.", "N", "--n-gpu-layers", heading=_PLAN
    ),
    "quiet": Option("-q --quiet", "Print no warnings."),
}


def inspect(
    files: list[str] | None = None,
    metadata: bool = False,
    tensors: bool = False,
    tensor: str | None = None,
    layers: bool = False,
    in_full: bool = False,
    pattern: str | None = None,
    sort: str | None = None,
    plan: bool = False,
    ctx: int | None = None,
    kv_type: str = "f16",
    swa_full: bool = False,
    slots: int = 1,
    no_mmap: bool = False,
    no_repack: bool = False,
    gpu_layers: int = 0,
    download: bool = False,
    most: int | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Show what is in a GGUF, safetensors or tokenizer file, or in a model folder.

    On a terminal, a one-screen summary is shown; --all shows everything. When output is piped, each
    line starts with its kind. For a GGUF, the kinds are: header, content (model, vocabulary, lora,
    imatrix, mmproj, draft or control-vector, with details), model, quantization, hyperparameter,
    tokenizer, memory, shard, metadata (key, type, value), tensor (name, shape with the fastest axis
    first, type, offset in the data section, bytes), layer, and place (what the bytes are used for,
    bytes). Long arrays are shortened, with their true length; mtkit dump metadata and --json print
    them in full.

    --tensor dequantizes one tensor and shows minimum, maximum, mean and standard deviation of its
    finite values, how many are 0, NaN or infinite, and a histogram (from, to, count).

    For the folder of an adapter: kind, rank, alpha, base model, the modules that it changes, and
    whether mtkit convert takes it.

    For a folder with config.json and weights, the model is shown together with the GGUF it would
    become: size in the type of the weights and in q8_0, memory, tokenizer. Piped output: header,
    file, type (tensors, parameters, bytes), gguf (type, bytes) or refused (why), followed by the
    same rows as for a GGUF, and tensor (name, shape with the slowest axis first, type, offset,
    bytes, file, the GGUF tensors it becomes). To see the tokenizer, name its tokenizer.json.

    model.safetensors.index.json shows the tensors of all shards, each with its file, and which
    files are missing.

    For a URL (https://, hf://, s3://), only the header is fetched.

    Several files, or the files in a folder of models, are listed one per row: path, format, bytes,
    name, architecture, parameters, file type, tokens.

    \b
    Examples:
      mtkit inspect tokenizer.json
      mtkit inspect ./Qwen3-0.6B
      mtkit inspect ./Qwen3-0.6B --tensors --filter "blk.0.*"
      mtkit inspect models/ other.gguf
      mtkit inspect model.gguf --tensor blk.0.attn_q.weight
      mtkit inspect https://example.org/model.gguf
      mtkit inspect model.gguf --plan --ctx 8k --kv-type q8_0
      mtkit inspect model.gguf --tensors --filter "blk.0.*" --sort bytes
    """
    from mtkit.errors import UsageError

    plan_options = {
        "--ctx": ctx is not None, "--kv-type": kv_type != "f16", "--swa-full": swa_full,
        "--gpu-layers": gpu_layers, "--slots": slots != 1, "--no-mmap": no_mmap,
        "--no-repack": no_repack,
    }  # fmt: skip
    for option in (name for name, is_set in plan_options.items() if is_set and not plan):
        raise UsageError("does nothing without --plan", field=option)
    view = _View(
        (*["metadata"] * metadata, *["tensors"] * tensors, *["layers"] * layers),
        tensor, in_full, pattern, sort, as_json, quiet,
    )  # fmt: skip
    paths = find_models(files or ())
    if len(paths) > 1 and (plan or view.sections or sort or pattern or tensor is not None):
        what = f"with {len(paths)} files, each is shown as one row"
        raise UsageError(what, hint="name one of them")
    path = next(iter(paths), None)
    folder = find_folder(path) if len(paths) < 2 else None
    if len(paths) > 1:
        show_overview(paths, most=most, as_json=as_json)
    elif plan:
        from mtkit.commands.inspect.plan import show_plan
        from mtkit.memory_plan.plan import PlanSettings

        model = find_model(path) if folder is None else _planned_gguf(folder)
        settings = PlanSettings(
            n_ctx=ctx, kv_type=kv_type, gpu_layers=gpu_layers, n_seq=slots, swa_full=swa_full,
            mmap=not no_mmap, repack=not no_repack,
        )  # fmt: skip
        show_plan(model, settings, as_json=as_json)
    elif folder is not None:
        _show_folder(folder, view)
    elif find_adapter(path) is not None and not view.sections:
        from mtkit.commands.inspect.adapter import show_adapter

        show_adapter(str(find_adapter(path)), as_json=as_json)
    else:
        _show_file(open_file(_weights_of(path), download=download, most=most), view)


command = Command(inspect, OPTIONS)


class _View(Record):
    """What of a file is shown.

    Attributes:
        sections: Any of ``metadata``, ``tensors`` and ``layers``; empty: a summary.
    """

    sections: tuple[str, ...]
    tensor: str | None
    in_full: bool
    pattern: str | None
    sort: str | None
    as_json: bool
    quiet: bool

    def of_tensors(self) -> dict[str, Any]:
        """Return the arguments of a screen with a table of tensors."""
        return {
            "tensors": "tensors" in self.sections, "in_full": self.in_full,
            "pattern": self.pattern, "sort": self.sort, "as_json": self.as_json,
        }  # fmt: skip


def _weights_of(path: str | None) -> str | None:
    """Return the weights of a folder without config.json, and say so; else the path."""
    weights = undescribed_weights(path) if path else None
    if path is None or weights is None:
        return path
    from mtkit.commands.output import warn

    what = f"has weights but no config.json; shown is {os.path.basename(weights)}"
    warn(path, [f"{what}; name its tokenizer's file to see that"])
    return weights


def _planned_gguf(folder: str) -> Source:
    from mtkit.commands.inspect.checkpoint import planned_gguf

    return planned_gguf(folder)


def _show_folder(folder: str, view: _View) -> None:
    """Show a model folder; sections of a GGUF are those of the one that it would become."""
    from mtkit.commands.inspect.checkpoint import show_folder
    from mtkit.errors import UsageError

    if view.tensor is not None:
        raise UsageError("is a folder", source=folder, hint="--tensor works with a GGUF")
    if {*view.sections} <= {"tensors"}:
        show_folder(folder, **view.of_tensors(), quiet=view.quiet)
    else:
        _show_file(_planned_gguf(folder), view)


def _show_file(source: Source, view: _View) -> None:
    from mtkit.checkpoints import kind_of
    from mtkit.errors import UsageError

    kind = kind_of(source)
    if kind != "gguf" and (view.tensor is not None or {*view.sections} - {"tensors"}):
        hint = "--metadata, --tensor and --layers are for one"
        raise UsageError("is not a GGUF", source=source.name, hint=hint)
    _SCREENS.get(kind, _show_tokenizer)(source, view)


def _show_gguf(source: Source, view: _View) -> None:
    from mtkit.commands.inspect.gguf import show_gguf, show_tensor
    from mtkit.errors import UsageError
    from mtkit.sources.remote import is_remote

    if view.tensor is None:
        show_gguf(
            source, sections=view.sections, in_full=view.in_full, pattern=view.pattern,
            sort=view.sort, as_json=view.as_json, quiet=view.quiet,
        )  # fmt: skip
        return
    if is_remote(source.name):
        what = "is an index; the data is in other files"
        raise UsageError(what, source=source.name, hint="download the file")
    show_tensor(source, view.tensor, as_json=view.as_json)


def _show_safetensors(source: Source, view: _View) -> None:
    from mtkit.commands.inspect.checkpoint import show_safetensors

    show_safetensors(source, **view.of_tensors())


def _show_tokenizer(source: Source, view: _View) -> None:
    from mtkit.checkpoints import kind_of
    from mtkit.commands.inspect.tokenizer import show_tokenizer
    from mtkit.errors import UnsupportedError, UsageError
    from mtkit.formats import recognize

    if view.sections or view.sort:
        what, hint = "is not a GGUF, nor of safetensors", "--tensors and --sort work with one file"
        raise UsageError(what, source=source.name, hint=hint)
    if kind_of(source) == "llama2c":
        hint = "mtkit convert --tokenizer tokenizer.bin --to gguf converts it"
        raise UnsupportedError("is a llama2.c checkpoint", source=source.name, hint=hint)
    recognize(source)
    show_tokenizer(source, pattern=view.pattern, as_json=view.as_json)


def _show_imatrix(source: Source, view: _View) -> None:
    from mtkit.commands.inspect.checkpoint import show_imatrix

    show_imatrix(source, pattern=view.pattern, as_json=view.as_json)


_SCREENS: dict[str, Callable[[Source, _View], None]] = {
    "gguf": _show_gguf,
    "index": _show_safetensors,
    "safetensors": _show_safetensors,
    "imatrix": _show_imatrix,
}
"""Kind of a file -> what shows it; others are read as tokenizers."""
