"""The process that serves: listens, tells where, and ends in order."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
from contextlib import ExitStack, contextmanager

import uvicorn

from mtkit.errors import ResourceError
from mtkit.serve.app import application
from mtkit.serve.connection import Connection
from mtkit.serve.guard import Guard, keys_of, names_of
from mtkit.serve.listening import bound, refused
from mtkit.serve.opening import opened
from mtkit.serve.served import Served

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import FrameType

    from mtkit.settings import ServeSettings

_PATIENCE = 2.0
"""Seconds that a second signal leaves to what computes."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """uvicorn's server; a signal first lets answers end, then ends them."""

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


@contextmanager
def _mounted(
    settings: ServeSettings,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[tuple[Guard, Served]]:
    """Load a model, and give the application that answers with what it shares."""
    keys = keys_of(settings)
    names_of(settings)  # before the model is loaded
    with opened(settings, on_progress) as (runner, scheduler):
        served = Served(runner, scheduler, settings, template, on_note)
        scheduler.start()
        yield application(served, keys), served


def asgi(settings: ServeSettings, *, template: str | None = None) -> Guard:
    """Load a model, and return the ASGI application for a server of somebody else's.

    The model stays loaded as long as the process runs. Who listens for other machines without a key
    has to keep them away otherwise; ``allow_host`` names what the server is called.

    Args:
        settings: Which model, and how; where to listen is the server's business.
        template: A chat template instead of the model's own.

    Raises:
        ResourceError: The model does not fit the memory.
    """
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(_mounted(settings, template))[0]


def serve(
    settings: ServeSettings,
    *,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    listening: Callable[[str, Served], None],
) -> None:
    """Serve a model until a signal ends it.

    Args:
        settings: Which model, and how.
        template: A chat template instead of the model's own.
        on_progress: Called with the part that is loaded, 0 to 1.
        on_note: Called with what the user should know, in any thread.
        listening: Called with the address once requests are taken.

    Raises:
        UsageError: The address cannot be listened on, or needs a key.
        ResourceError: The model does not fit the memory.
    """
    with ExitStack() as stack:
        app, served = stack.enter_context(_mounted(settings, template, on_progress, on_note))
        sockets = [stack.enter_context(one) for one in bound(settings)]
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
        server = _Server(config, served, lambda address: listening(address, served))
        state = server.server_state
        app.is_full = lambda: len(state.connections) > Connection.most
        try:
            server.run(sockets)
        except OSError as error:  # another process was faster
            raise refused(settings.host, settings.port, error) from None
    for timer in server.timers:
        timer.cancel()
    if not server.started:
        raise ResourceError("the server did not start")
