"""Commands that write GGUF files, killed at random moments (`python -m tools.kills` has more)."""

from __future__ import annotations

import os
import struct
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from kills import WORKS, Trials, Work
from support import reference

import mtkit
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.file import JOURNAL_SUFFIX
from mtkit.gguf.in_place import settle_journal, write_ggufs

pytestmark = pytest.mark.slow

MODEL = Path(os.path.dirname(mtkit.__file__), "data", "default-model.gguf")
KILLS = 4


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_old_new_or_nothing(tmp_path: Path, work: Work) -> None:
    if work.name == "quantize":  # in a child, which ends with the command even while it starts
        reference("llama_cpp")
    trials = Trials(work, MODEL, tmp_path / "work")
    rng = Random(work.name)
    assert {trials.run(rng) for _ in range(KILLS)} <= {"old", "new", "neither", "journal"}


def test_the_journal_of_a_file_that_is_replaced(tmp_path: Path) -> None:
    """It would be taken for the new file's; without a file it belongs to nothing."""
    path = tmp_path / "a.gguf"
    journal = Path(f"{path}{JOURNAL_SUFFIX}")
    journal.write_bytes(b"of another program")
    with pytest.raises(UsageError, match="is not a journal"):
        write_ggufs({str(path): MODEL.read_bytes()})
    body = struct.pack("<16sQQQ", b"mtkit journal 1\n", 9, 0, 1) + b"ab"
    journal.write_bytes(body + sha256(body).digest())
    write_ggufs({str(path): MODEL.read_bytes()})
    assert not journal.exists()
    assert open_gguf(path).findings == ()
    journal.write_bytes(b"of another file")
    with pytest.raises(UsageError, match="is not a journal"):
        settle_journal(str(path), force=True)
    with pytest.raises(UsageError, match="already exists"):
        settle_journal(str(path), force=False)
