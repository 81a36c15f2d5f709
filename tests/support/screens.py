"""What a command sends to a terminal: run on a pseudo terminal of a given width."""

from __future__ import annotations

import os
import re
import select
import struct
import subprocess
import sys
from typing import NamedTuple

from support import posix

COLUMNS = (60, 80, 120)
_PROGRESS = re.compile(r"(\r[^\r\n\x1b]*\x1b\[K)*\r\x1b\[K")
"""Of what takes long on a slow machine: lines that were drawn one over the other, and erased."""
_TIME = re.compile(r"\b\d+\.\d s\b")
"""What another run may take longer for."""
_SGR = re.compile(r"\x1b\[[0-9;]*m")


class Sent(NamedTuple):
    """What came: stdout and stderr of the command on one terminal, and its exit code."""

    text: str
    code: int

    @property
    def lines(self) -> list[str]:
        """The lines as they are read, without colors."""
        return _SGR.sub("", self.text).replace("\r", "").split("\n")

    @property
    def words(self) -> str:
        """All words with one space between, wherever lines were folded."""
        return " ".join(" ".join(self.lines).split())


def screen(
    *args: object, columns: int = 80, color: bool = False, cwd: str | None = None, **env: str
) -> Sent:
    """Run ``mtkit`` on a terminal, without colors unless they are asked for."""
    fcntl, pty, termios = map(posix, ("fcntl", "pty", "termios"))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    outside = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"}
    known = {name: value for name, value in os.environ.items() if name not in outside}
    no_color = {} if color else {"NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "mtkit", *map(str, args)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        cwd=cwd,
        env={**known, "TERM": "xterm-256color", **no_color, **env},
    )
    # The other end stays open until all was read: when its last user goes, a busy Linux may drop
    # what was written last.
    sent, ended = b"", False
    while True:
        ready, _, _ = select.select([master], [], [], 0.05)
        if ready:
            sent += os.read(master, 65536)
        elif ended:
            break
        ended = ended or process.poll() is not None
    os.close(slave)
    os.close(master)
    return Sent(_PROGRESS.sub("", sent.decode()), process.wait())


def check_screens(*args: object, code: int = 0, **env: str) -> dict[int, Sent]:
    """Run a command at 60, 80 and 120 columns: nothing is wider, color adds no word.

    Returns:
        Columns -> what was sent without color.
    """
    found = {columns: screen(*args, columns=columns, **env) for columns in COLUMNS}
    for columns, sent in found.items():
        assert sent.code == code, sent.text
        assert "\x1b" not in sent.text
        wide = [line for line in sent.lines if len(line) > columns]
        assert not wide, wide
        assert all(line == line.rstrip() for line in sent.lines), sent.lines
    colored = screen(*args, color=True, **env)
    assert "\x1b[" in colored.text
    assert _TIME.sub("", colored.words) == _TIME.sub("", found[80].words)
    assert "\x1b" not in screen(*args, color=True, TERM="dumb", **env).text
    return found
