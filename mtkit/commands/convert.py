"""``mtkit convert``: a tokenizer into another format, with what is lost named."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from mtkit.commands.options import AS_JSON, application, load_named
from mtkit.commands.output import grouped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.conversion.convert import Conversion
    from mtkit.conversion.verify import Verified
    from mtkit.formats.contract import Loss, WriteOptions

app = application()

MOST_LOSSES = 3
"""Of one code and one part of the specification, each on a line of its own."""


def _written() -> list[str]:
    """Names of the formats that can be written, for shell completion."""
    from mtkit.formats import FORMATS, get_format

    return [name for name in FORMATS if hasattr(get_format(name), "write")]


@app.command()
def convert(
    source: Annotated[
        str | None, typer.Argument(metavar="SRC", help="File or folder; none: the default.")
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="NAME", help="Format; see mtkit formats.", autocompletion=_written
        ),
    ] = "",
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="FILE", help="SRC is a llama2.c model; its tokenizer."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", help="Published encoding (.tiktoken)."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DST", help="File or folder/; else beside SRC."),
    ] = None,
    allow_loss: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-loss",
            metavar="CODE",
            help="Convert although CODE is lost.",
            autocompletion=lambda: ["ids", "ids-possible"],
        ),
    ] = None,
    bos: Annotated[
        bool | None,
        typer.Option("--bos/--no-bos", help="BOS before a text; else as in SRC."),
    ] = None,
    eos: Annotated[
        bool | None, typer.Option("--eos/--no-eos", help="EOS after a text; else as in SRC.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="mtok: the engine's tables too; loads in no time.")
    ] = False,
    no_extension: Annotated[
        bool, typer.Option("--no-extension", help="mtok: only what MNN's loader reads.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    as_json: AS_JSON = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing when done.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print every loss.")] = False,
) -> None:
    """Convert a tokenizer to another format, and prove it on some 200 texts before writing.

    DST without a suffix is a folder where several files are written, as for hf.

    Without --bos and --eos, what SRC adds to a text stays; where SRC leaves it open (a
    tokenizer.model), BOS is added for the families that begin with it.

    Exit code 4: the format cannot hold it, or ordinary text would get other ids.

    \b
    Examples:
      mtkit convert tokenizer.model --to mtok
      mtkit convert model.gguf --to hf -o my-tokenizer/
      mtkit convert tokenizer.json --to gguf --allow-loss ids-possible
      mtkit convert stories260K.bin --tokenizer tok512.bin --to gguf
    """
    from mtkit.errors import UsageError
    from mtkit.formats import FORMATS
    from mtkit.formats.contract import LOSS_CODES, WriteOptions

    for code in allow_loss or ():
        if code not in LOSS_CODES:
            what = f"--allow-loss: no loss is called {code!r}"
            raise UsageError(what, hint=f"known: {', '.join(LOSS_CODES)}")
    if target in ("", "-"):
        what = "-o is empty" if not target else "-o -: files are written whole, not into a pipe"
        raise UsageError(what, hint="name a file, or a folder that ends in /")
    if not to:
        raise UsageError("--to is missing", hint=f"one of {', '.join(sorted(FORMATS))}")
    if (tables or no_extension) and (to != "mtok" or (tables and no_extension)):
        raise UsageError("--tables or --no-extension goes with --to mtok, one of them")
    options = WriteOptions(
        add_bos=bos,
        add_eos=eos,
        extension=not no_extension,
        values=(("tables", "yes"),) if tables else (),
    )
    allowed = tuple(allow_loss or ())
    done = _run(source, tokenizer, target, to, allowed, options, encoding=encoding, force=force)
    from mtkit.commands import output

    if as_json:
        output.write_json(_document(done))
    elif not quiet:
        output.write("".join(f"{line}\n" for line in _report(done, verbose=verbose)))


def _run(
    source: str | None,
    vocabulary: str | None,
    target: str | None,
    to: str,
    allow_loss: tuple[str, ...],
    options: WriteOptions,
    *,
    encoding: str | None,
    force: bool,
) -> Conversion:
    """Convert a tokenizer, or a checkpoint with its tokenizer."""
    from mtkit import checkpoints
    from mtkit.base.binary import Source
    from mtkit.conversion.convert import convert as run
    from mtkit.errors import UsageError

    if vocabulary is None:
        is_file = source not in (None, "-") and os.path.isfile(str(source))
        if source is not None and is_file and checkpoints.sniff(Source.open(source)):
            raise UsageError(
                "is a llama2.c checkpoint, which holds no tokenizer",
                source=source,
                hint="--tokenizer tokenizer.bin names it",
            )
        tokenizer = load_named(source, encoding=encoding)
        return run(tokenizer, target, to=to, allow_loss=allow_loss, options=options, force=force)
    if source is None or to != "gguf":
        raise UsageError("--tokenizer goes with a llama2.c checkpoint and --to gguf")
    from mtkit.conversion.checkpoint import convert_checkpoint

    tokenizer = load_named(vocabulary, encoding=encoding)
    return convert_checkpoint(
        source, tokenizer, target, allow_loss=allow_loss, options=options, force=force
    )


def _document(done: Conversion) -> dict[str, object]:
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
    }


def _loss(loss: Loss) -> dict[str, str]:
    return {"code": loss.code, "field": loss.field, "effect": loss.effect}


def _loss_lines(head: str, losses: tuple[Loss, ...], *, verbose: bool) -> list[str]:
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


def _report(done: Conversion, *, verbose: bool) -> list[str]:
    from mtkit.base.escape import printable

    sizes = dict(done.sizes)
    lines = [f"{printable(done.path)}\twritten, {grouped(sizes['total'])} bytes"]
    lines += [f"  beside it\t{printable(path)}" for path in done.paths[1:]]
    lines += [f"  assumed\t{text}" for text in done.assumptions]
    lines += _loss_lines("lost", done.losses, verbose=verbose)
    for one in done.verified:
        lines += _loss_lines(f"{one.reader} lacks", one.losses, verbose=verbose)
    lines += [f"  verified\t{_verdict(one)}" for one in done.verified]
    if "base" in sizes:
        base, extension = (grouped(sizes[name]) for name in ("base", "extension"))
        lines.append(f"  size\tbase {base} bytes, extension {extension} bytes")
    if not sys.stdout.isatty():
        return lines
    import shutil
    from textwrap import wrap

    first, *rows = (line.partition("\t") for line in lines)
    column = max(len(head) for head, _, _ in rows) + 2
    room = max(shutil.get_terminal_size().columns - column, 20)
    shown = [f"{first[0]}  {first[2]}"]
    for head, _, text in rows:
        parts = wrap(text, room, break_on_hyphens=False) or [""]
        shown.append(f"{head:{column}}{parts[0]}")
        shown += [" " * column + part for part in parts[1:]]
    return shown


def _verdict(one: Verified) -> str:
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
