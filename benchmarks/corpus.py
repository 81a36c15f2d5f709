"""Measure ``corpus count`` on two processes against the engine alone.

    python benchmarks/corpus.py -t tokenizer.json TEXT... [--megabytes 48] [--rounds 3]

The texts (also .xz) are put together to files of some megabytes, as documents of text, lines and
JSON Lines. "engine" is one process that encodes the same documents, which lie in memory, one call
each; "count" is the command with two processes: it reads, decodes JSON, encodes, counts and writes,
its start and loading the tokenizer left out by measuring it on an empty file as well. Rounds are
interleaved, times are CPU time, so that one core of a busy machine is enough. The last column is
what the issue asks for: bytes a second of one core against the engine's.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import statistics
import subprocess
import sys
import tempfile

_ENGINE = """
import json, sys, time
import mtkit
path, tokenizer, kind = sys.argv[1:]
tokenizer = mtkit.load(tokenizer)
with open(path, "rb") as file:
    data = file.read()
if kind == "jsonl":
    documents = [json.loads(line)["text"] for line in data.split(b"\\n") if line]
else:
    documents = [line for line in data.split(b"\\n") if line] if kind == "lines" else [data]
begun = time.process_time()
count = sum(len(tokenizer.encode_array(one, add_special_tokens=False)) for one in documents)
print(time.process_time() - begun, count)
"""


def children() -> float:
    """Return the CPU time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def counted(paths: list[str], tokenizer: str, kind: str, folder: str) -> tuple[float, int]:
    """Return CPU seconds of ``corpus count`` on two processes, and the tokens."""
    lines = ["--lines"] if kind == "lines" else []
    begun = children()
    done = subprocess.run(
        [sys.executable, "-m", "mtkit", "corpus", "count", *paths, "-t", tokenizer, "-j", "2",
         "-o", os.path.join(folder, "freq.json"), "--force", "--json", *lines],
        check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return children() - begun, json.loads(done.stdout)["tokens"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("-t", "--tokenizer", required=True)
    parser.add_argument("--megabytes", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("documents  engine MB/s  count MB/s of a core  ratio")
    with tempfile.TemporaryDirectory() as folder:
        data = b""
        for path in given.texts:
            with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
                data += file.read() + b"\n"
        data *= max(given.megabytes * 1_000_000 // len(data) // 2, 1)
        lines = [line for line in data.split(b"\n") if line.strip()]
        rows = b"".join(json.dumps({"text": x.decode()}).encode() + b"\n" for x in lines)
        made = {"text": ("txt", data), "lines": ("txt", data), "jsonl": ("jsonl", rows)}
        for kind, (suffix, content) in made.items():
            pair = [os.path.join(folder, f"{kind}{at}.{suffix}") for at in range(2)]
            empty = [os.path.join(folder, f"{kind}-empty{at}.{suffix}") for at in range(2)]
            for path, some in zip(
                pair + empty, [content] * 2 + [content.split(b"\n")[0] + b"\n"] * 2, strict=True
            ):
                with open(path, "wb") as file:
                    file.write(some)
            speeds: dict[str, list[float]] = {"engine": [], "count": []}
            for _ in range(given.rounds):
                done = subprocess.run(
                    [sys.executable, "-c", _ENGINE, pair[0], given.tokenizer, kind],
                    check=True, stdout=subprocess.PIPE, text=True,
                ).stdout.split()  # fmt: skip
                speeds["engine"].append(len(content) / float(done[0]))
                started, _ = counted(empty, given.tokenizer, kind, folder)
                used, tokens = counted(pair, given.tokenizer, kind, folder)
                assert tokens == 2 * int(done[1])
                speeds["count"].append(2 * len(content) / (used - started))
            engine, count = (statistics.median(speeds[name]) / 1e6 for name in speeds)
            print(f"{kind:9}  {engine:11.1f}  {count:20.1f}  {count / engine:5.2f}", flush=True)


if __name__ == "__main__":
    main()
