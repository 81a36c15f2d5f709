"""Connections that send nothing, or not all, are closed; who asks comes in between."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from llm_models import tiny
from serving_http import application
from support import reference

HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


def check(test: Callable[[int], Awaitable[None]], app: Any = None, **limits: float) -> None:
    """Run a test with a server of short limits; it gets the port."""
    reference("uvicorn")
    import uvicorn

    from mtkit.serve.server import Connection

    async def echo(_: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        start = {"type": "http.response.start", "status": 200}
        await send({**start, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"%3d" % size})

    short = {"head_seconds": 0.5, "body_seconds": 0.5, **limits}
    kind = type("Short", (Connection,), short)

    async def run() -> None:
        config = uvicorn.Config(
            app or echo, port=0, http=kind, ws="none", lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await test(server.servers[0].sockets[0].getsockname()[1])
        finally:
            server.should_exit = True
            await serving

    asyncio.run(run())


async def until_closed(reader: asyncio.StreamReader) -> tuple[bytes, float]:
    """Return what was sent before the end, and after how many seconds that was."""
    before = time.perf_counter()
    try:
        data = await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:  # what the client wrote last came after the end
        data = b""
    return data, time.perf_counter() - before


@pytest.mark.parametrize(
    "sent",
    [b"", b"P", HEAD, HEAD + b"content-length: 5\r\n\r\n", HEAD + b"content-length: 5\r\n\r\nab",
     HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n"],
)  # fmt: skip
def test_who_sends_no_whole_request_is_left(sent: bytes) -> None:
    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        data, seconds = await until_closed(reader)
        assert (data, 0.4 < seconds < 10) == (b"", True)
        writer.close()

    check(test)


def test_a_head_has_its_time_however_it_drips() -> None:
    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ending = asyncio.create_task(until_closed(reader))
        for at in range(200):
            if ending.done():
                break
            writer.write(HEAD[at % 5 : at % 5 + 1] if at < 4 else b"x")
            await asyncio.sleep(0.05)
        assert (await ending)[0] == b""
        writer.close()

    check(test)


def test_a_slow_body_and_several_requests() -> None:
    """A body that goes on is waited for; a second head has its own time."""

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(3):
            writer.write(HEAD + b"content-length: 5\r\n\r\n")
            for letter in b"abcde":
                await asyncio.sleep(0.2)
                writer.write(bytes([letter]))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(3) == b"  5", turn
        writer.write(b"P")  # half a second head
        assert (await until_closed(reader))[0] == b""
        writer.close()

    check(test)


@pytest.mark.parametrize("reads", [0, 100])
def test_an_answer_that_nobody_reads_ends(reads: int) -> None:
    """Who reads a little goes on, who reads nothing is left, and the application hears of it."""
    ends: list[float] = []

    async def endless(_: Any, receive: Any, send: Any) -> None:
        async def write() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send(
                    {"type": "http.response.body", "body": bytes(1 << 16), "more_body": True}
                )
                await asyncio.sleep(0)  # behind a client that has left, nothing is waited for

        start, writing = time.perf_counter(), asyncio.create_task(write())
        while time.perf_counter() - start < 4:
            with contextlib.suppress(asyncio.TimeoutError):
                message = await asyncio.wait_for(receive(), 0.2)
                if message["type"] == "http.disconnect":
                    break
        writing.cancel()
        ends.append(time.perf_counter() - start)

    async def test(port: int) -> None:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, HEAD + b"content-length: 0\r\n\r\n")
            start = time.perf_counter()
            while not ends and time.perf_counter() - start < 10:
                for _ in range(reads):
                    await asyncio.wait_for(loop.sock_recv(client, 1 << 16), 5)
                await asyncio.sleep(0.05)
        assert ends
        assert (ends[0] < 3.5) == (not reads)

    check(test, endless, write_seconds=0.6)


def test_an_answer_may_take_longer() -> None:
    async def slow(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.sleep(1.5)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"connection: close\r\n\r\n")
        assert b"late" in (await until_closed(reader))[0]
        writer.close()

    check(test, slow)


ANSWER = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("seconds", [0.0, 1.4])
def test_who_ends_its_side_gets_its_answer(seconds: float) -> None:
    async def slow(_: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"abcde"
        await asyncio.sleep(seconds)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"content-length: 5\r\n\r\nabcde")
        await writer.drain()
        writer.write_eof()
        data, _ = await until_closed(reader)
        interim, _, answer = data.partition(ANSWER)
        assert set(interim.split(b"\r\n\r\n")) <= {b"HTTP/1.1 100 Continue", b""}
        assert b"late" in answer
        assert bool(interim) or not seconds
        writer.close()

    check(test, slow)


@pytest.mark.parametrize(
    "sent", [b"", b"content-length: 5\r\n\r\nab", b"transfer-encoding: chunked\r\n\r\n2\r\nab"]
)
def test_who_ends_its_side_within_a_request_is_left(sent: bytes) -> None:
    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + sent)
        writer.write_eof()
        data, seconds = await until_closed(reader)
        assert data == b""
        assert seconds < 5
        writer.close()

    check(test, body_seconds=60.0, head_seconds=60.0)


@pytest.mark.parametrize("path", ["/completion", "/v1/chat/completions"])
def test_who_leaves_without_reading_is_noticed(path: str) -> None:
    left: list[float] = []

    async def waiting(_: Any, receive: Any, send: Any) -> None:
        await receive()
        begun = time.perf_counter()
        assert (await receive())["type"] == "http.disconnect"
        left.append(time.perf_counter() - begun)

    async def test(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD.replace(b" / ", f" {path} ".encode()) + b"content-length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        for _ in range(100):
            await asyncio.sleep(0.05)
            if left:
                break

    check(test, waiting)
    assert left
    assert left[0] < 3


def told(head: bytes, body: bytes = b"", **settings: Any) -> bytes:
    """Return what the application answers to a request."""
    answers = []
    with application(tiny("llama"), **settings) as (app, _):

        async def test(port: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n" + head + body)
            answers.append((await until_closed(reader))[0])
            writer.close()

        check(test, app, body_seconds=20.0)
    return answers[0]


def test_a_length_beside_chunks_ends_the_connection() -> None:
    head = b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = told(head, b"0\r\n\r\nGET /slots HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"not both" in answer


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFFF", b"500000"])
def test_a_chunk_that_is_too_long_is_not_waited_for(size: bytes) -> None:
    begun = time.perf_counter()
    answer = told(b"transfer-encoding: chunked\r\n\r\n", size + b"\r\nab")
    assert answer.startswith(b"HTTP/1.1 413")
    assert time.perf_counter() - begun < 15


def test_bodies_on_their_way_have_a_limit_together() -> None:
    half = 3 << 20
    head = HEAD.replace(b" / ", b" /tokenize ")
    statuses = []
    with application(tiny("llama"), max_held_bytes=1 << 22) as (app, _):

        async def ask(port: int, size: int) -> tuple[Any, Any]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + b"content-length: %d\r\n\r\n" % half)
            writer.write(b'{"content":"' + b" " * (size - 14) + (b'"}' if size == half else b""))
            await writer.drain()
            return reader, writer

        async def test(port: int) -> None:
            _, first = await ask(port, half - 100)
            await asyncio.sleep(0.5)
            reader, second = await ask(port, half)
            statuses.append(await reader.readline())
            first.close()
            second.close()
            await asyncio.sleep(0.5)
            for _ in range(2):  # what was held is free, whole or not
                reader, third = await ask(port, half)
                statuses.append(await reader.readline())
                third.close()

        check(test, app, body_seconds=30.0)
    assert [line.split()[1] for line in statuses] == [b"503", b"200", b"200"]


def sent_whole(port: int, head: bytes, body: bytes) -> bytes:
    """Return what a client gets that sends all of a request before it reads."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\n" + head + b"\r\n" + body)
        found = b""
        while part := client.recv(1 << 16):
            found += part
    return found


def in_chunks(size: int, chunk: int) -> bytes:
    return (b"%x\r\n" % chunk + b" " * chunk + b"\r\n") * (size // chunk) + b"0\r\n\r\n"


LONG = 12 << 20
OF_LENGTH = b"host: localhost\r\nconnection: close\r\ncontent-length: %d\r\n" % LONG
IN_CHUNKS = b"host: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
ANSWERED_EARLY = [
    (OF_LENGTH, b" " * LONG, 413),
    (IN_CHUNKS, in_chunks(LONG, LONG), 413),
    (IN_CHUNKS.replace(b"connection: close\r\n", b""), in_chunks(LONG, LONG), 413),
    (IN_CHUNKS, in_chunks(LONG, 1 << 10), 413),
    (IN_CHUNKS, in_chunks(LONG, 1 << 20), 413),
    (OF_LENGTH.replace(b"localhost", b"elsewhere"), b" " * LONG, 403),
    (IN_CHUNKS + b"content-length: 5\r\n", in_chunks(LONG, 1 << 10), 400),
    (b"x-long: " + b"x" * LONG + b"\r\n", b"", 400),
    (IN_CHUNKS, b"no chunk" * (LONG >> 3), 400),
]


@pytest.mark.parametrize(("head", "body", "status"), ANSWERED_EARLY)
def test_who_still_sends_gets_the_answer(head: bytes, body: bytes, status: int) -> None:
    found: list[bytes] = []
    with application(tiny("llama")) as (app, _):

        async def test(port: int) -> None:
            for _ in range(3):
                found.append(await asyncio.to_thread(sent_whole, port, head, body))

        check(test, app, body_seconds=30.0)
    assert [answer.split(b" ")[1] for answer in found] == [b"%d" % status] * 3
    assert all(answer.count(b"HTTP/1.1") == 1 for answer in found)


@pytest.mark.parametrize("seconds", [0.5, 60.0])
def test_who_sends_without_end_is_left(seconds: float) -> None:
    """After the time of a body, or after many bytes."""

    async def send(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b" " * (1 << 20))
            await writer.drain()
            await asyncio.sleep(0.1 if seconds < 1 else 0)

    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: elsewhere\r\nconnection: close\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % (1 << 40))
        assert (await asyncio.wait_for(reader.readline(), 20)).split()[1] == b"403"
        begun = time.perf_counter()
        with pytest.raises(ConnectionError):
            await send(writer)
        assert time.perf_counter() - begun < 20
        writer.close()

    with application(tiny("llama")) as (app, _):
        check(test, app, body_seconds=seconds)


def test_idle_connections_lock_nobody_out() -> None:
    async def test(port: int) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"connection: close\r\n\r\n")
        assert (await until_closed(reader))[0].startswith(b"HTTP/1.1 200")
        _, seconds = await until_closed(idle[0][0])  # the first that came
        assert seconds < 5
        for _, one in [*idle, (reader, writer)]:
            one.close()

    check(test, most=4, head_seconds=60.0)


def test_too_many_connections_are_told_in_the_shape_of_the_api() -> None:
    httpx = reference("httpx")
    with application(tiny("llama")) as (app, _):
        app.is_full = lambda: True

        async def ask() -> Any:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.post("/v1/messages", json={})

        answer = asyncio.run(ask())
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "overloaded_error"


def test_who_leaves_within_the_body_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with application(tiny("llama")) as (app, served):

        async def test(port: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            head = HEAD.replace(b" / ", b" /tokenize ")
            writer.write(head + b"content-length: 500\r\n\r\n{")
            await writer.drain()
            await asyncio.sleep(0.2)
            writer.close()
            await asyncio.sleep(0.2)

        check(test, app)
        assert 'status="499"' in served.metrics.text().decode()
        assert 'status="500"' not in served.metrics.text().decode()
    assert "ClientDisconnect" not in capsys.readouterr().err
