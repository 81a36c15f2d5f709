"""uvicorn's server: tells where it listens, and ends in order."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import contextmanager

import uvicorn

from mtkit.serve.connection import Connection
from mtkit.serve.listening import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import FrameType

    from mtkit.serve.guard import Guard
    from mtkit.serve.served import Served

_PATIENCE = 2.0
"""Seconds that a second signal leaves to what computes."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """uvicorn's server; a signal first lets answers end, then ends them.

    Attributes:
        started: It has listened.
        timers: What ends the process if it does not end by itself.
    """

    def __init__(
        self, config: uvicorn.Config, served: Served, listening: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._served, self._listening = served, listening
        self.timers: list[threading.Timer] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals; unlike uvicorn's, does not raise them again: ending was asked for."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End; a second signal does not wait for answers, nor long for what computes."""
        if self.should_exit:
            self.end_within(_PATIENCE)
            threading.Thread(target=self._served.scheduler.close, daemon=True).start()
        self.should_exit = True

    def end_within(self, seconds: float) -> None:
        """End the process if it has not ended by then: nothing stops a call into C."""
        timer = threading.Timer(seconds, os._exit, [0])
        timer.daemon = True
        timer.start()
        self.timers.append(timer)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and tell where."""
        await super().startup(sockets=sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._listening(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers end as long as the grace lasts, then end them."""
        scheduler = self._served.scheduler
        await asyncio.to_thread(scheduler.drain)

        async def end_them() -> None:
            await asyncio.sleep(self._served.settings.grace)
            self.end_within(5 * _PATIENCE)
            await asyncio.to_thread(scheduler.close)

        ending = asyncio.create_task(end_them())
        await super().shutdown(sockets=sockets)
        ending.cancel()


def listen(
    app: Guard,
    served: Served,
    sockets: list[socket.socket],
    listening: Callable[[str], None],
) -> Server:
    """Answer what comes until a signal ends it; returns what did.

    Args:
        app: What answers.
        served: What it serves.
        sockets: Where, bound.
        listening: Called with the address once requests are taken.

    Raises:
        UsageError: The address cannot be listened on.
    """
    settings = served.settings
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what it cannot do is said by an error of ours
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.grace + 5,
    )
    server = Server(config, served, listening)
    state = server.server_state
    app.is_full = lambda: len(state.connections) > Connection.most
    try:
        server.run(sockets)
    except OSError as error:  # another process was faster
        raise refused(settings.host, settings.port, error) from None
    return server
