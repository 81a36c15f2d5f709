"""``mtkit chat``: talk with a GGUF model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mtkit.commands.generate import options as option
from mtkit.commands.options import AS_JSON, application, model_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.dialogue import Dialogue
    from mtkit.llm.generate_settings import GenerateSettings

app = application()


@app.command()
def chat(
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Ask this, print the answer and end.")
    ] = None,
    model: option.MODEL = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="The system message.")
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="FILE", help="Instead of the model's own.")
    ] = None,
    tokens: Annotated[
        int, typer.Option("-n", "--tokens", metavar="N", help="Of an answer; -1: any.")
    ] = -1,
    temperature: option.TEMPERATURE = 0.0,
    top_k: option.TOP_K = 40,
    top_p: option.TOP_P = 0.95,
    min_p: option.MIN_P = 0.05,
    repeat_penalty: option.REPEAT_PENALTY = 1.0,
    seed: option.SEED = None,
    stop: option.STOP = None,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Messages may spell special tokens.")
    ] = False,
    ctx: Annotated[
        int | None, typer.Option("-c", "--ctx", metavar="N", help="Of context; none: up to 4096.")
    ] = None,
    batch: option.BATCH = 512,
    kv_type: option.KV_TYPE = "f16",
    flash_attention: option.FLASH = "on",
    threads: option.THREADS = None,
    wait: option.WAIT = "auto",
    gpu_layers: option.GPU_LAYERS = 0,
    device: option.DEVICE = None,
    tensor_split: option.SPLIT = None,
    mmap: option.MMAP = None,
    backends: option.BACKENDS = None,
    as_json: AS_JSON = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No notes.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="llama.cpp's log.")] = False,
) -> None:
    """Talk with a GGUF model, in the form that its own chat template gives.

    On a terminal: a conversation; /help lists its commands, Ctrl-C stops an answer, Ctrl-D ends.
    In a pipe: JSON messages in (or plain text), one answer out.

    \b
    Examples:
      mtkit chat -m model.gguf --system "Be brief."
      echo '[{"role": "user", "content": "Hello!"}]' | mtkit chat -m model.gguf
    """
    from mtkit.commands.chat import screen as chat_screen
    from mtkit.commands.generate.screen import warn_unused
    from mtkit.llama import ContextSettings, log
    from mtkit.llm.generate_settings import GenerateSettings
    from mtkit.llm.sampler_settings import SamplerSettings

    log.is_shown = verbose
    path = model_named(model)
    settings = GenerateSettings(
        n_predict=tokens,
        n_ctx=ctx,
        load=option.load_of(gpu_layers, device, tensor_split, mmap, backends),
        context=ContextSettings(n_batch=batch, kv_type=kv_type, flash_attention=flash_attention),
        sampler=SamplerSettings(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            seed=option.seed_of(seed),
        ),
        threads=threads,
        wait=wait,
        stops=tuple(stop or ()),
        parse_special=parse_special,
    )
    if not quiet:
        warn_unused(settings.sampler, seed)
    own = option.read_text(template) if template is not None else None
    piped = None
    if message is None and not sys.stdin.isatty():
        piped = option.read_bytes("-")
    with chat_screen.opened(path, settings, own, system) as dialogue:
        log.is_shown = False
        if message is not None or piped is not None:
            _answer_once(dialogue, settings, message, piped, system, as_json=as_json, path=path)
        else:
            chat_screen.Conversation(dialogue, settings, quiet=quiet).run()


def _answer_once(
    dialogue: Dialogue,
    settings: GenerateSettings,
    message: str | None,
    piped: bytes | None,
    system: str | None,
    *,
    as_json: bool,
    path: str,
) -> None:
    """Answer one message, or the messages that came through a pipe."""
    from mtkit.commands import output
    from mtkit.commands.generate.screen import TextOut
    from mtkit.errors import UsageError
    from mtkit.llm.dialogue import read_messages

    if message is not None:
        dialogue.messages.append({"role": "user", "content": message})
    elif piped is not None and piped.lstrip()[:1] in (b"[", b"{"):
        dialogue.replace(read_messages(piped))
        if system is not None:
            dialogue.set_system(system)
    elif piped is not None and piped.strip():
        text = piped.decode("utf-8", "replace").rstrip("\n")
        dialogue.messages.append({"role": "user", "content": text})
    if not dialogue.messages:
        raise UsageError("no messages", hint='[{"role": "user", "content": "Hello!"}] in a pipe')
    out = TextOut()
    for token in dialogue.answer(settings.n_predict, stops=settings.stops):
        if not as_json:
            out.write(token.text)
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.chat/1",
                "model": path,
                "message": dialogue.messages[-1],
                "ids": dialogue.ids,
                "forgotten": dialogue.forgotten,
            }
        )
    else:
        out.end()
