"""Instructions a byte of encoding, counted by valgrind: a figure free of the machine's mood.

    python -m benchmarks.instructions [--list] TEXT TOKENIZER ...

Each tokenizer is written as a .mtok with tables, so that loading it costs next to nothing. A
process of its own encodes the first megabyte of the text not at all, once and three times: the
differences are a text that is new to the process ("fresh") and one that it has seen ("again"). Ids
come as an array, with ``--list`` as a list.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BYTES = 1_000_000
COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def read_text(path: str) -> str:
    """The beginning of a file, in whole characters."""
    with open(path, "rb") as file:
        return file.read(BYTES).decode(errors="ignore")


def work(path: str, tokenizer: str, passes: int, as_list: bool) -> None:
    """What a counted process does."""
    from mtkit import load

    loaded = load(tokenizer)
    encode: Callable[[str], Sequence[int]] = loaded.encode_ids if as_list else loaded.encode_array
    text = read_text(path)
    text.encode()
    encode("Hello")
    for _ in range(passes):
        encode(text)


def count(path: str, tokenizer: str, passes: int, flags: list[str]) -> int:
    """Instructions of such a process."""
    command = [*COUNTER, sys.executable, "-m", "benchmarks.instructions", *flags]
    command += ["--passes", str(passes), path, tokenizer]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found = re.search(r"I\s+refs:\s+([\d,]+)", run.stderr)
    assert found, run.stderr
    return int(found[1].replace(",", ""))


def main(arguments: list[str]) -> int:
    """Count and print."""
    flags = ["--list"] if "--list" in arguments else []
    arguments = [argument for argument in arguments if argument != "--list"]
    if arguments[:1] == ["--passes"]:
        work(arguments[2], arguments[3], int(arguments[1]), bool(flags))
        return 0
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    from mtkit import load
    from mtkit.formats import mtok
    from mtkit.formats.contract import WriteOptions

    path, *tokenizers = arguments
    size = len(read_text(path).encode())
    with_tables = WriteOptions(values=(("tables", "yes"),))
    for tokenizer in tokenizers:
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "tokenizer.mtok")
            (content,) = mtok.write(load(tokenizer).spec, with_tables).files.values()
            with open(target, "wb") as file:
                file.write(content)
            none, once, thrice = (count(path, target, n, flags) for n in (0, 1, 3))
        fresh, again = (once - none) / size, (thrice - once) / size / 2
        print(f"{tokenizer}\t{os.path.basename(path)}\tfresh {fresh:.1f}\tagain {again:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
