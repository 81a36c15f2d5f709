"""A local HTTP server that gives ranges of a file, or behaves badly in one way."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


DRIPPED = {
    "drip-head": (b"HTTP/1.1 206 Partial Content\r\n", b"x: y\r\n"),
    "drip-line": (b"HTTP/1.1 206 Partial Content\r\nx: ", b"y"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}
"""Manner -> how an answer begins, and what then comes piece by piece."""


class Server(ThreadingHTTPServer):
    """Counts the bytes that it gives.

    Attributes:
        path: The file.
        manner: How it behaves: ``good``, ``whole``, ``short``, ``other-range``, ``no-range-said``,
            ``growing``, ``slow``, ``drip``, ``drip-head``, ``drip-line``, ``continue`` (over and
            over), ``redirect``, ``redirect-long`` (with a body that
            is said to be 8 TB), ``loop``, ``redirect-file``, ``redirect-ftp``,
            ``redirect-nowhere``, ``missing``.
        sent: Bytes of bodies.
    """

    daemon_threads = True

    def __init__(self, path: Path, manner: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.path, self.manner, self.sent = path, manner, 0


class Handler(BaseHTTPRequestHandler):
    """Answers GET."""

    server: Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer, well or badly."""
        try:
            self._answer(self.server.manner)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, manner: str) -> None:
        size = self.server.path.stat().st_size
        targets = {"loop": self.path, "redirect-file": "file:///etc/hostname",
                   "redirect-ftp": "ftp://127.0.0.1:1/x"}  # fmt: skip
        if manner.startswith("redirect") and self.path != "/there":
            targets |= {"redirect": "/there", "redirect-long": "/there"}
        if manner == "redirect-nowhere":
            self._head(302, {"Content-Length": "0"})
            return
        if manner in targets:
            length = 0 if manner != "redirect-long" else 8 << 40
            self._head(302, {"Location": targets[manner], "Content-Length": str(length)})
            return
        if manner == "missing":
            self._head(404, {"Content-Length": "0"})
            return
        if manner == "slow":
            time.sleep(3)
        if manner in DRIPPED:
            self._drip(manner)
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert found
        begin, last = int(found[1]), min(int(found[2]), size - 1)
        if manner == "whole":
            self._head(200, {"Content-Length": str(size)})
            begin, last = 0, size - 1
        else:
            said = size + begin if manner == "growing" else size
            shift = manner == "other-range"
            text = f"bytes {begin + shift}-{last + shift}/{said}"
            headers = {"Content-Length": str(last - begin + 1)}
            if manner != "no-range-said":
                headers["Content-Range"] = text
            self._head(206, headers)
        if manner == "short":
            last = (begin + last) // 2
            self.close_connection = True
        with self.server.path.open("rb") as file:
            file.seek(begin)
            while begin <= last:
                piece = file.read(min(last + 1 - begin, 10 if manner == "drip" else 1 << 16))
                self.server.sent += len(piece)
                self.wfile.write(piece)
                begin += len(piece)
                if manner == "drip":
                    time.sleep(0.05)

    def _drip(self, manner: str) -> None:
        """Begin an answer that never comes to its body."""
        begin, part = DRIPPED[manner]
        self.wfile.write(begin)
        for _ in range(200):
            self.wfile.write(part)
            time.sleep(0.02)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def serving(path: Path, manner: str = "good") -> Iterator[tuple[str, Server]]:
    """Yield the address of a file and its server."""
    server = Server(path, manner)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{path.name}", server
    finally:
        server.shutdown()
        server.server_close()
