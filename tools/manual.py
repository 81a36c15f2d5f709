"""Make the manual pages and the completions of ``share/`` from the tables that --help prints.

A page a command, and one for ``mtkit`` itself; a group's commands have pages of their own
(mtkit-corpus-count.1). ``python -m tools.generate`` writes them; wheels carry them.
"""

from __future__ import annotations

import re
import sys

import typer
from typer._completion_shared import get_completion_script

from mtkit._version import __version__
from mtkit.cli import COMMANDS, GROUPS
from mtkit.commands import load_command
from mtkit.commands.application import application
from mtkit.commands.help import TOPICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAN = "share/man/man1"
_COMPLETIONS = {
    "bash": "share/bash-completion/completions/mtkit",
    "zsh": "share/zsh/site-functions/_mtkit",
    "fish": "share/fish/vendor_completions.d/mtkit.fish",
}
_ROMAN = {"…": "...", "→": "->", "–": "\\(en", "×": "\\(mu", "·": "\\(pc", "§": "\\(sc"}


def pages() -> dict[str, Callable[[], str]]:
    """Return path -> what makes its content."""
    made: dict[str, Callable[[], str]] = {f"{_MAN}/mtkit.1": _main_page}
    for name in COMMANDS:
        command = typer.main.get_command(application(load_command(COMMANDS[name][0])))
        made |= _pages_of(command, ("mtkit", name))
    for shell, path in _COMPLETIONS.items():
        made[path] = lambda shell=shell: _completion(shell)  # type: ignore[misc]
    return made


def _pages_of(command: Any, names: tuple[str, ...]) -> dict[str, Callable[[], str]]:
    made: dict[str, Callable[[], str]] = {
        f"{_MAN}/{'-'.join(names)}.1": lambda: _page(command, names)
    }
    for name, part in getattr(command, "commands", {}).items():
        made |= _pages_of(part, (*names, name))
    return made


def _page(command: Any, names: tuple[str, ...]) -> str:
    """Return the page of one command."""
    context = command.make_context(
        " ".join(names), ["--help"], resilient_parsing=True,
        help_option_names=["--help", "-h"],
    )  # fmt: skip
    summary, *rest = _paragraphs(command.help)
    out = [
        _title("-".join(names)),
        ".SH NAME",
        f"{'-'.join(names)} \\- {_roff(summary.rstrip('.'))}",
    ]
    out += [".SH SYNOPSIS", f".B {' '.join(names)}".replace("-", "\\-")]
    out.append(_roff(" ".join(command.collect_usage_pieces(context))))
    texts = [one for one in rest if not one.startswith("\b")]
    if texts:
        out += [".SH DESCRIPTION", *_joined(map(_roff, texts))]
    parameters: dict[str, list[str]] = {"argument": [], "option": []}
    for one in command.get_params(context):
        record = one.get_help_record(context)
        if record is not None:
            parameters[one.param_type_name] += [".TP", _bold(record[0]), _roff(record[1])]
    for kind, heading in (("argument", "ARGUMENTS"), ("option", "OPTIONS")):
        out += [f".SH {heading}", *parameters[kind]] if parameters[kind] else []
    parts = getattr(command, "commands", {})
    if parts:
        out.append(".SH COMMANDS")
        for name, part in parts.items():
            out += _entry((*names, name), _paragraphs(part.help)[0])
    for one in rest:
        if one.startswith("\b"):
            head, *lines = one.lstrip("\b\n").split("\n")
            out += [f".SH {head.rstrip(':').upper()}", ".nf", *map(_roff, lines), ".fi"]
    out += [".SH EXIT STATUS", _roff(TOPICS["exit-codes"][1])]
    out += [".SH SEE ALSO", f".BR {'-'.join(names[:-1])} (1)".replace("-", "\\-")]
    return "\n".join([*out, ""])


def _main_page() -> str:
    out = [_title("mtkit"), ".SH NAME"]
    out += ["mtkit \\- inspect, convert, tokenize and run language-model files"]
    out += [".SH SYNOPSIS", ".B mtkit", "COMMAND [ARGS]...", ".SH COMMANDS"]
    for heading, names in GROUPS.items():
        out += [f".SS {_roff(heading)}"]
        for name in names.split():
            out += _entry(("mtkit", name), COMMANDS[name][1])
    out += [".SH OPTIONS", ".TP", _bold("--version, -V"), "Version and engine.", ".TP"]
    out += [_bold("--color auto|always|never"), "Color; NO_COLOR is honored."]
    for name, (about, text) in TOPICS.items():
        plain = text.replace("`", "")
        out += [f".SH {name.replace('-', ' ').upper()}", f"{_roff(about)}:", ".PP"]
        out += _joined(_items(plain.strip().split("\n\n")))
    return "\n".join([*out, ""])


def _items(paragraphs: list[str]) -> list[str]:
    """Take a list apart, an item a paragraph."""
    found: list[str] = []
    for paragraph in paragraphs:
        found += [_roff(one) for one in re.split(r"\n(?=- )", paragraph)]
    return found


def _entry(names: tuple[str, ...], text: str) -> list[str]:
    page = "-".join(names).replace("-", "\\-")
    return [".TP", f".BR {page} (1)", _roff(text)]


def _title(page: str) -> str:
    return f'.TH "{page.upper()}" 1 "" "mtkit {__version__}" "mtkit"'.replace("-", "\\-")


def _paragraphs(text: str) -> list[str]:
    return [one.strip(" \n") for one in text.split("\n\n")]


def _joined(paragraphs: Any) -> list[str]:
    return "\n.PP\n".join(paragraphs).split("\n")


def _bold(text: str) -> str:
    return "\n".join(f"\\fB{line}\\fR" for line in _roff(text).split("\n"))


def _roff(text: str) -> str:
    """Return a text so that troff shows it as it is, whatever its locale."""
    shown = text.strip("\n").replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    shown = "".join(_ROMAN.get(c, c if c < "\x7f" else f"\\[u{ord(c):04X}]") for c in shown)
    return re.sub(r"^(\s*)\.", r"\1\\\&.", shown, flags=re.M)


def _completion(shell: str) -> str:
    """Return what a shell loads by the name of the file, without a word on the first use lost."""
    script = get_completion_script(prog_name="mtkit", complete_var="_MTKIT_COMPLETE", shell=shell)
    call = '\n\n_mtkit_completion "$@"' if shell == "zsh" else ""
    return script.strip() + call + "\n"


if __name__ == "__main__":
    sys.stdout.write(pages()[f"{_MAN}/{sys.argv[1]}.1"]())
