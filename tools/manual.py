"""Make the manual pages and the completions of ``share/`` from the tables that --help prints.

A page a command, and one for ``mtkit`` itself; a group's commands have pages of their own
(mtkit-corpus-count.1). ``python -m tools.generate`` writes them; wheels carry them.
"""

from __future__ import annotations

import re
import sys
from inspect import cleandoc

from typer._completion_shared import get_completion_script

from mtkit._version import __version__
from mtkit.cli import COMMANDS, GROUPS
from mtkit.commands import load_command
from mtkit.commands.command import Group
from mtkit.commands.help import TOPICS
from mtkit.commands.help_page import HELP, row_of, usage_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.commands.command import Command

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
        made |= _pages_of(load_command(COMMANDS[name][0]), ("mtkit", name))
    for shell, path in _COMPLETIONS.items():
        made[path] = lambda shell=shell: _completion(shell)  # type: ignore[misc]
    return made


def _pages_of(command: Command | Group, names: tuple[str, ...]) -> dict[str, Callable[[], str]]:
    made: dict[str, Callable[[], str]] = {
        f"{_MAN}/{'-'.join(names)}.1": lambda: _page(command, names)
    }
    for name, part in _parts(command).items():
        made |= _pages_of(part, (*names, name))
    return made


def _parts(command: Command | Group) -> Mapping[str, Command]:
    return command.commands if isinstance(command, Group) else {}


def _text(command: Command | Group) -> list[str]:
    text = command.text if isinstance(command, Group) else command.run.__doc__ or ""
    return _paragraphs(cleandoc(text))


def _page(command: Command | Group, names: tuple[str, ...]) -> str:
    """Return the page of one command."""
    summary, *rest = _text(command)
    out = [
        _title("-".join(names)),
        ".SH NAME",
        f"{'-'.join(names)} \\- {_roff(summary.rstrip('.'))}",
    ]
    out += [".SH SYNOPSIS", f".B {' '.join(names)}".replace("-", "\\-")]
    out.append(_roff(usage_of(command)))
    texts = [one for one in rest if not one.startswith("\b")]
    if texts:
        out += [".SH DESCRIPTION", *_joined(map(_roff, texts))]
    rows = [] if isinstance(command, Group) else command.parameters()
    rows = [row for row in rows if not row.option.is_hidden]
    options = [row_of(row) for row in rows if row.option.names]
    arguments = [row_of(row) for row in rows if not row.option.names]
    for heading, pairs in (("ARGUMENTS", arguments), ("OPTIONS", [*options, HELP])):
        out += [f".SH {heading}"] if pairs else []
        for name, text in pairs:
            out += [".TP", _bold(name), _roff(text)]
    if isinstance(command, Group):
        out.append(".SH COMMANDS")
        for name, part in _parts(command).items():
            out += _entry((*names, name), _text(part)[0])
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
