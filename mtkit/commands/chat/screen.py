"""The conversation of ``mtkit chat`` on a terminal: its lines, its commands, its answers.

Tokens are chosen as llama.cpp and Ollama choose them by default. Lines are broken between words
while the text comes piece by piece.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from time import perf_counter
from urllib.parse import unquote

from rich.cells import cell_len

from mtkit.base.escape import printable
from mtkit.base.record import replace
from mtkit.commands import output
from mtkit.commands.generation import TextOutput, fold_line, write_note
from mtkit.commands.terminal import Progress, columns
from mtkit.errors import MtkitError, UsageError
from mtkit.llm.dialogue import Dialogue, read_messages
from mtkit.llm.media import read_checked
from mtkit.settings import SamplerSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.llama.media import Kind
    from mtkit.llm.runner import Runner
    from mtkit.settings import AnswerSettings


_SHOWN = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")


def change_sampler(settings: SamplerSettings, name: str, value: str) -> SamplerSettings:
    """Return settings of which one is changed, as typed."""
    names = {
        spelling.lstrip("-").replace("-", "_"): setting
        for setting in settings.declared.values()
        if isinstance(setting.default, (int, float)) or setting.name == "seed"
        for spelling in (*(setting.options or ()), *setting.also)
    }
    setting = names.get(name.replace("-", "_"))
    if setting is None:
        hint = f"such as {', '.join(_SPELLED)}; --ctx and --reasoning are options of mtkit chat"
        raise UsageError(f"there is no setting {name}", hint=hint)
    kind = float if isinstance(setting.default, float) else int
    try:
        return replace(settings, **{setting.name: kind(value)})
    except ValueError:
        raise UsageError(f"{value!r} is not a number", field=name) from None


def describe_sampler(settings: SamplerSettings) -> str:
    """Return the settings that people change, in a line."""
    values = zip(_SPELLED, (getattr(settings, name) for name in _SHOWN), strict=True)
    return ", ".join(f"{name} {value}" for name, value in values if value is not None)


_SPELLED = [SamplerSettings.declared[name].options[-1].lstrip("-") for name in _SHOWN]


_FENCE = "```"


class LineWrapper:
    """Moves the word that does not fit a line to the next one; code between fences stays.

    The last column stays free: a cursor there is in different places for different terminals.
    """

    def __init__(self, width: int) -> None:
        """Begin at the start of a line."""
        self._room = width - 1
        self._line = ""
        self._word = ""
        self._used = 0
        self._is_code = False

    def push(self, text: str) -> str:
        """Return a text with line breaks, and with what takes back a word that was begun."""
        return "".join(map(self._push, text))

    def _push(self, letter: str) -> str:
        if letter == "\n":
            self._is_code ^= self._line.lstrip().startswith(_FENCE)
            self._line = self._word = ""
            self._used = 0
            return letter
        self._line += letter
        width = cell_len(letter)
        if self._is_code or self._used + width <= self._room:
            self._used += width
            self._word = "" if letter.isspace() or width > 1 else self._word + letter
            return letter
        if letter.isspace():  # the line ends here anyway
            self._word, self._used = "", 0
            return "\n"
        moved = "" if width > 1 else self._word
        back = cell_len(moved)
        if back >= self._room:  # longer than a line
            moved, back = "", 0
        self._word = "" if width > 1 else moved + letter
        self._used = back + width
        return (f"\x1b[{back}D\x1b[K" if back else "") + f"\n{moved}{letter}"


_DEFAULT_CTX = 4096
_HISTORY_LINES = 1000
_BLOCK = '"""'
_HELP = """\
/help, /?        this list
/system TEXT     set the system message; without TEXT: show it
/show            show the model, the system message and the sampling
/read FILE       put a text file before the next message
/image FILE      show a picture with the next message, as does its path in it; /audio FILE: a sound
/reset, /clear   forget the conversation, but not the system message
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
def open_conversation(
    settings: AnswerSettings,
    template: str | None,
    system: str | None,
    *,
    thinks: bool | None = None,
) -> Iterator[Dialogue]:
    """Load a model for a conversation, and free it at the end."""
    from mtkit.api.generation import open_files
    from mtkit.llm.runner import open_header, open_model
    from mtkit.llm.sampling import Sampler
    from mtkit.speculative import setup

    settings = setup.prepare_settings(settings)
    header = open_header(settings)
    files = open_files(header, settings)
    progress = Progress("loading").show
    with (
        open_model(settings, progress, n_ctx=_DEFAULT_CTX, header=header) as runner,
        ExitStack() as stack,
    ):
        if template is None:
            own_template = runner.header.file.metadata.get("tokenizer.chat_template")
            template = own_template if isinstance(own_template, str) else None
        by_rejection = setup.uses_rejection(settings)
        context = runner.open_context()
        sampler = stack.enter_context(
            Sampler(context, settings.sampler, distributions=by_rejection)
        )
        speculation = setup.open_speculation(runner, settings, sampler.seed)
        if speculation is not None:
            stack.callback(speculation.close)
        dialogue = Dialogue(
            runner, sampler, template, system=system, parse_special=settings.parse_special,
            speculation=speculation, thinks=thinks,
        )  # fmt: skip
        stack.callback(dialogue.close)
        sounds = len(files) - len(settings.audio)
        dialogue.attached = "".join(
            dialogue.attach(data, "image" if at < sounds else "audio")
            for at, data in enumerate(files)
        )
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
        self._before = ""
        """Text of files for the next message."""

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
                    start = _PICTURE.match(text)
                    is_path = start is not None and os.path.isfile(_unquoted(start[0]))
                    is_command = text.startswith("/") and not is_path
                    self._obey(text) if is_command else self._answer(text)
                except (MtkitError, OSError) as error:
                    write_note(str(error))
                except KeyboardInterrupt:
                    write_note("interrupted")

    def _answer(self, text: str) -> None:
        dialogue = self._dialogue
        typed, marks = self._with_files(text), dialogue.attached
        text, self._before, dialogue.attached = marks + self._before + typed, "", ""
        before = signal.signal(signal.SIGINT, dialogue.stop)
        dialogue.messages.append({"role": "user", "content": text})
        count = len(dialogue.messages)
        wraps = sys.stdout.isatty()
        out = TextOutput(LineWrapper(columns()).push if wraps else None)
        first = 0.0
        try:
            for parts in dialogue.parts(self._settings.n_predict, stops=self._settings.stops):
                first = first or perf_counter()
                out.write_parts(parts)
            out.end()
        except MtkitError:
            del dialogue.messages[count - 1 :]  # as if it had not been asked
            dialogue.attached = marks
            out.end()
            raise
        finally:
            signal.signal(signal.SIGINT, before)
        if self._timings and len(dialogue.ids) > 1:
            seconds = perf_counter() - first
            rate = (len(dialogue.ids) - 1) / seconds  # the time before the first is the prompt's
            write_note(f"{len(dialogue.ids)} tokens, {rate:.1f} tokens/s")
        if self._quiet:
            return
        if dialogue.forgotten:
            write_note(
                f"the context is full: the oldest {dialogue.forgotten} messages were left out"
            )
        if dialogue.end in _ENDS:
            write_note(_ENDS[dialogue.end])

    def _obey(self, text: str) -> None:
        name, _, rest = _usual(text).partition(" ")
        rest = rest.strip()
        dialogue = self._dialogue
        if name == "/help":
            sys.stderr.writelines(fold_line(line, 17) + "\n" for line in _HELP.splitlines())
        elif name in ("/reset", "/clear"):
            dialogue.reset()
            has_system = any(message["role"] == "system" for message in dialogue.messages)
            write_note(f"forgotten{', except the system message' if has_system else ''}")
        elif name == "/show":
            _show_model(dialogue.runner, self._settings.sampler)
            write_note(describe_sampler(self._settings.sampler))
            self._obey("/system")
        elif name == "/read":
            self._read(_path(rest, name))
        elif name in ("/image", "/audio"):
            path = _medium_path(rest, name)
            dialogue.attached += self._attach(path, "image" if name == "/image" else "audio")
            write_note(f"the next message comes with {path}")
        elif name == "/regen":
            self._answer_again()
        elif name == "/set":
            self._set(rest)
        elif name == "/timings":
            self._timings = not self._timings
            write_note(f"timings are {'shown' if self._timings else 'hidden'}")
        elif name == "/system":
            if rest:
                dialogue.set_system(rest)
            first = dialogue.messages[0] if dialogue.messages else {}
            system = first.get("content") if first.get("role") == "system" else None
            write_note(f"system message: {system or 'none'}")
        elif name == "/save":
            self._save(_path(rest, name))
        elif name == "/load":
            path = _path(rest, name)
            from mtkit.commands.arguments import read_bytes_file

            try:
                dialogue.replace(read_messages(read_bytes_file(path)))
            except MtkitError as error:
                raise error.located(path) from None
            self._own_files.add(path)
            write_note(f"{len(dialogue.messages)} messages")
        else:
            raise UsageError(f"there is no command {name}", hint="/help lists them")

    def _with_files(self, text: str) -> str:
        """Return a message with pictures and sounds in the place of their paths."""
        parts, end = [], 0
        takes_files = self._dialogue.runner.header.projector is not None
        for match in _PICTURE.finditer(text):
            path = _unquoted(match[0])
            if os.path.isfile(path) and takes_files:
                mark = self._attach(path, "audio" if _IS_SOUND.search(path) else "image")
                parts += [text[end : match.start()], mark]
                end = match.end()
                if not self._quiet:
                    write_note(f"the message comes with {path}")
            elif os.path.isfile(path) or (takes_files and not _LINK.match(match[0])):
                why = "this model takes text" if os.path.isfile(path) else "no such file"
                write_note(f"{path}: {why}, so it gets only the name")
        return "".join([*parts, text[end:]])

    def _attach(self, path: str, kind: Kind) -> str:
        data = read_checked(path)
        try:
            return self._dialogue.attach(data, kind)
        except MtkitError as error:
            raise error.located(path) from None

    def _read(self, path: str) -> None:
        from mtkit.commands.arguments import read_text_file

        content = read_text_file(path)
        self._before += f"{content.rstrip()}\n\n"
        write_note(f"the next message begins with {path}: {len(content)} characters")

    def _answer_again(self) -> None:
        messages = self._dialogue.messages
        last = max(
            (at for at, message in enumerate(messages) if message["role"] == "user"), default=None
        )
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
            sampler = change_sampler(sampler, name.lstrip("-"), value.strip())
            context = dialogue.runner.context
            assert context is not None
            new = Sampler(context, sampler)
            dialogue.sampler.close()
            dialogue.sampler = new
            self._settings = replace(self._settings, sampler=sampler)
        write_note(describe_sampler(sampler))

    def _save(self, path: str) -> None:
        import json

        from mtkit.base.files import write_files

        text = json.dumps(self._dialogue.plain_messages, ensure_ascii=False, indent=1) + "\n"
        # A conversation may be saved again to the file that it came from.
        is_asked = os.path.exists(path) and path not in self._own_files
        if is_asked and not _line(f"replace {printable(path)}? [y/N] ").lower().startswith("y"):
            write_note("not saved")
            return
        write_files({path: text.encode()}, force=True)
        self._own_files.add(path)
        write_note(f"saved to {path}")


_ENDS = {
    "interrupted": "stopped",
    "length": "the answer was cut at its maximum of tokens (-n)",
    "context": "the answer was cut where the context is full (--ctx)",
}
"""Why an answer ended before the model was done -> what to say."""
_USUAL = {
    "/?": "/help",
    "/set parameter ": "/set ",
    "/set system ": "/system ",
    "/set verbose": "/timings",
    "/set quiet": "/timings",
    "/show info": "/show",
    "/show parameters": "/set",
    "/show system": "/system",
    "/exit": "/quit",
}
"""Beginnings of Ollama's and llama-cli's commands -> those that do the same here."""


def _usual(text: str) -> str:
    """Return a command as it is called here."""
    for other, own in _USUAL.items():
        if text == other or (other.endswith(" ") and text.startswith(other)):
            return own + text.removeprefix(other)
    return text


def _show_banner(runner: Runner, sampler: SamplerSettings) -> None:
    """Say which model it is, how it chooses, and how to stop and leave."""
    from mtkit.commands.terminal import Screen, join_parts, part, sticky

    _show_model(runner, sampler)
    keys = ("/help lists the commands", "Ctrl-C stops an answer", "Ctrl-D leaves")
    Screen(stderr=True).line(*join_parts([part("dim", sticky(key)) for key in keys]))


def _show_model(runner: Runner, sampler: SamplerSettings) -> None:
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, sticky
    from mtkit.inspection.gguf import file_type_name
    from mtkit.sources.locate import MODEL, shipped

    screen = Screen(stderr=True)
    if runner.model.path == shipped(MODEL):
        what = part("name", "mtkit's demonstration model")
        screen.line(what, ": it shows how a chat works, but knows nothing.")
        screen.line("A real one: ", part("hint", sticky("mtkit chat -m MODEL.gguf")))
    else:
        name = runner.header.file.metadata.get("general.name")
        title = name if isinstance(name, str) and name else os.path.basename(runner.model.path)
        context = sticky(f"{count_part(runner.n_ctx, 'token')} of context")
        kind = file_type_name(runner.header.file)
        warmth = sticky(f"temperature {sampler.temperature:g}")
        projector = runner.header.projector
        senses = map(sticky, projector.senses if projector is not None else ())
        screen.line(*join_parts([part("name", title), kind, context, *senses, warmth]))


_SOUNDS = "wav|mp3|flac|ogg|opus|m4a"
_ENDINGS = rf"\.(?:png|jpe?g|gif|bmp|webp|heic|avif|tiff?|{_SOUNDS})"
_IS_SOUND, _LINK = re.compile(rf"(?i)\.(?:{_SOUNDS})\Z"), re.compile("(?i)https?://")
_PICTURE = re.compile(
    rf"(?i)'[^'\n]+{_ENDINGS}'|\"[^\"\n]+{_ENDINGS}\"|(?<!\S)(?:\\.|[^\s'\"\\])+?{_ENDINGS}(?!\S)"
)
"""A path as people type it, or as a terminal writes one that is dropped into it."""


def _unquoted(path: str) -> str:
    """Return a path without the quotes or backslashes of a shell."""
    path = path[1:-1] if path[0] in "'\"" else re.sub(r"\\(.)", r"\1", path)
    if path[:7].lower() == "file://":
        path = unquote(path[7:])
    return os.path.expanduser(path)


def _medium_path(text: str, command: str) -> str:
    """Return the path behind a command, as it is, or as a shell or a file manager writes it."""
    if _LINK.match(text):
        raise UsageError("is a link, which is not followed", source=text, hint="download the file")
    path = _path(text, command)
    return path if os.path.exists(path) else _unquoted(text)


def _path(text: str, command: str) -> str:
    if not text:
        raise UsageError("name a file", hint=f"{command} FILE")
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
