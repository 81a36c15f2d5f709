"""Truncate the file of a tokenizer that is in use, some thousand times.

A process loads a .mtok, which it maps, and encodes and decodes in threads; a neighbor makes the
file shorter meanwhile, anywhere, and may fill it up again or write over it. Every answer has to be
that of the whole file, or the error that says what happened. A signal, another error and a wrong
answer are printed. Exit status 1 if there was any.

    python -m tools.truncations --cases 10000 --seed 7
    python -m tools.truncations --mtok gpt2.mtok --cases 1000
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from functools import partial
from random import Random

import mtkit
from mtkit.errors import FormatError, MtkitError
from mtkit.sources.locate import TOKENIZER, shipped
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Use = Callable[[Tokenizer], object]

KINDS = ("cut", "tail", "empty", "zeros", "other")
"""What the neighbor does: cut the file anywhere; within its last bytes, where no page goes; to
nothing; anywhere, and fill it up with zeros; write over a part. After the last one, and where a
file changed before it was loaded, the process has to survive, and any answer will do."""
CHANGED = "was truncated or overwritten"
WORDS = (
    "truncated",
    "while",
    "你好，世界",
    "1234567",
    "don't",
    "\n\t",
    "__init__(self):",
    "café",
    "ﷺ",
)
THREADS = 3
LONGEST_WAIT = 0.004
"""Seconds until the neighbor acts; loading and the first texts take as long."""
STUCK_SECONDS = 60.0


def neighbor() -> None:
    """Do what each line asks for, and say so."""
    for line in sys.stdin:
        kind, wait, place, path = line.rstrip("\n").split(" ", 3)
        time.sleep(float(wait))
        size = os.path.getsize(path)
        if kind == "other":
            with open(path, "r+b") as file:
                file.seek(int(place))
                file.write(os.urandom(min(1 << 16, size - int(place))))
        else:
            os.truncate(path, int(place))
        if kind == "zeros":
            os.truncate(path, size)
        print("done", flush=True)


def uses(random: Random, whole: Tokenizer) -> Iterator[tuple[Use, object]]:
    """Yield what is asked of a tokenizer, and what that of the whole file answers."""
    while True:
        text = " ".join(random.choices(WORDS, k=random.randrange(1, 60))) + str(random.random())
        ids = whole.encode_ids(text)
        yield partial(Tokenizer.encode_ids, text=text), ids
        yield partial(encode_array, text=text), ids
        yield partial(encode_batch, text=text), ids
        yield partial(Tokenizer.decode, ids=ids), whole.decode(ids)
        if random.random() < 0.005:  # Python reads the specification from the file
            yield partial(encode, text=text), ids


def encode_array(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode to an array."""
    return tokenizer.encode_array(text).tolist()


def encode_batch(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode as one of many."""
    return tokenizer.encode_batch_ids([text, "a b"] * 4)[0]


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode with offsets."""
    return list(tokenizer.encode(text).ids)


class Case:
    """A file that is used while the neighbor changes it.

    Attributes:
        ends: How often each way to end came.
        faults: What must not be.
    """

    def __init__(self, whole: Tokenizer, ends: Counter[str], *, any_answer: bool) -> None:
        self.whole = whole
        self.any_answer = any_answer
        self.ends = ends
        self.faults: list[str] = []
        self.changed = threading.Event()

    def load(self, path: str) -> Tokenizer | None:
        """Load; of a file that is shorter by then, any error of mtkit's own will do."""
        try:
            return mtkit.load(path)
        except MtkitError:
            self.ends["not loaded"] += 1
            return None

    def use(self, tokenizer: Tokenizer, seed: str) -> None:
        """Use until the error comes; a file that was written over may go on to answer."""
        for use, right in uses(Random(seed), self.whole):
            late = self.changed.is_set()
            try:
                answer = use(tokenizer)
            except Exception as error:  # noqa: BLE001  other ones are what is looked for
                self.ends["error"] += 1
                own = isinstance(error, FormatError) and CHANGED in str(error)
                if not own and not (self.any_answer and isinstance(error, MtkitError)):
                    self.faults.append("".join(traceback.format_exception(error)))
                return
            if answer != right and not self.any_answer:
                self.faults.append(f"a wrong answer: {answer!r:.100} for {right!r:.100}")
            elif late and not self.any_answer:
                self.faults.append("an answer after the file had changed")
            if late:
                self.ends["answer"] += 1
                return


def place_of(kind: str, size: int, random: Random) -> int:
    """Return where the neighbor acts."""
    if kind == "tail":
        return size - random.randrange(1, 64)
    return 0 if kind == "empty" else random.randrange(size)


def run(mtok: str, cases: int, seed: int) -> int:
    """Run cases; return how many went wrong."""
    random, ends, wrong = Random(seed), Counter[str](), 0
    whole = mtkit.load(mtok)
    size = os.path.getsize(mtok)
    command = [sys.executable, __file__, "--neighbor"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        path = os.path.join(folder, "used.mtok")
        for number in range(cases):
            faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
            kind = KINDS[number % len(KINDS)]
            before = random.random() < 0.2  # or while it is being loaded
            case = Case(whole, ends, any_answer=before or kind == "other")
            shutil.copyfile(mtok, path)
            wait, place = random.random() * LONGEST_WAIT, place_of(kind, size, random)
            line = f"{kind} {wait:.6f} {place} {path}\n"
            if before:
                process.stdin.write(line)
            tokenizer = case.load(path)
            threads = [
                threading.Thread(target=case.use, args=(tokenizer, f"{seed} {number} {thread}"))
                for thread in range(THREADS if tokenizer else 0)
            ]
            for thread in threads:
                thread.start()
            if not before:
                process.stdin.write(line)
            process.stdout.readline()
            case.changed.set()
            for thread in threads:
                thread.join()
            del tokenizer
            os.unlink(path)
            wrong += bool(case.faults)
            for fault in case.faults:
                print(f"case {number} of seed {seed}: {kind} at {place} of {size}: {fault}")
        process.stdin.close()
    faulthandler.cancel_dump_traceback_later()
    counts = ", ".join(f"{name} {count}" for name, count in sorted(ends.items()))
    print(f"{cases} cases, {wrong} wrong; ends: {counts}")
    return wrong


def main() -> int:
    """Run cases; 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mtok", default=shipped(TOKENIZER), help="default: the default tokenizer")
    parser.add_argument("--neighbor", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.neighbor:
        neighbor()
        return 0
    return int(run(asked.mtok, asked.cases, asked.seed) > 0)


if __name__ == "__main__":
    sys.exit(main())
