"""``mtkit serve``: answer requests over HTTP."""

from __future__ import annotations

import re
import sys

from mtkit.commands.arguments import read_text_file
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model
from mtkit.commands.options import Option
from mtkit.settings import ServeSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.serve.pool import ModelPool

_AS_ALWAYS = (
    "--jinja --metrics --webui --ui --cont-batching -cb --embedding --embeddings --rerank "
    "--reranking --prefill-assistant"
)
"""llama-server's switches for what is done here in any case."""


OPTIONS = {
    "chat_template": Option(
        "--chat-template",
        "Name of one of llama.cpp's chat templates, or a template as text.",
        "NAME|TEXT",
    ),
    "_as_always": Option(_AS_ALWAYS, "", is_hidden=True),
}


def serve(
    *,
    settings: ServeSettings,
    template: str | None = None,
    chat_template: str | None = None,
    quiet: bool = False,
    _as_always: bool = False,
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
    from mtkit.errors import MissingExtra, UsageError
    from mtkit.llama import log

    try:
        from mtkit.serve.run import serve as run
    except ImportError as error:
        raise MissingExtra(
            f"{error.name} is not installed", hint="pip install 'mtkit[serve,generate]'"
        ) from None
    log.is_shown = settings.verbose
    settings = replace(settings, models=_find_models(settings.models, quiet=quiet))
    if template is not None and chat_template is not None:
        raise UsageError("excludes --chat-template-file", field="--chat-template")
    own = read_text_file(template) if template is not None else chat_template
    if chat_template is not None and re.fullmatch(r"[\w.-]+", chat_template):  # a name
        from mtkit.llama.shared_library import builtin_templates

        if chat_template not in builtin_templates():
            what = f"{chat_template!r} is neither one of llama.cpp's templates nor a template"
            raise UsageError(what, field="--chat-template", hint="use --chat-template-file FILE")

    def listening(address: str, pool: ModelPool) -> None:
        log.is_shown = False
        sys.stderr.write(f"listening on {address}\n")
        if not quiet:
            show_start(settings, pool)

    run(
        settings,
        template=own,
        on_progress=None if quiet else Progress("loading").show,
        on_note=None if quiet else show_note,
        on_death=show_note,
        listening=listening,
    )


command = Command(serve, OPTIONS, ServeSettings)


def _find_models(texts: Sequence[str], *, quiet: bool) -> tuple[str, ...]:
    """Return ``[NAME=]FILE`` for each model."""
    from mtkit.serve.load import split_model

    models = []
    for name, file in map(split_model, texts) if texts else [(None, None)]:
        path = find_model(file, quiet=quiet)
        models.append(f"{name}={path}" if name else path)
    return tuple(models)


def show_note(text: str) -> None:
    """Show a note of the server."""
    from mtkit.commands.terminal import Screen, part

    Screen(stderr=True).line(part("dim", f"note: {text}"))


def show_start(settings: ServeSettings, pool: ModelPool) -> None:
    """Show the models, the slots and who can reach the server."""
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, sticky
    from mtkit.serve.access import hosts_of, is_loopback

    screen, served = Screen(stderr=True), pool.first.served
    assert served is not None
    slots = (
        f"{count_part(settings.slots, 'slot')} of {count_part(served.scheduler.n_slot, 'token')}"
    )
    screen.line(*join_parts([part("name", served.name), sticky(slots)]))
    for model in pool.models[1:]:
        screen.line(*join_parts([part("name", model.name), sticky("loaded on demand")]))
    if all(map(is_loopback, hosts_of(settings))):
        screen.line(part("dim", "Only this machine can reach it; --host with --api-key opens it."))
    else:
        screen.line(part("dim", "Other machines can reach it, with the key."))
    if served.is_chatml:
        screen.line(part("dim", "The model has no chat template: ChatML is used."))
