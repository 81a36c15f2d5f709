"""A connection that does not wait for ever: uvicorn's, with limits to what a client may hold up.

Whoever connects and sends nothing, half a head or half a body would hold one of the few
connections, without a key. A head has to be complete ``head_seconds`` after its beginning, a body
may stand still for ``body_seconds``; where ``most`` connections are open, a new one takes the place
of the one that has sent no head for longest. Answers are not limited: they wait for who reads them.

A client that has sent its request and ends its side may still read, or has left: only what is
written to it tells. Until its answer begins it gets interim answers, which HTTP has it pass over,
and whose refusal ends the connection.

A client that is answered while it still sends would lose the answer by a close, which the system
makes a reset of the connection. So the server ends its own side and passes over what comes, up to
a limit, until the client has read.
"""

from __future__ import annotations

from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mtkit.serve.bodies.fields import MOST_BODY

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

_LOOKS = 0.1, 1.0
"""Seconds from the first interim answer to the second, by which a refusal has come from near, and
from then on."""
_PASSED_OVER = 16 * MOST_BODY
"""Bytes of a request that come after its answer."""


class _Ending:
    """A transport whose ``close`` is the connection's."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        self._connection.end(self._transport)

    def is_closing(self) -> bool:
        return self._connection.is_ending or self._transport.is_closing()


class Connection(H11Protocol):
    """uvicorn's protocol, with limits.

    Attributes:
        head_seconds: For the head of a request, from its first byte or from the connection on.
        body_seconds: Between two parts of a body.
        most: Connections.
        is_ending: The server has ended its side, and what still comes is passed over.
    """

    head_seconds: ClassVar[float] = 10
    body_seconds: ClassVar[float] = 30
    most: ClassVar[int] = 512

    is_ending = False
    _left = _PASSED_OVER
    _limit: asyncio.TimerHandle | None = None
    _is_in_head = False
    _has_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head; of too many connections, the one that waits longest is closed."""
        super().connection_made(transport)
        self.transport = _Ending(transport, self)  # type: ignore[assignment]
        self._wait()
        if len(self.connections) > self.most:
            others = (one for one in self.connections if isinstance(one, Connection))
            idle = [one for one in others if one is not self and one.idle_until]
            if idle:
                min(idle, key=lambda one: one.idle_until).transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what was sent, and wait for the rest."""
        if self.is_ending:
            self._left -= len(data)
            if self._left < 0:
                self.transport.close()
            return
        super().data_received(data)
        reader = self.conn._reader  # noqa: SLF001  h11 tells nothing of a chunk before all of it
        if getattr(reader, "_bytes_in_chunk", 0) > MOST_BODY:
            self.scope["state"]["is_too_long"] = True
            self.cycle.message_event.set()
        self._wait()

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
            self._look(*_LOOKS)
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
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        super().connection_lost(exc)

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
