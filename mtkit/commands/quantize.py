"""``mtkit quantize``: a model in fewer bits, by llama.cpp's own quantizer."""

from __future__ import annotations

import os

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_folder, find_gguf, read_texts
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.inspection.difference import TensorChange


def type_names(incomplete: str) -> list[str]:
    """Names of the types, for shell completion, in the case of what is typed."""
    from mtkit.gguf.types import MIXES

    return [name.lower() if incomplete.islower() else name for name in MIXES]


OPTIONS = {
    "file": Option("", "GGUF to quantize.", "FILE"),
    "more": Option("", "Same as -o and --type.", "[NEW] [TYPE]", values=type_names),
    "kind": Option(
        "--type", "Type to quantize to: Q4_K_M, Q8_0, IQ4_XS, BF16 …", "TYPE", values=type_names
    ),
    "pure": Option("--pure", "Use one type for all matrices, not a mix."),
    "tensor_types": Option(
        "--tensor-type",
        "Type of tensors whose name matches. Repeatable; the first match counts.",
        "PATTERN=TYPE",
    ),
    "output_type": Option("--output-tensor-type", "Type of output.weight.", "TYPE"),
    "embedding_type": Option("--token-embedding-type", "Type of token_embd.weight.", "TYPE"),
    "type_file": Option(
        "--tensor-type-file", "File with PATTERN=TYPE, one a line or between blanks.", "FILE"
    ),
    "leave_output": Option("--leave-output-tensor", "Do not quantize output.weight."),
    "imatrix": Option("--imatrix", "Importance matrix, as GGUF or older .dat.", "FILE"),
    "include": Option(
        "--include-weights",
        "Use the importance matrix only for tensors with this in their name. Repeatable.",
        "TEXT",
    ),
    "exclude": Option(
        "--exclude-weights",
        "Do not use the importance matrix for tensors with this in their name. Repeatable.",
        "TEXT",
    ),
    "prune_layers": Option(
        "--prune-layers", "Leave out layers, such as 20,21; the first is 0.", "LIST"
    ),
    "override_kv": Option(
        "--override-kv",
        "Set a key of the new file; TYPE is int, float, bool or str. Repeatable.",
        "KEY=TYPE:VALUE",
    ),
    "keep_split": Option("--keep-split", "Write as many shards as FILE has."),
    "allow_requantize": Option("--allow-requantize", "Allow a model that is already quantized."),
    "threads": Option("--threads", "Number of threads; 0: one per core.", "N", low=0),
    "report": Option("--report", "Measure each tensor's error against the original."),
    "no_fallback": Option("--no-fallback", "Refuse if a tensor does not fit its type."),
    "dry_run": Option("--dry-run", "Do everything except write the file."),
}


def quantize(
    file: str,
    more: list[str] | None = None,
    kind: str = "",
    out: str | None = None,
    pure: bool = False,
    tensor_types: list[str] | None = None,
    output_type: str = "",
    embedding_type: str = "",
    type_file: str | None = None,
    leave_output: bool = False,
    imatrix: str | None = None,
    imatrix_from: list[str] | None = None,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    prune_layers: str | None = None,
    override_kv: list[str] | None = None,
    keep_split: bool = False,
    allow_requantize: bool = False,
    threads: int = 0,
    report: bool = False,
    no_fallback: bool = False,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Quantize a model with llama.cpp's quantizer, in a separate process.

    A model that is already quantized is refused without --allow-requantize: quantizing twice loses
    more than quantizing once. The options --tensor-type, --output-tensor-type and
    --token-embedding-type work as in llama-quantize: a pattern is a lower-case regular expression,
    and tensors that match are excluded from the mix. A tensor whose rows are not whole blocks of
    its type (256 columns for most) gets a larger type instead, which a warning says; --dry-run says
    so beforehand, and --no-fallback refuses. The file is written atomically. Piped output is one
    row: path, bytes of tensors before, after; with --report also a row for each tensor that
    changed: name, type before, type after, largest error, RMSE, cosine, all after dequantization.

    \b
    Examples:
      mtkit quantize model-f16.gguf --type Q4_K_M -o model-q4.gguf
      mtkit quantize model-f16.gguf model-q8.gguf Q8_0
      mtkit quantize model-bf16.gguf --type IQ3_XXS --imatrix imatrix.gguf -o small.gguf --report
      mtkit quantize model-f16.gguf --type IQ4_XS --imatrix-from book.txt -o model-iq4.gguf
      mtkit quantize model-f16.gguf --type Q4_K_M --tensor-type attn_v=q6_k -o model-q4.gguf
      mtkit quantize model-q8.gguf --type Q4_0 --allow-requantize -o model-q4.gguf
      mtkit quantize model-f16.gguf --type Q4_0 --leave-output-tensor -o model-q4.gguf
    """
    from shlex import quote

    from mtkit.base.escape import printable
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.gguf.shards import open_whole
    from mtkit.gguf.types import FILE_TYPES
    from mtkit.inspection.difference import find_difference
    from mtkit.llm.quantization import TensorKinds, file_type, quantized_types, shard_paths
    from mtkit.llm.quantization import quantize as run
    from mtkit.llm.quantize_choices import Choices, parse_layers, read_tensor_types

    kind, out, threads = _words(file, list(more or ()), kind, out, threads)
    if file == "-" or out in ("", "-") or (out is None and not dry_run):
        new = f"{os.path.basename(file).removesuffix('.gguf')}-{kind}.gguf"
        hint = f"add -o {'NEW.gguf' if file == '-' else new}, or --dry-run"
        raise UsageError("no output file", hint=hint)
    if imatrix is not None and imatrix_from:
        raise UsageError("give one of --imatrix and --imatrix-from")
    number = file_type(kind)
    types = [*(tensor_types or ()), *(read_tensor_types(type_file) if type_file else ())]
    kinds = TensorKinds(types, output_type, embedding_type)
    choices = Choices(
        leave_output, include or (), exclude or (),
        parse_layers(prune_layers) if prune_layers else (), override_kv or (), keep_split,
    )  # fmt: skip
    choices.job()
    kinds.numbers()  # its errors come before those of the file
    if find_folder(file) is not None:
        # A GGUF in it may be of any type: the weights of the folder are what is meant.
        line = f"run: mtkit convert {quote(file)} {quote(out or 'NEW.gguf')} --type {kind}"
        raise UsageError("is a HuggingFace model folder", source=file, hint=line)
    file = find_gguf(file)
    before = open_whole(file)
    texts = read_texts(None, imatrix_from, "") if imatrix_from else ()
    quantization = run(
        file, out or file, number, pure=pure, kinds=kinds, imatrix=imatrix, imatrix_from=texts,
        threads=threads, dry_run=dry_run, allow_requantize=allow_requantize, force=force,
        fallback=not no_fallback, choices=choices,
        progress=Progress(f"quantize {kind}").show, imatrix_progress=Progress("imatrix").show,
    )  # fmt: skip
    is_shown = output.is_terminal() and not as_json
    notes = [*quantization.notes()]
    unused = [*kinds.without_effect(before), *choices.without_effect(before)]
    output.warn(file, [*unused, *([] if is_shown else notes)])
    again = quantized_types(before)
    bits = f" · {quantization.bits:.2f} bits per weight"
    facts = {
        "bits_per_weight": round(quantization.bits, 4),
        "types": quantization.counts,
        "fallbacks": [
            {"name": printable(name), "mix": mix_type, "type": new}
            for name, (mix_type, new) in quantization.fallbacks.items()
        ],
    }
    if again:
        output.warn(file, [f"already quantized ({', '.join(again)})"])
    if dry_run:
        if as_json:
            output.write_json(
                {"schema": "mtkit.quantize/1", "written": None, "requantized": again, **facts}
            )
        elif is_shown:
            from mtkit.commands.terminal import Screen, part

            can = output.Escaped(f" can be quantized to {FILE_TYPES[number]}{bits}")
            Screen().verdict(part("name", file), can, good=True)
            _show_notes(notes)
        return
    assert out is not None
    out = shard_paths(out, before)[0] if keep_split else out
    after = open_whole(out)
    changes = find_difference(before, after, values=True).tensors if report else ()
    sizes = [sum(tensor.n_bytes for tensor in model.tensors) for model in (before, after)]
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.quantize/1",
                "written": out,
                "requantized": again,
                "bytes_before": sizes[0],
                "bytes": sizes[1],
                **facts,
                "tensors": [_record(change) for change in changes],
            }
        )
    elif is_shown:
        _show(out, sizes, bits, changes)
        _show_notes(notes)
    else:
        output.write_rows([(out, *sizes), *map(_row, changes)])


command = Command(quantize, OPTIONS)


def _words(
    file: str, more: list[str], kind: str, out: str | None, threads: int
) -> tuple[str, str | None, int]:
    """Return type, new file and threads, from options or in llama-quantize's order of words."""
    from shlex import quote

    from mtkit.errors import UsageError

    if len(more) > 1 and more[-1].isdecimal():  # llama-quantize's number of threads
        threads = int(more.pop())
    if more and not kind and not more[-1].endswith(".gguf"):
        kind = more.pop()
    if more and out is None:
        out = more.pop()
    if more:
        raise UsageError("too many arguments", hint="mtkit quantize FILE NEW TYPE")
    if not kind:
        new = out or f"{file.removesuffix('.gguf')}-Q4_K_M.gguf"
        line = f"run: mtkit quantize {quote(file)} --type Q4_K_M -o {quote(new)}"
        raise UsageError("no type given", hint=line)
    return kind, out, threads


def _show_notes(notes: Sequence[str]) -> None:
    from mtkit.commands.terminal import Screen, part

    for note in notes:
        Screen().line(part("warning", "! "), note, hanging=2)


def _row(change: TensorChange) -> Sequence[str]:
    error = change.errors
    numbers = (f"{error.largest:.6g}", f"{error.rmse:.6g}", f"{error.cosine:.8f}") if error else ()
    return (change.name, *change.types, *numbers)


def _record(change: TensorChange) -> dict[str, object]:
    from mtkit.base.escape import printable

    errors = change.errors
    return {
        "name": printable(change.name),
        "types": list(change.types),
        "errors": errors
        and {"largest": errors.largest, "rmse": errors.rmse, "cosine": errors.cosine},
    }


def _show(path: str, sizes: Sequence[int], bits: str, changes: Sequence[TensorChange]) -> None:
    from mtkit.commands.terminal import Screen, part, size_part

    screen = Screen()
    size_change = [output.Escaped(" · "), size_part(sizes[0]), " → ", size_part(sizes[1]), bits]
    screen.verdict(part("name", path), *size_change, good=True)
    if changes:
        heads = ("tensor:name", "before", "after", "largest error>", "rmse>", "cosine>")
        rows = [[*_row(change), *[""] * 3][:6] for change in changes]
        screen.table(heads, rows, elastic=0)
