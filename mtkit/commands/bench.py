"""``mtkit bench``: how fast a tokenizer, or a model, is on this machine."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.options import Option, parse_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from mtkit.llm.speed import ModelSpeed
    from mtkit.tokenizer.speed import TextSpeed

    T = TypeVar("T")

_FORMS = ("md", "csv", "json")

OPTIONS = {
    "texts": Option(
        "", "Text files; - for standard input; default: texts that come with Python.", "[TEXT]..."
    ),
    "tokenizer": Option(
        "-t --tokenizer", "Tokenizer: file, folder or ORG/NAME; - for standard input.", "NAME"
    ),
    "rounds": Option("--rounds", "Number of rounds.", "N", low=1),
    "size": Option("--size", "Read at most this much of each text, such as 200k.", "BYTES"),
    "model": Option(
        "-m --model",
        "Measure a model, as llama-bench does, and not a tokenizer.",
        "GGUF",
        also="-hf -hfr --hf-repo",
    ),
    "prompts": Option("-p --n-prompt", "Sizes of prompts in tokens; 0: none.", "N,..."),
    "answers": Option("-n --n-gen", "Numbers of single tokens; 0: none.", "N,..."),
    "threads": Option("--threads", "Numbers of threads; default: measured.", "N,..."),
    "kv_types": Option(
        "--kv-type", "Types of the KV cache.", "TYPE,...", also="-ctk --cache-type-k"
    ),
    "gpu_layers": Option(
        "-ngl --gpu-layers", "Layers to offload to GPUs; -1: all.", "N", also="--n-gpu-layers"
    ),
    "form": Option("-o --output", "Print the model's figures as md, csv or json.", "FORM"),
}


def bench(
    texts: list[str] | None = None,
    tokenizer: str | None = None,
    rounds: int = 5,
    size: str = "1M",
    model: str | None = None,
    prompts: str = "512",
    answers: str = "128",
    threads: str | None = None,
    kv_types: str = "f16",
    gpu_layers: int = 0,
    form: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Measure how fast a tokenizer loads, encodes and decodes; with -m, how fast a model runs.

    fresh: a text that the tokenizer has not seen; again: the same text a second time; decode: all
    of its ids. Times are CPU time, the median of the rounds. Loading includes the ids of one word.
    The documentation compares mtkit with other libraries (docs/performance.md).

    With -m: pp512 is a prompt of 512 tokens, tg128 are 128 tokens one after the other; tokens per
    second, mean and standard deviation of the rounds, by the clock.

    Piped output: what, text, figure, unit; of a model: test, threads, KV type, mean, deviation.

    \b
    Examples:
      mtkit bench
      mtkit bench -t tokenizer.json corpus.txt
      mtkit bench -t qwen3/ corpus.txt --size 10M --json
      mtkit bench -m model.gguf -p 128,512 -n 64 --threads 1,2 -o md
    """
    from mtkit.commands import output
    from mtkit.commands.inputs import load_tokenizer
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.tokenizer.load import load
    from mtkit.tokenizer.speed import measure, texts_of

    if model is not None:
        if texts or tokenizer:
            hint = "--threads N sets threads" if (tokenizer or "").isdigit() else ""
            what = "measures a model, without a text or tokenizer"
            raise UsageError(what, field="-m", hint=hint)
        _measure_model(
            model,
            [("pp", n) for n in _list(prompts, "-p", _count) if n]
            + [("tg", n) for n in _list(answers, "-n", _count) if n],
            _list(threads, "--threads", _count) if threads else [None],
            _list(kv_types, "--kv-type", str),
            gpu_layers=gpu_layers, rounds=rounds, form="json" if as_json else form,
            download=download,
        )  # fmt: skip
        return
    if form is not None:
        raise UsageError("is for a model", field="-o", hint="give one with -m")
    if tokenizer == "-":
        hint = "save it as a file"
        raise UsageError("a pipe cannot be loaded several times", field="-t -", hint=hint)
    samples = texts_of(texts or [], parse_bytes(size, "--size"))
    subject = load_tokenizer(tokenizer, download=download)
    progress = Progress("measuring").show
    seconds, speeds = measure(lambda: load(tokenizer), samples, rounds, progress)
    if as_json:
        from mtkit._version import __version__

        output.write_json(
            {
                "schema": "mtkit.bench/1",
                "mtkit": __version__,
                "tokenizer": subject.source,
                "format": subject.format_name,
                "rounds": rounds,
                "load_seconds": seconds,
                "texts": [_document(speed) for speed in speeds],
            }
        )
        return
    load_ms = f"{seconds * 1e3:.3g}"
    if not output.is_terminal():
        output.write_rows([("load", "", load_ms, "ms")])
        for speed in speeds:
            output.write_rows(
                (what, speed.name, figure, "MB/s") for what, figure in _figures(speed).items()
            )
        return
    from mtkit.commands.terminal import Screen, part

    screen = Screen()
    screen.line(part("name", subject.source), f"  loaded in {load_ms} ms")
    columns = ("MB/s", *(f"{name}>" for name in _figures(speeds[0])))
    screen.table(columns, [[speed.name, *_figures(speed).values()] for speed in speeds])


command = Command(bench, OPTIONS)


def _figures(speed: TextSpeed) -> dict[str, str]:
    """Return megabytes of text a second; empty if the clock is too coarse for a short text."""
    costs = {"fresh": speed.fresh, "again": speed.again, "decode": speed.decode}
    return {
        name: f"{speed.n_bytes / seconds / 1e6:.3g}" if seconds else ""
        for name, seconds in costs.items()
    }


def _document(speed: TextSpeed) -> dict[str, object]:
    return {
        "name": speed.name,
        "bytes": speed.n_bytes,
        "ids": speed.n_ids,
        "fresh_seconds": speed.fresh,
        "again_seconds": speed.again,
        "decode_seconds": speed.decode,
    }


def _list(text: str, option: str, read: Callable[[str], T]) -> list[T]:
    from mtkit.errors import UsageError

    try:
        return [read(word) for word in text.split(",")]
    except ValueError:
        what = f"is {text!r}, not numbers separated by commas"
        raise UsageError(what, field=option) from None


def _count(word: str) -> int:
    number = int(word)
    if not 0 <= number < 1 << 24:
        raise ValueError(word)
    return number


def _measure_model(
    model: str,
    tests: list[tuple[str, int]],
    threads: list[int] | list[None],
    kv_types: list[str],
    *,
    gpu_layers: int,
    rounds: int,
    form: str | None,
    download: bool,
) -> None:
    from mtkit.commands import output
    from mtkit.commands.inputs import find_model
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.llm.runner import open_model
    from mtkit.llm.speed import measure_model
    from mtkit.memory_plan.cache import KV_TYPES
    from mtkit.settings import ModelSettings
    from mtkit.settings.declaration import settings_of

    if form is not None and form not in _FORMS:
        raise UsageError(f"is {form!r}, not one of {', '.join(_FORMS)}", field="-o")
    if not tests:
        raise UsageError("there is nothing to measure", hint="-p 512 -n 128")
    path = find_model(model, download=download)
    wrong = [kind for kind in kv_types if kind not in KV_TYPES]
    if wrong:
        what = f"is {wrong[0]!r}, not one of {', '.join(KV_TYPES)}"
        raise UsageError(what, field="--kv-type")
    settings = settings_of(ModelSettings, {"model": path, "gpu_layers": gpu_layers})
    most = max(count for _, count in tests)
    with open_model(settings, Progress("loading").show, n_ctx=most) as runner:
        progress = Progress("measuring").show
        speeds = measure_model(runner, tests, threads, kv_types, rounds, progress)
        n_bytes = sum(tensor.n_bytes for tensor in runner.header.tensors)
        parameters = sum(tensor.n_elements for tensor in runner.header.tensors)
    if form == "json":
        from mtkit._version import __version__

        output.write_json(
            {
                "schema": "mtkit.bench-model/1", "mtkit": __version__, "model": path,
                "bytes": n_bytes, "parameters": parameters, "gpu_layers": gpu_layers,
                "tests": [
                    {
                        "test": speed.test, "threads": speed.threads, "kv_type": speed.kv_type,
                        "rates": list(speed.rates), "mean": speed.mean,
                        "deviation": speed.deviation,
                    }
                    for speed in speeds
                ],
            }
        )  # fmt: skip
    else:
        _show_speeds(path, n_bytes, parameters, speeds, form)


def _show_speeds(
    path: str, n_bytes: int, parameters: int, speeds: list[ModelSpeed], form: str | None
) -> None:
    from os.path import basename

    from mtkit.commands import output
    from mtkit.commands.terminal import Screen, join_parts, part, size_part, sticky

    names = ("test", "threads", "KV", "tokens/s", "±")
    rows = [
        (s.test, str(s.threads), s.kv_type, f"{s.mean:.2f}", f"{s.deviation:.2f}") for s in speeds
    ]
    model = basename(path)
    if form == "md":
        lines = [f"| model | {' | '.join(names)} |", "|---|---|---:|---|---:|---:|"]
        lines += [f"| {model} | {' | '.join(row)} |" for row in rows]
        output.write("\n".join(lines) + "\n")
    elif form == "csv":
        name = '"' + model.replace('"', '""') + '"'
        lines = ["model,bytes,parameters,test,threads,kv_type,mean,deviation"]
        lines += [",".join((name, str(n_bytes), str(parameters), *row)) for row in rows]
        output.write("\n".join(lines) + "\n")
    elif output.is_terminal():
        screen = Screen()
        size = sticky(f"{output.format_amount(parameters)} parameters")
        screen.line(*join_parts([part("name", model), size_part(n_bytes), size]))
        screen.table(("test", "threads>", "KV", "tokens/s>", "±>"), rows)
    else:
        output.write_rows(rows)
