"""``mtkit serve`` as a process: clients that leave, read slowly or write nonsense, and the end."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from llm_models import chatting, tiny
from serving_http import Server, server
from support import Run, reference

FULL = bool(os.environ.get("MTKIT_FULL"))
LONG = {"prompt": "x", "max_tokens": 100_000, "ignore_eos": True}


@pytest.fixture(scope="module")
def started() -> Iterator[Server]:
    """A server whose slots draft: with itself, and from the text."""
    drafting = ["--draft", chatting(), "--draft-lookup", "--no-draft-auto", "--draft-max", "2"]
    context = ["-c", "262144", "-np", "4", "--queue", "8"]
    with server(chatting(), *context, *drafting, "-q") as found:
        yield found


@pytest.fixture
def http(started: Server) -> Iterator[Any]:
    with reference("httpx").Client(base_url=started.url, timeout=60) as client:
        yield client


def connected(started: Server) -> socket.socket:
    parts = urlsplit(started.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def raw(path: str, body: Any, **headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def until_idle(http: Any, seconds: float = 30) -> None:
    """Wait until no slot works; the answers asked for here are far longer than that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if {slot["state"] for slot in http.get("/slots").json()} == {"idle"}:
            return
        time.sleep(0.02)
    raise AssertionError(http.get("/slots").text)


def until_busy(http: Any, count: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if sum(slot["generated"] > 1 and slot["state"] != "idle"
               for slot in http.get("/slots").json()) >= count:  # fmt: skip
            return
        time.sleep(0.02)
    raise AssertionError(http.get("/slots").text)


@pytest.mark.parametrize("stream", [True, False])
def test_a_closed_connection_frees_its_slot(started: Server, http: Any, stream: bool) -> None:
    for path, body in (
        ("/v1/completions", LONG),
        ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 100_000,
                          "ignore_eos": True}),
    ):  # fmt: skip
        with connected(started) as line:
            line.sendall(raw(path, {**body, "stream": stream}))
            until_busy(http, 1)
        until_idle(http)


def test_a_client_that_does_not_read(started: Server, http: Any) -> None:
    """Its answer waits for it; others are answered meanwhile, and its leaving is noticed."""
    with connected(started) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(raw("/v1/completions", {**LONG, "stream": True}))
        until_busy(http, 1)
        for _ in range(3):
            assert http.post("/v1/completions", json={"prompt": "y"}).status_code == 200
    until_idle(http)


def test_the_openai_client_stops_a_stream(started: Server, http: Any) -> None:
    with (
        reference("openai").OpenAI(base_url=f"{started.url}/v1", api_key="none") as client,
        client.completions.create(
            model="any", prompt="x", max_tokens=100_000, stream=True,
            extra_body={"ignore_eos": True},
        ) as stream,
    ):  # fmt: skip
        next(iter(stream))
    until_idle(http)


def test_the_anthropic_client_stops_a_stream(started: Server, http: Any) -> None:
    with (
        reference("anthropic").Anthropic(base_url=started.url, api_key="none") as client,
        client.messages.stream(
            model="any", messages=[{"role": "user", "content": "x"}], max_tokens=60_000,
            extra_body={"ignore_eos": True},
        ) as stream,
    ):  # fmt: skip
        next(iter(stream.text_stream))
    until_idle(http)


def test_malformed_requests(started: Server, http: Any) -> None:
    chance = random.Random(11)
    good = raw("/v1/completions", {"prompt": "x", "max_tokens": 2}, connection="close")
    for turn in range(2000 if FULL else 60):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            kind = chance.randrange(3)
            if kind == 0:
                data[at] = chance.randrange(256)
            elif kind == 1:
                del data[at : at + chance.randrange(1, 30)]
            else:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
            if not data:
                data = bytearray(b"\r")
        with connected(started) as line:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            answer = b""
            while part := line.recv(65536):
                answer += part
        status = re.match(rb"HTTP/1\.1 (\d+)", answer)
        assert status is None or status[1] < b"500", (turn, bytes(data), answer)
    until_idle(http)


def test_many_clients(started: Server, http: Any) -> None:
    """Right answers or clear errors, whatever the others do; no slot is lost, memory is flat."""
    bodies = [{"prompt": [5 + at] * (3 + at * 9), "max_tokens": 4 + at} for at in range(12)]
    wanted = [http.post("/v1/completions", json=body).json()["choices"] for body in bodies]
    assert all(found[0]["finish_reason"] == "length" for found in wanted)
    httpx = reference("httpx")

    def one(turn: int) -> str:
        chance = random.Random(turn)
        kind, at = chance.randrange(6), chance.randrange(len(bodies))
        with httpx.Client(base_url=started.url, timeout=120) as client:
            if kind == 0:
                with client.stream("POST", "/v1/completions", json={**LONG, "stream": True}) as got:
                    if got.status_code == 200:
                        next(got.iter_raw())
                return "left"
            if kind == 1:
                bad = [b"{", b" " * (5 << 20), b'{"prompt": 3}', b'{"prompt": "x", "n": 99}']
                status = client.post("/v1/completions", content=chance.choice(bad)).status_code
                assert status in (400, 413)
                return "refused"
            answer = client.post("/v1/completions", json=bodies[at])
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
                return "busy"
            assert answer.json()["choices"][0]["finish_reason"] == "length"
            assert answer.json()["usage"]["completion_tokens"] == bodies[at]["max_tokens"]
            return "answered"

    def memory() -> int:
        with open(f"/proc/{started.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    count = 500 if FULL else 48
    with ThreadPoolExecutor(16) as pool:
        first = list(pool.map(one, range(count // 2)))
        before = memory()
        rest = list(pool.map(one, range(count // 2, count)))
    assert set(first + rest) >= {"left", "refused", "answered"}
    until_idle(http)
    assert memory() - before < 64 << 20
    again = [http.post("/v1/completions", json=body).json()["choices"] for body in bodies]
    assert [found[0]["text"] for found in again] == [found[0]["text"] for found in wanted]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_lets_answers_end(number: int) -> None:
    with server(tiny("llama"), "-c", "16384", "-np", "2", "--grace", "60") as started:
        httpx = reference("httpx")
        with (
            httpx.Client(base_url=started.url, timeout=60) as http,
            http.stream(
                "POST", "/v1/completions",
                json={"prompt": "x", "max_tokens": 1500, "ignore_eos": True, "stream": True},
            ) as answer,
        ):  # fmt: skip
            lines = answer.iter_lines()
            next(lines)
            started.process.send_signal(number)
            time.sleep(0.3)
            with pytest.raises(httpx.ConnectError):
                httpx.post(f"{started.url}/v1/completions", json={"prompt": "y"})
            *_, last = [line for line in lines if line]
        assert last == "data: [DONE]"
        assert started.wait() == 0


@pytest.mark.parametrize("second", [False, True])
def test_the_end_ends_answers_that_take_too_long(second: bool) -> None:
    grace = "300" if second else "1"
    with server(chatting(), "-c", "262144", "-np", "2", "--grace", grace) as started:
        httpx = reference("httpx")
        found: dict[bool, str] = {}

        def ask(stream: bool) -> None:
            body = {**LONG, "stream": stream}
            answer = httpx.post(f"{started.url}/v1/completions", json=body, timeout=60)
            found[stream] = f"{answer.status_code} {answer.text[-300:]}"

        askers = [threading.Thread(target=ask, args=[stream]) for stream in (True, False)]
        with httpx.Client(base_url=started.url) as http:
            for asker in askers:
                asker.start()
            until_busy(http, 2)
        started.process.send_signal(signal.SIGTERM)
        if second:
            time.sleep(0.5)
            started.process.send_signal(signal.SIGTERM)
        for asker in askers:
            asker.join(60)
        assert found[False].startswith("503 ")
        assert "the server is ending" in found[False]
        assert found[True].startswith("200 ")
        assert "event: error" in found[True]
        assert found[True].endswith("data: [DONE]\n\n")
        assert started.wait() == 0


STUCK = """
import time, mtkit.llm.sampling
mtkit.llm.sampling.Grammar.allows = lambda *_: time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_whatever_computes(number: int) -> None:
    with server(tiny(), "-np", "1", "--grace", "300", first=STUCK) as started:
        body = {"prompt": "x", "grammar": 'root ::= "a"', "stream": True}
        path = f"{started.url}/v1/completions"
        with reference("httpx").stream("POST", path, json=body, timeout=60) as answer:
            assert answer.status_code == 200
            started.process.send_signal(number)
            time.sleep(0.5)
            begun = time.monotonic()
            started.process.send_signal(number)
            assert started.wait() == 0
            assert time.monotonic() - begun < 10


MANY_WAYS = (
    ("grammar", 'root ::= ("a"?){1000}'),
    ("grammar", "root ::= r0\n" + "\n".join(f"r{n} ::= r{n + 1} r{n + 1} | r{n + 1}"
                                            for n in range(22)) + '\nr22 ::= "a"?'),
    ("json_schema", {"type": "string", "pattern": "^(a?){300}$"}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "given"), MANY_WAYS)
def test_a_grammar_of_many_ways_is_followed(http: Any, name: str, given: Any) -> None:
    messages = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
    for path, body in (("completions", {"prompt": "x"}), ("chat/completions", messages),
                       ("messages", {**messages, "model": "any"})):  # fmt: skip
        begun = time.monotonic()
        answer = http.post(f"/v1/{path}", json={**body, name: given})
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - begun < 10
    assert http.post("/v1/completions", json={"prompt": "x", "max_tokens": 2}).status_code == 200


def test_the_command_says_what_it_cannot_do(mtkit: Any) -> None:
    model = str(tiny("llama"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, key = taken.getsockname()[1], ["--api-key", "long enough"]
        for options, code, named in (
            (["--host", "0.0.0.0"], 2, "--api-key"),
            (["--port", port], 2, f"127.0.0.1:{port}: cannot be listened on: Address already in"),
            (
                ["--host", "nowhere.invalid", *key],
                2,
                "invalid:8080: cannot be listened on: ",
            ),
            (["--host", "192.0.2.1", *key], 2, f"listened on: {os.strerror(errno.EADDRNOTAVAIL)}"),
            (["--allow-origin", "*"], 2, "'*' is not an origin; its form is https://host[:port]"),
            (["--allow-host", ""], 2, "--allow-host: '' is not a name"),
            (["--exact"], 4, "depends on what else"),
            (["-np", "0"], 2, "--slots"),
            (["-np", "4", "-c", "40"], 2, "--ctx"),
            (["-np", "20", "-c", "4096", "--batch", "20"], 2, "--batch"),
            (["--batch", "2"], 2, "--batch: is 2, too few for 4 slots"),
            (["--grammar", "root ::= ("], 2, "grammar: does not parse"),
            (["--json-schema", "{"], 2, "JSON schema: is not JSON"),
            (["--logit-bias", "99999999=1"], 2, "99999999"),
            (["--draft", "x.gguf"], 2, "x.gguf"),
            (["--draft-max", "3"], 2, "--draft-max"),
        ):
            made = mtkit("serve", "-m", model, *options)
            assert made.returncode == code, made.stderr
            assert named.encode() in made.stderr
            assert len(made.stderr.strip().splitlines()) == 1


def test_what_cannot_be_served_with_is_said_before_the_model_is_loaded(mtkit: Run) -> None:
    reference("llama_cpp")
    for option, value, said in (
        ("--chat-template", "lama3", b"neither one of llama.cpp's"),
        ("--slot-save-path", "nowhere", b"is not a folder"),
        ("--slot-save-path", os.devnull, b"is not a folder"),
    ):
        done = mtkit("serve", option, value)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
