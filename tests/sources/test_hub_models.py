"""Models of the hub by ORG/NAME:QUANT, fetched from a hub of our own on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support import Run, llama_cpp_for

from mtkit.sources.hub import choose_gguf
from mtkit.sources.locate import MODEL, locate, shipped

NAMES = [
    "README.md", "small-Q8_0.gguf", "small-Q4_K_M.gguf", "small-IQ2_M.gguf", "mmproj-F16.gguf",
    "BF16/small-BF16-00001-of-00002.gguf", "BF16/small-BF16-00002-of-00002.gguf",
]  # fmt: skip
COMMIT = "a" * 40


class _Hub(BaseHTTPRequestHandler):
    """A repository org/small that has ``NAMES``; every file is the model that ships."""

    asked: list[str] = []

    def do_HEAD(self) -> None:
        self._answer(is_head=True)

    def do_GET(self) -> None:
        self._answer(is_head=False)

    def _answer(self, *, is_head: bool) -> None:
        path = self.path.partition("?")[0]
        data = Path(shipped(MODEL)).read_bytes()
        kind = "application/octet-stream"
        name = path.removeprefix("/org/small/resolve/main/").removeprefix(
            f"/org/small/resolve/{COMMIT}/"
        )
        if path.startswith("/api/models/org/small/tree/"):
            rows = [{"type": "file", "path": n, "size": 1, "oid": "b" * 40} for n in NAMES]
            data, kind = json.dumps(rows).encode(), "application/json"
        elif name not in NAMES:
            self.send_error(404)
            return
        elif not is_head:
            self.asked.append(name)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha256(name.encode()).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if not is_head:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    for variable, value in {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_CACHE": str(tmp_path),
        "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1",
        "XDG_CONFIG_HOME": str(tmp_path),
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, value)
    _Hub.asked.clear()
    yield _Hub.asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("quant", "name"),
    [
        ("", "small-Q4_K_M.gguf"),
        ("q8_0", "small-Q8_0.gguf"),
        ("IQ2_M", "small-IQ2_M.gguf"),
        ("BF16", "BF16/small-BF16-00001-of-00002.gguf"),
        ("small-Q8_0.gguf", "small-Q8_0.gguf"),
        ("Q8", None),
        ("F16", None),
    ],
)
def test_which_file_it_is(quant: str, name: str | None) -> None:
    assert choose_gguf(NAMES, quant) == name


def test_without_the_usual_type_it_is_the_first() -> None:
    assert choose_gguf(["b-Q5_0.gguf", "sub/a.gguf", "b-Q6_K.gguf"]) == "b-Q5_0.gguf"
    assert choose_gguf(["README.md", "mmproj-a.gguf"]) is None


@pytest.mark.parametrize("line", ["-hf org/small:Q8_0", "--hf-repo org/small", "-m org/small:bf16"])
def test_it_is_fetched_once_and_runs(hub: list[str], tmp_path: Path, mtkit: Run, line: str) -> None:
    pytest.importorskip("huggingface_hub")
    llama_cpp_for("generate")
    words = ("generate", "hi", "-n", "2", "-q", *line.split())
    absent = mtkit(*words)
    assert absent.returncode == 2
    assert b"--download fetches it" in absent.stderr
    done = mtkit(*words, "--download")
    if "bf16" in line:  # what the hub sends is no set of shards, but all of it is fetched
        assert hub == [name for name in NAMES if name.startswith("BF16")], done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert len(hub) == 1
    assert mtkit(*words, "--download").stdout == mtkit(*words).stdout == done.stdout
    assert len(hub) == 1


def test_a_type_that_is_not_there_is_said_with_those_that_are(hub: list[str], mtkit: Run) -> None:
    pytest.importorskip("huggingface_hub")
    done = mtkit("chat", "hi", "-hf", "org/small:Q3_K_S", "--download")
    assert done.returncode == 2
    assert b"org/small: has no GGUF Q3_K_S; small-Q8_0.gguf" in done.stderr
    done = mtkit("chat", "hi", "-hf", "org/other", "--download")
    assert (done.returncode, b"cannot be downloaded" in done.stderr) == (2, True), done.stderr
    assert not hub


def test_a_file_in_the_cache_is_found_by_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--Own--model" / "snapshots" / "c0ffee"
    folder.mkdir(parents=True)
    for name in ("m-Q8_0.gguf", "m-IQ4_XS.gguf", "m-Q4_K_M.gguf"):
        shutil.copy(shipped(MODEL), folder / name)
    for name, file in (
        ("Own/model", "m-Q4_K_M.gguf"),
        ("Own/model:iq4_xs", "m-IQ4_XS.gguf"),
        ("Own/model:m-Q8_0.gguf", "m-Q8_0.gguf"),
    ):
        assert os.path.basename(locate(name, MODEL).path) == file
