"""Damaged engine tables, as a forged .mtok can hold them, never crash the process.

Every section is changed and cut everywhere (long ones in a sample), with its neighbors whole; the
engine refuses it with a FormatError or answers. It runs in a process of its own, which must end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_files import DOCUMENTS

pytestmark = pytest.mark.slow

MOST = int(os.environ.get("MTKIT_FUZZ", "300"))
SCRIPT = """
import random, sys
sys.path.insert(0, sys.argv[3])
from small_files import spec
from mtkit.base.native import native
from mtkit.engine import Engine, stored_tables
from mtkit.errors import FormatError, MtkitError

TEXTS = ["abc ab's 123 <x> a<y>\\n", "", "a" * 300, "\\u2581 e\\u0301 \\U0001f389", b"\\xff a"]
made = spec(sys.argv[1])
whole = stored_tables(made)
rng = random.Random(5)
most = int(sys.argv[2])
refused = answered = 0
for tag, data in whole.items():
    places = range(len(data)) if len(data) <= most else rng.sample(range(len(data)), most)
    for at in places:
        flipped = bytearray(data)
        flipped[at] ^= 0xFF
        wide = (data[:at] + b"\\xff" * 4 + data[at + 4 :])[: len(data)]
        for damaged in (bytes(flipped), wide, data[:at]):
            try:
                engine = Engine({**whole, tag: damaged}, lambda: made)._native
            except FormatError:
                refused += 1
                continue
            answered += 1
            for text in TEXTS:
                try:
                    engine.encode_ids(text, True, None)
                except (MtkitError, native.Deferred, UnicodeEncodeError):
                    pass
print(refused, answered)
"""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_damaged_tables_never_crash(name: str, tmp_path: Path) -> None:
    pytest.importorskip("mtkit._native")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SCRIPT,
            name,
            str(MOST),
            os.path.join(os.path.dirname(__file__), os.pardir, "support"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,  # the repository's root would bring the sources, without a core
    )
    assert done.returncode == 0, done.stderr[-500:]
    refused, answered = map(int, done.stdout.split())
    assert refused > 0
    assert answered > 0
