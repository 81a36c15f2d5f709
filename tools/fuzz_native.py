"""Run the fuzz targets of the core (native/fuzz/) with libFuzzer and sanitizers on.

    python -m tools.fuzz_native [--seconds N] [TARGET ...]

A target is ``tables``, ``splitter``, ``files``, ``pieces``, or ``models/NAME`` for a kind of model;
without one all are run, one after the other. First inputs are made from small tokenizers; what
libFuzzer adds stays in build/fuzz/corpus, what it finds in build/fuzz/found. Exit status 1 where it
found something, 4 where Clang is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys

from benchmarks.growth_models import small_models
from mtkit.engine import tables
from mtkit.formats.spm.message import encode_field
from mtkit.patterns.matcher import build_tables as pattern_tables
from mtkit.spec.text import Regex
from tools.native import ROOT, build

sys.path.append(os.path.join(ROOT, "tests", "support"))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER = os.path.join(ROOT, "build", "fuzz")
LARGEST = 1 << 16
"""Of first inputs with tables: in larger ones a change seldom meets what matters."""
TEXTS = (
    "Hello, it's 12345 ab abab <x>\n",
    "\u2581\u2581a\u2581b 漢字漢漢 ハングル한 e\u0301\u0301 \U0001f389\u200d",
    "a" * 100 + " " * 70 + "7" * 50 + "\u6f22" * 40,
)


def packed(sections: Mapping[str, bytes], text: bytes = b"") -> bytes:
    """Return tables and a text as native/fuzz/packed.hpp reads them."""
    parts = [tag.encode() + struct.pack("<I", len(data)) + data for tag, data in sections.items()]
    return b"".join(parts) + (b"TEXT" + struct.pack("<I", 0) + text if text else b"")


def model_tables() -> dict[str, bytes]:
    """Tables of a small tokenizer for each kind of model."""
    from engine_cases import FILES, fixture  # type: ignore[import-not-found]

    specs = dict(small_models()) | {name.partition("/")[0]: fixture(name) for name in FILES}
    return {name.replace(" ", "-"): packed(tables(spec)) for name, spec in specs.items()}


def first_tables() -> list[bytes]:
    """Small tables with every section that there is, each with a text."""
    from small_files import DOCUMENTS, spec  # type: ignore[import-not-found]

    found = [packed(tables(spec(name)), text.encode()) for name in DOCUMENTS for text in TEXTS]
    found += [packed(tables(spec), TEXTS[0].encode()) for _, spec in small_models()]
    return [data for data in found if len(data) < LARGEST]


def first_patterns() -> list[bytes]:
    """Tables of published patterns and others, each with a text."""
    from pattern_texts import PUBLISHED  # type: ignore[import-not-found]

    others = (r"\s+$|\s", "a(?=a*b)|a", r"\d{1,3}(?=(?:\d{3})*\b)", r"\w+\b|.")
    patterns = [pattern for _, pattern in PUBLISHED] + [Regex(pattern) for pattern in others]
    made = [pattern_tables(pattern) for pattern in patterns]
    return [packed({"PT00": data}, text.encode()) for data in made for text in TEXTS]


def first_files() -> list[bytes]:
    """Entries of a .mtok and strings of a GGUF."""
    entries = b"".join(struct.pack("<IH", n, 2) + b"ab" for n in range(8))
    strings = b"".join(struct.pack("<Q", 3) + b"abc" for _ in range(8))
    return [bytes((8, 0, 0, flags)) + data for flags in range(4) for data in (entries, strings)]


def first_pieces() -> list[bytes]:
    """Small SentencePiece models: pieces alone, with types, with other fields."""
    mark = "\u2581".encode()
    pieces = [b"<unk>", b"<s>", mark, b"a", b"b", b"ab", mark + b"ab", b"a" * 40]
    scored = [
        encode_field(1, piece) + b"\x15" + struct.pack("<f", -n) for n, piece in enumerate(pieces)
    ]
    typed = [part + bytes((0x18, 1 + n % 6)) for n, part in enumerate(scored)]
    plain, with_types = (
        b"".join(encode_field(1, part) for part in parts) for parts in (scored, typed)
    )
    settings = encode_field(2, encode_field(3, 2)) + encode_field(3, encode_field(3, 1))
    models = (plain, with_types, with_types + settings, encode_field(1, encode_field(1, b"a")))
    return [bytes((every,)) + model for every in (0, 1, 3) for model in models]


def run(target: str, seconds: int, models: Mapping[str, bytes]) -> bool:
    """Run one target for some seconds; whether it found nothing."""
    kind, _, name = target.partition("/")
    place = target.replace("/", "-")
    folders = [os.path.join(FOLDER, part, place) for part in ("corpus", "found", "seeds")]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    corpus, found, seeds = folders
    environment = {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    if name:
        environment["MTKIT_FUZZ_TABLES"] = os.path.join(FOLDER, f"{name}.tables")
        with open(environment["MTKIT_FUZZ_TABLES"], "wb") as file:
            file.write(models[name])
    makers: dict[str, Callable[[], list[bytes]]] = {
        "tables": first_tables,
        "splitter": first_patterns,
        "files": first_files,
        "pieces": first_pieces,
        "models": lambda: [b"\0" + text.encode() for text in TEXTS],
    }
    first = makers[kind]()
    for number, data in enumerate(first):
        with open(os.path.join(seeds, f"{number}"), "wb") as file:
            file.write(data)
    longest = max(4096, *(2 * len(data) for data in first))
    command = [
        os.path.join(FOLDER, "build", f"fuzz_{kind}"), corpus, seeds,
        f"-max_total_time={seconds}", f"-max_len={longest}", f"-artifact_prefix={found}{os.sep}",
        "-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=1024", "-print_final_stats=1",
    ]  # fmt: skip
    log = os.path.join(FOLDER, f"{place}.log")
    with open(log, "wb") as file:
        done = subprocess.run(command, check=False, env=environment, stderr=file)
    with open(log, encoding="utf-8", errors="replace") as file:
        said = file.read()
    inputs = re.search(r"number_of_executed_units: (\d+)", said)
    summary = re.search(r"^SUMMARY: (.*)|^==.*ERROR: (.*)", said, re.M)
    print(f"{target}\t{inputs[1] if inputs else '?'} inputs", end="\t", flush=True)
    if done.returncode == 0:
        print("nothing found", flush=True)
        return True
    print(f"{summary[1] or summary[2] if summary else done.returncode}; see {log}", flush=True)
    return False


def main() -> int:
    """Build and run the targets."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=600, help="of each target")
    asked = parser.parse_args()
    compiler = os.environ.get("CLANGXX") or shutil.which("clang++")
    if compiler is None:
        print("clang++ is missing: libFuzzer comes with Clang (Debian: apt-get install clang)")
        return 4
    build(
        os.path.join(FOLDER, "build"), f"-DCMAKE_CXX_COMPILER={compiler}", "-DMTKIT_FUZZ=ON",
        "-DMTKIT_SANITIZE=address,undefined", "-DMTKIT_WERROR=OFF",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    )  # fmt: skip
    models = model_tables()
    known = ["tables", "splitter", "files", "pieces", *(f"models/{name}" for name in models)]
    unknown = [target for target in asked.targets if target not in known]
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(known)}")
    clean = [run(target, asked.seconds, models) for target in asked.targets or known]
    return int(not all(clean))


if __name__ == "__main__":
    sys.exit(main())
