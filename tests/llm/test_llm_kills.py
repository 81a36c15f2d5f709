"""Killed at any moment, a generation leaves a whole session file or none, and no process.

``MTKIT_KILLS`` sets how many kills there are; 200 were run when this was written.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from llm_models import tiny
from support import reference

from mtkit.llm.session import model_hash, read_session

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("MTKIT_KILLS") or 15)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
SECONDS = 120


def test_random_kills(tmp_path: Path) -> None:
    reference("llama_cpp")
    from mtkit.llm.header import ModelHeader

    model = tiny(n_embd=512, n_layer=8, n_ff=2048)
    found_hash = model_hash(ModelHeader(str(model)))
    session = tmp_path / "session"
    prompt = "The quick brown fox. " * 60
    argv = [
        sys.executable, "-m", "mtkit", "generate", prompt, "-m", str(model), "-n", "60",
        "--threads", "1", "--ignore-eos", "--save-session", str(session), "--force",
    ]  # fmt: skip
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    start = time.monotonic()
    assert subprocess.run(argv, check=False, **quiet).returncode == 0
    whole = time.monotonic() - start
    chance = random.Random(11)
    codes: dict[int, int] = {}
    kept = made = 0
    for turn in range(KILLS):
        if turn % 5 == 3:
            session.unlink(missing_ok=True)
        had = session.exists()
        child = subprocess.Popen(argv, start_new_session=True, **quiet)
        delay = chance.uniform(0, 1.1 * whole)
        if turn % 5 < 3:
            time.sleep(delay)
        else:  # as soon as it is there; while it is being written
            delay = _seconds_until_there(session if turn % 5 == 3 else tmp_path, child)
        number = SIGNALS[turn % len(SIGNALS)]
        child.send_signal(number)
        _, said = child.communicate(timeout=SECONDS)
        codes[child.returncode] = codes.get(child.returncode, 0) + 1
        # -2: before the interpreter had set its handler, or while it was ending. While it starts
        # it says what it was at, with a code of its own. 143: half-written files were removed.
        is_starting = number == signal.SIGINT and delay < 0.1
        assert child.returncode in (0, 128 + number, -number) or (
            is_starting and child.returncode == 1
        ), said
        assert b"Traceback" not in said or is_starting or child.returncode == -signal.SIGINT, said
        assert session.exists() or not had  # the one that was there, or the new one
        if session.exists():
            found = read_session(str(session))
            assert found.model_hash == found_hash
            assert len(found.ids) > found.n_past > 300
            kept += had
            made += not had
            if chance.random() < 0.5:
                session.unlink()
    assert len(codes) > 1
    assert kept, "no kill came while a session was there"
    assert made or KILLS < 4, "no killed run had written a session"
    # What SIGTERM and SIGKILL left half-written is removed by the next one that writes.
    assert subprocess.run(argv, check=False, **quiet).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["session"]


def _seconds_until_there(path: Path, child: subprocess.Popen[bytes]) -> float:
    """Wait until a file is there, or a new one in a folder, or the process has ended."""
    start = time.monotonic()
    old = set(path.iterdir()) if path.is_dir() else set()
    while child.poll() is None and not (
        set(path.iterdir()) - old if path.is_dir() else path.exists()
    ):
        assert time.monotonic() - start < SECONDS
        time.sleep(0.002)
    return time.monotonic() - start
