"""A server that gives the chat page and whatever answers a test has prepared, piece by piece."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stub:
    """What the server answers, and what it was asked.

    Attributes:
        answers: The next answers: lists of deltas, of events or of gates to wait for, or a status
            with an error.
        requests: The bodies of the requests for answers.
    """

    def __init__(self) -> None:
        self.url = ""
        self.reset()

    def reset(self) -> None:
        """Forget what was prepared and asked."""
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.models = ["stub.gguf"]
        self.context = 4096
        self.inputs = ["text"]
        self.key = ""
        self.prompt_tokens = 20

    def document(self, path: str) -> Any:
        """Return what a path other than that of answers gives."""
        if path == "/v1/models":
            inputs = {"input_modalities": self.inputs}
            rows = [
                {"id": name, "context_length": self.context, "architecture": inputs}
                for name in self.models
            ]
            return {"data": rows}
        params = {"temperature": 0.8, "top_k": 40}
        return {"default_generation_settings": {"params": params}} if path == "/props" else {}


def text_answer(*texts: str, reason: str = "stop") -> list[Any]:
    """Return an answer of a text in parts."""
    return [*({"content": text} for text in texts), reason]


@contextmanager
def stubbed() -> Iterator[Stub]:
    """Serve a stub."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def reply(self, status: int, data: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"content-length": str(len(data)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            from mtkit.serve.page import page_and_policy

            path = self.path.partition("?")[0]
            if path == "/":
                text, policy = page_and_policy()
                kind = "text/html; charset=utf-8"
                self.reply(200, text.encode(), content_type=kind, content_security_policy=policy)
            elif stub.key and self.headers.get("authorization") != f"Bearer {stub.key}":
                self.reply(401, b'{"error": {"message": "the key is missing or wrong"}}')
            else:
                self.reply(200, json.dumps(stub.document(path)).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path == "/tokenize":
                words = [word + " " for word in body["content"].split(" ")]
                words[-1] = words[-1][:-1]
                rows = [{"id": at, "piece": word} for at, word in enumerate(words)]
                self.reply(200, json.dumps({"tokens": rows}).encode())
                return
            stub.requests.append(body)
            answer = stub.answers.pop(0) if stub.answers else text_answer("Fine.")
            if isinstance(answer, tuple):
                status, error = answer
                self.reply(status, json.dumps({"error": error}).encode())
            elif not body.get("stream"):
                self.reply(200, json.dumps(answer).encode())
            else:
                self.stream(answer)

        def stream(self, answer: list[Any]) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            try:
                for item in answer:
                    if isinstance(item, threading.Event):
                        item.wait(30)
                        continue
                    if item is None:  # the connection is lost
                        return
                    self.event(item)
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:  # the page has stopped it
                return

        def event(self, item: Any) -> None:
            choice = (
                {"delta": {}, "finish_reason": item} if isinstance(item, str) else {"delta": item}
            )
            event = item if isinstance(item, dict) and "error" in item else {"choices": [choice]}
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            if isinstance(item, str):
                usage = {
                    "prompt_tokens": stub.prompt_tokens, "completion_tokens": 9,
                    "total_tokens": stub.prompt_tokens + 9,
                    "prompt_tokens_details": {"cached_tokens": 2},
                }  # fmt: skip
                last = {"choices": [], "usage": usage, "timings": {"predicted_per_second": 7}}
                self.wfile.write(b"data: " + json.dumps(last).encode() + b"\n\n")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        stub.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
