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
from libraries import reference

pytestmark = pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="no sigwaitinfo here")
HOOK = """
import ctypes, os, signal, sys
how, where, count = os.environ["DEATH"].split()
import mtkit.base.watch as watch
import mtkit.llama.shared_library as shared
watch.HANG_SECONDS = 2
load, calls = shared._load, [0]

def die():
    if how.startswith("SIG"):
        libc, number = ctypes.CDLL(None), getattr(signal, how)
        libc.signal(number, None)
        libc.kill(os.getpid(), number)
    elif how == "exit":
        ctypes.CDLL(None).exit(7)
    elif how == "hang":
        ctypes.CDLL(None).sleep(60)
    os._exit(int(how))

def hooked():
    load()
    module = shared._modules["module"]
    name = {"load": "llama_model_load_from_file"}.get(where, "llama_decode")
    real = getattr(module, name)

    def call(*arguments):
        calls[0] += 1
        tokens = arguments[1].n_tokens if where == "batch" else 0
        is_trial = "mtkit.llama.trial" in " ".join(sys.orig_argv)
        if where == "run" and is_trial:
            return real(*arguments)
        if (tokens if where == "batch" else calls[0]) >= int(count):
            die()
        return real(*arguments)

    setattr(module, name, call)

shared._load = hooked
"""
TEXT = "Once upon a time there was a small server that told stories to children"


@pytest.fixture
def dying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what runs a command line whose llama.cpp dies, and gives exit code and outputs."""
    reference("llama_cpp")
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    paths = [str(tmp_path / "hook"), *filter(None, sys.path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MTKIT_TRIAL", raising=False)

    def run(death: str, *args: object, folder: Path = tmp_path) -> tuple[int, str, str]:
        monkeypatch.setenv("DEATH", death)
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
        ("SIGKILL run 12", "was killed, perhaps because memory ran out, while computing"),
    ],
)
def test_a_command(dying: Any, death: str, says: str) -> None:
    code, _, errors = dying(death, "generate", TEXT, "-n", 16, "-q")
    assert (code, errors.count("\n")) == (5, 1)
    assert "llama.cpp " + says in errors


@pytest.mark.parametrize(
    "line", ["chat hi -n 4", "perplexity text", "logits hi", "imatrix -f text -o m.gguf --force"]
)
def test_other_commands_leave_nothing(dying: Any, line: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "text").write_text(f"{TEXT}. " * 120)
    code, _, errors = dying("SIGSEGV run 1", *line.split(), folder=folder)
    assert code == 5, errors
    assert "llama.cpp ended with SIGSEGV while computing" in errors
    assert [path.name for path in folder.iterdir()] == ["text"]


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
        said = log.read_text()
        assert said.count("llama.cpp ended with SIGILL while computing") == 1
        assert "starts again without repacking" in " ".join(said.split())
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
