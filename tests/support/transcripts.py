"""Transcripts of the command line: a line, what it prints, what it says of errors, its code.

A file has sections, ``== title``, each of which starts in a folder of its own. ``-- name`` begins
a file of that folder, which ends at an empty line; ``$`` begins a command, ``!`` a line of standard
error, ``?`` a code other than 0, or than 2 where a line begins with ``!``; what else stands there
is standard output. ``…`` is any text within a line, alone any number of lines; ``␤`` is an empty
line, ``␄`` the end of an output without a line break. ``#`` begins a remark.

A command is one of mtkit or of ``TOOLS``, with ``NAME=VALUE`` in front, ``|`` and ``> file`` as in
a shell. ``MTKIT_TRANSCRIPTS=write`` writes what commands print over what stands there for them.
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support import Run


class Transcript(NamedTuple):
    """One section of a file; the title stands in a line of that number."""

    path: Path
    title: str
    line: int
    text: str


def transcripts(folder: Path) -> list[Transcript]:
    """Return the sections of all files of a folder."""
    sections = []
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^== (.*)\n((?:(?!== ).*\n)*)", text, re.M):
            line = text.count("\n", 0, match.start()) + 1
            sections.append(Transcript(path, match[1], line, match[2]))
    return sections


def _same(folder: Path, _: bytes, *names: str) -> bytes:
    first, second = ((folder / name).read_bytes() for name in names)
    return b"" if first == second else b"they differ\n"


TOOLS: dict[str, Callable[..., bytes]] = {
    "printf": lambda folder, data, text: codecs.escape_decode(text.encode())[0],
    "cat": lambda folder, data, *names: b"".join((folder / name).read_bytes() for name in names),
    "wc": lambda folder, data: b"%d\n" % data.count(b"\n"),
    "cut": lambda folder, data, field: b"".join(
        line.rstrip(b"\n").split(b"\t")[int(field) - 1] + b"\n" for line in data.splitlines(True)
    ),
    "head": lambda folder, data, number: b"".join(data.splitlines(True)[: int(number)]),
    "tail": lambda folder, data, number: b"".join(data.splitlines(True)[-int(number) :]),
    "cmp": _same,
    "size": lambda folder, data, name: b"%d\n" % (folder / name).stat().st_size,
    "mkdir": lambda folder, data, name: (folder / name).mkdir() or b"",
    "rm": lambda folder, data, name: (folder / name).unlink() or b"",
    "ls": lambda folder, data, pattern="*": b"".join(
        f"{path.relative_to(folder).as_posix()}\n".encode() for path in sorted(folder.glob(pattern))
    ),
}


def run(line: str, folder: Path, mtkit: Run) -> str:
    """Run a command; return what a transcript says of it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split, lexer.commenters = True, ""
    words, data, errors, code, target = list(lexer), b"", b"", 0, None
    if ">" in words:
        target = folder / words.pop()
        words.pop()
    while words:
        end = words.index("|") if "|" in words else len(words)
        command, words = words[:end], words[end + 1 :]
        environment = {}
        while "=" in command[0]:
            name, _, environment[name] = command.pop(0).partition("=")
        if command[0] == "mtkit":
            done = mtkit(*command[1:], stdin=data, env=environment, cwd=folder)
            data, code = done.stdout, done.returncode
            errors += done.stderr
        else:
            data = TOOLS[command[0]](folder, data, *command[1:])
    if target is not None:
        target.write_bytes(data)
        data = b""
    *lines, rest = data.decode().split("\n")
    lines = [line or "␤" for line in lines] + ([rest + "␄"] if rest else [])
    lines += [f"! {line}" for line in errors.decode().splitlines()]
    if code != 2 * bool(errors):
        lines.append(f"? {code}")
    return "".join(f"{line}\n" for line in lines)


def _matches(expected: str, output: str) -> bool:
    rules = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + "\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(rules), output) is not None


def check(transcript: Transcript, folder: Path, mtkit: Run) -> None:
    """Run the commands of a section in a folder, which has the files that they name."""
    for match in re.finditer(r"^-- (.*)\n((?:.+\n)*)", transcript.text, re.M):
        (folder / match[1]).write_bytes(match[2].encode())
    new, wrong = "", ""
    for part in re.split(r"^(?=\$ )", transcript.text, flags=re.M):
        match = re.match(r"\$ (.*)\n((?:(?!#).+\n)*)", part)
        if match and not _matches(match[2], output := run(match[1], folder, mtkit)):
            wrong += f"$ {match[1]}\n{output}but the transcript says\n{match[2]}"
            part = f"$ {match[1]}\n{output}{part[match.end() :]}"
        new += part
    if wrong and os.environ.get("MTKIT_TRANSCRIPTS") == "write":
        whole = transcript.path.read_text(encoding="utf-8")
        transcript.path.write_text(whole.replace(transcript.text, new, 1), encoding="utf-8")
    elif wrong:
        pytest.fail(f"{transcript.path.name}, {transcript.title}\n{wrong}")
