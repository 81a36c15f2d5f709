"""A llama.cpp that ends the process: one line, exit code 5, nothing left; the server goes on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deaths import TEXT, environment
from libraries import reference

from mtkit.sources.locate import MODEL, shipped

pytestmark = pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="no sigwaitinfo here")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache of those commands in whose trial nothing dies: one is enough."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def dying(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what runs a command line whose llama.cpp dies, and gives exit code and outputs."""
    reference("llama_cpp")
    (tmp_path / "tmp").mkdir()
    monkeypatch.delenv("MTKIT_TRIAL", raising=False)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)

    def run(death: str, *args: object, folder: Path = tmp_path) -> tuple[int, str, str]:
        monkeypatch.setenv("DEATH", death)
        if death.split()[1] in ("run", "quantize"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        line = [sys.executable, "-m", "mtkit", *map(str, args)]
        done = subprocess.run(
            line, check=False, capture_output=True, text=True, cwd=folder, timeout=300
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize(
    ("death", "says"),
    [
        ("SIGILL batch 3", "ended with SIGILL while computing, and so it does with a sound model"),
        ("SIGSEGV load 1", "ended with SIGSEGV while loading, and so it does with a sound model"),
        ("exit run 10", "ended the process with exit code 7 while computing"),
        ("SIGABRT run 1", "ended with SIGABRT while computing with "),
        ("0 run 1", "ended the process with exit code 0 while computing"),
        ("hang run 3", "hung for 2 s while computing with "),
        ("hang load 1", "hung for 2 s while loading"),
        ("SIGTERM batch 3", "ended with SIGTERM while computing; run the command again"),
        ("SIGKILL run 12", "was killed, perhaps because memory ran out, while computing"),
    ],
)
def test_a_command(dying: Any, death: str, says: str) -> None:
    code, _, errors = dying(death, "generate", TEXT, "-n", 16, "-q")
    assert (code, errors.count("\n")) == (5, 1)
    assert says in errors


@pytest.mark.parametrize(
    ("death", "line"),
    [
        ("SIGSEGV run 1", "chat hi -n 4"),
        ("SIGSEGV run 1", "perplexity text"),
        ("SIGSEGV run 1", "logits hi"),
        ("hang run 10", "imatrix -f text -o m.gguf --force --batch 512"),
        ("SIGABRT run 1", "quantize m o Q4_0 --allow-requantize --imatrix-from text"),
        ("SIGILL quantize 10", "quantize m o Q4_0 --allow-requantize"),
    ],
)
def test_other_commands_leave_nothing(dying: Any, death: str, line: str, tmp_path: Path) -> None:
    """Every death in every command: ``python -m tools.deaths``."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "text").write_text(f"{TEXT}. " * 400)
    (folder / "m").symlink_to(shipped(MODEL))
    code, _, errors = dying(death, *line.split(), folder=folder)
    assert (code, errors.count("\n")) == (5, 1), errors
    how = "hung for 2 s" if death.startswith("hang") else f"ended with {death.split(maxsplit=1)[0]}"
    assert how in errors
    assert {path.name for path in folder.iterdir()} == {"text", "m"}
    assert not list((tmp_path / "tmp").iterdir())


def test_a_signal_for_the_parent_reaches_the_child(dying: Any, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "mtkit", "generate", TEXT, "-n", "100000", "--ignore-eos"]
    line += ["-c", "100000", "-q"]
    environment = {**os.environ, "DEATH": "0 run 1000000"}
    process = subprocess.Popen(line, stdout=subprocess.PIPE, cwd=tmp_path, env=environment)
    assert process.stdout is not None
    process.stdout.read(20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    process.stdout.close()


def test_a_server_starts_again(dying: Any, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, "-m", "mtkit", "serve", "--port", str(port), "--slots", "2"]
    line += ["--threads", "1"]  # to measure them would count
    log = tmp_path / "log"
    # the ninth batch kills it
    environment = {**os.environ, "DEATH": "SIGILL run 9"}
    with log.open("wb") as file:
        process = subprocess.Popen(line, stderr=file, stdout=file, env=environment)
    try:
        with ThreadPoolExecutor() as pool:  # more requests than slots
            answers = [*pool.map(_ask, [port] * 4, [40] * 4)]
        assert {answer.status for answer in answers} == {503}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        assert all(b"ended the process" in answer.read() for answer in answers)
        assert _ask(port, 2).status == 200
        assert [_ask(port, 40).status for _ in range(2)] == [503, 500]
        refused = _ask(port, 40)  # it was computed at two deaths
        assert (refused.status, refused.headers["x-should-retry"]) == (500, "false")
        assert b"computed this; it is not tried again" in refused.read()
        assert _ask(port, 2).status == 200
        said = " ".join(log.read_text().split())
        assert said.count("llama.cpp ended with SIGILL while computing") == 2
        assert said.count("starts again without repacking") == 2
        assert said.count("refuses 1 request that llama.cpp computed both times") == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def _ask(port: int, tokens: int) -> Any:
    """Return the answer to a completion."""
    body = json.dumps({"prompt": "a", "max_tokens": tokens, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body)
    request.add_header("content-type", "application/json")
    until = time.monotonic() + 120
    while True:
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            return error
        except urllib.error.URLError as error:
            assert isinstance(error.reason, ConnectionRefusedError), error
            assert time.monotonic() < until
            time.sleep(0.2)
