"""The pages of the commands on the site: one a command, each option with an address of its own.

docs/cli.md has the help of all commands as a terminal shows it; here it is taken apart again.
"""

from __future__ import annotations

import html
import re

_SECTION = re.compile(r"^###? mtkit ([a-z -]+)\n\n```text\n(.*?)^```$", re.M | re.S)
_ROW = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")
_OPTION = re.compile(r"(?<![\w/-])--[a-z][a-z0-9-]*")
_PLACE = re.compile(r"--([a-z][a-z0-9-]*)")
"""The first long name of an option, which its address is."""


def pages(text: str) -> dict[str, str]:
    """Return the pages that docs/cli.md becomes: path on the site -> Markdown."""
    overview, topics = text.partition("\n## ")[0], text.partition("\n## mtkit help TOPIC")[2]
    parts = {name: block for name, block in _SECTION.findall(text) if name != "help TOPIC"}
    made = {f"cli/{_file(name)}.md": _page(name, block, parts) for name, block in parts.items()}
    made["cli/topics.md"] = f"# Help topics\n\n`mtkit help TOPIC` prints these.\n{topics}".replace(
        "\n### ", "\n## "
    )
    made["cli.md"] = _index(overview, list(parts))
    return made


def navigation(text: str) -> list[str]:
    """Return the entries of the navigation, as mkdocs.yml has them."""
    names = [name for name, _ in _SECTION.findall(text) if name != "help TOPIC"]
    files = [(f"mtkit {name}", f"cli/{_file(name)}.md") for name in names]
    entries = [("All commands", "cli.md"), *files, ("Help topics", "cli/topics.md")]
    return [f"{title}: {path}" for title, path in entries]


def _file(name: str) -> str:
    return name.replace(" ", "-")


def _index(overview: str, names: list[str]) -> str:
    """Return the page of all commands, in the groups of ``mtkit --help``."""
    lines = ["# Commands", ""]
    for line in overview.splitlines():
        heading, row = re.match(r"^([A-Z].*):$", line), _ROW.match(line)
        if heading:
            lines += ["", f"## {heading[1]}", ""]
        elif row and row[1] in names:
            lines.append(f"- [`mtkit {row[1]}`](cli/{_file(row[1])}.md): {row[2]}")
    lines = lines[: lines.index("## Examples")] if "## Examples" in lines else lines
    lines += [
        "",
        "`--color auto|always|never` goes with every command; `--version -v` shows the engine.",
        "[Help topics](cli/topics.md) are what `mtkit help TOPIC` prints.",
    ]
    return "\n".join(lines) + "\n"


def _page(name: str, block: str, parts: dict[str, str]) -> str:
    """Return the page of one command."""
    usage, _, rest = block.partition("\n\n")
    body = re.split(r"^(?=[A-Z][\w ]*:$)", rest, flags=re.M)
    found = map(_ROW.match, "".join(body[1:]).splitlines())
    known = {option[1] for row in found if row and (option := _PLACE.search(row[1]))}
    used = " ".join(usage.removeprefix("Usage: ").split())
    made = [f"# mtkit {name}", f"```text\n{used}\n```", *_described(body[0], known)]
    for section in body[1:]:
        heading, _, rows = section.partition(":\n")
        made += [f"## {heading}", _listed(name, rows, known, parts)]
    return "\n\n".join(made) + "\n"


def _described(text: str, known: set[str]) -> list[str]:
    """Return paragraphs and examples."""
    made = []
    before, _, examples = text.partition("\n  Examples:\n")
    for paragraph in before.strip("\n").split("\n\n"):
        if paragraph.strip():
            made.append(f"<p>{_linked(_joined(paragraph), known)}</p>")
    if examples:
        lines = [line.removeprefix("    ") for line in examples.rstrip().splitlines()]
        made += ["## Examples", "```sh\n" + "\n".join(lines).strip("\n") + "\n```"]
    return made


def _listed(name: str, rows: str, known: set[str], parts: dict[str, str]) -> str:
    """Return the rows of a section as a list of terms, each with its address."""
    found: list[list[str]] = []
    for line in rows.splitlines():
        row = _ROW.match(line)
        if row:
            found.append([row[1], row[2] or ""])
        elif line.strip():
            found[-1][1] += f"\n{line.strip()}"
    made = ['<dl class="options">']
    for term, text in found:
        option = _PLACE.search(term)
        shown = f"<code>{html.escape(term)}</code>"
        if f"{name} {term}" in parts:
            shown = f'<a href="{_file(name)}-{_file(term)}.md">{shown}</a>'
        place = ""
        if option:
            place = f' id="{option[1]}"'
            shown = f'<a href="#{option[1]}">{shown}</a>'
        own = known - {option[1]} if option else known
        made.append(f"<dt{place}>{shown}</dt>\n<dd>{_linked(_joined(text), own)}</dd>")
    return "\n".join([*made, "</dl>"])


def _joined(text: str) -> str:
    """Return the lines of a text as one, and words whole that a line ended in."""
    return " ".join(re.sub(r"(?<=[a-z])-\n\s*(?!and |or )", "-", text).split())


def _linked(text: str, known: set[str]) -> str:
    """Return a text as HTML, whose options lead to where they are described."""

    def code(found: re.Match[str]) -> str:
        option = found[0]
        place = option.removeprefix("--")
        shown = f"<code>{option}</code>"
        return f'<a href="#{place}">{shown}</a>' if place in known else shown

    return _OPTION.sub(code, html.escape(text, quote=False))
