"""The conversation of ``mtkit chat`` on a terminal."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from shutil import get_terminal_size
from time import perf_counter

from mtkit.base.escape import printable
from mtkit.commands import output
from mtkit.commands.chat.sampling import changed, described
from mtkit.commands.chat.wrapping import Wrapping
from mtkit.commands.generate.screen import TextOut, folded, note
from mtkit.commands.progress import Progress
from mtkit.errors import MtkitError, UsageError
from mtkit.llm.dialogue import Dialogue, read_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.llm.runner import Runner
    from mtkit.settings import AnswerSettings, SamplerSettings

_DEFAULT_CTX = 4096
_HISTORY_LINES = 1000
_BLOCK = '"""'
_HELP = """\
/help            this list
/system TEXT     set the system message; without TEXT: show it
/reset, /clear   forget the conversation
/regen           answer the last message again
/set NAME VALUE  change the sampling: /set temp 0.2, /set top-k 20; /set shows it
/timings         show tokens per second after each answer, or hide them
/save FILE       write the conversation as JSON
/load FILE       continue a conversation from a file
/quit, /bye      leave, as does Ctrl-D
\\ at the end     the message continues on the next line
\"\"\"              begins and ends a message of several lines; pasting needs none
Ctrl-C           stop an answer
"""


@contextmanager
def opened(
    settings: AnswerSettings,
    template: str | None,
    system: str | None,
    *,
    thinks: bool | None = None,
) -> Iterator[Dialogue]:
    """Load a model for a conversation, and free it at the end."""
    from mtkit.llm.open_model import open_model
    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative import opening

    settings = opening.prepared(settings)
    with (
        open_model(settings, Progress("loading").show, n_ctx=_DEFAULT_CTX) as runner,
        ExitStack() as stack,
    ):
        if template is None:
            found = runner.header.file.metadata.get("tokenizer.chat_template")
            template = found if isinstance(found, str) else None
        by_rejection = opening.by_rejection(settings)
        context = runner.open_context()
        sampler = stack.enter_context(
            Sampler(context, settings.sampler, distributions=by_rejection)
        )
        speculation = opening.open_speculation(runner, settings, sampler.seed)
        if speculation is not None:
            stack.callback(speculation.close)
        dialogue = Dialogue(
            runner, sampler, template, system=system, parse_special=settings.parse_special,
            speculation=speculation, thinks=thinks,
        )  # fmt: skip
        stack.callback(dialogue.close)
        yield dialogue


class Conversation:
    """Reads lines, answers them, and obeys the commands among them."""

    def __init__(
        self, dialogue: Dialogue, settings: AnswerSettings, *, quiet: bool, history: bool = True,
        timings: bool = False,
    ) -> None:  # fmt: skip
        self._dialogue, self._history = dialogue, history
        self._settings = settings
        self._quiet, self._timings = quiet, timings
        self._own_files: set[str] = set()

    def run(self) -> None:
        """Talk until the input ends."""
        with _editing(keeps=self._history):
            if not self._quiet:
                _show_banner(self._dialogue.runner, self._settings.sampler)
            while True:
                try:
                    text = _read_message()
                except EOFError:
                    sys.stderr.write("\n")
                    return
                except KeyboardInterrupt:  # what was typed is dropped, nothing else
                    sys.stderr.write("\n")
                    continue
                if not text.strip():
                    continue
                if text in ("/quit", "/exit", "/bye"):
                    return
                try:
                    self._obey(text) if text.startswith("/") else self._answer(text)
                except (MtkitError, OSError) as error:
                    note(str(error))
                except KeyboardInterrupt:
                    note("interrupted")

    def _answer(self, text: str) -> None:
        dialogue = self._dialogue
        before = signal.signal(signal.SIGINT, dialogue.stop)
        dialogue.messages.append({"role": "user", "content": text})
        count = len(dialogue.messages)
        wraps = sys.stdout.isatty()
        out = TextOut(Wrapping(get_terminal_size().columns).push if wraps else None)
        first = 0.0
        try:
            for parts in dialogue.parts(self._settings.n_predict, stops=self._settings.stops):
                first = first or perf_counter()
                out.write_parts(parts)
            out.end()
        except MtkitError:
            del dialogue.messages[count - 1 :]  # as if it had not been asked
            out.end()
            raise
        finally:
            signal.signal(signal.SIGINT, before)
        if self._timings and len(dialogue.ids) > 1:
            seconds = perf_counter() - first
            rate = (len(dialogue.ids) - 1) / seconds  # the time before the first is the prompt's
            note(f"{len(dialogue.ids)} tokens, {rate:.1f} tokens/s")
        if self._quiet:
            return
        if dialogue.forgotten:
            note(f"the context is full: the oldest {dialogue.forgotten} messages were left out")
        if dialogue.end == "interrupted":
            note("stopped")

    def _obey(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        rest = rest.strip()
        dialogue = self._dialogue
        if name == "/help":
            sys.stderr.writelines(folded(line, 17) + "\n" for line in _HELP.splitlines())
        elif name in ("/reset", "/clear"):
            dialogue.reset()
            note("forgotten")
        elif name == "/regen":
            self._answer_again()
        elif name == "/set":
            self._set(rest)
        elif name == "/timings":
            self._timings = not self._timings
            note(f"timings are {'shown' if self._timings else 'hidden'}")
        elif name == "/system":
            if rest:
                dialogue.set_system(rest)
            first = dialogue.messages[0] if dialogue.messages else {}
            shown = first.get("content") if first.get("role") == "system" else None
            note(f"system message: {shown or 'none'}")
        elif name == "/save":
            self._save(_path(rest))
        elif name == "/load":
            path = _path(rest)
            from mtkit.commands.arguments import read_bytes

            try:
                dialogue.replace(read_messages(read_bytes(path)))
            except MtkitError as error:
                raise error.located(path) from None
            self._own_files.add(path)
            note(f"{len(dialogue.messages)} messages")
        else:
            raise UsageError(f"there is no command {name}", hint="/help lists them")

    def _answer_again(self) -> None:
        messages = self._dialogue.messages
        last = max((at for at, one in enumerate(messages) if one["role"] == "user"), default=None)
        if last is None:
            raise UsageError("there is no message to answer again")
        text = messages[last].get("content") or ""
        del messages[last:]
        self._answer(text)

    def _set(self, text: str) -> None:
        """Change one setting of the sampler, or show those that people change."""
        from mtkit.base.record import replace
        from mtkit.llm.sampling import Sampler

        dialogue, sampler = self._dialogue, self._settings.sampler
        name, _, value = text.replace("=", " ").partition(" ")
        if name:
            if dialogue.speculates:
                raise UsageError("with a draft, sampling is fixed", hint="start again with --temp")
            sampler = changed(sampler, name.lstrip("-"), value.strip())
            context = dialogue.runner.context
            assert context is not None
            new = Sampler(context, sampler)
            dialogue.sampler.close()
            dialogue.sampler = new
            self._settings = replace(self._settings, sampler=sampler)
        note(described(sampler))

    def _save(self, path: str) -> None:
        import json

        from mtkit.base.whole_files import write_files

        text = json.dumps(self._dialogue.messages, ensure_ascii=False, indent=1) + "\n"
        # A conversation may be saved again to the file that it came from.
        is_asked = os.path.exists(path) and path not in self._own_files
        if is_asked and not _line(f"replace {printable(path)}? [y/N] ").lower().startswith("y"):
            note("not saved")
            return
        write_files({path: text.encode()}, force=True)
        self._own_files.add(path)
        note(f"saved to {path}")


def _show_banner(runner: Runner, sampler: SamplerSettings) -> None:
    """Say which model it is, how it chooses, and how to stop and leave."""
    from mtkit.commands.terminal import Screen, count, joined, part, sticky
    from mtkit.inspection.gguf import file_type_name
    from mtkit.sources.locate import MODEL, shipped

    screen = Screen(stderr=True)
    if runner.model.path == shipped(MODEL):
        what = part("name", "mtkit's demonstration model")
        screen.line(what, ": it shows how a chat works, but knows nothing.")
        screen.line("A real one: ", part("hint", sticky("mtkit chat -m MODEL.gguf")))
    else:
        name = runner.header.file.metadata.get("general.name")
        shown = name if isinstance(name, str) and name else os.path.basename(runner.model.path)
        context = sticky(f"{count(runner.n_ctx, 'token')} of context")
        kind = file_type_name(runner.header.file)
        warmth = sticky(f"temperature {sampler.temperature:g}")
        screen.line(*joined([part("name", shown), kind, context, warmth]))
    keys = ("/help lists the commands", "Ctrl-C stops an answer", "Ctrl-D leaves")
    screen.line(*joined([part("dim", sticky(key)) for key in keys]))


def _path(text: str) -> str:
    if not text:
        raise UsageError("name a file", hint="/save FILE, /load FILE")
    return os.path.expanduser(text)


def _read_message() -> str:
    """Read a message: a line, lines that end with a backslash, or a block."""
    line = _line("> ")
    if line.startswith(_BLOCK):
        lines = [line[len(_BLOCK) :]]
        while not lines[-1].endswith(_BLOCK) or lines == [""]:
            lines.append(_line("… "))
        lines[-1] = lines[-1].removesuffix(_BLOCK)
        return "\n".join(lines).strip("\n")
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(_line("… "))
    return "\n".join(lines)


def _line(prompt: str) -> str:
    if output.wants_color():
        # readline has to know which characters take no room.
        prompt = f"\001\x1b[1m\002{prompt}\001\x1b[0m\002"
    return input(prompt).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def _editing(*, keeps: bool) -> Iterator[None]:
    """Edit lines with readline where there is one; keep them in a file of the user's or not."""
    try:
        import readline

        readline.parse_and_bind("set enable-bracketed-paste on")  # Python switches it off
    except ImportError:
        keeps = False
    if not keeps:
        yield
        return
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = os.path.join(base, "mtkit", "chat_history")
    readline.set_history_length(_HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            readline.write_history_file(path)
