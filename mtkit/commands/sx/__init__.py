"""``mtkit sx``: what ShenXing needs before it drafts, a command each; the small ones are here.

``vocab`` finds the ids that are worth proposing, ``prune`` cuts a draft to them, and
``quantize-embeddings`` makes the table that is searched for ids like an unknown one.
"""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.application import application
from mtkit.commands.sx.bench import bench
from mtkit.commands.sx.tune import tune

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
    from mtkit.base.files import write_files
    from mtkit.commands import output
    from mtkit.commands.inputs import find_model
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.arrays import metadata_array
    from mtkit.llm import frequencies
    from mtkit.speculative import plots

    if plot is not None:
        plotting.require()
    path = find_model(target)
    metadata = open_gguf(path).metadata
    n_vocab = len(metadata_array(metadata, "tokenizer.ggml.tokens", "string"))
    if not 0 < size <= n_vocab:
        raise UsageError(f"is {size}, not in the range 1 to {n_vocab}", source=path, field="-n")
    counts = dict(_count_tokens(path, files or [], freq or [], prompts, n_predict, n_vocab))
    total: Counter[int] = sum(counts.values(), Counter())
    if not total:
        raise UsageError("nothing to count", hint="give texts, --freq or --prompts")
    ids = frequencies.most_frequent_ids(total, size, frequencies.required_ids(metadata), n_vocab)
    if output_file is not None:
        note = f"{len(ids)} ids of {os.path.basename(path)}, the most frequent first"
        write_files({output_file: frequencies.format_vocabulary(ids, note).encode()}, force=force)
    sizes = sorted({n for n in _SIZES if n < len(ids)} | {len(ids)})
    covered = {
        name: [frequencies.coverage(counted, ids[:n]) for n in sizes]
        for name, counted in counts.items()
    }
    if plot is not None:
        named = {os.path.basename(name): parts for name, parts in covered.items()}
        plots.plot_coverage(sizes, named, plot)
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


def _count_tokens(
    path: str, files: list[str], freq: list[str], prompts: str | None, n_predict: int, n_vocab: int
) -> Iterator[tuple[str, Counter[int]]]:
    """Give the counts of each source, by its name."""
    from mtkit.commands.arguments import read_text_file
    from mtkit.llm import frequencies

    if files:
        from mtkit.tokenizer.load import load

        tokenizer = load(path)
        for name in files:
            yield name, frequencies.count_texts(tokenizer, [read_text_file(name)])
    for name in freq:
        yield name, frequencies.parse_counts(name, read_text_file(name), n_vocab)
    if prompts is not None:
        from mtkit.commands.arguments import read_prompts
        from mtkit.commands.terminal import Progress
        from mtkit.llm.runner import open_model
        from mtkit.settings import ContextSettings, ModelSettings

        settings = ModelSettings(path, ContextSettings(n_ctx=4 * n_predict))
        with open_model(settings, Progress("loading").show) as runner:
            runner.open_context()
            yield prompts, frequencies.count_answers(runner, read_prompts(prompts), n_predict)


def prune(
    draft: Annotated[str, typer.Argument(metavar="DRAFT", help="Draft model, as GGUF.")],
    vocabulary: Annotated[
        str, typer.Option("--vocab", metavar="FILE", help="File with ids, as sx vocab writes it.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File next to DRAFT; default: DRAFT-N.gguf."
        ),
    ] = None,
    size: Annotated[
        int | None, typer.Option("-n", metavar="N", help="Use only the first N ids.")
    ] = None,
    force: bool = False,
) -> None:
    """Reduce a draft model to the ids of a vocab.txt.

    Rows of the embedding and the output head are copied unchanged. The new file records the
    original ids and is used with DRAFT next to it, from which the rows of all other ids are read.
    (--sx-static-vocab does the same with a copy in the cache folder.)

    \b
    Examples:
      mtkit sx prune small.gguf --vocab vocab.txt
      mtkit sx prune small.gguf --vocab vocab.txt -n 16384 -o small-16k.gguf
    """
    import os

    from mtkit.commands import output
    from mtkit.commands.inputs import find_model
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.values import EMBEDDING, ROWS_MULTIPLE
    from mtkit.llm import frequencies
    from mtkit.speculative.draft_file import prune as write

    path = find_model(draft)
    tensor = open_gguf(path).names.get(EMBEDDING)
    ids = frequencies.read_vocabulary(vocabulary, tensor.shape[-1] if tensor else 0)
    if size is not None and not 0 < size <= len(ids):
        raise UsageError(f"-n {size}: {vocabulary} has {len(ids)} ids")
    ids = ids[:size]
    target = target or f"{os.path.splitext(path)[0]}-{len(ids)}.gguf"
    if os.path.dirname(os.path.abspath(target)) != os.path.dirname(os.path.abspath(path)):
        raise UsageError(
            "is not in the folder of the draft model", source=target,
            hint="the two files are used together",
        )  # fmt: skip
    write(path, ids, target, force=force)
    on_disk = output.format_size(os.path.getsize(target))
    output.write(f"{target}: {output.format_number(len(ids))} ids, {on_disk}\n")
    if len(ids) % ROWS_MULTIPLE:
        output.warn(target, [f"{ROWS_MULTIPLE} does not divide {len(ids)}: logits may be rounded"])


def quantize_embeddings(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The GGUF model to speed up.")],
    folder: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the files.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: bool = False,
) -> None:
    """Write an int8 embedding table for id searches.

    The files are quant_embeddings.bin (int8, n_vocab x n_embd), scales.bin (float32, one per row)
    and quant_embeddings.json, which records their origin and hashes.

    \b
    Examples:
      mtkit sx quantize-embeddings model.gguf -o model-sx/
      mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt \\
        --sx-quant-embd model-sx/quant_embeddings.bin --sx-scales model-sx/scales.bin
    """
    from mtkit.commands import output
    from mtkit.commands.inputs import find_model
    from mtkit.errors import UnsupportedError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.values import EMBEDDING, Rows
    from mtkit.speculative import semantic_index

    path = find_model(target)
    file = open_gguf(path)
    if EMBEDDING not in file.names:
        raise UnsupportedError(f"has no {EMBEDDING}", source=path)
    table = Rows(file, file.names[EMBEDDING])
    about = semantic_index.write(table, path, folder, force=force)
    if as_json:
        output.write_json(about)
    else:
        output.write(f"{folder}: {about['n_vocab']} x {about['n_embd']} of {about['tensor']}\n")


app = application()


@app.callback()
def sx() -> None:
    """Prepare, measure and tune speculative decoding (docs/speculation.md).

    \b
    Examples:
      mtkit sx vocab corpus.txt -t model.gguf -n 32768 -o vocab.txt
      mtkit sx tune model.gguf small.gguf --prompts prompts.jsonl -o model.json
      mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt --sx-learn
    """


app.command(name="vocab", also={"n_predict": "--predict --tokens"})(vocab)
app.command(name="prune")(prune)
app.command(name="quantize-embeddings")(quantize_embeddings)
app.command(
    name="bench",
    also={
        "tokens": "--predict --tokens",
        "count": "--prompts",
        "draft": "-md --model-draft",
        "draft_max": "--draft-n",
    },
)(bench)
app.command(name="tune", also={"tokens": "--predict --tokens"})(tune)
