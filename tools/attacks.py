"""What one client can do to the others: a list of attacks, and what a neighbor notices of each.

    python -m tools.attacks [NAME...]

A neighbor asks for 16 tokens again and again, another asks for /health, first on a quiet server,
then while clients send one of the attacks in a loop. The median of the neighbor may be three times
the quiet one, that of /health a quarter of a second, and 30 seconds later the server may have 1.2
times the memory that it had. Ends with an error where one is exceeded. On a machine with other work
the figures say little: the quiet ones are printed, too.

The first of the list is none: as many clients with ordinary requests, whom a server cannot tell
from the neighbor. With four slots of a small model they cost it 4 to 7 times the quiet time: what
costs about as much is no attack either.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from typing import Any
from urllib.parse import urlsplit

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "tests", "support"))

from serving_http import server  # type: ignore[import-not-found]

from mtkit.sources.locate import MODEL, shipped

NEIGHBOR = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0, "ignore_eos": True}
SECONDS, CLIENTS, PATIENCE = 6.0, 8, 20.0
TIMES, HEALTH_SECONDS, MEMORY_TIMES, MEMORY_SECONDS = 3.0, 0.25, 1.2, 30.0
USER = [{"role": "user", "content": "hi"}]
LEAF = {"type": "string", "pattern": "^[a-z]{1,20}[0-9]+$"}


def schema(objects: int, strings: int) -> dict[str, Any]:
    """Return the schema of an object of objects of texts."""
    inner = {"type": "object", "properties": {f"q{n}": LEAF for n in range(strings)}}
    return {"type": "object", "properties": {f"p{n}": inner for n in range(objects)}}


def tools(count: int, objects: int) -> list[dict[str, Any]]:
    """Return the definitions of tools."""
    parameters = schema(objects, 12)
    return [
        {"type": "function", "function": {"name": f"f{n}", "parameters": parameters}}
        for n in range(count)
    ]


def chat(**fields: Any) -> dict[str, Any]:
    """Return the body of a short chat."""
    return {"messages": USER, "max_tokens": 2, **fields}


def complete(**fields: Any) -> dict[str, Any]:
    """Return the body of a short completion."""
    return {"prompt": "a", "n_predict": 4, **fields}


CHAT, COMPLETE = "/v1/chat/completions", "/completion"
MANY = ["word " * 60] * 10_000
ATTACKS: dict[str, tuple[str, Any]] = {
    "ordinary answers": (COMPLETE, complete()),
    "unknown fields": (COMPLETE, complete(**{f"u{n}": 1 for n in range(300_000)})),
    "few unknown fields": (COMPLETE, complete(**{f"u{n}": 1 for n in range(50_000)})),
    "unknown fields of a chat": (CHAT, chat(**{f"u{n}": 1 for n in range(90_000)})),
    "unknown fields of tools": (CHAT, chat(tools=[{"type": "function", "function": {
        "name": "f", **{f"u{n}": 1 for n in range(50_000)}}}])),
    "nested lists": (COMPLETE, complete(prompt=[[1]] * 400_000)),
    "deep lists": ("/tokenize", '{"content": ' + "[" * 1_000_000),
    "ids": (COMPLETE, complete(prompt=[1] * 1_000_000)),
    "a long prompt": (COMPLETE, complete(prompt="word " * 700_000)),
    "a long text to tokenize": ("/tokenize", {"content": "word " * 700_000}),
    "a text without blanks": ("/tokenize", {"content": "a" * 3_000_000}),
    "ids to detokenize": ("/detokenize", {"tokens": [5] * 600_000}),
    "60 tools": (CHAT, chat(tools=tools(60, 60), tool_choice="required")),
    "tools at the limit": (CHAT, chat(tools=tools(5, 50), tool_choice="required")),
    "a schema at the limit": (CHAT, chat(response_format={
        "type": "json_schema", "json_schema": {"name": "s", "schema": schema(70, 12)}})),
    "a schema of alternatives": (COMPLETE, complete(json_schema={"anyOf": [LEAF] * 800})),
    "an enum": (COMPLETE, complete(json_schema={"enum": [f"v{n}" for n in range(5_000)]})),
    "a pattern bomb": (COMPLETE, complete(json_schema={
        "type": "string", "pattern": "^(((((a{0,9}){0,9}){0,9}){0,9}){0,9})$"})),
    "a long pattern": (COMPLETE, complete(json_schema={"type": "string", "pattern": ".{20}" * 99})),
    "a deep schema": (COMPLETE, '{"prompt": "a", "json_schema": ' + '{"items": ' * 3_000 + "{}"
                      + "}" * 3_001),
    "alternatives": (COMPLETE, complete(
        grammar="root ::= " + " | ".join(f'"w{n}"' for n in range(2_500)))),
    "an ambiguous grammar": (COMPLETE, complete(grammar='root ::= a a a a\na ::= "a"* "a"*')),
    "a chain of rules": (COMPLETE, complete(grammar="root ::= r0\n" + "".join(
        f'r{n} ::= r{n + 1} "a"\n' for n in range(2_500)) + "r2500 ::= [a-z]\n")),
    "texts of biases": (COMPLETE, complete(logit_bias={f"word{n}": 1 for n in range(1024)})),
    "too many biases": (COMPLETE, complete(logit_bias={f"{n}": 1 for n in range(100_000)})),
    "stop strings": (COMPLETE, complete(stop=["x" * 999] * 256)),
    "answers at once": (COMPLETE, complete(n=60)),
    "probabilities": (COMPLETE, complete(n_probs=100, n_predict=16)),
    "prompts at once": ("/v1/completions", {"prompt": ["a"] * 60, "max_tokens": 4}),
    "documents": ("/rerank", {"query": "q", "documents": MANY}),
    "texts to embed": ("/v1/embeddings", {"input": MANY}),
    "messages": (CHAT, chat(messages=USER * 20_000)),
    "a long message": (CHAT, chat(messages=[{"role": "user", "content": "word " * 600_000}])),
    "parts of a message": (CHAT, chat(messages=[
        {"role": "user", "content": [{"type": "text", "text": "a"}] * 50_000}])),
    "calls of a history": (CHAT, chat(messages=[*USER, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}] * 9_000}])),
    "template variables": (CHAT, chat(chat_template_kwargs={f"v{n}": n for n in range(50_000)})),
    "a template": ("/apply-template", {"messages": USER * 10_000}),
    "slot saves": ("/slots/1?action=save", {"filename": "n"}),
    "slot restores": ("/slots/1?action=restore", {"filename": "m"}),
    "slot erasures": ("/slots/1?action=erase", {}),
    "adapters": ("/lora-adapters", []),
    "responses": ("/v1/responses", {"input": "word " * 100_000, "max_output_tokens": 2}),
    "messages of Anthropic's": ("/v1/messages/count_tokens", {
        "model": "m", "messages": USER * 10_000}),
    "half bodies": (COMPLETE, None),
    "idle connections": ("", None),
}  # fmt: skip
"""Name -> path and body; those without a body are connections of their own kind."""


def ask(port: int, path: str, data: bytes | None, timeout: float = PATIENCE) -> tuple[int, float]:
    """Return status and seconds of a request."""
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        head = {} if data is None else {"content-type": "application/json"}
        connection.request("GET" if data is None else "POST", path, data, head)
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.monotonic() - start
    except (OSError, http.client.HTTPException):
        return 0, timeout
    finally:
        connection.close()


def measure(port: int, seconds: float) -> tuple[float, float]:
    """Return the medians of a neighbor's answers and of /health."""
    stop, neighbor = time.monotonic() + seconds, json.dumps(NEIGHBOR).encode()
    times: tuple[list[float], list[float]] = ([], [])

    def loop(times: list[float], path: str, data: bytes | None) -> None:
        while time.monotonic() < stop:
            status, took = ask(port, path, data)
            times.append(took if status == 200 else PATIENCE)
            time.sleep(0.02)

    rows = zip(times, ("/v1/completions", "/health"), (neighbor, None), strict=True)
    threads = [threading.Thread(target=loop, args=row) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.median(times[0]), statistics.median(times[1])


def attack(port: int, path: str, body: Any, seconds: float) -> None:
    """Send a request in a loop, from several clients, in a process of their own."""
    os.nice(5)
    stop = time.monotonic() + seconds
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()

    def client() -> None:
        while time.monotonic() < stop:
            if body is not None:
                if ask(port, path, data)[0] != 200:
                    time.sleep(0.02)
                continue
            with socket.create_connection(("127.0.0.1", port)) as connection:
                if path:
                    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\nx"
                    connection.sendall(head.encode())
                time.sleep(min(2.0, max(stop - time.monotonic(), 0)))

    threads = [
        threading.Thread(target=client, daemon=True)
        for _ in range(CLIENTS if body is not None else 300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, stop + 2 - time.monotonic()))
    os._exit(0)


def resident(process: int) -> float:
    """Return the megabytes of a process and its children."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            size = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            return size + sum(resident(int(child)) for child in file.read().split())
    except OSError:
        return 0.0


def run(name: str) -> bool:
    """Attack a server of its own; print what was noticed, and tell whether it is bearable."""
    path, body = ATTACKS[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        server(shipped(MODEL), "-np", "4", "--slot-save-path", folder) as started,
    ):
        port, process = urlsplit(started.url).port or 0, started.process.pid
        ask(port, "/slots/1?action=save", b'{"filename": "m"}')
        # what a first request loads (templates' process, llguidance) stays, whoever sends it
        first = chat(tools=tools(1, 1), tool_choice="required")
        ask(port, CHAT, json.dumps(first).encode(), timeout=60)
        measure(port, 1)
        quiet, quiet_health = measure(port, 3)
        before = resident(process)
        child = os.fork()
        if not child:
            attack(port, path, body, SECONDS + 1)
        time.sleep(0.5)
        busy, health = measure(port, SECONDS)
        most = resident(process)
        os.waitpid(child, 0)
        until = time.monotonic() + MEMORY_SECONDS
        while (after := resident(process)) > MEMORY_TIMES * before and time.monotonic() < until:
            time.sleep(1)
        fine = busy <= TIMES * quiet and health <= HEALTH_SECONDS and after <= MEMORY_TIMES * before
        answers = f"{1e3 * quiet:5.0f} -> {1e3 * busy:5.0f} ms"
        healths = f"/health {1e3 * quiet_health:4.0f} -> {1e3 * health:4.0f} ms"
        memory = f"{before:4.0f}, {most:4.0f}, {after:4.0f} MB"
        excess = "" if fine else "  TOO MUCH"
        sys.stdout.write(f"{name:26} {answers}  {healths}  {memory}{excess}\n")
        sys.stdout.flush()
        return fine


def main() -> None:
    """Run the attacks."""
    names = sys.argv[1:] or list(ATTACKS)
    bearable = [run(name) for name in names]
    if not all(bearable):
        sys.exit(f"{bearable.count(False)} of {len(bearable)} attacks are too much")


if __name__ == "__main__":
    main()
