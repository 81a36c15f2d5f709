"""``mtkit inspect``: what is in a model or tokenizer file.

Of several files, or of a folder of models, there is a row for each.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mtkit.commands import output
from mtkit.commands.application import application, parse_whole
from mtkit.commands.failures import raise_last_error
from mtkit.commands.inputs import find_folder, find_model, find_models, open_file
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


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
    if as_json:
        found = [dict(zip(_NAMES, row, strict=True)) for row in rows]
        output.write_json({"schema": "mtkit.inspect-files/1", "files": found})
    elif output.is_terminal():
        _show_table(rows)
    else:
        output.write_rows(rows)
    if errors:
        raise_last_error(errors)


def _file_row(path: str, most: int | None) -> tuple[Any, ...]:
    from mtkit.checkpoints import kind_of
    from mtkit.sources.locate import locate
    from mtkit.sources.remote import MOST_BYTES, is_remote, open_source

    folder = find_folder(path)
    if folder is not None:
        return path, "folder", *_folder_cells(folder)
    source = open_source(path if is_remote(path) else locate(path).path, most=most or MOST_BYTES)
    kind = kind_of(source)
    if kind == "gguf":
        from mtkit.inspection.gguf import inspect_gguf

        found = inspect_gguf(source)
        tokens = found.vocabulary.tokens if found.vocabulary else None
        model = found.name, found.architecture, found.parameters, found.file_type
        shards = found.shards.shards if found.shards else ()
        size = sum(len(shard.file.data) for shard in shards if shard.file) or len(source.data)
        return path, "gguf", size, *model, tokens
    if kind in ("index", "safetensors"):
        from mtkit.inspection.safetensors import inspect_safetensors

        known = inspect_safetensors(source)
        return path, "safetensors", known.n_bytes, None, None, known.parameters, None, None
    from mtkit.tokenizer.load import load_source

    tokenizer = load_source(source)
    unknown = [None] * 4
    return path, tokenizer.format_name, len(source.data), *unknown, tokenizer.vocab_size


def _folder_cells(path: str) -> tuple[Any, ...]:
    from mtkit.conversion.folder_report import folder_report

    found = folder_report(path)
    architecture = found.gguf.architecture if found.gguf else found.class_name
    tokens = found.vocabulary.tokens if found.vocabulary else None
    types = "/".join(found.survey.types)
    name = found.gguf.name if found.gguf else None
    return found.survey.n_bytes, name, architecture, found.survey.parameters, types, tokens


def _show_table(rows: Sequence[tuple[Any, ...]]) -> None:
    from mtkit.commands.terminal import Screen, part, sticky

    folder = _common_folder([row[0] for row in rows])
    shown: list[tuple[object, ...]] = []
    for path, kind, size, name, architecture, parameters, file_type, tokens in rows:
        if kind is None:
            failed = part("bad", "✗ cannot be read")
            shown.append((path.removeprefix(folder), "", "", "", failed))
            continue
        weights = f"{output.format_amount(parameters)} parameters" if parameters else ""
        facts = [name, architecture, sticky(weights), file_type]
        text = " · ".join(fact for fact in facts if fact)
        shown.append((path.removeprefix(folder), kind, output.format_size(size), tokens, text))
    columns = ("file:name", "format", "size>:dim", "tokens>", "model")
    Screen().table(columns, shown, elastic=4)


def _common_folder(paths: Sequence[str]) -> str:
    """Return the folder, with its last slash, in which all paths as they were named begin."""
    common = os.path.commonprefix(paths)  # noqa: RUF071  cut behind a slash
    return common[: common.rfind(os.sep) + 1]


app = application()
_PLAN = "Options of --plan"


@app.command(
    also={
        "ctx": "--ctx-size",
        "gpu_layers": "--n-gpu-layers",
        "kv_type": "--cache-type-k -ctk",
        "slots": "--parallel",
    }
)
def inspect(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files or folders, or - for standard input; default: the tokenizer that mtkit "
            "config shows.",
        ),
    ] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="Show only the metadata.")] = False,
    tensors: Annotated[bool, typer.Option("--tensors", help="Show only the tensor table.")] = False,
    tensor: Annotated[
        str | None,
        typer.Option("--tensor", metavar="NAME", help="Show statistics of one tensor's values."),
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Show only the layers.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show everything, not a summary.")
    ] = False,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="PATTERN",
            help="Show keys and tensors whose name contains this text or matches this glob.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort", metavar="KEY", help="Sort tensors by name, type, offset, bytes or parameters."
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show only the memory that running the model takes.")
    ] = False,
    ctx: Annotated[
        int | None,
        typer.Option(
            "-c",
            "--ctx",
            metavar="N",
            parser=parse_whole,
            help="Context size in tokens.",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    kv_type: Annotated[
        str,
        typer.Option("--kv-type", metavar="TYPE", help="KV cache type.", rich_help_panel=_PLAN),
    ] = "f16",
    swa_full: Annotated[
        bool,
        typer.Option(
            "--swa-full",
            help="Keep a full-size cache for sliding-window layers.",
            rich_help_panel=_PLAN,
        ),
    ] = False,
    slots: Annotated[
        int,
        typer.Option(
            "-np", "--slots", metavar="N", help="Number of sequences.", rich_help_panel=_PLAN
        ),
    ] = 1,
    no_mmap: Annotated[
        bool,
        typer.Option(
            "--no-mmap", help="Read the file instead of mapping it.", rich_help_panel=_PLAN
        ),
    ] = False,
    no_repack: Annotated[
        bool,
        typer.Option("--no-repack", help="Do not repack the weights.", rich_help_panel=_PLAN),
    ] = False,
    gpu_layers: Annotated[
        int,
        typer.Option(
            "-ngl",
            "--gpu-layers",
            metavar="N",
            help="Layers to offload to GPUs.",
            rich_help_panel=_PLAN,
        ),
    ] = 0,
    download: bool = False,
    most: int | None = None,
    as_json: bool = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print no warnings.")] = False,
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
    from mtkit.checkpoints import kind_of
    from mtkit.errors import UnsupportedError, UsageError
    from mtkit.sources.remote import is_remote

    given = {
        "--ctx": ctx is not None, "--kv-type": kv_type != "f16", "--swa-full": swa_full,
        "--gpu-layers": gpu_layers, "--slots": slots != 1, "--no-mmap": no_mmap,
        "--no-repack": no_repack,
    }  # fmt: skip
    for option in (name for name, is_given in given.items() if is_given and not plan):
        raise UsageError("does nothing without --plan", field=option)
    paths = find_models(files or ())
    if len(paths) > 1:
        if plan or metadata or tensors or layers or sort or pattern or tensor is not None:
            raise UsageError(
                f"with {len(paths)} files, each is shown as one row", hint="name one of them"
            )
        show_overview(paths, most=most, as_json=as_json)
        return
    file = next(iter(paths), None)
    folder = find_folder(file)
    if plan:
        from mtkit.commands.inspect.checkpoint import planned_gguf
        from mtkit.commands.inspect.plan import show_plan
        from mtkit.memory_plan.plan import PlanSettings

        model = find_model(file) if folder is None else planned_gguf(folder)
        settings = PlanSettings(
            n_ctx=ctx, kv_type=kv_type, gpu_layers=gpu_layers, n_seq=slots, swa_full=swa_full,
            mmap=not no_mmap, repack=not no_repack,
        )  # fmt: skip
        show_plan(model, settings, as_json=as_json)
        return
    if folder is not None and tensor is not None:
        raise UsageError("is a folder", source=folder, hint="--tensor works with a GGUF")
    if folder is not None and not (metadata or layers):
        from mtkit.commands.inspect import checkpoint as inspect_folder

        inspect_folder.show_folder(
            folder,
            tensors=tensors,
            everything=everything,
            pattern=pattern,
            sort=sort,
            as_json=as_json,
            quiet=quiet,
        )
        return
    if folder is not None:
        from mtkit.commands.inspect.checkpoint import planned_gguf

        source = planned_gguf(folder)
    else:
        source = open_file(file, download=download, most=most)
    kind = kind_of(source)
    if kind != "gguf" and (metadata or layers or tensor is not None):
        hint = "--metadata, --tensor and --layers are for one"
        raise UsageError("is not a GGUF", source=source.name, hint=hint)
    if tensor is not None:
        from mtkit.commands.inspect import gguf as inspect_tensor

        if is_remote(source.name):
            raise UsageError(
                "is an index; the data is in other files",
                source=source.name,
                hint="download the file",
            )
        inspect_tensor.show_tensor(source, tensor, as_json=as_json)
        return
    if kind in ("index", "safetensors"):
        from mtkit.commands.inspect import checkpoint as inspect_safetensors

        inspect_safetensors.show_safetensors(
            source,
            tensors=tensors,
            everything=everything,
            pattern=pattern,
            sort=sort,
            as_json=as_json,
        )
        return
    if kind != "gguf":
        from mtkit.commands.inspect import tokenizer as inspect_tokenizer
        from mtkit.formats import recognize

        if tensors or sort:
            what = "is not a GGUF, nor of safetensors"
            raise UsageError(
                what, source=source.name, hint="--tensors and --sort work with one file"
            )
        if kind == "llama2c":
            raise UnsupportedError(
                "is a llama2.c checkpoint",
                source=source.name,
                hint="mtkit convert --tokenizer tokenizer.bin --to gguf converts it",
            )
        recognize(source)
        inspect_tokenizer.show_tokenizer(source, pattern=pattern, as_json=as_json)
        return
    from mtkit.commands.inspect import gguf as inspect_gguf

    sections = [
        name
        for name, is_asked in (("metadata", metadata), ("tensors", tensors), ("layers", layers))
        if is_asked
    ]
    inspect_gguf.show_gguf(
        source,
        sections=sections,
        everything=everything,
        pattern=pattern,
        sort=sort,
        as_json=as_json,
        quiet=quiet,
    )
