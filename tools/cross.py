"""Compare what the core, compiled for another system, answers with what it answers here.

    python -m tools.cross x86_64-w64-mingw32-g++-posix --run wine64
    python -m tools.cross aarch64-linux-gnu-g++ --run qemu-aarch64
    python -m tools.cross "zig c++ -target x86_64-linux-musl"

Needs the compiler and what runs its programs, no Python of that system. Each small tokenizer of the
tests is given the nasty texts, and random ones of ``--seed``: ids, places and decoded bytes have to
be equal, errors at the same texts. ``MTKIT_SIMD`` is for the program alone. Exit status 1 where an
answer differs. Warnings are errors.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import struct
import subprocess
import sys
from contextlib import suppress
from glob import glob

from benchmarks.growth_models import small_models
from mtkit import _native
from mtkit.engine import tables
from mtkit.errors import MtkitError
from tools.fuzz_native import packed
from tools.native import ROOT

sys.path.append(os.path.join(ROOT, "tests", "support"))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FLAGS = "-std=c++20 -O2 -static -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -Werror"
CORE = ("tables", "text", "steps", "models", "encode", "decode")
"""Folders of native/ with what encodes and decodes."""


def build(compiler: str, folder: str) -> str:
    """Compile the core and tools/cross.cpp; the program's path."""
    units = [os.path.join(ROOT, "tools", "cross.cpp")]
    for name in CORE:
        units.append(os.path.join(folder, f"{name}.cpp"))
        with open(units[-1], "w", encoding="utf-8") as file:
            for source in sorted(glob(os.path.join(ROOT, "native", name, "*.cpp"))):
                file.write(f'#include "{source}"\n')
    program = os.path.join(folder, "cross.exe")
    include = f"-I{os.path.join(ROOT, 'native')}"
    subprocess.run(
        [*shlex.split(compiler), *FLAGS.split(), include, *units, "-o", program], check=True
    )
    return program


def texts_of(seed: int, count: int) -> list[bytes]:
    """Nasty texts, those and random ones cut at any byte."""
    from engine_cases import TEXTS, random_texts  # type: ignore[import-not-found]

    rng = random.Random(seed)
    found = [text if isinstance(text, bytes) else text.encode() for text in TEXTS]
    found += [text.encode() for text in random_texts(seed, count)]
    return found + [text[: rng.randrange(len(text))] for text in found if len(text) > 1]


def answer_here(engine: _native.Engine, decoder: _native.Decoder, text: bytes) -> str:
    """What the core of this Python answers, as the program prints it."""
    answers: list[Iterable[int]] = [(), ()]
    decoded = b""
    with suppress(MtkitError, _native.Deferred):
        answers[0] = engine.encode_ids(text, True, None)
        decoded = decoder.decode_bytes(list(answers[0]), False)
    with suppress(MtkitError, _native.Deferred):
        answers[1] = engine.encode_offsets(text, True, None)[1]
    numbers = ["".join(f" {number}" for number in answer) for answer in answers]
    return "\t".join([*numbers, decoded.hex()])


def main() -> int:
    """Build, run and compare."""
    from engine_cases import FILES, fixture

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("compiler", help="and what it needs to be told, as one argument")
    parser.add_argument("--run", default="", help="what runs the program")
    parser.add_argument("--texts", type=int, default=1000, help="random ones")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    folder = os.path.join(ROOT, "build", "cross", re.sub(r"\W+", "-", asked.compiler))
    os.makedirs(folder, exist_ok=True)
    program = build(asked.compiler, folder)
    environment = dict(os.environ)
    os.environ.pop("MTKIT_SIMD", None)  # a level of that processor, which this one may not have
    texts = texts_of(asked.seed, asked.texts)
    paths = [os.path.join(folder, name) for name in ("tables", "texts")]
    with open(paths[1], "wb") as file:
        file.write(b"".join(struct.pack("<I", len(text)) + text for text in texts))
    specs = dict(small_models()) | {name: fixture(name) for name in FILES}
    differing = 0
    for name, spec in specs.items():
        sections = tables(spec)
        with open(paths[0], "wb") as file:
            file.write(packed(sections))
        ran = subprocess.run(
            [*shlex.split(asked.run), program, *paths],
            check=True, capture_output=True, env=environment,
        )  # fmt: skip
        there = ran.stdout.decode().splitlines()
        engine, decoder = _native.Engine(dict(sections)), _native.Decoder(dict(sections))
        here = [answer_here(engine, decoder, text) for text in texts]
        others = [
            f"{name}: {text!r}: {one} in place of {other}"
            for text, one, other in zip(texts, there, here, strict=True)
            if one != other
        ]
        differing += len(others)
        for line in others[:3]:
            print(line[:1000])
    print(f"{len(specs)} tokenizers, {len(texts)} texts each: {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
