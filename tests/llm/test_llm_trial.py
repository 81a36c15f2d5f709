"""A file that ends llama.cpp's process ends a child of ours, and what passed is not tried again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from changed_models import changed
from llm_models import chatting, latent, tiny
from support import Run, one_line, reference

from mtkit.api.generation import generate
from mtkit.errors import FormatError, ResourceError, UsageError
from mtkit.gguf import open_gguf
from mtkit.llama import LoadSettings
from mtkit.llm import trial
from mtkit.llm.header import ModelHeader
from mtkit.llm.trial import try_out

SETTINGS = LoadSettings()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache folder of its own."""
    reference("llama_cpp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MTKIT_TRIAL", raising=False)
    return tmp_path / "cache" / "mtkit" / "tried"


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the path of each model for which a child is started."""
    found: list[str] = []
    real = trial.run_child

    def counted(arguments: tuple[str, ...], seconds: int) -> tuple[int, bytes, bytes] | None:
        found.append(arguments[0])
        return real(arguments, seconds)

    monkeypatch.setattr(trial, "run_child", counted)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a sound model of the test's own."""
    return shutil.copy(tiny(n_embd=64, n_ff=64), tmp_path / "model.gguf")


def twin_tokens(target: Path) -> Path:
    """Write a model that asserts while it is loaded: two tokens of one text."""
    source = tiny(n_embd=64, n_ff=64)
    tokens = list(open_gguf(source).metadata["tokenizer.ggml.tokens"])
    tokens[600] = tokens[500]
    return changed(source, target, tokenizer__ggml__tokens=tokens)


@pytest.mark.parametrize("wanted", ["1", "0"])
def test_an_assertion_is_one_line(
    wanted: str, tmp_path: Path, mtkit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the child, and without a trial in the process itself."""
    monkeypatch.setenv("MTKIT_TRIAL", wanted)
    path = twin_tokens(tmp_path / "twins.gguf")
    line = one_line(mtkit("generate", "Hello", "-m", path, "-n", 2), 3)
    assert line.startswith(f"mtkit: {path}: llama.cpp gives up: GGML_ASSERT(id_to_token.size() ==")
    assert "(llama-vocab.cpp:" in line


def test_an_assertion_in_a_worker_thread(
    tmp_path: Path, mtkit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The callback is called on whatever thread computes, while others wait for it."""
    values: dict[str, Any] = {"llama__attention__layer_norm_rms_epsilon": -1.0}
    path = changed(tiny(), tmp_path / "odd.gguf", **values)
    monkeypatch.setenv("MTKIT_TRIAL", "0")
    line = one_line(mtkit("generate", "Hello", "-m", path, "-n", 2, "--threads", 4), 3)
    assert "GGML_ASSERT(eps >= 0" in line


def test_what_passed_is_not_tried_again(
    model: Path, cache: Path, tries: list[str], tmp_path: Path
) -> None:
    assert generate("Hello", model=str(model), n_predict=2).ids
    assert len(tries) == 1
    (marker,) = cache.iterdir()
    assert marker.stat().st_size == 0
    assert generate("Hello", model=str(model), n_predict=2).ids
    copy = shutil.copy2(model, tmp_path / "copy.gguf")
    try_out(ModelHeader(str(copy)), SETTINGS)
    assert len(tries) == 1
    os.utime(model, ns=(1, 1))
    try_out(ModelHeader(str(model)), SETTINGS)
    assert len(tries) == 2
    changed(copy, copy.with_name("other.gguf"), general__name="another head")
    copy.with_name("other.gguf").replace(copy)
    os.utime(copy, ns=(1, 1))
    try_out(ModelHeader(str(copy)), SETTINGS)
    assert len(tries) == 3
    assert len(list(cache.iterdir())) == 3


def test_what_did_not_pass_is_tried_again(tmp_path: Path, cache: Path, tries: list[str]) -> None:
    path = str(twin_tokens(tmp_path / "twins.gguf"))
    for count in (1, 2):
        with pytest.raises(FormatError, match="gives up"):
            generate("Hello", model=path, n_predict=2)
        assert len(tries) == count
    assert not cache.exists()


def test_no_trial_where_none_is_wanted(
    model: Path, tries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    try_out(ModelHeader(str(model)), LoadSettings(trial=False))
    monkeypatch.setenv("MTKIT_TRIAL", "0")
    try_out(ModelHeader(str(model)), SETTINGS)
    assert tries == []


def test_a_cache_that_cannot_be_written(
    model: Path, tries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    for count in (1, 2):
        try_out(ModelHeader(str(model)), SETTINGS)
        assert len(tries) == count


def test_the_cache_stays_small(
    model: Path, cache: Path, tries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_MOST_REMEMBERED", 8)
    cache.mkdir(parents=True)
    for number in range(8):
        (cache / f"{number}").touch()
        os.utime(cache / f"{number}", (number, number))
    try_out(ModelHeader(str(model)), SETTINGS)
    names = {path.name for path in cache.iterdir()}
    assert len(names) == 7
    assert not names & {"0", "1"}
    try_out(ModelHeader(str(model)), SETTINGS)
    assert len(tries) == 1


def test_a_file_that_is_replaced_meanwhile(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> tuple[int, bytes, bytes]:
        part = model.with_name("part")
        shutil.copy2(model, part)
        part.replace(model)
        return 0, b"done\n", b""

    monkeypatch.setattr(trial, "run_child", slow)
    with pytest.raises(UsageError, match="was changed while it was tried; wait"):
        try_out(ModelHeader(str(model)), SETTINGS)
    assert not cache.exists()


def test_a_pipe(model: Path, mtkit: Run) -> None:
    assert os.path.exists("/dev/stdin")
    done = mtkit("generate", "Hello", "-m", "/dev/stdin", stdin=model.read_bytes())
    assert "/dev/stdin: is a pipe or a device" in one_line(done, 2)


def test_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp's window layers ask for the same table for ever."""
    monkeypatch.setattr(trial, "_SECONDS", 1)
    values: dict[str, Any] = {"gemma3__rope__dimension_count": 0}
    path = changed(tiny("gemma3"), tmp_path / "odd.gguf", **values)
    with pytest.raises(ResourceError, match=r"within (1|20) s; MTKIT_TRIAL=0"):
        generate("Hello", model=str(path), n_predict=2)


@pytest.mark.parametrize("make", [chatting, latent, lambda: tiny("t5"), lambda: tiny("mamba")])
def test_the_graph_alone(make: Any, tries: list[str]) -> None:
    """With layers on GPUs the weights are left out; without, it is another trial."""
    path = str(make())
    for gpu_layers in (-1, 5, 0, 0):
        try_out(ModelHeader(path), LoadSettings(gpu_layers=gpu_layers))
    assert tries == [path, path]


def test_the_graph_alone_finds_assertions(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"llama-vocab\.cpp"):
        try_out(ModelHeader(str(twin_tokens(tmp_path / "twins.gguf"))), LoadSettings(gpu_layers=-1))


def test_a_child_whose_exit_code_is_lost(tmp_path: Path) -> None:
    """A host that ignores SIGCHLD is told 0, whatever ended the child."""
    path = twin_tokens(tmp_path / "twins.gguf")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(FormatError, match="GGML_ASSERT"):
            try_out(ModelHeader(str(path)), SETTINGS)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_architecture_is_refused_in_llama_cpps_words(tmp_path: Path, mtkit: Run) -> None:
    path = changed(tiny(n_embd=64, n_ff=64), tmp_path / "new.gguf", general__architecture="llama99")
    line = one_line(mtkit("generate", "Hello", "-m", path), 4)
    assert "unknown model architecture: 'llama99'" in line
    path = changed(tiny(n_embd=64, n_ff=64), tmp_path / "old.gguf", general__architecture="qwen3")
    assert "qwen3.context_length" in one_line(mtkit("generate", "Hello", "-m", path), 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_child_ends_with_its_parent(number: int, tmp_path: Path) -> None:
    values: dict[str, Any] = {"gemma3__rope__dimension_count": 0}
    path = changed(tiny("gemma3"), tmp_path / "odd.gguf", **values)
    argv = [sys.executable, "-m", "mtkit", "generate", "Hello", "-m", str(path)]
    parent = subprocess.Popen(argv, stderr=subprocess.PIPE, start_new_session=True)
    child, until = 0, time.monotonic() + 120
    while not child and time.monotonic() < until:
        time.sleep(0.01)
        children = [child for watched in _children(parent.pid) for child in _children(watched)]
        child = next((number for number in children if _is_computing(number)), 0)
    assert child
    parent.send_signal(number)
    _, said = parent.communicate(timeout=60)
    assert parent.returncode == (130 if number == signal.SIGINT else -number)
    assert said == b""
    until = time.monotonic() + 20
    while _is_computing(child):
        assert time.monotonic() < until


def _children(process: int) -> list[int]:
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            return [int(text) for text in file.read().split()]
    except OSError:
        return []


def _is_computing(child: object) -> bool:
    """Whether a process has taken more CPU time than it needs to start, and has not ended."""
    try:
        with open(f"/proc/{child}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" and int(fields[11]) > os.sysconf("SC_CLK_TCK")
