"""``mtkit serve``: answer requests over HTTP."""

from __future__ import annotations

import os
import sys

from mtkit.commands.arguments import read_template
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model
from mtkit.commands.options import CHAT_TEMPLATE
from mtkit.settings import ServeSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.serve.pool import ModelPool

OPTIONS = {
    "chat_template": CHAT_TEMPLATE,
}


def serve(
    *,
    settings: ServeSettings,
    template: str | None = None,
    chat_template: str | None = None,
    download: bool = False,
    quiet: bool = False,
) -> None:
    """Serve GGUF models over HTTP to OpenAI, Anthropic and Ollama clients.

    Up to --slots requests run at the same time; the chat page is at /. Sampling options are
    defaults for requests that do not set them. Each slot gets an equal part of --ctx; without --ctx
    the slots share the trained context size. Ctrl-C stops the server.

    \b
    Examples:
      mtkit serve -m model.gguf
      mtkit serve -m model.gguf -c 16384 --slots 8 --port 0
      mtkit serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt
      mtkit serve -m small=small.gguf -m large=model.gguf --sleep-idle-seconds 600
    """
    from mtkit.base.record import replace
    from mtkit.commands.terminal import Progress
    from mtkit.errors import MissingExtra
    from mtkit.llama import log

    try:
        from mtkit.serve.run import serve as run
    except ImportError as error:
        raise MissingExtra(
            f"{error.name} is not installed", hint="pip install 'mtkit[serve,generate]'"
        ) from None
    log.is_shown = settings.verbose
    models = _find_models(settings.models, alias=settings.alias, quiet=quiet, download=download)
    settings = replace(settings, models=models)
    own = read_template(template, chat_template)

    def listening(address: str, pool: ModelPool) -> None:
        log.is_shown = False
        sys.stderr.write(f"listening on {address}\n")
        if not quiet:
            show_start(settings, pool, address)

    run(
        settings,
        template=own,
        on_progress=None if quiet else Progress("loading").show,
        on_note=None if quiet else show_note,
        on_death=show_note,
        listening=listening,
    )


command = Command(serve, OPTIONS, ServeSettings)


def _find_models(
    texts: Sequence[str], *, alias: str | None, quiet: bool, download: bool
) -> tuple[str, ...]:
    """Return ``[NAME=]FILE`` for each model."""
    from mtkit.serve.load import split_model
    from mtkit.sources.stores import OLLAMA

    models = []
    for name, file in map(split_model, texts) if texts else [(None, None)]:
        path = find_model(file, quiet=quiet, download=download)
        if file and not (name or alias) and os.path.basename(path).startswith("sha256-"):
            name = file.rpartition("/")[2].removeprefix(OLLAMA)  # what Ollama calls its blob
        models.append(f"{name}={path}" if name else path)
    return tuple(models)


def show_note(text: str) -> None:
    """Show a note of the server."""
    from mtkit.commands.terminal import Screen, part

    Screen(stderr=True).line(part("dim", f"note: {text}"))


def show_start(settings: ServeSettings, pool: ModelPool, address: str) -> None:
    """Show the models, the slots, what is where and who can reach the server."""
    from mtkit.commands.generation import warn_untrained
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, sticky
    from mtkit.serve.access import hosts_of, is_loopback
    from mtkit.speculative.setup import is_drafting

    screen, served = Screen(stderr=True), pool.first.served
    assert served is not None
    slots = (
        f"{count_part(settings.slots, 'slot')} of {count_part(served.scheduler.n_slot, 'token')}"
    )
    projector = pool.first.header.projector
    senses = map(sticky, projector.senses if projector is not None else ())
    screen.line(*join_parts([part("name", served.name), sticky(slots), *senses]))
    if projector is not None and is_drafting(settings.drafting):
        screen.line(part("dim", "Drafting pauses in answers about pictures and sounds."))
    warn_untrained(served.scheduler.n_slot, pool.first.header.n_ctx_train or 0)
    for model in pool.models[1:]:
        screen.line(*join_parts([part("name", model.name), sticky("loaded on demand")]))
    page = [sticky(f"chat page: {address}")] if settings.webui else []
    screen.line(*join_parts([*page, sticky(f"OpenAI's API: {address}/v1")]))
    if all(map(is_loopback, hosts_of(settings))):
        screen.line(part("dim", "Only this machine can reach it; --host with --api-key opens it."))
    else:
        screen.line(part("dim", "Other machines can reach it, with the key."))
    if served.is_chatml:
        screen.line(part("dim", "The model has no chat template: ChatML is used."))
