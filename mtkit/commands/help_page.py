"""The text of ``mtkit COMMAND --help``, from the table of the command's options.

typer would take three times as long as all the rest to show it. The layout is that of click, which
people know: names in a column of at most 30 characters, what they do beside them.
"""

from __future__ import annotations

from mtkit.commands.command import Command, Group
from mtkit.commands.options import REQUIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.commands.options import Parameter

    Row = tuple[str, str]

_COLUMN = 30
_USAGE = 20
"""Characters that the rest of the usage line needs beside the command's name."""
_INDENT = " " * 11
_TYPES = {"int": "INTEGER", "float": "FLOAT"}
HELP = ("-h, --help", "Show this message and exit.")


def help_page(command: Command | Group, name: str, width: int) -> str:
    """Return the help of a command whose line begins with ``mtkit NAME``."""
    line, usage = f"Usage: mtkit {name} ", usage_of(command)
    sections: dict[str, list[Row]] = {"Arguments": [], "Options": []}
    if isinstance(command, Group):
        text = command.text
        parts = command.commands.items()
        rows = [(part, _first_sentence(inner.run.__doc__ or "")) for part, inner in parts]
        sections["Commands"] = rows
    else:
        text = command.run.__doc__ or ""
        if command.settings is not None:
            from mtkit.settings import HEADINGS

            sections |= {heading: [] for heading in HEADINGS}
        for parameter in command.parameters():
            if not parameter.option.is_hidden:
                kind = "Options" if parameter.option.names else "Arguments"
                heading = parameter.option.heading or kind
                sections.setdefault(heading, []).append(row_of(parameter))
    sections["Options"].append(HELP)
    if width < len(line) + _USAGE:
        lines = [line.rstrip(), *_wrapped(usage, width, _INDENT, _INDENT)]
    else:
        lines = _wrapped(usage, width, line, " " * len(line))
    for paragraph in _paragraphs(text):
        lines.append("")
        if paragraph[0] == "\b":
            lines += [f"  {line}" for line in paragraph[1:]]
        else:
            lines += _wrapped(" ".join(paragraph), width, "  ", "  ")
    for heading, rows in sections.items():
        if rows:
            lines += ["", f"{heading}:", *_table(rows, width)]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[list[str]]:
    first, _, rest = text.strip().partition("\n")
    margins = (len(line) - len(line.lstrip()) for line in rest.split("\n") if line.strip())
    margin = " " * min(margins, default=0)
    lines = [first, *(line.removeprefix(margin) for line in rest.split("\n"))]
    return [part.split("\n") for part in "\n".join(lines).strip("\n").split("\n\n")]


def _first_sentence(text: str) -> str:
    return " ".join(_paragraphs(text)[0]).partition(". ")[0].removesuffix(".") + "."


def usage_of(command: Command | Group) -> str:
    """Return what stands behind the name of a command in its usage line."""
    if isinstance(command, Group):
        return "[OPTIONS] COMMAND [ARGS]..."
    arguments = (row for row in command.parameters() if not row.option.names)
    return " ".join(["[OPTIONS]", *map(_usage, arguments)])


def _usage(parameter: Parameter) -> str:
    """Return how an argument stands in a line; braces are for a choice alone."""
    name = parameter.option.metavar or parameter.name
    if name.startswith("["):
        return name
    if parameter.default is not REQUIRED:
        return f"[{name}]"
    return f"{{{name}}}" if "|" in name else name


def row_of(parameter: Parameter) -> Row:
    """Return the names of an option, or that of an argument, and what is said about it."""
    option, default = parameter.option, parameter.default
    notes = [f"env var: {option.variable}"] if option.variable else []
    value = option.metavar or _metavar(parameter)
    if not option.names:
        name = option.metavar or parameter.name
    else:
        names = (name.partition("/")[::2] for name in option.names.split())
        yes, no = zip(*names, strict=True)
        sides = (", ".join(sorted(side, key=_dashes)) for side in (yes, filter(None, no)))
        name = " / ".join(filter(None, sides))
        name += "" if parameter.is_flag else f" {value}"
        if parameter.is_flag and default is not None:
            default = (yes if default else no)[0].lstrip("-") if any(no) else ""
    if default is REQUIRED:
        default = None
    if default is not None and default != "" and option.shows_default:
        notes.append(f"default: {default}")
    if option.reads is None and (option.low is not None or option.high is not None):
        low = "" if option.low is None else f"{option.low}<="
        notes.append(f"{low}x<={option.high}" if option.high is not None else f"x>={option.low}")
    if parameter.default is REQUIRED:
        notes.append("required")
    note = f"[{'; '.join(notes)}]" if notes else ""
    return name, "  ".join(filter(None, (option.help, note)))


def _dashes(name: str) -> int:
    return len(name) - len(name.lstrip("-"))


def _metavar(parameter: Parameter) -> str:
    if parameter.option.choices:
        return f"[{'|'.join(parameter.option.choices)}]"
    return _TYPES.get(parameter.annotation.partition(" ")[0], "TEXT")


def _table(rows: Sequence[Row], width: int) -> list[str]:
    column = min(max(len(name) for name, _ in rows), _COLUMN) + 2
    lines = []
    for name, text in rows:
        first, *others = _wrapped(text, max(width - column - 2, 10)) or [""]
        if len(name) <= column - 2:
            lines.append(f"  {name:{column}}{first}".rstrip())
        else:
            lines += [f"  {name}", f"  {'':{column}}{first}"]
        lines += [f"  {'':{column}}{line}" for line in others]
    return lines


def _wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    from textwrap import TextWrapper

    wrapper = TextWrapper(width, initial_indent=first, subsequent_indent=others)
    wrapper.replace_whitespace = False
    return [line.rstrip() for line in wrapper.wrap(text)]
