"""``mtkit generate``: let a GGUF model continue a text."""

from __future__ import annotations

from mtkit.commands.arguments import read_prompt
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model
from mtkit.commands.options import Option
from mtkit.settings import GenerateSettings

OPTIONS = {
    "text": Option("", "Prompt; - for standard input.", "TEXT"),
    "prompt": Option("-p --prompt", "The prompt, as an option.", "TEXT"),
    "list_devices": Option(
        "--devices", "List the compute devices and exit.", also="--list-devices"
    ),
    "echo": Option("--echo", "Print the prompt first.", also="--display-prompt"),
    "ids": Option("--ids", "Print ids instead of text."),
    "as_jsonl": Option("--jsonl", "Print one JSON line per token."),
    "quiet": Option("-q --quiet", "Print no timings.", also="--no-perf --no-show-timings"),
    "verbose": Option("-v --verbose", "Show model, context, sampler and llama.cpp's log."),
}


def generate(
    text: str | None = None,
    *,
    settings: GenerateSettings,
    prompt: str | None = None,
    files: list[str] | None = None,
    download: bool = False,
    list_devices: bool = False,
    echo: bool = False,
    ids: bool = False,
    as_json: bool = False,
    as_jsonl: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Generate text with a GGUF model; timings go to stderr.

    Without -m, the model is MTKIT_MODEL, the configured model, or the small one that ships with
    mtkit. llama.cpp's spellings of the options work as well (docs/settings.md).

    \b
    Examples:
      mtkit generate "To list files, use"
      mtkit generate "Once upon a time" -m model.gguf -n 200 --temp 0.8 --seed 1
      mtkit generate "A user:" -m model.gguf --json-schema schema.json
      mtkit generate -f code.py -m model.gguf --draft small.gguf --draft-lookup
    """
    from mtkit.llama import log

    log.is_shown = verbose
    if list_devices:
        show_devices(settings.load.backends, as_json=as_json)
        return
    from mtkit.api.generation import run_generation
    from mtkit.base.record import replace
    from mtkit.commands import generation, output
    from mtkit.errors import MtkitError

    is_resumed = settings.load_session is not None
    prompt_bytes = read_prompt(text, prompt, files, command="generate", may_be_none=is_resumed)
    path = find_model(settings.model, quiet=quiet, download=download)
    settings = replace(settings, model=path, logprobs=as_json or as_jsonl)
    form = "json" if as_json else "jsonl" if as_jsonl else "text"
    if not quiet:
        generation.warn_unused(settings.sampler)
    watcher = generation.GenerationScreen(
        echo=echo, verbose=verbose, quiet=quiet, form=form, ids=ids
    )
    try:
        generated = run_generation(prompt_bytes, settings, watcher)
    except (KeyboardInterrupt, MtkitError):
        watcher.out.end()
        raise
    if as_json:
        output.write_json(generation.generation_document(generated, model=path))
    else:
        watcher.out.end()
    if not quiet:
        generation.show_timings(generated.timings)
        if generated.drafting is not None:
            generation.show_drafting(generated.drafting)


command = Command(generate, OPTIONS, GenerateSettings)


def show_devices(backends: str | None, *, as_json: bool) -> None:
    """List the compute devices."""
    from mtkit.commands import output
    from mtkit.commands.output import format_size
    from mtkit.llama import devices, library, system_info

    library(backends=backends)
    device_list = devices()
    if as_json:
        rows = [
            {
                "name": device.name,
                "description": device.description,
                "kind": device.kind,
                "free_bytes": device.free,
                "total_bytes": device.total,
            }
            for device in device_list
        ]
        output.write_json({"schema": "mtkit.devices/1", "devices": rows, "system": system_info()})
        return
    if not output.is_terminal():
        output.write_rows((d.name, d.kind, d.description, d.free, d.total) for d in device_list)
        return
    from mtkit.commands.terminal import Screen, part

    screen = Screen()
    columns = ("device:name", "kind", "what it is", "free>", "memory>")
    sizes = ((d, (format_size(n) if n else "" for n in (d.free, d.total))) for d in device_list)
    screen.table(columns, ((d.name, d.kind, d.description, *both) for d, both in sizes), elastic=2)
    screen.line(part("hint", "--device NAME"), " chooses one, -ngl N puts N layers on GPUs")
