"""Build the documents as a site: ``python -m tools.site [--stage]`` (``make docs``).

The pages are docs/ and, beside them, the documents of the repository's root, which the site knows
by other names (``MOVED``). They are put together in build/docs/ with their links turned; zensical
makes build/site/ of them as mkdocs.yml says, and a warning fails. ``--stage`` leaves zensical out.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STAGE = os.path.join(ROOT, "build", "docs")
MOVED = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh-CN.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "NOTICE": "notice.txt",
    "LICENSE": "license.txt",
    "docs/README.md": "documents.md",
}
"""Path in the repository -> path on the site; other files of docs/ keep theirs."""
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
        return before + posixpath.relpath(known[meant], here or ".") + after

    return _LINK.sub(link, text)


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
            text = turned(file.read(), path, known)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)


def main() -> int:
    """Return the exit code of zensical."""
    stage()
    if "--stage" in sys.argv[1:]:
        return 0
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
