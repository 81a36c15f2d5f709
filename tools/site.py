"""Build the documents as a site: ``python -m tools.site [--stage]`` (``make docs``).

The pages are docs/ and, beside them, the documents of the repository's root, which the site knows
by other names (``MOVED``). They are put together in build/docs/ with their links turned;
docs/cli.md becomes a page for each command. zensical makes build/site/ of them as mkdocs.yml says,
and a warning fails. ``--stage`` leaves zensical out.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import shutil
import subprocess
import sys

from tools import site_commands

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STAGE = os.path.join(ROOT, "build", "docs")
MOVED = {
    "README.md": "overview.md",
    "README.zh-CN.md": "zh-CN.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "NOTICE": "notice.txt",
    "LICENSE": "license.txt",
    "docs/README.md": "index.md",
}
"""Path in the repository -> path on the site; other files of docs/ keep theirs."""
COMMANDS = "docs/cli.md"
CONFIG = os.path.join(ROOT, "build", "mkdocs.yml")
LANGUAGES = {"zh-CN/index.html": "zh-CN"}
"""Pages that are not English: path in build/site/ -> language."""
WIDE = ("loss-matrix.md", "losses.md", "performance.md", "rules.md", "settings.md")
"""Pages whose tables need the room of the table of contents."""
_LINE_ANCHOR = re.compile(r'<a id="__codeline[^>]*></a>')
"""Links without a text, one for each line of code: a voice would read them all."""
_FOR_KEYS = {
    "<table>": '<table tabindex="0">',  # one that is too wide scrolls, from the keyboard as well
    '<input class="md-option"': '<input class="md-option" tabindex="-1"',  # hidden from readers
}
"""What the theme writes -> the same for people without a mouse."""
_BAR_IN_CODE = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
"""Code in a cell of a table, with a bar that must not end the cell."""
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def pages() -> dict[str, str]:
    """Return every file of the site: its path in the repository -> its path on the site."""
    found = dict(MOVED)
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        for name in names:
            path = posixpath.relpath(os.path.join(folder, name), ROOT)
            found.setdefault(path, path.removeprefix("docs/"))
    return found


def turned(text: str, path: str, known: dict[str, str]) -> str:
    """Return a page's text with links that lead to the same files on the site.

    Raises:
        ValueError: A link leads to a file that the site does not have.
    """
    here = posixpath.dirname(known[path])

    def link(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        if re.match(r"[a-z]+:", target):
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if meant not in known:
            raise ValueError(f"{path}: a link to {target}, which the site does not have")
        place = known[meant]
        if meant == COMMANDS and after.startswith("#mtkit-"):  # a section there, here a page
            place, after = f"cli/{after[len('#mtkit-') : -1]}.md", ")"
        return before + posixpath.relpath(place, here or ".") + after

    def code(found: re.Match[str]) -> str:  # GitHub drops the backslash, zensical keeps it
        said = html.escape(found[1].replace("\\|", "|"), quote=False)
        return f"<code>{re.sub('[|*_]', lambda one: f'&#{ord(one[0])};', said)}</code>"

    return _BAR_IN_CODE.sub(code, _LINK.sub(link, text))


def stage() -> None:
    """Write all files of the site to build/docs/."""
    shutil.rmtree(STAGE, ignore_errors=True)
    known = pages()
    for path, place in known.items():
        source, target = os.path.join(ROOT, path), os.path.join(STAGE, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not path.endswith(".md"):
            shutil.copyfile(source, target)
            continue
        with open(source, encoding="utf-8") as file:
            text = file.read()
        if path == COMMANDS:
            for page, content in site_commands.pages(text).items():
                _write(os.path.join(STAGE, page), content)
            _write(CONFIG, configured(text))
        else:
            room = "---\nhide:\n  - toc\n---\n\n" if place in WIDE else ""
            _write(target, room + turned(text, path, known))
    shutil.copyfile(os.path.join(ROOT, "tools", "site.css"), os.path.join(STAGE, "site.css"))


def configured(commands: str) -> str:
    """Return mkdocs.yml with the pages of the commands, for the folder build/."""
    with open(os.path.join(ROOT, "mkdocs.yml"), encoding="utf-8") as file:
        text = file.read()
    entries = "".join(f"\n      - {entry}" for entry in site_commands.navigation(commands))
    text = text.replace("\n      - cli.md", entries)
    return text.replace("_dir: build/", "_dir: ")


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _finish() -> None:
    """Name the languages of pages, and make them usable with a keyboard and a screen reader."""
    site = os.path.join(ROOT, "build", "site")
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    text = _LINE_ANCHOR.sub("", file.read())
                for written, better in _FOR_KEYS.items():
                    text = text.replace(written, better)
                language = LANGUAGES.get(posixpath.relpath(path, site), "en")
                _write(path, text.replace('<html lang="en"', f'<html lang="{language}"', 1))


def main() -> int:
    """Return the exit code of zensical."""
    stage()
    if "--stage" in sys.argv[1:]:
        return 0
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", CONFIG]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if not code:
        _finish()
    return code


if __name__ == "__main__":
    sys.exit(main())
