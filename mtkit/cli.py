"""The ``mtkit`` command.

``main`` looks up the command's name in ``COMMANDS`` and imports that one module; typer, the
library and the native core are loaded only when a command needs them, and a plain line needs no
typer (``commands.command``). A user never sees a traceback: errors are one line on stderr, and the
exit code says their kind (see errors.py; 0 done, 2 wrong usage, 70 a bug in mtkit, 130
interrupted).
"""

from __future__ import annotations

import os
import sys

from mtkit._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.commands.command import Command, Group


COMMANDS = {
    "inspect": ("mtkit.commands.inspect", "Show what is in a GGUF, safetensors or other file."),
    "dump": ("mtkit.commands.dump", "Print tokens, merges, metadata, tensors or the template."),
    "token": ("mtkit.commands.token", "Look up tokens by id or text."),
    "diff": ("mtkit.commands.diff", "Show the differences between two models."),
    "report": ("mtkit.commands.report", "Write an HTML page about a GGUF or tokenizer."),
    "check": ("mtkit.commands.check", "Find problems in a model or tokenizer file."),
    "compare": ("mtkit.commands.compare", "Compare two tokenizers on the same texts."),
    "hash": ("mtkit.commands.hash", "Hash tensors, or a tokenizer's behavior."),
    "convert": ("mtkit.commands.convert", "Convert a model or tokenizer to another format."),
    "formats": ("mtkit.commands.formats", "List the formats that mtkit reads and writes."),
    "encode": ("mtkit.commands.encode", "Encode text to token ids."),
    "decode": ("mtkit.commands.decode", "Decode token ids to text."),
    "explain": ("mtkit.commands.explain", "Show how a text is split into tokens."),
    "count": ("mtkit.commands.count", "Count the tokens in texts."),
    "corpus": ("mtkit.commands.corpus", "Count or encode the documents of a corpus."),
    "template": ("mtkit.commands.template", "Render a chat template, or parse an answer."),
    "bench": ("mtkit.commands.bench", "Measure a tokenizer's speed on this machine."),
    "generate": ("mtkit.commands.generate", "Generate text with a GGUF model."),
    "chat": ("mtkit.commands.chat", "Chat with a GGUF model."),
    "serve": ("mtkit.commands.serve", "Serve a GGUF model to OpenAI and Anthropic clients."),
    "perplexity": ("mtkit.commands.perplexity", "Measure how well a model predicts a text."),
    "logits": ("mtkit.commands.logits", "Show which tokens a model expects next."),
    "sx": ("mtkit.commands.sx", "Prepare, measure and tune speculative decoding."),
    "edit": ("mtkit.commands.edit", "Change the metadata of a GGUF."),
    "split": ("mtkit.commands.split", "Split a GGUF into shards."),
    "merge": ("mtkit.commands.merge", "Merge the shards of a GGUF."),
    "convert-endian": ("mtkit.commands.convert_endian", "Change the byte order of a GGUF."),
    "quantize": ("mtkit.commands.quantize", "Quantize a model with llama.cpp."),
    "imatrix": ("mtkit.commands.imatrix", "Compute an importance matrix for quantization."),
    "trim": ("mtkit.commands.trim", "Shrink a model's vocabulary."),
    "config": ("mtkit.commands.config", "Show or set the default tokenizer and model."),
    "completion": ("mtkit.commands.completion", "Print a shell completion script."),
}
"""Name -> (module of the ``command``, one-line help)."""
GROUPS = {
    "Look (GGUF, safetensors, tokenizer files, model folders)": "inspect dump token diff report",
    "Check": "check compare hash",
    "Convert": "convert formats",
    "Tokenize": "encode decode explain count corpus template bench",
    "Run": "generate chat serve perplexity logits sx",
    "Edit GGUF files": "edit split merge convert-endian quantize imatrix trim",
    "More": "config completion",
}
"""Heading -> names of commands, as the overview shows them."""

_COMPUTE = frozenset(
    ["generate", "chat", "perplexity", "logits", "imatrix", "quantize", "sx", "bench"]
)
"""Commands in which llama.cpp computes, and may end the process."""
_UNGUARDED = frozenset(["serve", "config", "completion", "formats"])
"""Commands without a file that they read as it is mapped; a server would keep all of them."""
_CALLING = ("--verify", "--imatrix", "--type", "--outtype")
"""Options with which ``convert`` calls it, too."""
INTERRUPTED = 130
BUG = 70

_OWN: list[bool] = []
"""Not empty where this process is the command's own, which alone may be forked to be watched."""
_WHEN_IMPORTED: list[Callable[[], None]] = []
"""What this process does once its command is imported."""


def run() -> int:
    """Run the command line of this process, which ends with it; returns the exit code."""
    try:
        code = _run_process()
    except KeyboardInterrupt:  # before or after a command
        code = INTERRUPTED
    if code == INTERRUPTED:
        # If Ctrl-C came while exec ran a string (dataclasses does that), CPython remembers it and
        # kills the process with SIGINT at its end, in place of our exit code
        # (unhandled_keyboard_interrupt in pythonrun.c). Any string that runs to its end resets it.
        exec("")  # noqa: S102
    return code


def _run_process() -> int:
    import gc

    gc.disable()  # until the command is imported: what is imported stays
    _WHEN_IMPORTED.append(_collect_garbage)
    # numpy holds arrays here and multiplies none: its BLAS would start a thread for every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # The gguf package imports it where it is installed: 1.3 s of 1.4, for classes not used here.
    sys.modules.setdefault("mistral_common", None)  # type: ignore[arg-type]  # None: not importable
    _open_closed()
    if sys.platform == "win32":
        import ctypes

        prepare_console(ctypes.windll.kernel32)
    _OWN.append(True)
    code = main()
    try:
        sys.stdout.flush()
    except OSError:
        _reader_left()  # or Python tries again when it ends
    # The last collection would walk every object that typer made: 9 ms, more than loading a
    # tokenizer and encoding with it.
    gc.freeze()
    return code


def _open_closed() -> None:
    """Open what the caller closed (``mtkit … >&-``), so that no file gets its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  open until the end


def main(argv: list[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    args = sys.argv[1:] if argv is None else argv
    if "_MTKIT_COMPLETE" in os.environ:
        return _complete()
    args = _take_color(args)
    if args and args[0] in ("--version", "-V"):
        return _write(version() if "-v" not in args else version(verbose=True))
    if not args or args[0] in ("-h", "--help", "help"):
        if args[1:] and args[0] == "help":
            return _help(args[1:])
        return _write(_folded(overview()))
    from mtkit.errors import IN_SHELL

    IN_SHELL.append(True)
    try:
        return _run(args[0], args[1:])
    finally:
        IN_SHELL.pop()


def version(*, verbose: bool = False) -> str:
    """Text of ``mtkit --version``: the version and which engine encodes."""
    package = os.listdir(os.path.dirname(__file__))  # importlib would cost as much as the rest
    native = any(name.startswith("_native.") and name[-1] != "i" for name in package)
    native = native and not os.environ.get("MTKIT_PURE")
    text = f"mtkit {__version__} ({'native' if native else 'pure Python'} engine)\n"
    if verbose:
        text += f"Python {sys.version.split()[0]} on {sys.platform}\n"
    return text


def overview() -> str:
    """Text of ``mtkit --help``."""
    width = max(map(len, COMMANDS))
    groups = ""
    for heading, names in GROUPS.items():
        rows = "".join(f"  {name:{width}}  {COMMANDS[name][1]}\n" for name in names.split())
        groups += f"{heading}:\n{rows}\n"
    return (
        "Usage: mtkit COMMAND [ARGS]...\n\n"
        "  Inspect, convert, tokenize and run language-model files.\n\n"
        f"{groups}"
        "Examples:\n"
        "  mtkit inspect model.gguf\n"
        "  mtkit convert tokenizer.model --to mtok\n"
        '  mtkit encode "Hello, MNN!"\n\n'
        "Options:\n"
        "  --version, -V              Show version and engine.\n"
        "  --color auto|always|never  Use colors; NO_COLOR is honored.\n\n"
        "mtkit COMMAND --help describes a command; mtkit help topics lists more help.\n"
    )


def _folded(text: str) -> str:
    """Fold lines that are longer than the terminal is wide, below where their text begins."""
    columns = _help_width() + 2
    if columns > max(map(len, text.split("\n"))):
        return text
    from textwrap import TextWrapper

    lines = []
    for line in text.split("\n"):
        margin = " " * (len(line) - len(line.rpartition("  ")[2]))
        wrapper = TextWrapper(columns, subsequent_indent=margin, break_on_hyphens=False)
        lines += wrapper.wrap(line) or [""]
    return "\n".join(lines)


def _help(words: list[str]) -> int:
    """Print the help of a command, or a topic, or both."""
    from mtkit.commands.help import topic_text

    text = topic_text(words)
    if text is None or words[0] in COMMANDS:
        code = _run(words[0], ["--help"])
        return code if text is None else _write(f"\n{text}")
    return _write(text)


def _take_color(args: list[str]) -> list[str]:
    """Take ``--color WHEN`` out of the arguments and hand it on as FORCE_COLOR or NO_COLOR."""
    others: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            return [*others, arg, *rest]
        if arg == "--color":
            when = next(rest, "")
        elif arg.startswith("--color="):
            when = arg[8:]
        else:
            others.append(arg)
            continue
        if when == "always":
            os.environ["FORCE_COLOR"] = "always"
            os.environ.pop("NO_COLOR", None)
        elif when == "never":
            os.environ["NO_COLOR"] = "1"
            os.environ.pop("FORCE_COLOR", None)
        elif when != "auto":
            raise SystemExit(_fail(f"--color: {when!r} is not auto, always or never", 2))
    return others


def _run(name: str, args: list[str]) -> int:
    from mtkit.commands import load_command
    from mtkit.errors import MtkitError

    try:
        command = load_command(_module(name, args))
        if {"-h", "--help"} & {*args[:2]} and (page := _help_page(command, name, args)):
            return _write(page)
        call = command.plain_call(args) or _typer_call(command, name, args)
        while _WHEN_IMPORTED:
            _WHEN_IMPORTED.pop()()
        code = _guarded(name, lambda: _watched(name, args, call))
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer makes code 1 of it
            return _reader_left()
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except MtkitError as error:
        if os.environ.get("MTKIT_TRACEBACK"):
            raise
        from mtkit.commands.terminal import write_error

        write_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except MemoryError:
        return _fail("out of memory", 5)
    except OSError as error:
        if os.environ.get("MTKIT_TRACEBACK"):
            raise
        return _fail(*_system_error(error))
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's: wrong usage
            path = getattr(getattr(error, "ctx", None), "command_path", name)
            also = getattr(getattr(getattr(error, "ctx", None), "command", None), "also", {})
            hidden = {spelling for spellings in also.values() for spelling in spellings}
            name = path.removeprefix("mtkit ")
            return _fail(_usage(name, error.format_message(), args, hidden), 2)
        if os.environ.get("MTKIT_TRACEBACK"):
            raise
        hint = "this is a bug in mtkit; set MTKIT_TRACEBACK=1 to see where"
        return _fail(f"{type(error).__name__}: {error}; {hint}", BUG)
    return code if isinstance(code, int) else 0


def _help_page(command: Command | Group, name: str, args: list[str]) -> str:
    """Return the help that a line begins with asking for; "" where it begins otherwise."""
    from mtkit.commands.command import Group
    from mtkit.commands.help_page import help_page

    if isinstance(command, Group) and args[0] in command.commands:
        name, command, args = f"{name} {args[0]}", command.commands[args[0]], args[1:]
    return help_page(command, name, _help_width()) if args[0] in ("-h", "--help") else ""


def _guarded(name: str, call: Callable[[], object]) -> object:
    """Run a command; an error where a file that it maps was truncated meanwhile."""
    if name in _UNGUARDED:
        return call()
    from mtkit.base import binary

    with binary.guard_all():
        return call()


def _watched(name: str, args: list[str], call: Callable[[], object]) -> object:
    """Run a command; where llama.cpp may end the process, in a child that this one watches."""
    verifies = name == "convert" and any(arg.startswith(_CALLING) for arg in args)
    if not _OWN or (name != "serve" and name not in _COMPUTE and not verifies):
        return call()
    from mtkit.base import watch

    watch.allow(_say)
    if name == "serve" or not watch.can_watch():  # serve watches once it has its sockets
        return call()
    hint = "" if verifies or name == "quantize" else "--no-repack or "
    hint += "another build of llama-cpp-python may help"
    return watch.watch(call, hint)


def _say(text: str) -> None:
    from mtkit.base.escape import printable

    sys.stderr.write(f"mtkit: {printable(text)}\n")


def _typer_call(command: Command | Group, name: str, args: list[str]) -> Callable[[], object]:
    """Return what runs a command whose arguments typer reads."""
    from mtkit.commands.application import application
    from mtkit.commands.command import Command

    if isinstance(command, Command):
        from mtkit.commands.habits import read_line

        args = read_line(name, command, args)
    frame = application(command)
    return lambda: frame(
        args,
        prog_name=f"mtkit {name}",
        standalone_mode=False,
        help_option_names=["--help", "-h"],
        terminal_width=_help_width(),
    )


def _collect_garbage() -> None:
    """Collect garbage from here on, never among what is imported: a tenth of the time to start."""
    import gc

    gc.freeze()
    gc.enable()


def _module(name: str, args: list[str]) -> str:
    if name in COMMANDS:
        return COMMANDS[name][0]
    from mtkit.commands.help import unknown_command

    raise unknown_command(name, args, [*COMMANDS])


def _help_width() -> int:
    """Return the width of help: the terminal's, which typer alone takes as 50 or more."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        width = int(columns)
    else:  # shutil's function would import twenty modules
        try:
            width = os.get_terminal_size(1).columns or 80
        except OSError:
            width = 80
    return max(min(width, 80) - 2, 30)


def _system_error(error: OSError) -> tuple[str, int]:
    """Return message and exit code of an error of the operating system."""
    place = f"{error.filename}: " if error.filename else ""
    no_room = error.errno in {28, 122}  # ENOSPC, EDQUOT
    return f"{place}{error.strerror or error}", 5 if no_room else 2


def _usage(name: str, message: str, args: list[str], hidden: set[str]) -> str:
    """Return typer's message about an argument as one line with a hint.

    Spellings that help does not show are not suggested.
    """
    from mtkit.base.escape import either
    from mtkit.commands.habits import instead_of, near_options
    from mtkit.commands.help import reorder_line

    text = " ".join(message.split()).removesuffix(".")
    text = text[:1].lower() + text[1:]
    text = text.replace("is not a valid float", "is not a number")
    text = text.replace("is not a valid integer", "is not a whole number")
    before, unexpected, rest = text.partition("got unexpected extra argument")
    if unexpected:  # "(s) (a b)"
        text = f"{before}unexpected argument: {rest.rpartition(' (')[2].removesuffix(')')}"
    text, _, close = text.partition(" (Possible options: ")
    line = (
        reorder_line(name, args, text.partition("unexpected argument: ")[2]) if unexpected else ""
    )
    if line:
        return f"{name}: {text}; {line}"
    option = text.partition("no such option: ")[2]
    instead = instead_of(name, option)
    if instead:
        return f"{name}: {text}; {instead}"
    near = [option for option in close.removesuffix(")").split(", ") if option not in {"", *hidden}]
    near = near_options(option, near) if option else near
    question = f"; is it {either(near)}?" if near else ""
    return f"{name}: {text}{question or ';'} see mtkit {name} --help"


def _complete() -> int:
    """Answer a shell's completion request with the tree of all commands."""
    from mtkit.commands.application import command_tree

    line = os.environ.get("COMP_WORDS") or os.environ.get(
        "_TYPER_COMPLETE_ARGS", ""
    )  # bash, others
    try:
        tree = command_tree(COMMANDS, line.split())
        tree(prog_name="mtkit", complete_var="_MTKIT_COMPLETE")
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer makes code 1 of it
            return _reader_left()
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _write(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except OSError as error:
        _reader_left()  # or Python tries again when it ends
        return _fail(*_system_error(error))
    return 0


def _reader_left() -> int:
    """The reader closed the pipe: done, and nothing more can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _fail(message: str, code: int) -> int:
    from mtkit.base.escape import printable

    line = printable(" ".join(message.split("\n")))
    sys.stderr.write(f"{'✗' if sys.stderr.isatty() else 'mtkit:'} {line}\n")
    return code


_OUTPUT_HANDLE, _ERROR_HANDLE = -11, -12
"""Handles of GetStdHandle."""
_ESCAPES = 4
"""ENABLE_VIRTUAL_TERMINAL_PROCESSING of SetConsoleMode, Windows 10 and later."""


def prepare_console(kernel: Any) -> None:
    """Let a console read escape sequences, and what is no console get UTF-8."""
    from ctypes import byref, c_uint32, c_void_p

    kernel.GetStdHandle.restype = c_void_p
    for number, stream in ((_OUTPUT_HANDLE, sys.stdout), (_ERROR_HANDLE, sys.stderr)):
        handle, mode = c_void_p(kernel.GetStdHandle(number)), c_uint32()
        if kernel.GetConsoleMode(handle, byref(mode)):
            kernel.SetConsoleMode(handle, mode.value | _ESCAPES)
        else:
            stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
