"""``mtkit convert``: a tokenizer, or a whole model, into another format; what is lost is named."""

from __future__ import annotations

import os
import sys

from mtkit.commands.command import Command
from mtkit.commands.convert.model import Request, default_format
from mtkit.commands.inputs import load_tokenizer
from mtkit.commands.options import (
    FORCE_FILES,
    NO_TENSOR_FIRST,
    Option,
    parse_bytes,
    parse_loss_codes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.conversion.tokenizer import Conversion
    from mtkit.tokenizer.tokenizer import Tokenizer

_FILES = (".json", ".gguf", ".model", ".mtok", ".tiktoken", ".bin", ".txt", ".safetensors")
NAMING = ("--model-name", "--metadata")
"""Options that any model takes, with weights or without."""
EVERY = "all"
"""``--to``: every format that can be written, a folder each."""


def _written_formats() -> list[str]:
    """Names of the formats that can be written, for shell completion."""
    from mtkit.formats import written_formats

    return [*written_formats(), EVERY]


def _type_names(incomplete: str) -> list[str]:
    """Names of the types of a model's matrices, for shell completion, in the case of the word."""
    from mtkit.gguf.types import MIXES

    return [name.upper() if incomplete.isupper() else name.lower() for name in ("auto", *MIXES)]


OPTIONS = {
    "source": Option("", "File or folder; default: the tokenizer that mtkit config shows.", "SRC"),
    "dst": Option("", "Same as -o.", "DST"),
    "to": Option(
        "--to",
        "Format to write, or all; see mtkit formats.",
        "NAME",
        "--format --output-format",
        values=_written_formats,
    ),
    "kind": Option(
        "--type",
        "Type of the weights: auto, f32, f16, bf16, q8_0, or any type of mtkit quantize.",
        "NAME",
        "--outtype",
        values=_type_names,
    ),
    "no_fallback": Option(
        "--no-fallback", "Refuse if a tensor does not fit the type, as in mtkit quantize."
    ),
    "vocab_only": Option("--vocab-only", "Convert only the tokenizer of a model folder."),
    "split_max_size": Option(
        "--split-max-size",
        "Shard the model: maximum size of a file, such as 2G.",
        "N",
        "--max-size",
    ),
    "dense_modules": Option(
        "--dense-modules",
        "Write the dense layers of an embedding model (modules.json) as well.",
        "",
        "--sentence-transformers-dense-modules",
    ),
    "mmproj": Option(
        "--mmproj", "Convert what sees or hears, for llama.cpp's --mmproj, not the text model."
    ),
    "split_max_tensors": Option(
        "--split-max-tensors",
        "Shard the model: maximum number of tensors in a file.",
        "N",
        "--max-tensors",
        low=1,
    ),
    "no_tensor_first": NO_TENSOR_FIRST,
    "model_name": Option("--model-name", "Name of the model in the GGUF.", "TEXT"),
    "metadata": Option(
        "--metadata", "JSON file with general.… keys, in place of what SRC says.", "FILE"
    ),
    "imatrix": Option("--imatrix", "Importance matrix to quantize with.", "FILE"),
    "verify": Option("--verify", "Run the result in llama.cpp and compare its logits with SRC's."),
    "base": Option(
        "--base", "Folder of the base model, if SRC is a LoRA adapter.", "FOLDER", "--base-model-id"
    ),
    "tokenizer": Option("--tokenizer", "Tokenizer of SRC, if SRC is a llama2.c model.", "FILE"),
    "target": Option(
        "-o --output",
        "File or folder/, {ftype} stands for the type; default: next to SRC.",
        "DST",
        "--outfile",
    ),
    "bos": Option("--bos/--no-bos", "Add BOS before a text; default: as in SRC."),
    "eos": Option("--eos/--no-eos", "Add EOS after a text; default: as in SRC."),
    "tables": Option("--tables/--no-tables", "mtok: include engine tables, to load in about 1 ms."),
    "no_extension": Option("--no-extension", "mtok: write only what MNN's loader reads."),
    "print_supported_models": Option(
        "--print-supported-models", "List the classes of models that can be converted."
    ),
    "no_lazy": Option(
        "--no-lazy", "No effect, as weights are always streamed.", also="--use-temp-file"
    ),
    "dry_run": Option("--dry-run", "Do everything except write the files."),
    "force": FORCE_FILES,
    "quiet": Option("-q --quiet", "Print nothing when done."),
    "verbose": Option("-v --verbose", "List every loss and note."),
}


def convert(
    source: str | None = None,
    dst: str | None = None,
    to: str = "",
    kind: str = "auto",
    no_fallback: bool = False,
    vocab_only: bool = False,
    split_max_size: str | None = None,
    dense_modules: bool = False,
    mmproj: bool = False,
    split_max_tensors: int | None = None,
    no_tensor_first: bool = False,
    model_name: str = "",
    metadata: str | None = None,
    imatrix: str | None = None,
    imatrix_from: list[str] | None = None,
    verify: bool = False,
    base: str | None = None,
    tokenizer: str | None = None,
    encoding: str | None = None,
    target: str | None = None,
    allow_loss: list[str] | None = None,
    bos: bool | None = None,
    eos: bool | None = None,
    tables: bool | None = None,
    no_extension: bool = False,
    print_supported_models: bool = False,
    no_lazy: bool = False,
    dry_run: bool = False,
    force: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Convert a model or a tokenizer, and check the result before writing it.

    A folder with config.json and safetensors becomes a GGUF for llama.cpp, as does a LoRA adapter
    or, with --tokenizer, a llama2.c checkpoint. With --to hf-model, a GGUF becomes such a folder.
    Anything else is read as a tokenizer: mtkit reads the result back and compares ids and decoded
    text on about 200 texts.

    Without --to, the name of DST determines the format: x.gguf, tokenizer.json, x.mtok … If several
    files are written, as for hf, a DST without a suffix is a folder.

    Without --bos and --eos, the result adds the same tokens to a text as SRC. If SRC does not
    record this (as in a tokenizer.model), BOS is added for the model families that use it.

    Exit code 4: the format cannot represent the tokenizer, or ordinary text would get different
    ids.

    \b
    Examples:
      mtkit convert ./Qwen3-0.6B --to gguf --type q8_0
      mtkit convert ./Qwen3-0.6B iq4.gguf --type IQ4_XS --imatrix-from corpus.txt
      mtkit convert ./gemma-3-4b-it --mmproj
      mtkit convert model.gguf --to hf-model -o model-folder/
      mtkit convert tokenizer.model --to mtok
      mtkit convert ORG/NAME new.gguf --download
      mtkit convert model.gguf --to hf -o my-tokenizer/
      mtkit convert tokenizer.json --to all -o converted/
      mtkit convert tokenizer.json --to gguf --allow-loss ids-possible
      mtkit convert stories260K.bin --tokenizer tok512.bin --to gguf
      mtkit convert ./Qwen3-0.6B --outtype q8_0 --outfile "qwen-{ftype}.gguf" --dry-run
    """
    from mtkit.commands.convert.model import write_supported_models
    from mtkit.commands.output import warn
    from mtkit.conversion.key_types import read_metadata
    from mtkit.formats.contract import WriteOptions

    if print_supported_models:
        write_supported_models(as_json=as_json)
        return
    if no_lazy:
        warn("--no-lazy", ["has no effect, nor has --use-temp-file: weights are always streamed"])
    allowed = parse_loss_codes(allow_loss)
    target = _find_target(dst, target)
    to = to.lower() or _find_format(source, target, download=download)
    _check_mtok_options(to, tables, no_extension=no_extension)
    request = Request(
        source=source,
        vocabulary=tokenizer,
        target=target,
        to=to,
        kind=kind,
        no_fallback=no_fallback,
        allow_loss=allowed,
        options=WriteOptions(
            add_bos=bos,
            add_eos=eos,
            extension=not no_extension,
            name=model_name,
            values=() if tables is None else (("tables", "yes" if tables else "no"),),
        ),
        max_bytes=None
        if split_max_size is None
        else parse_bytes(split_max_size, "--split-max-size"),
        dense_modules=dense_modules,
        mmproj=mmproj,
        max_tensors=split_max_tensors,
        first_without_tensors=no_tensor_first,
        about=() if metadata is None else tuple(read_metadata(metadata)),
        imatrix=imatrix,
        imatrix_from=tuple(imatrix_from or ()),
        base=base,
        verify=verify,
        dry_run=dry_run,
        vocab_only=vocab_only,
        force=force,
        reader=as_reader,
        encoding=encoding,
        download=download,
    )
    if to == EVERY:
        _convert_to_all(request, as_json=as_json)
        return
    conversion = None if tokenizer is not None else _convert_model(request)
    if conversion is None:
        conversion = _convert_tokenizer(request)
    from mtkit.commands.convert.report import write_conversion

    write_conversion(conversion, as_json=as_json, quiet=quiet, verbose=verbose)


command = Command(convert, OPTIONS)


def _find_target(dst: str | None, target: str | None) -> str | None:
    from mtkit.errors import UsageError

    if dst is not None and target is not None:
        raise UsageError(f"two outputs are given, {dst} and {target}", hint="give DST or -o")
    target = dst if target is None else target
    if target in ("", "-"):
        what = "-o is empty" if not target else "-o -: convert writes files, not standard output"
        raise UsageError(what, hint="name a file, or a folder that ends in /")
    return target


def _find_format(source: str | None, target: str | None, *, download: bool) -> str:
    """Return the format that the output's name, or a whole model, stands for."""
    from shlex import quote

    from mtkit.conversion.tokenizer import target_format
    from mtkit.errors import UsageError
    from mtkit.sources.locate import locate

    name = target_format(target) or default_format(source)
    if name:
        return name
    if source is not None and not download:
        locate(source, download=False)  # what is not there is the first thing to say
    other = "hf" if (source or "").endswith(".gguf") else "gguf"
    line = f"run: mtkit convert {quote(source or 'FILE')} --to {other}{' --download' * download}"
    missing = f"the name {target} does not determine the format" if target else "no --to"
    raise UsageError(missing, hint=f"{line}; formats: {', '.join(sorted(_written_formats()))}")


def _check_mtok_options(to: str, tables: bool | None, *, no_extension: bool) -> None:
    from mtkit.errors import UsageError

    if (tables is not None or no_extension) and to != "mtok":
        raise UsageError("--tables, --no-tables and --no-extension go with --to mtok")
    if tables and no_extension:
        what = (
            "--tables and --no-extension exclude each other: the tables are part of the extension"
        )
        raise UsageError(what)


def _convert_model(request: Request) -> Conversion | None:
    """Convert a whole model; None where what is named is a tokenizer."""
    from mtkit.commands.convert import model
    from mtkit.errors import UsageError

    source, options = request.source, request.model_options()
    if source is None and options:
        hint = "mtkit convert FOLDER -o MODEL.gguf"
        raise UsageError("no model to convert is named", hint=hint)
    if request.to == "hf-model":
        from mtkit.commands.inputs import find_model

        request.refuse("does not go with --to hf-model", ("--type", "--split-max-size"))
        return model.to_folder(find_model(source), request)
    folder = None
    if request.to == "gguf" and source not in (None, "-") and not request.vocab_only:
        folder = model.find_source_folder(str(source), download=request.download)
    if folder is not None and request.reader is not None:
        hint = "--vocab-only converts the tokenizer alone"
        raise UsageError("works for tokenizers only, and this is a model", field="--as", hint=hint)
    if folder is not None:
        return model.to_gguf(folder, request)
    if options and source is not None and not os.path.exists(source):
        from mtkit.sources import hub

        name = source if hub.parse(source) and not source.endswith(_FILES) else ""
        hint = f"add --download to download {name}" if name else ""
        raise UsageError("no such folder" if name else "no such file", source=source, hint=hint)
    is_type = not request.vocab_only and "--type" in options
    request.refuse(
        "does not go with --vocab-only" if request.vocab_only else "is for a model folder",
        ("--vocab-only", *NAMING) if request.vocab_only else (),
        hint="mtkit quantize changes the type of a GGUF" if is_type else "",
    )
    return None


def _convert_to_all(request: Request, *, as_json: bool) -> None:
    from mtkit.commands.convert.report import convert_to_all, write_formats
    from mtkit.errors import UsageError

    request.refuse("does not go with --to all", ("--vocab-only",))
    if request.target is None:
        raise UsageError("--to all writes a folder", hint="add -o FOLDER")
    tokenizer = _load_source(request)
    results = convert_to_all(tokenizer, request.target, **request.write_options())
    write_formats(results, as_json=as_json)


def _convert_tokenizer(request: Request) -> Conversion:
    from mtkit.base.binary import Source
    from mtkit.checkpoints import llama2c
    from mtkit.commands.convert import model
    from mtkit.conversion.model import convert_whole
    from mtkit.conversion.tokenizer import convert as run
    from mtkit.errors import LossError, UsageError
    from mtkit.sources import stores

    source, to = request.source, request.to
    if request.vocabulary is not None:
        return _convert_checkpoint(request, request.vocabulary)
    if request.vocab_only and to == "gguf" and request.reader is None:
        conversion = model.vocabulary(request)
        if conversion is not None:
            return conversion
    request.refuse("works only with a model folder and --to gguf", ("--vocab-only",))
    is_file = source not in (None, "-") and os.path.isfile(str(source))
    if source is not None and is_file and llama2c.sniff(Source.open(source)):
        what = "is a llama2.c checkpoint, which contains no tokenizer"
        raise UsageError(what, source=source, hint="add --tokenizer tokenizer.bin")
    if to == "gguf" and is_file and request.reader is None and stores.holds_model(str(source)):
        request.refuse("does not change the types of weights; quantize does", ("--type",))
        written = request.write_options()
        return convert_whole(
            str(source), request.target, about=request.about, force=written["force"],
            dry_run=written["dry_run"],
        )  # fmt: skip
    tokenizer = _load_source(request)
    _warn_of_weights(tokenizer, to)
    try:
        return run(tokenizer, request.target, to=to, **request.write_options())
    except LossError as error:
        if sys.stderr.isatty():
            from mtkit.commands.convert.report import show_refusal

            show_refusal(error, tokenizer, to, request.options)
            raise SystemExit(error.exit_code) from None
        raise


def _convert_checkpoint(request: Request, vocabulary: str) -> Conversion:
    from mtkit.conversion.model import convert_checkpoint
    from mtkit.errors import UsageError

    if request.source is None or request.to != "gguf":
        raise UsageError("--tokenizer works only with a llama2.c checkpoint and --to gguf")
    kinds = ("--type",) * (request.kind.lower() == "f32")
    request.refuse("does not go with --tokenizer", (*NAMING, *kinds))
    tokenizer = load_tokenizer(vocabulary, encoding=request.encoding, download=request.download)
    return convert_checkpoint(
        request.source, tokenizer, request.target, about=request.about, **request.write_options()
    )


def _load_source(request: Request) -> Tokenizer:
    return load_tokenizer(
        request.source,
        reader=request.reader,
        encoding=request.encoding,
        download=request.download,
    )


def _warn_of_weights(tokenizer: Tokenizer, to: str) -> None:
    """Say that the weights of a GGUF do not get into one, or a folder, of its tokenizer."""
    from mtkit.commands.output import warn
    from mtkit.gguf import open_gguf

    hints = {
        "gguf": "mtkit quantize changes their type",
        "hf": "--to hf-model writes a folder with both",
    }
    if to in hints and tokenizer.format_name == "gguf" and open_gguf(tokenizer.source).tensors:
        warn(tokenizer.source, [f"only its tokenizer is converted, not its weights; {hints[to]}"])
