"""``mtkit report``: a file as a page for a browser."""

from __future__ import annotations

import os

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_folder, open_file
from mtkit.commands.options import Option

_ENDINGS = (".gguf", ".json", ".mtok", ".model", ".bin", ".tiktoken", ".txt")


OPTIONS = {
    "files": Option("", "One file, or two to compare.", "FILE..."),
    "out": Option("-o --output", "File for the page.", "FILE"),
    "histograms": Option("--histograms", "Read all tensors and show histograms of their values."),
    "deep": Option("--deep", "Also check tensor data, merges and templates."),
}


def report(
    files: list[str],
    out: str | None = None,
    histograms: bool = False,
    deep: bool = False,
    force: bool = False,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Write an HTML page about a GGUF, a model folder or a tokenizer, or about what two differ in.

    One self-contained file that loads nothing else: sizes by layer and type, searchable tables of
    tensors, metadata and tokens, how merges build a token, lengths and scripts of tokens, chat
    templates with an example, and the findings of check. Without -o it is NAME.report.html in the
    current folder. Piped output: path, bytes.

    \b
    Examples:
      mtkit report model.gguf
      mtkit report tokenizer.json -o tokenizer.html
      mtkit report model-f16.gguf model-q4_0.gguf --histograms -o both.html
    """
    from mtkit.base.files import check_target, write_files
    from mtkit.commands.terminal import Progress
    from mtkit.errors import MtkitError, UsageError
    from mtkit.report import report as page_of
    from mtkit.sources.remote import is_remote

    if len(files) > 2:
        hint = "mtkit inspect shows many files, one row each"
        raise UsageError(f"a report covers one file or two, not {len(files)}", hint=hint)
    if out in ("", "-"):
        raise UsageError("no output file", hint="add -o report.html")
    path = _beside(files) if out is None else out
    check_target(path, force=force)  # before it takes seconds
    sources = [find_folder(name) or open_file(name, download=download) for name in files]
    for name, source in zip(files, sources, strict=True):
        if isinstance(source, str):
            if histograms:
                hint = "convert the folder and report on the GGUF"
                raise UsageError("is a folder; --histograms reads a GGUF", source=name, hint=hint)
            continue
        if is_remote(name) and (histograms or deep) and not os.path.exists(name):
            raise UsageError(
                "is an index; the data is in other files",
                source=source.name,
                hint="download the file",
            )
    names = [source if isinstance(source, str) else source.name for source in sources]
    if any(os.path.realpath(path) == os.path.realpath(name) for name in names):
        raise UsageError("is the input file", source=path, hint="add -o report.html")
    progress = Progress("reading tensors").show
    try:
        page = page_of(sources, histograms=histograms, deep=deep, progress=progress)
    except MtkitError as error:
        raise error.located(names[0]) from None
    write_files({path: page}, force=force)
    if as_json:
        output.write_json(
            {"schema": "mtkit.report/1", "path": path, "bytes": len(page), "files": names}
        )
    elif output.is_terminal():
        from mtkit.commands.terminal import DOT, Screen, part, size_part

        Screen().verdict(
            part("name", path), output.Escaped(DOT), size_part(len(page)),
            output.Escaped(DOT), part("hint", "open it in a browser"), good=True,
        )  # fmt: skip
    else:
        output.write_rows([(path, len(page))])


command = Command(report, OPTIONS)


def _beside(files: list[str]) -> str:
    """Return the default path of a page: ``model.report.html`` in the current folder."""
    names = []
    for name in files:
        base = "stdin" if name == "-" else os.path.basename(os.path.normpath(name))
        stem, ending = os.path.splitext(base)
        names.append(stem if ending.lower() in _ENDINGS else base)
    return f"{'-and-'.join(names)}.report.html"
