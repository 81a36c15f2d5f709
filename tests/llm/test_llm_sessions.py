"""Sessions: saved, gone on from, checked against their model, whole or not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llm_models import reciting, tiny
from support import Run, reference

from mtkit.api.generation import generate
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.llm.session import read_session


@pytest.fixture(autouse=True)
def _library() -> None:
    reference("llama_cpp")


def test_sessions_go_on_where_they_ended(tmp_path: Path) -> None:
    for path in (tiny(), tiny("mamba"), tiny("gemma3")):
        options: dict[str, Any] = {"model": path, "threads": 1}
        whole = generate("Hello there", n_predict=20, **options)
        file = str(tmp_path / f"{path.stem}.session")
        first = generate("Hello there", n_predict=8, save_session=file, **options)
        again = generate("", n_predict=12, load_session=file, **options)
        assert first.ids + again.ids == whole.ids
        assert again.timings.prompt_tokens == 1
        none = str(tmp_path / f"{path.stem}.none")
        generate("Hello there", n_predict=0, save_session=none, **options)
        assert generate("", n_predict=20, load_session=none, **options).ids == whole.ids
    more = generate(" and on", n_predict=3, load_session=file, **options)
    assert more.prompt_ids[: len(whole.prompt_ids)] == whole.prompt_ids


def test_sessions_are_checked(tmp_path: Path, mtkit: Run) -> None:
    file = tmp_path / "session"
    options: dict[str, Any] = {"n_predict": 3}
    generate("Hello", model=tiny(), save_session=str(file), **options)
    with pytest.raises(UsageError, match="already exists"):
        generate("Hello", model=tiny(), save_session=str(file), **options)
    with pytest.raises(UsageError, match="no such folder"):
        generate("x", model=tiny(), save_session=str(tmp_path / "no" / "session"), **options)
    # Weights of the same shape: llama.cpp itself would load the state.
    with pytest.raises(UnsupportedError, match="belongs to another model"):
        generate("", model=tiny(seed=9), load_session=str(file), **options)
    good = file.read_bytes()
    for damaged in (good[:-1], good[:40], b"", b"GGUF" + good[4:], good[:-50] + b"x" + good[-49:]):
        file.write_bytes(damaged)
        with pytest.raises(FormatError):
            read_session(str(file))
        done = mtkit("generate", "-m", tiny(), "--load-session", file)
        assert done.returncode == 3, done.stderr
    (tmp_path / "s.999999999.part").write_bytes(b"dead")
    generate("Hello", model=tiny(), save_session=str(tmp_path / "s"), **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "session"]


def test_the_text_is_shown_where_the_session_cannot_be_saved(tmp_path: Path) -> None:
    script = (
        "import resource, sys, runpy\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "sys.argv[0] = 'mtkit'\n"
        "runpy.run_module('mtkit', run_name='__main__')\n"
    )
    argv = [sys.executable, "-c", script, "generate", "", "-m", str(reciting()), "-q"]
    argv += ["--save-session", str(tmp_path / "session")]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 5
    assert done.stdout.decode() == " Hello world, you read me.\n"
    assert b"session: cannot be written: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []
