"""CPU seconds of the workbench's commands as whole processes, beside those that they are held to.

    python benchmarks/workbench.py [FILE.gguf ...] [--runs N] [--sparse-gb N] [--hash-gb N]
        [--others]

Of each file and of a sparse model of some gigabytes: inspect, check; with ``--others`` gguf-dump,
too. One value edited in the place of the sparse model, into a new file of it and of a model with
data; of that hash and sha256sum, with their peak memory. Runs are interleaved, the minimum counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile

from inspect_gguf import measure, write_sparse

MTKIT = (sys.executable, "-m", "mtkit")


def main() -> None:
    """Measure and print a table, then the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sparse-gb", type=int, default=4)
    parser.add_argument("--hash-gb", type=int, default=1)
    parser.add_argument("--others", action="store_true", help="gguf-dump, too (slow)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sparse, data = (os.path.join(folder, f"{name}.gguf") for name in ("sparse", "data"))
        write_sparse(sparse, asked.sparse_gb << 30)
        write_sparse(data, asked.hash_gb << 30)
        with open(data, "r+b") as file:
            file.seek(1 << 20)
            piece = os.urandom(1 << 20)
            while file.tell() < asked.hash_gb << 30:
                file.write(piece)
        commands: dict[tuple[str, str], list[str]] = {}
        for path in (*asked.files, sparse):
            name = os.path.basename(path)
            commands["inspect", name] = [*MTKIT, "inspect", path]
            commands["check", name] = [*MTKIT, "check", path]
        value = "tokenizer.ggml.model=LLAMA"  # of the length that is there
        commands["edit --in-place", "sparse.gguf"] = [
            *MTKIT, "edit", sparse, "--set", value, "--in-place",
        ]  # fmt: skip
        new = os.path.join(folder, "new.gguf")
        for path in (sparse, data):
            commands["edit -o", os.path.basename(path)] = [
                *MTKIT, "edit", path, "--set", value, "-o", new, "--force",
            ]  # fmt: skip
        commands["hash", "data.gguf"] = [*MTKIT, "hash", data, "--sha256"]
        commands["sha256sum", "data.gguf"] = ["sha256sum", data]
        found: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
        for _ in range(asked.runs):
            for key, command in commands.items():
                found.setdefault(key, []).append(measure(command))
        dump = shutil.which("gguf-dump", path=os.path.dirname(sys.executable))
        for path in asked.files if asked.others and dump else ():
            found["gguf-dump", os.path.basename(path)] = [measure([str(dump), path])]
    show(found)


def show(found: dict[tuple[str, str], list[tuple[int, float, float]]]) -> None:
    """Print CPU seconds and peak memory, and what they are to each other."""
    least = {key: min(cpu for _, cpu, _ in runs) for key, runs in found.items()}
    print(f"{'CPU s':>8} {'peak MB':>8}")
    for (what, name), runs in found.items():
        codes = {code for code, _, _ in runs}
        peak = max(peak for _, _, peak in runs)
        failed = f"  exit codes {sorted(codes)}" if codes - {0, 1} else ""
        print(f"{least[what, name]:8.3f} {peak:8.1f}  {what} {name}{failed}")
    for (what, name), seconds in least.items():
        for other, base in (("check", "inspect"), ("gguf-dump", "inspect"), ("sha256sum", "hash")):
            if what == other:
                print(f"{seconds / least[base, name]:8.2f} x {base} is {other} of {name}")


if __name__ == "__main__":
    main()
