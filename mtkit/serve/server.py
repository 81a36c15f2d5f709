"""uvicorn's server: addresses, time limits of connections, and an orderly end.

A client that sends nothing, half a head or half a body would hold one of the few connections,
without a key. A head has to be complete ``head_seconds`` after its beginning, a body
may stand still for ``body_seconds``; where ``most`` connections are open, a new one takes the place
of the one that has sent no head for longest. An answer of which nothing is read for
``write_seconds`` is ended, and its slot is free.

A client that has sent its request and ends its side may still read, or has left: only writing shows
which. Until its answer begins it gets interim responses, which HTTP clients ignore, and whose
refusal ends the connection.

A client that is answered while it still sends would lose the answer by a close, which the system
makes a reset of the connection. So the server ends its own side and passes over what comes, up to
a limit, until the client has read.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import h11
import uvicorn
from h11._readers import ChunkedReader
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtkit.base.watch import drop, hold, leave, restarts, tell
from mtkit.serve.addresses import address_error
from mtkit.serve.request import MOST_BODY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from mtkit.serve.guard import Guard
    from mtkit.serve.pool import ModelPool


_INTERIM_SECONDS = 0.1, 1.0
"""Seconds from the first interim answer to the second, by which the refusal of a client nearby is
here, and between all others."""
_MOST_DISCARDED = 16 * MOST_BODY
"""Bytes of a request that are passed over after its answer."""


_MOST_UNREAD = 1 << 18
"""Bytes that the system keeps for a client that does not read; its own limit is 16 times that."""


class _Transport:
    """A transport whose ``close`` is the connection's."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._connection.held:
            self._connection.release_answered()
        self._transport.write(data)

    def close(self) -> None:
        self._connection.end(self._transport)

    def is_closing(self) -> bool:
        return self._connection.is_ending or self._transport.is_closing()


class Connection(H11Protocol):
    """uvicorn's protocol, with limits.

    Attributes:
        is_ending: The server has ended its side, and what still comes is passed over.
        held: The descriptor whose copy the parent keeps; 0: it has none.
    """

    head_seconds: ClassVar[float] = 10
    body_seconds: ClassVar[float] = 30
    write_seconds: ClassVar[float] = 20
    most: ClassVar[int] = 512
    most_body: ClassVar[int] = MOST_BODY

    is_ending = False
    held = 0
    _left = _MOST_DISCARDED
    _limit: asyncio.TimerHandle | None = None
    _is_in_head = False
    _has_ended = False
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head; of too many connections, the one that waits longest is closed."""
        super().connection_made(transport)
        self.transport = _Transport(transport, self)  # type: ignore[assignment]
        with suppress(AttributeError, OSError):  # no socket: then nothing is kept in one
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_UNREAD
            )
        self._wait()
        if len(self.connections) > self.most:
            peers = (other for other in self.connections if isinstance(other, Connection))
            idle = [other for other in peers if other is not self and other.idle_until]
            if idle:
                min(idle, key=lambda other: other.idle_until).transport.close()

    def pause_writing(self) -> None:
        """Wait until the client has read, or end the connection of one that reads nothing."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_watching()
        super().resume_writing()

    def _watch_reader(self, size: int = 0) -> None:
        left = self.transport.get_write_buffer_size()
        if size and left >= size:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(self.write_seconds, self._watch_reader, left)

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        """Take bytes, and wait for the rest."""
        if self.is_ending:
            self._left -= len(data)
            if self._left < 0:
                self.transport.close()
            return
        super().data_received(data)
        # The size of a chunk refuses a body before it comes, as content-length does. It is h11's
        # own; an h11 that renames it fails here.
        reader = self.conn._reader  # noqa: SLF001
        if isinstance(reader, ChunkedReader) and reader._bytes_in_chunk > self.most_body:  # noqa: SLF001
            self.scope["state"]["is_too_long"] = True
            self.cycle.message_event.set()
        self._hold()
        self._wait()

    def _hold(self) -> None:
        """Have a request answered if this process dies, until its answer begins."""
        cycle = self.cycle
        if cycle and not (self.held or cycle.response_started or self.transport.is_closing()):
            bound = self.transport.get_extra_info("socket")
            if bound is not None and restarts() and self.scope["method"] == "POST":
                self.held = bound.fileno()
                hold(self.held, self.scope["path"])

    def release_answered(self) -> None:
        """Have the copy closed once the answer begins, which an interim response does not."""
        if self.held and (self.cycle.response_started or self.cycle.disconnected):
            drop(self.held)
            self.held = 0

    def eof_received(self) -> bool:  # type: ignore[override]
        """Let a client read that has sent its whole request."""
        if self.is_ending:
            return False
        self._has_ended = (
            self.conn.their_state is h11.DONE
            and not self.cycle.response_complete
            and self.conn.their_http_version == b"1.1"
        )
        if self._has_ended:
            self._look(*_INTERIM_SECONDS)
        return self._has_ended

    def _look(self, seconds: float, then: float) -> None:
        if not self.transport.is_closing() and not self.cycle.response_started:
            interim = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self.transport.write(self.conn.send(interim) or b"")
            self.loop.call_later(seconds, self._look, then, then)

    def end(self, transport: asyncio.Transport) -> None:
        """Close the connection, at once or when a client that still sends has ended, too."""
        sends = self.conn.their_state in (h11.SEND_BODY, h11.ERROR)
        if self.is_ending or not sends or transport.is_closing() or not transport.can_write_eof():
            transport.close()
            return
        self._start(self.body_seconds)
        self.is_ending = True
        self.flow.resume_reading()
        transport.write_eof()

    def on_response_complete(self) -> None:
        """Go on with what was sent meanwhile."""
        super().on_response_complete()
        if self._has_ended:
            self.transport.close()
        self._hold()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        self._stop_watching()
        super().connection_lost(exc)
        self.release_answered()

    @property
    def idle_until(self) -> float:
        """When it will be closed if no head comes; 0 while it has a request."""
        is_idle = self._is_in_head or self.is_ending
        timer = self.timeout_keep_alive_task or (self._limit if is_idle else None)
        is_closed = self.transport.is_closing() and not self.is_ending
        return timer.when() if timer and not is_closed else 0

    def _wait(self) -> None:
        if self.is_ending:
            return
        state = self.conn.their_state
        if state is h11.IDLE and self.timeout_keep_alive_task is None:
            if not self._is_in_head:  # its time counts from its beginning
                self._start(self.head_seconds)
                self._is_in_head = True
        elif state is h11.SEND_BODY:
            self._start(self.body_seconds)
        else:
            self._stop()

    def _start(self, seconds: float) -> None:
        self._stop()
        if not self.transport.is_closing():
            self._limit = self.loop.call_later(seconds, self.transport.close)

    def _stop(self) -> None:
        self._is_in_head = False
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


_PATIENCE = 2.0
"""Seconds that a second signal leaves to the scheduler."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """uvicorn's server; a signal first lets answers end, then ends them.

    Attributes:
        timers: They end the process if it does not end by itself.
    """

    def __init__(
        self, config: uvicorn.Config, pool: ModelPool, listening: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._pool, self._listening = pool, listening
        self.timers: list[threading.Timer] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals; unlike uvicorn's, does not raise them again: the exit code is 0."""
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
            threading.Thread(target=self._pool.end_answers, daemon=True).start()
        self.should_exit = True

    def end_within(self, seconds: float) -> None:
        """End the process if it has not ended by then: nothing stops a call into C."""
        timer = threading.Timer(seconds, leave, [0])
        timer.daemon = True
        timer.start()
        self.timers.append(timer)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and report the address."""
        await super().startup(sockets=sockets)
        if self.started:
            self._pool.watch()
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            tell("ready")
            self._listening(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def _stop_listening(self, sockets: list[socket.socket]) -> None:
        """Refuse connections from now on, though the parent has the sockets, too."""
        copies = [bound.dup() for bound in sockets if bound.fileno() >= 0]
        for server in self.servers:
            server.close()
        for copy in copies:
            with suppress(OSError):
                copy.shutdown(socket.SHUT_RDWR)
            copy.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers end as long as the grace lasts, then end them."""
        pool = self._pool
        self._stop_listening(sockets or [])
        await asyncio.to_thread(pool.drain)

        async def end_them() -> None:
            await asyncio.sleep(pool.settings.grace)
            self.end_within(5 * _PATIENCE)
            await asyncio.to_thread(pool.end_answers)

        ending = asyncio.create_task(end_them())
        await super().shutdown(sockets=sockets)
        ending.cancel()


def listen(
    app: Guard,
    pool: ModelPool,
    sockets: list[socket.socket],
    listening: Callable[[str], None],
) -> Server:
    """Answer requests until a signal ends it; returns the server that did."""
    settings = pool.settings
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # mtkit reports its errors
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.grace + 5,
    )
    server = Server(config, pool, listening)
    state = server.server_state
    Connection.most_body = app.most_body
    app.is_full = lambda: len(state.connections) > Connection.most
    try:
        server.run(sockets)
    except OSError as error:  # another process was faster
        raise address_error(settings.host, settings.port, error) from None
    return server
