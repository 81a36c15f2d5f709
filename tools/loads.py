"""Check what loading a .mtok costs: page faults, private memory, milliseconds to the first ids.

Milliseconds are CPU time, that of the system for page faults included.

Every published tokenizer of the shared folder is converted, and loaded as it is used: in processes
of their own, whose modules another file has imported. Ten of them at once show what is shared.
Exit status 1 where the limits below are exceeded. ``tools.performance`` shows the result.

    python -m tools.loads [-t NAME ...] [--peers]

--peers: beside the loads of transformers and tokenizers, in interleaved rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import mtkit
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "bench" / "loads"
RESULT = FOLDER.with_suffix(".json")
SHARED = Path(os.environ.get("MTKIT_SHARED") or ROOT.parent / "shared")
TEXT = "Hello, MNN!"
FILES = ("tokenizer.json", "tokenizer.model", "tokenizer.tiktoken", "tekken.json")
"""What is converted, the first that a folder has."""
TIMES, PROCESSES, ROUNDS = 5, 10, 3
MOST_FAULTS, MOST_MS = 400, 1.0
"""To the first ids; the published tokenizers have up to 250,000."""
RIVALS = ("transformers", "tokenizers")


def private_bytes() -> int:
    """Return the memory of this process that it shares with no other."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def load(path: str) -> None:
    """Load in this process, say what that took, and its memory once everybody has loaded."""
    import gc

    mtkit.load().encode_ids(TEXT)
    gc.collect()
    gc.disable()
    memory, faults = private_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.process_time()
    tokenizer = mtkit.load(path)
    tokenizer.encode_ids(TEXT)
    seconds = time.process_time() - start
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(json.dumps({"faults": faults, "ms": 1000 * seconds, "ids": len(tokenizer)}), flush=True)
    sys.stdin.readline()
    print(private_bytes() - memory, flush=True)


def processes(path: Path, count: int) -> list[dict[str, Any]]:
    """Load in so many processes at once; return what each says."""
    command = [sys.executable, "-m", "tools.loads", "--load", str(path)]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        for _ in range(count)
    ]
    answers = [json.loads(process.stdout.readline()) for process in started if process.stdout]
    for process, answer in zip(started, answers, strict=True):
        answer["private"] = int(process.communicate("\n")[0]) if count > 1 else 0
        process.communicate()
    return answers


def published(names: Sequence[str]) -> Iterator[Path]:
    """Yield the files of tokenizers that somebody published; ``names``: of these alone."""
    from tools.performance import ARTICLES_NAME, articles_own, unpacked

    for folder in sorted((SHARED / "tokenizers" / "tokenizers").iterdir()):
        if folder.name.startswith("syn-") or (names and folder.name not in names):
            continue
        for name in FILES:
            if any((folder / (name + end)).exists() for end in ("", ".xz")):
                yield unpacked(f"tokenizers/tokenizers/{folder.name}/{name}")
                break
    if not names or ARTICLES_NAME.partition("/")[0] in names:
        yield articles_own()


def converted(source: Path) -> Path:
    """Return the .mtok with tables of a file.

    Raises:
        MtkitError: There are none.
    """
    from mtkit.formats import mtok
    from mtkit.formats.contract import WriteOptions

    spec = mtkit.load(source).spec
    files = mtok.write(spec, WriteOptions(values=(("tables", "yes"),))).files
    target = FOLDER / f"{source.parent.name}.mtok"
    target.write_bytes(next(iter(files.values())))
    return target


def beside_peers(source: Path) -> dict[str, Any]:
    """Return what each library takes, and how many times mtkit's: the median, least and most."""
    from benchmarks.peers.bench import Plan, run
    from benchmarks.peers.summary import rows_of
    from mtkit.commands.inputs import load_tokenizer

    plan = Plan({"english": TEXT * 100}, list(RIVALS), ROUNDS, ("load",), False)
    (tokenizer,) = run([load_tokenizer(str(source))], plan, lambda _: None)["tokenizers"]
    row = next(x for x in rows_of(tokenizer) if x.scenario == "load .mtok")
    times = {name: [x.middle, x.low, x.high] for name, x in row.ratios.items()}
    return {"times": times, "costs": row.costs}


def measure(source: Path, *, peers: bool) -> dict[str, Any]:
    """Return the figures of one tokenizer."""
    path = converted(source)
    alone = [processes(path, 1)[0] for _ in range(TIMES)]
    together = processes(path, PROCESSES)
    return {
        "name": source.parent.name,
        "ids": alone[0]["ids"],
        "bytes": path.stat().st_size,
        "faults": max(x["faults"] for x in alone),
        "ms": median(x["ms"] for x in alone),
        "private": median(x["private"] for x in together),
        **(beside_peers(source) if peers and source.name == FILES[0] else {"times": {}}),
    }


def excess(row: Mapping[str, Any]) -> str:
    """Return which limit a tokenizer exceeds; "": none."""
    parts = []
    if row["faults"] > MOST_FAULTS:
        parts.append(f"{row['faults']} page faults, at most {MOST_FAULTS}")
    if row["ms"] > MOST_MS:
        parts.append(f"{row['ms']:.2f} ms to the first ids, at most {MOST_MS:g}")
    return "; ".join(parts)


def main() -> int:
    """Measure and print; 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-t", action="append", default=[], dest="names", metavar="NAME")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.load:
        load(asked.load)
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Any]] = {}
    status = 0
    if asked.names and RESULT.exists():  # the others stay as they are
        rows = {row["name"]: row for row in json.loads(RESULT.read_text(encoding="utf-8"))}
    for source in published(asked.names):
        try:
            row = measure(source, peers=asked.peers)
        except MtkitError as error:
            print(f"{source.parent.name}: {error}")
            status = 1
            continue
        rows[row["name"]] = row
        times = ", ".join(f"{x[0]:.0f} x {name}" for name, x in row["times"].items())
        print(
            f"{row['name']}: {row['ids']} ids, {row['faults']} faults, {row['ms']:.2f} ms, "
            f"{row['private'] / 1e3:.0f} kB private {times}",
            flush=True,
        )
        if excess(row):
            print(f"{row['name']}: {excess(row)}")
            status = 1
        RESULT.write_text(
            json.dumps([rows[name] for name in sorted(rows)], indent=1), encoding="utf-8"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
