"""Options that the commands which run a model share, and what they become."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Annotated

import typer

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.llama import LoadSettings
    from mtkit.llm.runner import Runner

MODEL = Annotated[
    str | None,
    typer.Option("-m", "--model", metavar="GGUF", help="File or folder; none: the small one."),
]
N_PREDICT = Annotated[
    int, typer.Option("-n", "--tokens", metavar="N", help="Tokens at most; -1: until the end.")
]
CTX = Annotated[
    int | None,
    typer.Option("-c", "--ctx", metavar="N", help="Tokens of context; none: what it needs."),
]
BATCH = Annotated[int, typer.Option("--batch", metavar="N", help="Tokens given at once.")]
UBATCH = Annotated[int, typer.Option("--ubatch", metavar="N", help="Tokens computed at once.")]
KV_TYPE = Annotated[
    str, typer.Option("--kv-type", metavar="TYPE", help="Of keys and values: f16, bf16, q8_0 …")
]
FLASH = Annotated[
    str, typer.Option("--flash-attention", metavar="on|off|auto", help="Attention in one kernel.")
]
THREADS = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="Threads; none: measured.")
]
WAIT = Annotated[
    str,
    typer.Option("--wait", metavar="POLICY", help="Threads wait: auto, active, passive, default."),
]
GPU_LAYERS = Annotated[
    int, typer.Option("-ngl", "--gpu-layers", metavar="N", help="Layers on GPUs; -1: all.")
]
DEVICE = Annotated[
    list[str] | None, typer.Option("--device", metavar="NAME", help="Use it. Repeatable.")
]
SPLIT = Annotated[
    str | None, typer.Option("--tensor-split", metavar="A,B", help="Share of each GPU.")
]
MMAP = Annotated[
    bool | None, typer.Option("--mmap/--no-mmap", help="Map the file instead of reading it.")
]
BACKENDS = Annotated[
    str | None, typer.Option("--backends", metavar="DIR", help="Folder of more back ends.")
]
TEMPERATURE = Annotated[
    float, typer.Option("--temp", metavar="T", help="0: the most likely always.")
]
TOP_K = Annotated[int, typer.Option("--top-k", metavar="K", help="Keep the K most likely; 0: all.")]
TOP_P = Annotated[
    float, typer.Option("--top-p", metavar="P", help="Keep this probability; 1: all.")
]
MIN_P = Annotated[
    float, typer.Option("--min-p", metavar="P", help="Keep this part of the highest.")
]
REPEAT_PENALTY = Annotated[float, typer.Option("--repeat-penalty", metavar="X", help="1: none.")]
STOP = Annotated[
    list[str] | None, typer.Option("--stop", metavar="TEXT", help="End there. Repeatable.")
]
SEED = Annotated[int | None, typer.Option("--seed", metavar="N", help="Of the random numbers.")]


def load_of(
    gpu_layers: int,
    device: list[str] | None,
    tensor_split: str | None,
    mmap: bool | None,
    backends: str | None,
) -> LoadSettings:
    """Return how the model is loaded."""
    from mtkit.llama import LoadSettings

    return LoadSettings(
        gpu_layers=gpu_layers,
        devices=tuple(device or ()),
        tensor_split=_split_of(tensor_split),
        mmap=mmap,
        backends=backends,
    )


def _split_of(text: str | None) -> tuple[float, ...]:
    """Return the parts of ``--tensor-split``."""
    if text is None:
        return ()
    try:
        parts = tuple(float(part) for part in text.split(","))
    except ValueError:
        parts = ()
    if not parts or any(not 0 <= part < float("inf") for part in parts):
        raise UsageError(f"--tensor-split {text}: is not numbers with commas", hint="as in 3,1")
    return parts


def biases_of(texts: list[str] | None) -> tuple[tuple[str, float], ...]:
    """Return what is named and the value of each ``--logit-bias``."""
    found: list[tuple[str, float]] = []
    for text in texts or ():
        name, _, value = text.rpartition("=")
        try:
            amount = float("-inf") if value == "false" else float(value)
        except ValueError:
            amount = float("nan")
        if not name or not amount < float("inf"):
            raise UsageError(f"--logit-bias {text}: is not ID=NUMBER or TEXT=NUMBER")
        found.append((name, amount))
    return tuple(found)


def grammar_of(grammar: str | None) -> str | None:
    """Return a grammar: a file's content, or the text itself."""
    if grammar is None or "::=" in grammar:
        return grammar
    return read_text(grammar)


def schema_of(schema: str | None) -> str | None:
    """Return a JSON schema: a file's content, or the text itself."""
    if schema is None or schema.lstrip().startswith("{"):
        return schema
    return read_text(schema)


def read_text(path: str) -> str:
    """Return a file's content as text; - is standard input."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: str) -> bytes:
    """Return a file's content; - is standard input."""
    from mtkit.base.binary import Source

    return bytes(Source.open(path).data)


def number(value: float | None) -> float | None:
    """Return a number as JSON has it: None for what is no number or infinite."""
    return value if value is not None and abs(value) < float("inf") else None


def seed_of(seed: int | None) -> int:
    """Return the seed that was given, or one that nobody knows."""
    return int.from_bytes(os.urandom(4), "little") if seed is None else seed


def prompt_of(prompt: str | None, file: str | None, *, may_be_none: bool = False) -> bytes:
    """Return the prompt: the argument, a file, or what comes through a pipe.

    One line break at the end of a file or a pipe is left out, as llama.cpp's tools do: nobody
    means it.
    """
    if prompt is None and file is None and may_be_none:
        return b""
    if prompt is not None and file is not None:
        raise UsageError("give a prompt or --file, not both")
    if file is not None:
        return read_bytes(file).removesuffix(b"\n")
    if prompt is None and sys.stdin.isatty():
        raise UsageError("no prompt", hint='mtkit generate "Once upon a time" or --file FILE')
    if prompt is None or prompt == "-":
        return read_bytes("-").removesuffix(b"\n")
    return prompt.encode("utf-8", "surrogateescape")


@contextmanager
def opened(
    path: str,
    *,
    text: bytes | None = None,
    add_special: bool = True,
    n_ctx: int | None = None,
    most_ctx: int = 512,
    batch: int = 512,
    kv_type: str = "f16",
    flash_attention: str = "on",
    threads: int | None = None,
    wait: str = "auto",
    gpu_layers: int = 0,
) -> Iterator[Runner]:
    """Load a model and open a context for a text, or of ``most_ctx`` tokens at most."""
    from mtkit.base.record import replace
    from mtkit.commands.progress import Progress
    from mtkit.llama import ContextSettings, LoadSettings
    from mtkit.llm.generate import plan_settings
    from mtkit.llm.generate_settings import GenerateSettings
    from mtkit.llm.preflight import ModelHeader
    from mtkit.llm.runner import Runner
    from mtkit.llm.threads import choose_waiting

    context = ContextSettings(n_batch=batch, kv_type=kv_type, flash_attention=flash_attention)
    settings = GenerateSettings(context=context, load=LoadSettings(gpu_layers=gpu_layers))
    header = ModelHeader(path)
    header.check(plan_settings(settings, n_ctx or most_ctx))
    choose_waiting(wait)
    bar = Progress("loading")
    with Runner(path, settings.load, progress=bar.show) as runner:
        bar.end()
        if n_ctx is None:
            n_ctx = min(most_ctx, runner.model.n_ctx_train or most_ctx)
        if text is not None:
            n_ctx = max(len(runner.model.tokenize(text, add_special=add_special)), 1)
            header.check(plan_settings(settings, n_ctx))
        runner.open_context(replace(context, n_ctx=n_ctx), threads=threads)
        yield runner
