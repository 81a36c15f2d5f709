"""A server in a process of its own, and an application in this one, for the tests of serving."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from support import reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path


ASK = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


class Server:
    """A running ``mtkit serve``.

    Attributes:
        url: Its address.
        process: The process.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        assert process.stderr
        for line in process.stderr:
            self.said.append(line)
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                break
        else:
            raise AssertionError("".join(self.said))
        self._reader = threading.Thread(target=self.said.extend, args=[process.stderr])
        self._reader.start()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; returns its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        code = self.process.wait(60)
        self._reader.join()
        assert self.process.stderr
        self.process.stderr.close()
        return code


@contextmanager
def server(model: Path, *options: object, first: str = "") -> Iterator[Server]:
    """Start ``mtkit serve`` on a free port; it has to end without a traceback.

    Args:
        model: What it serves.
        options: Further options.
        first: Python that its process runs before.
    """
    for name in ("llama_cpp", "uvicorn", "starlette"):
        reference(name)
    begin = ["-c", f"{first}\nimport runpy; runpy.run_module('mtkit', run_name='__main__')"]
    begin = begin if first else ["-m", "mtkit"]
    argv = [sys.executable, *begin, "serve", "-m", str(model), "--port", "0", "-t", "1"]
    argv += ["--temp", "0"]
    process = subprocess.Popen(
        [*argv, *map(str, options)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "MTKIT_TRIAL": "0"},
    )
    started = None
    try:
        started = Server(process)
        yield started
        if process.poll() is None:
            assert started.end() == 0
        assert "Traceback" not in "".join(started.said)
    finally:
        if process.poll() is None:
            process.kill()
        if started is not None:
            started.wait()  # an open pipe would be the fault of a later test


@contextmanager
def application(model: Path, keys: Sequence[str] = (), **given: Any) -> Iterator[Any]:
    """Start a scheduler; gives the application and what it shares."""
    reference("starlette")
    from mtkit.serve.app import application as made

    with pooled(model, **given) as pool:
        yield made(pool, keys), pool.first.served


@contextmanager
def pooled(model: Path, **given: Any) -> Iterator[Any]:
    """Load a model; gives the pool that it is the first model of."""
    reference("starlette")
    from mtkit.serve.pool import ModelPool
    from mtkit.settings import ServeSettings
    from mtkit.settings.declaration import settings_of

    template, on_note = given.pop("template", None), given.pop("on_note", None)
    given = {
        "threads": 1, "trial": False, "n_ctx": 2048, "temperature": 0, "model": str(model), **given
    }  # fmt: skip
    pool = ModelPool(settings_of(ServeSettings, given), template, on_note)
    pool.first.load(pool, None)
    try:
        yield pool
    finally:
        pool.close()


@asynccontextmanager
async def client(app: Any, **options: Any) -> AsyncIterator[Any]:
    """Give an httpx client of an application."""
    httpx = reference("httpx")
    transport = httpx.ASGITransport(app=app)
    base = options.pop("base_url", "http://localhost")
    async with httpx.AsyncClient(transport=transport, base_url=base, **options) as made:
        yield made


def run(app: Any, *requests: tuple[str, str, Any], **options: Any) -> list[Any]:
    """Send requests one after the other; a body that is not bytes is sent as JSON."""

    async def send() -> list[Any]:
        async with client(app, **options) as http:
            found = []
            for method, path, body in requests:
                data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
                found.append(await http.request(method, path, content=data))
            return found

    return asyncio.run(send())


def post(app: Any, path: str, body: Any, **options: Any) -> Any:
    """Send a request."""
    return run(app, ("POST", path, body), **options)[0]


def message(answer: Any) -> str:
    """Return what an error says."""
    found: str = answer.json()["error"]["message"]
    return found


def streamed(app: Any, path: str, body: Any) -> list[dict[str, Any]]:
    """Return the data of the events of a stream."""
    answer = post(app, path, body)
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]
