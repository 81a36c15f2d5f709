"""``mtkit imatrix``: which columns of a model's matrices matter, for quantizing."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, read_texts
from mtkit.commands.options import Option
from mtkit.settings import TextSettings

OPTIONS = {
    "out": Option("-o --output", "File for the importance matrix.", "GGUF"),
    "from_chunk": Option("--from-chunk", "Skip the first N windows.", "N", "--chunk", low=0),
    "process_output": Option("--process-output", "Include the output matrix."),
    "parse_special": Option(
        "--parse-special/--no-parse-special",
        "Parse special tokens in the text.",
        also="--allow-special",
    ),
    "in_files": Option("--in-file", "Add to this importance matrix. Repeatable.", "GGUF"),
    "save_every": Option(
        "--save-every",
        "Save every N windows; 0: at the end.",
        "N",
        "-ofreq --output-frequency",
        low=0,
    ),
    "resume": Option("--resume", "Continue an interrupted run."),
}


def imatrix(
    names: list[str] | None = None,
    *,
    settings: TextSettings,
    prompt: str | None = None,
    files: list[str] | None = None,
    out: str = "imatrix.gguf",
    chunks: int | None = None,
    from_chunk: int = 0,
    process_output: bool = False,
    parse_special: bool = False,
    in_files: list[str] | None = None,
    save_every: int = 10,
    resume: bool = False,
    force: bool = False,
    as_json: bool = False,
    verbose: bool = False,
) -> None:
    """Compute an importance matrix, which low-bit quantization needs.

    As in llama-imatrix, whole windows of --ctx tokens go through the model, and the squared inputs
    of each matrix are summed by column. The file is saved regularly; to continue an interrupted
    run, repeat the command with --resume. --in-file without a text adds matrices up. Piped output:
    path, matrices, windows.

    \b
    Examples:
      mtkit imatrix book.txt -m model.gguf -o new.gguf --ctx 128
      mtkit imatrix book.txt text.txt -m model.gguf -o more.gguf --in-file imatrix.gguf --chunks 1
    """
    from mtkit.base.record import replace
    from mtkit.commands import output
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.llama import log
    from mtkit.llm.importance import importance_matrix

    if names and files:
        raise UsageError("give the files as arguments or with --file")
    hint = "mtkit imatrix FILE -m MODEL -o GGUF"
    is_sum = in_files and not names and not files and prompt is None
    texts = [] if is_sum else read_texts(prompt, names or files, hint)
    log.is_shown = verbose
    settings = replace(settings, model=find_model(settings.model))
    matrix = importance_matrix(
        settings, texts, out, chunks=chunks, skip=from_chunk, with_output=process_output,
        parse_special=parse_special, in_files=in_files or (), resume=resume, save_every=save_every,
        force=force, progress=Progress("imatrix", after=0).show, loading=Progress("loading").show,
    )  # fmt: skip
    numbers = {"matrices": len(matrix.entries), "chunks": matrix.chunks}
    if as_json:
        head = {"schema": "mtkit.imatrix/1", "written": out, "model": settings.model}
        output.write_json(
            {**head, **numbers, "chunk_size": matrix.chunk_size, "datasets": list(matrix.datasets)}
        )
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen, count_part, join_parts, part

        matrices = f"{output.format_number(len(matrix.entries))} matrices"
        sums = join_parts([matrices, count_part(matrix.chunks, "window")])
        Screen().verdict(part("name", out), output.Escaped(" · "), *sums, good=True)
    else:
        output.write_rows([(out, *numbers.values())])


command = Command(imatrix, OPTIONS, TextSettings)
