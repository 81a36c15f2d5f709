"""Servers that lie: raw answers to each request for a range, through http.client as it is.

Status, headers, lengths, bodies and where the connection ends are drawn; now and then the file is
fsspec's, whose size and bytes are drawn likewise.
"""

from __future__ import annotations

import io
import re
from http.client import HTTPConnection
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from file_uses import clear
from mutants import byte_level

from mtkit.base.binary import Source
from mtkit.checkpoints import safetensors
from mtkit.commands.inspect import gguf as inspect_gguf
from mtkit.gguf import open_gguf
from mtkit.sources import remote
from workbench import gguf_files

if TYPE_CHECKING:
    from collections.abc import Callable

    Mutant = tuple[bytes, int, str]
    """What the file begins with, the seed of what the server does, the scheme."""

PIECE = 700
"""Bytes of a request here, so that a header takes several."""
MOST = 1 << 16
NUMBERS = (b"0", b"1", b"-1", b"699", b"700", b"701", b"9" * 15, b"9" * 16, b"9" * 5000, b"", b"x",
           b"\xd9\xa1", b"1e3", b"+1", b"0x10", b" 1", b"*")  # fmt: skip
STATUSES = (b"200 OK", b"206 Partial Content", b"301 Moved", b"302 Found", b"303 x", b"307 x",
            b"308 x", b"404 Not Found", b"416 Range", b"500 x", b"100 Continue", b"204 x", b"206",
            b"999 x", b"0 x", b"-206 x", b"206 \xff", b"600 x", b"304 x", b"401 x")  # fmt: skip
HEADERS = (b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Content-Length: 5",
           b"Location: /", b"Location: http://h/b", b"Location: file:///etc/passwd", b"Location:",
           b"Location: ftp://h/", b"Location: http://[", b"Location: \xff", b"Connection: close",
           b"X: " + b"a" * 70_000, b": ", b"\0", b"Content-Range: bytes 0-0/1", b" folded",
           b"Location: http://h:99999/", b"Location: //", b"Location: http://\x01/",
           b"Content-Range: bytes */10", b"Location: https:", b"Set-Cookie: a=\xff")  # fmt: skip

ERRORS = (PermissionError, FileNotFoundError, TimeoutError)


class Socket:
    """What ``http.client`` needs of a socket, with an answer in it."""

    def __init__(self, answers: Callable[[bytes], bytes]) -> None:
        self.answers = answers
        self.asked = b""

    def sendall(self, data: bytes) -> None:
        self.asked += data

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(Answer(self.answers(self.asked)))

    def close(self) -> None: ...

    def settimeout(self, _: object) -> None: ...

    def gettimeout(self) -> float:
        return 20.0


class Answer(io.BytesIO):
    """Bytes of an answer; ``TIMEOUT`` and ``RESET`` in it end the connection there."""

    TIMEOUT, RESET = b"<<timeout>>", b"<<reset>>"

    def readinto(self, buffer: Any) -> int:
        rest = self.getbuffer()[self.tell() :]
        rest_bytes = bytes(rest)
        rest.release()
        ends = [(at, mark) for mark in (self.TIMEOUT, self.RESET)
                if (at := rest_bytes.find(mark)) >= 0]  # fmt: skip
        end, mark = min(ends, default=(len(rest_bytes), b""))
        if mark and not end:
            raise TimeoutError if mark == self.TIMEOUT else ConnectionResetError(104, "reset\nby")
        count = min(len(buffer), end)
        buffer[:count] = rest_bytes[:count]
        self.seek(count, 1)
        return count


def mutant(rng: Random) -> tuple[str, Mutant]:
    """Draw a file and a server."""
    if rng.random() < 0.7:
        name, source = gguf_files.mutant(rng) if rng.random() < 0.3 else _whole(rng)
        data = bytes(source.data)
    else:
        name = "safetensors"
        head = b'{"a":{"dtype":"F32","shape":[400],"data_offsets":[0,1600]}' + b" " * 900 + b"}"
        data = len(head).to_bytes(8, "little") + head + bytes(1600)
    scheme = rng.choice(("http",) * 9 + ("lies",))
    return f"{scheme} {name}", (data, rng.randrange(1 << 60), scheme)


def _whole(rng: Random) -> tuple[str, Source]:
    name = rng.choice(list(gguf_files.wholes()))
    return name, Source("a.gguf", gguf_files.wholes()[name])


def use(made: Mutant, rng: Random) -> str:
    """Open the address and look at what was fetched."""
    data, seed, scheme = made
    chance = Random(seed)
    lies = chance.random() * 0.4

    def connect(self: HTTPConnection) -> None:
        self.sock = Socket(lambda asked: _answered(chance, data, asked, lies))  # type: ignore[assignment]

    source = None
    with clear(), patch.object(HTTPConnection, "connect", connect), \
            patch.object(remote, "PIECE_BYTES", PIECE), \
            patch("fsspec.open", lambda *_, **__: File(chance, data, lies)):  # fmt: skip
        source = remote.open_remote(f"{scheme}://h/a", most=MOST)
    if source is None:
        return "refused"
    with clear():
        if bytes(source.data[:4]) == b"GGUF":
            open_gguf(source, strict=False)
            if len(source.data) < 1 << 20:
                inspect_gguf.show_gguf(
                    source, sections=(), pattern=None, sort=None, in_full=False,
                    as_json=rng.random() < 0.5, quiet=False,
                )  # fmt: skip
        elif safetensors.sniff(source):
            safetensors.read(source)
    return "read"


def _answered(rng: Random, data: bytes, asked: bytes, lies: float) -> bytes:
    """Answer a request, truly or not."""
    found = re.search(rb"Range: bytes=(\d+)-(\d+)", asked)
    begin, last = (int(found[1]), min(int(found[2]), len(data) - 1)) if found else (0, 0)

    def drawn(value: int) -> bytes:
        if rng.random() >= lies:
            return b"%d" % value
        return rng.choice((*NUMBERS, b"%d" % (value + 1), b"%d" % (value - 1)))

    body = data[begin : last + 1]
    lines = [
        b"HTTP/1.1 " + (rng.choice(STATUSES) if rng.random() < lies else STATUSES[1]),
        b"Content-Range: bytes %b-%b/%b" % (drawn(begin), drawn(last), drawn(len(data))),
        b"Content-Length: " + drawn(len(body)),
    ]
    if rng.random() < lies:
        lines.insert(rng.randrange(1, 4), rng.choice(HEADERS))
    if rng.random() < lies:
        lines.pop(rng.randrange(len(lines)))
    if rng.random() < lies:
        body = byte_level.mutate(rng, body)
    answer = b"\r\n".join(lines) + b"\r\n\r\n" + body
    if rng.random() < lies / 2:
        at = rng.randrange(len(answer) + 1)
        answer = answer[:at] + rng.choice((b"", Answer.TIMEOUT, Answer.RESET, b"\0", b"\r\n"))
    if rng.random() < lies / 4:
        answer = byte_level.mutate(rng, answer)
    return answer


class File:
    """A file of fsspec's, with a size and bytes of its own choosing."""

    def __init__(self, rng: Random, data: bytes, lies: float) -> None:
        self.rng, self.data, self.lies, self.at = rng, data, lies, 0

    def open(self) -> File:
        self._fail()
        return self

    @property
    def size(self) -> Any:
        self._fail()
        odd = (None, -1, 0, 1 << 40, 1 << 62, 1 << 70, "x", len(self.data) + 1, 3.5)
        return self.rng.choice(odd) if self.rng.random() < self.lies / 2 else len(self.data)

    def seek(self, at: int) -> None:
        self.at = at

    def read(self, count: int) -> Any:
        self._fail()
        piece = self.data[self.at : self.at + max(count, 0)]
        if self.rng.random() < self.lies / 2:
            return self.rng.choice(
                (piece[:-1], piece + b"x", b"", byte_level.mutate(self.rng, piece))
            )
        return piece

    def _fail(self) -> None:
        if self.rng.random() < self.lies / 4:
            raise self.rng.choice((OSError(5, "x\ny"), ValueError(""), KeyError("k"), *ERRORS))
