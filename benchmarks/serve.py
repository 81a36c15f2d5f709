"""Answers given together against answers one after another, and against other servers.

    python benchmarks/serve.py [--model M.gguf] [--tokens 100] [--requests 12] [--servers mtkit …]

Every server is a process with one thread that computes, or ``--threads``. ``--llama-server FILE``
adds llama.cpp's own; built from the source that llama-cpp-python has, it has the same kernels. Each
round asks all of them in turn, one request after another and four at a time, streaming, greedily
and without an end before the limit. Shown are seconds to the start, tokens a second of wall time,
CPU milliseconds of the server a token (which other work of the machine disturbs less), and the
median time to the first token; of the rounds the best. Servers that are not there are left out.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

XLLAMACPP = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]; p.n_ctx = int(sys.argv[2]); p.n_parallel = 4; p.port = int(sys.argv[3])
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[4])
p.warmup = True; p.n_gpu_layers = 0
server = xllamacpp.Server(p)
time.sleep(1e6)
"""
SERVERS = ("mtkit", "llama-server", "llama_cpp.server", "xllamacpp")


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def commands(
    model: str, n_ctx: int, threads: str, llama_server: str | None
) -> dict[str, tuple[int, list[str]]]:
    """Return port and command line of each server."""
    found = {}
    port = free_port()
    options = ["-m", model, "-c", str(n_ctx), "-np", "4", "-t", threads, "--port"]
    python = sys.executable
    found["mtkit"] = (port, [python, "-m", "mtkit", "serve", *options, str(port), "-q"])
    if llama_server is not None:
        port = free_port()
        found["llama-server"] = (port, [llama_server, *options, str(port)])
    port = free_port()
    found["llama_cpp.server"] = (port, [
        python, "-m", "llama_cpp.server", "--model", model, "--n_ctx", str(n_ctx // 4),
        "--n_threads", threads, "--n_threads_batch", threads, "--port", str(port),
        "--flash_attn", "true", "--interrupt_requests", "false", "--verbose", "false",
    ])  # fmt: skip
    port = free_port()
    found["xllamacpp"] = (port, [python, "-c", XLLAMACPP, model, str(n_ctx), str(port), threads])
    return found


@contextmanager
def started(port: int, command: list[str]) -> Iterator[tuple[int | None, float]]:
    """Start a server; gives its process id, None where it does not start, and after how long."""
    quiet, start = subprocess.DEVNULL, time.monotonic()
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        end = start + 60
        while process.poll() is None and time.monotonic() < end:
            with suppress(OSError, http.client.HTTPException):
                line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                line.request("GET", "/v1/models")
                if line.getresponse().status == 200:
                    break
            time.sleep(0.01)
        yield process.pid if process.poll() is None else None, time.monotonic() - start
    finally:
        process.terminate()
        process.wait()


def ends(model: str) -> dict[str, float]:
    """Return the bias that keeps answers from ending early."""
    from mtkit.llama import Model

    with Model(model) as opened:
        return {str(token_id): -100 for token_id in opened.eog_ids}


def ask(port: int, number: int, tokens: int, bias: dict[str, float]) -> tuple[float, int]:
    """Ask once; returns seconds to the first token, and how many tokens came."""
    body = {
        "model": "any", "prompt": f"Question {number}: how can I list the files?", "stream": True,
        "max_tokens": tokens, "temperature": 0, "stream_options": {"include_usage": True},
        "logit_bias": bias,
    }  # fmt: skip
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    start = time.perf_counter()
    line.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = line.getresponse()
    assert answer.status == 200, answer.read()
    first, count, usage = 0.0, 0, 0
    for raw in answer:
        if raw.startswith(b"data: {"):
            first = first or time.perf_counter() - start
            value = json.loads(raw[6:])
            count += bool(value.get("choices"))
            usage = (value.get("usage") or {}).get("completion_tokens", usage)
    return first, usage or count


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process and its children have used."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    return own + sum(cpu(child) for child in children)


def measure(
    port: int, pid: int, requests: int, tokens: int, width: int, bias: dict[str, float]
) -> tuple[float, ...]:
    """Return tokens a second, CPU milliseconds a token, seconds to the first token."""
    before, start = cpu(pid), time.perf_counter()
    with ThreadPoolExecutor(width) as pool:
        found = list(pool.map(lambda number: ask(port, number, tokens, bias), range(requests)))
    wall, used = time.perf_counter() - start, cpu(pid) - before
    count = sum(made for _, made in found)
    return count / wall, used / count * 1000, statistics.median(first for first, _ in found)


def main() -> None:
    """Print a row for each server and width."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--ctx", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--llama-server")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=SERVERS)
    given = parser.parse_args()
    from mtkit.sources.locate import MODEL, shipped

    model = given.model or shipped(MODEL)
    bias = ends(model)
    rows: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    with ExitStack() as stack:
        running = []
        servers = commands(model, given.ctx, given.threads, given.llama_server)
        for name, (port, command) in servers.items():
            if name not in given.servers:
                continue
            pid, seconds = stack.enter_context(started(port, command))
            if pid is None:
                print(f"{name}: does not start here")
                continue
            print(f"{name}: starts in {seconds:.2f} s")
            ask(port, 0, 8, bias)
            running.append((name, port, pid))
        for _ in range(given.rounds):
            for name, port, pid in running:
                for width in (1, 4):
                    row = measure(port, pid, given.requests, given.tokens, width, bias)
                    rows.setdefault((name, width), []).append(row)
    print(f"{'server':18}{'at a time':>10}{'tokens/s':>10}{'CPU ms/token':>14}{'first, ms':>11}")
    best = {key: [max(row[0] for row in found), *(min(row[at] for row in found) for at in (1, 2))]
            for key, found in rows.items()}  # fmt: skip
    for (name, width), (speed, used, first) in best.items():
        print(f"{name:18}{width:10}{speed:10.0f}{used:14.3f}{first * 1000:11.1f}")
    for name in dict.fromkeys(name for name, _ in best):
        one, four = best[name, 1], best[name, 4]
        print(f"{name}: four at a time {four[0] / one[0]:.2f} x, by CPU {one[1] / four[1]:.2f} x")


if __name__ == "__main__":
    main()
