"""``mtkit chat``: talk with a GGUF model."""

from __future__ import annotations

import sys

from mtkit.commands.arguments import read_bytes_file, read_prompt, read_template
from mtkit.commands.command import Command
from mtkit.commands.inputs import check_no_file, find_model
from mtkit.commands.options import CHAT_TEMPLATE, Option
from mtkit.settings import ChatSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.dialogue import Dialogue

_THINKS = {"auto": None, "on": True, "off": False}


OPTIONS = {
    "message": Option("", "Ask this, print the answer and exit.", "MESSAGE"),
    "prompt": Option("-p --prompt", "The message, as an option.", "TEXT"),
    "system": Option("--system", "System message.", "TEXT", "-sys --system-prompt"),
    "reasoning": Option(
        "--reasoning",
        "Switch reasoning on or off, if the chat template can; auto: the template's default.",
        "auto|on|off",
        "-rea",
    ),
    "single_turn": Option("-st --single-turn", "", is_hidden=True),
    "chat_template": CHAT_TEMPLATE,
    "no_history": Option(
        "--no-history", "Neither read nor save the input history.", variable="MTKIT_NO_HISTORY"
    ),
    "timings": Option(
        "--timings", "Print tokens per second after each answer.", also="--show-timings --perf"
    ),
}


def chat(
    message: str | None = None,
    *,
    settings: ChatSettings,
    download: bool = False,
    prompt: str | None = None,
    files: list[str] | None = None,
    system: str | None = None,
    template: str | None = None,
    chat_template: str | None = None,
    reasoning: str = "auto",
    no_history: bool = False,
    as_json: bool = False,
    timings: bool = False,
    single_turn: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Chat with a GGUF model, using its own chat template.

    On a terminal: a conversation; /help lists its commands, Ctrl-C stops an answer, Ctrl-D quits.
    Reasoning is shown dimmed. The temperature is the model's own or 0.8, as in other programs.

    With piped input: JSON messages (or plain text) in, one greedy answer out, without the
    reasoning.

    \b
    Examples:
      mtkit chat -m model.gguf --system "Be brief."
      echo '[{"role": "user", "content": "Hello!"}]' | mtkit chat -m model.gguf
    """
    from mtkit.base.record import replace
    from mtkit.commands.chat import screen as chat_screen
    from mtkit.commands.generation import warn_untrained, warn_unused
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.llama import log

    check_no_file(message, prompt, "chat")
    log.is_shown = verbose
    path = find_model(settings.model, quiet=True, download=download)  # the banner says it
    settings = replace(settings, model=path)
    is_talk = message is None and prompt is None and not files and sys.stdin.isatty()
    if is_talk and single_turn:
        raise UsageError("a single turn has a message", field="-st", hint="-p TEXT")
    sampler = settings.sampler
    if is_talk:
        sampler = sampler.with_own(open_gguf(path).metadata)
    elif "temperature" not in sampler.explicit:
        sampler = replace(sampler, temperature=0.0)
    settings = replace(settings, sampler=sampler)
    if not quiet:
        warn_unused(settings.sampler)
    own = read_template(template, chat_template)
    piped = None
    if prompt is not None or files:
        message = read_prompt(message, prompt, files, command="chat").decode("utf-8", "replace")
    elif message is None and not sys.stdin.isatty():
        piped = read_bytes_file("-")
    if reasoning not in _THINKS:
        raise UsageError(f"--reasoning: {reasoning!r} is not auto, on or off")
    with chat_screen.open_conversation(
        settings, own, system, thinks=_THINKS[reasoning]
    ) as dialogue:
        log.is_shown = False
        if not quiet:
            warn_untrained(dialogue.runner.n_ctx, dialogue.runner.model.n_ctx_train)
        if message is not None or piped is not None:
            _answer_once(dialogue, settings, message, piped, system, as_json=as_json, path=path)
        else:
            talk = chat_screen.Conversation(
                dialogue, settings, quiet=quiet, history=not no_history, timings=timings
            )
            talk.run()


command = Command(chat, OPTIONS, ChatSettings)


def _answer_once(
    dialogue: Dialogue,
    settings: ChatSettings,
    message: str | None,
    piped: bytes | None,
    system: str | None,
    *,
    as_json: bool,
    path: str,
) -> None:
    """Answer one message, or the messages that came through a pipe."""
    from mtkit.commands import output
    from mtkit.commands.generation import TextOutput
    from mtkit.errors import UsageError
    from mtkit.llm.dialogue import read_messages

    if message is not None:
        dialogue.messages.append({"role": "user", "content": dialogue.attached + message})
    elif piped is not None and piped.lstrip()[:1] in (b"[", b"{"):
        if dialogue.attached:
            hint = "or send them as parts of the messages"
            raise UsageError("--image and --audio go with a text", hint=hint)
        dialogue.replace(read_messages(piped))
        if system is not None:
            dialogue.set_system(system)
    elif piped is not None and piped.strip():
        text = piped.decode("utf-8", "replace").rstrip("\n")
        dialogue.messages.append({"role": "user", "content": dialogue.attached + text})
    if not dialogue.messages:
        raise UsageError("no input", hint="run it on a terminal, or pipe in a text or messages")
    out = TextOutput()
    for parts in dialogue.parts(settings.n_predict, stops=settings.stops):
        if not as_json:
            out.write_parts(parts)
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
