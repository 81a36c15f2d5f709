"""``mtkit sx vocab``: the ids that are worth proposing."""

from __future__ import annotations

from typing import Annotated

import typer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

_SIZES = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)


def vocab(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Text files in UTF-8.")
    ] = None,
    *,
    target: Annotated[
        str, typer.Option("-t", "--target", metavar="TARGET", help="The GGUF model to speed up.")
    ],
    size: Annotated[int, typer.Option("-n", metavar="N", help="Number of ids.")] = 32_768,
    freq: Annotated[
        list[str] | None,
        typer.Option("--freq", metavar="FILE", help="File written by `corpus count`. Repeatable."),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            "--prompts", metavar="FILE", help="Count TARGET's answers to the prompts in this file."
        ),
    ] = None,
    n_predict: Annotated[
        int,
        typer.Option(
            "--n-predict", metavar="N", min=1, help="Maximum number of tokens per answer."
        ),
    ] = 128,
    output_file: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="File for the ids.")
    ] = None,
    force: bool = False,
    plot: str | None = None,
    as_json: bool = False,
) -> None:
    """Find the most frequent ids for a draft model.

    The counts come from texts, from files of counts, or from the model's own answers, which are the
    best source: a language that is not in the texts will hardly be proposed. End-of-text, byte and
    control tokens are always included. A line of --prompts is a text, or JSON with "prompt". The
    output shows how much of each source the first 1,024 ids and more cover: with one text per
    language, how well each language is served.

    \b
    Examples:
      mtkit sx vocab corpus.txt -t model.gguf -n 32768 -o vocab.txt
      mtkit sx vocab -t model.gguf --prompts prompts.jsonl -n 16384 -o vocab.txt
      mtkit sx vocab en.txt zh.txt de.txt -t model.gguf -n 8192 --plot coverage
    """
    import os
    from collections import Counter

    from mtkit.base import plotting
    from mtkit.base.whole_files import write_files
    from mtkit.commands import output
    from mtkit.commands.named import model_named
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.arrays import array_of
    from mtkit.llm.speculative import coverage_plot, frequencies, static_vocabulary

    if plot is not None:
        plotting.require()
    path = model_named(target)
    metadata = open_gguf(path).metadata
    n_vocab = len(array_of(metadata, "tokenizer.ggml.tokens", "string"))
    if not 0 < size <= n_vocab:
        raise UsageError(f"is {size}, not in the range 1 to {n_vocab}", source=path, field="-n")
    counts = dict(_counted(path, files or [], freq or [], prompts, n_predict, n_vocab))
    total: Counter[int] = sum(counts.values(), Counter())
    if not total:
        raise UsageError("nothing to count", hint="give texts, --freq or --prompts")
    ids = static_vocabulary.most_frequent(total, size, frequencies.always_in(metadata), n_vocab)
    if output_file is not None:
        note = f"{len(ids)} ids of {os.path.basename(path)}, the most frequent first"
        write_files({output_file: static_vocabulary.text(ids, note).encode()}, force=force)
    sizes = sorted({n for n in _SIZES if n < len(ids)} | {len(ids)})
    covered = {
        name: [static_vocabulary.coverage(counted, ids[:n]) for n in sizes]
        for name, counted in counts.items()
    }
    if plot is not None:
        named = {os.path.basename(name): parts for name, parts in covered.items()}
        coverage_plot.write(sizes, named, plot)
    if as_json:
        output.write_json(
            {"schema": "mtkit.coverage/1", "sizes": sizes, "coverage": covered,
             "occurrences": {name: c.total() for name, c in counts.items()}}
        )  # fmt: skip
        return
    rows = [(n, *(f"{parts[at]:.2%}" for parts in covered.values())) for at, n in enumerate(sizes)]
    if not output.is_terminal():
        output.write_rows(rows)
        return
    from mtkit.commands.terminal import Screen

    Screen().table(["ids>", *(f"{os.path.basename(name)}>" for name in covered)], rows)


def _counted(
    path: str, files: list[str], freq: list[str], prompts: str | None, n_predict: int, n_vocab: int
) -> Iterator[tuple[str, Counter[int]]]:
    """Give the counts of each source, by its name."""
    from mtkit.commands.arguments import read_text
    from mtkit.llm.speculative import frequencies

    if files:
        from mtkit.tokenizer.load import load

        tokenizer = load(path)
        for name in files:
            yield name, frequencies.in_texts(tokenizer, [read_text(name)])
    for name in freq:
        yield name, frequencies.in_file(name, read_text(name), n_vocab)
    if prompts is not None:
        from mtkit.commands.progress import Progress
        from mtkit.commands.sx.prompt_files import prompts_of
        from mtkit.llm.open_model import open_model
        from mtkit.settings import ContextSettings, ModelSettings

        settings = ModelSettings(path, ContextSettings(n_ctx=4 * n_predict))
        with open_model(settings, Progress("loading").show) as runner:
            runner.open_context()
            yield prompts, frequencies.in_answers(runner, prompts_of(prompts), n_predict)
