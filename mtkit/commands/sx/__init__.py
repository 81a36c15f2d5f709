"""``mtkit sx``: what ShenXing needs before it drafts, a command each; the small ones are here.

``vocab`` finds the ids that are worth proposing, ``prune`` cuts a draft to them, and
``quantize-embeddings`` makes the table that is searched for ids like an unknown one.
"""

from __future__ import annotations

from mtkit.commands.command import Command, Group
from mtkit.commands.options import FORCE_FILES, Option
from mtkit.commands.sx.bench import command as bench
from mtkit.commands.sx.tune import command as tune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator


_SIZES = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)


_VOCAB = {
    "files": Option("", "Text files in UTF-8.", "[FILE]..."),
    "target": Option("-t --target", "The GGUF model to speed up.", "TARGET"),
    "size": Option("-n", "Number of ids.", "N"),
    "freq": Option("--freq", "File written by `corpus count`. Repeatable.", "FILE"),
    "prompts": Option("--prompts", "Count TARGET's answers to the prompts in this file.", "FILE"),
    "n_predict": Option(
        "--n-predict", "Maximum number of tokens per answer.", "N", "--predict --tokens", low=1
    ),
    "output_file": Option("-o --output", "File for the ids.", "FILE"),
}


def vocab(
    files: list[str] | None = None,
    *,
    target: str,
    size: int = 32_768,
    freq: list[str] | None = None,
    prompts: str | None = None,
    n_predict: int = 128,
    output_file: str | None = None,
    force: bool = False,
    plot: str | None = None,
    as_json: bool = False,
) -> None:
    """Find the most frequent ids for a draft model.

    The counts come from texts, from files of counts, or from the model's own answers, which are the
    best source: a language that is not in the texts will hardly be proposed. End-of-text, byte and
    control tokens are always included. A line of --prompts is a text (\\n: line break), or JSON
    with "prompt". The output shows how much of each source the first 1,024 ids and more cover: with
    one text per language, how well each language is served.

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
        name: [frequencies.coverage(counter, ids[:n]) for n in sizes]
        for name, counter in counts.items()
    }
    if plot is not None:
        curves = {os.path.basename(name): parts for name, parts in covered.items()}
        plots.plot_coverage(sizes, curves, plot)
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


_PRUNE = {
    "draft": Option("", "Draft model, as GGUF.", "DRAFT"),
    "vocabulary": Option("--vocab", "File with ids, as sx vocab writes it.", "FILE"),
    "target": Option("-o --output", "File next to DRAFT; default: DRAFT-N.gguf.", "FILE"),
    "size": Option("-n", "Use only the first N ids.", "N"),
}


def prune(
    draft: str,
    vocabulary: str,
    target: str | None = None,
    size: int | None = None,
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


_QUANTIZE_EMBEDDINGS = {
    "folder": Option("-o --output", "Folder for the files.", "FOLDER"),
    "force": FORCE_FILES,
}


def quantize_embeddings(
    target: str,
    folder: str,
    force: bool = False,
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


_TEXT = """Prepare, measure and tune speculative decoding (docs/speculation.md).

\b
Examples:
  mtkit sx vocab corpus.txt -t model.gguf -n 32768 -o vocab.txt
  mtkit sx tune model.gguf small.gguf --prompts prompts.jsonl -o model.json
  mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt --sx-learn
"""
command = Group(
    _TEXT,
    {
        "vocab": Command(vocab, _VOCAB),
        "prune": Command(prune, _PRUNE),
        "quantize-embeddings": Command(quantize_embeddings, _QUANTIZE_EMBEDDINGS),
        "bench": bench,
        "tune": tune,
    },
)
