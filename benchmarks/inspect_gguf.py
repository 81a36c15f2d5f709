"""CPU and peak memory of ``mtkit inspect`` as a whole process, against other tools.

    python benchmarks/inspect_gguf.py [FILE.gguf ...] [--runs N] [--sparse-gb N] [--others]

Each file is inspected by ``mtkit inspect`` (and ``--json``) and, with ``--others``, by the
``gguf-dump`` of the gguf package; ``python -c pass`` is the floor. Runs are interleaved, the
minimum counts, and the machine's load shows as the difference to the median. A sparse model of
some gigabytes (a hole for its data, so it takes no disk) is written for the question whether the
size of a file matters.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

MEASURE = """
import resource, subprocess, sys
with open(sys.argv[1], "wb") as out:
    done = subprocess.run(sys.argv[2:], stdout=out, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def measure(command: list[str]) -> tuple[int, float, float]:
    """Exit code, CPU seconds and peak memory in MB of one run."""
    argv = [sys.executable, "-c", MEASURE, os.devnull, *command]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    code, seconds, kilobytes = done.stdout.split()
    return int(code), float(seconds), float(kilobytes) * 1024 / 1e6


def write_sparse(path: str, n_bytes: int) -> None:
    """Write a model of one block whose data is a hole of ``n_bytes``."""
    from mtkit.gguf.types import TENSOR_TYPES
    from mtkit.gguf.writer import Key, NewTensor, gguf_chunks

    words = [f"token{number}" for number in range(32000)]
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("tokenizer.ggml.model", "string", "llama"),
        Key("tokenizer.ggml.tokens", "string[]", words),
    ]
    empty = [NewTensor("blk.0.ffn_up.weight", (0, 4), TENSOR_TYPES[0], b"")]
    head = b"".join(bytes(chunk) for chunk in gguf_chunks(keys, empty))
    axes = (0).to_bytes(8, "little") + (4).to_bytes(8, "little")
    at = head.rindex(b"blk.0.ffn_up.weight") + len(b"blk.0.ffn_up.weight") + 4
    assert head[at : at + 16] == axes
    with open(path, "wb") as file:
        file.write(head[:at] + (n_bytes // 16).to_bytes(8, "little") + head[at + 8 :])
        file.truncate(len(head) + n_bytes)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--sparse-gb", type=int, default=4)
    parser.add_argument("--others", action="store_true", help="gguf-dump, too (slow)")
    options = parser.parse_args()
    mtkit = [sys.executable, "-m", "mtkit", "inspect"]
    with tempfile.TemporaryDirectory() as folder:
        sparse = os.path.join(folder, f"sparse-{options.sparse_gb}gb.gguf")
        write_sparse(sparse, options.sparse_gb << 30)
        commands = {"python -c pass": [sys.executable, "-c", "pass"]}
        for path in (*options.files, sparse):
            name = os.path.basename(path)
            commands[f"mtkit inspect {name}"] = [*mtkit, path]
            commands[f"mtkit inspect --json {name}"] = [*mtkit, "--json", path]
        found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, command in commands.items():
                found[name].append(measure(command))
        dump = shutil.which("gguf-dump", path=os.path.dirname(sys.executable))
        for path in options.files if options.others and dump else ():
            found[f"gguf-dump {os.path.basename(path)}"] = [measure([str(dump), path])]
    print(f"{'CPU s':>8} {'median':>8} {'peak MB':>8}")
    for name, runs in found.items():
        codes = {code for code, _, _ in runs}
        seconds = [cpu for _, cpu, _ in runs]
        peak = max(peak for _, _, peak in runs)
        failed = "" if codes == {0} else f"  exit codes {sorted(codes)}"
        print(f"{min(seconds):8.3f} {statistics.median(seconds):8.3f} {peak:8.1f}  {name}{failed}")


if __name__ == "__main__":
    main()
