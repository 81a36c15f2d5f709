"""What would end the process inside llama.cpp is an error here, or does not happen; odd and hostile
models run or are refused; killed, a generation leaves a whole session file or none.

Each trap runs in a process of its own, so that an abort or a segmentation fault is seen as one.
``MTKIT_MUTANTS`` and ``MTKIT_KILLS`` set how many mutants and kills there are; 200 kills were run
when this was written, and ``tools/fuzz_models.py`` draws more mutants.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from changed_models import changed
from llm_models import tiny
from llm_process import run
from model_mutants import mutant
from support import TESTS, Run, reference, shared

from mtkit.llm.session import model_hash, read_session


def test_prompts_longer_than_a_batch_are_split() -> None:
    run(
        """
        with Model(path) as model, Context(model, ContextSettings(n_ctx=200, n_batch=16)) as c:
            c.decode([5] * 150)
            assert c.n_past == 150
            c.logits()
            said(c.decode, [5] * 17, outputs="all")
            said(c.decode, [5] * 51)
            assert c.n_past == 150
        """
    )


def test_ids_are_checked_before_they_reach_c() -> None:
    out = run(
        """
        with Model(path) as model, Context(model, ContextSettings(n_ctx=64)) as context:
            for bad in (-1, model.n_vocab, 1 << 40):
                said(model.piece, bad)
                said(model.is_control, bad)
                said(context.decode, [5, bad])
                said(context.step, bad)
                said(generate, [bad], model=path)
                said(generate, "x", model=path, logit_bias=((bad, 1.0),))
            assert context.n_past == 0
            assert model.is_eog(2) and not model.is_eog(5)
        """
    )
    assert out.count("there is no id") == 18


BEYOND = b"a \xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"x\xf7\xbf\xbf\xbf"
BAD = (
    b"\xff",
    b"\x80",
    b"a\xf0",
    b"\xf0\x80\x80\x80",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
)


@pytest.mark.parametrize("name", ["bbpe-8k", "wordpiece", "spm-bpe", "spm-unigram"])
def test_texts_that_are_no_text(name: str) -> None:
    """llama.cpp throws at numbers beyond U+10FFFF, where the tokenizer goes by characters."""
    by_bytes = name.startswith("spm")
    run(
        f"""
        from mtkit.llama.shared_library import library
        lib = library()
        params = lib.llama_model_default_params()
        params.vocab_only = True
        model = object.__new__(Model)
        model._library, model.path = lib, path
        model.handle = lib.llama_model_load_from_file(path.encode(), params)
        model._describe()
        for text in {BEYOND!r}:
            if {by_bytes}:
                assert model.tokenize(text)
            else:
                said(model.tokenize, text)
        for text in {BAD!r}:
            model.tokenize(text)
        """,
        shared(f"own/fixtures/{name}/vocab.gguf"),
    )


def test_a_full_context() -> None:
    out = run(
        """
        with Model(path) as model, Context(model, ContextSettings(n_ctx=10)) as context:
            assert context.n_ctx == 10
            context.decode([5] * 10)
            said(context.step, 5)
            said(context.decode, [5])
            assert context.truncate(9)
            context.step(5)
        """
    )
    assert out.count("the context holds 10 tokens, 11 are needed; raise n_ctx") == 2


def test_things_are_closed_in_the_right_order() -> None:
    run(
        """
        model = Model(path)
        contexts = [Context(model, ContextSettings(n_ctx=32)) for _ in range(3)]
        contexts[0].close(); contexts[0].close()
        model.close(); model.close()
        assert not any(context.is_open for context in contexts)
        said(Context, model, ContextSettings())
        for close in (True, False):
            model = Model(path)
            context = Context(model, ContextSettings(n_ctx=32))
            context.decode([5])
            del model
            context.step(5)
        # the last ones are left to the end of the process
        """
    )


def test_closed_things_are_not_used() -> None:
    out = run(
        """
        model = Model(path)
        context = Context(model, ContextSettings(n_ctx=32))
        context.decode([5])
        chain = Chain(); chain.add("greedy"); chain.close()
        said(chain.sample, context)
        model.close()
        for call in (lambda: context.decode([5]), lambda: context.step(5), context.logits,
                     context.hidden, context.clear, lambda: context.truncate(0), context.state,
                     lambda: context.restore(b"x"), lambda: context.encode([5]), context.end,
                     lambda: model.tokenize("x"), lambda: model.piece(700), lambda: model.meta("x"),
                     lambda: context.set_threads(1, 1), context.performance):
            said(call)
        """
    )
    assert out.count("is closed") == 16


def test_states_of_something_else() -> None:
    out = run(
        """
        with Model(path) as model, Context(model, ContextSettings(n_ctx=64)) as context:
            context.decode([5, 6, 7])
            state = context.state()
            for bad in (b"", b"x", bytes(state[:-1]), bytes(100), bytes(state) + b"x"):
                said(context.restore, bad)
                assert context.n_past == 0
            context.restore(state)
            assert context.n_past == 3
            said(context.logits)
            context.step(8)
            context.logits()
            settings = ContextSettings(n_ctx=64, kv_type="q8_0")
            with Context(model, settings) as other:
                said(other.restore, state)
        """
    )
    assert out.count("does not fit this context") == 6


def test_no_window_is_cut_into() -> None:
    run(
        """
        settings = ContextSettings(n_ctx=400, n_batch=32, n_ubatch=32, swa_full=False)
        with Model(path) as model, Context(model, settings) as context:
            context.decode([5] * 390)
            assert not context.truncate(30)
            assert context.n_past == 390
            assert context.truncate(389)
        """,
        tiny("gemma3", swa=64, n_layer=6),
    )


def test_recurrent_memory_is_not_cut() -> None:
    run(
        """
        with Model(path) as model, Context(model, ContextSettings(n_ctx=64)) as context:
            context.decode([5, 6, 7])
            assert not context.truncate(2)
            assert context.n_past == 3
            assert context.truncate(3)
        """,
        tiny("mamba"),
    )


def test_log_lines_become_part_of_the_message(tmp_path: Path) -> None:
    data = tiny().read_bytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data.replace(b"blk.1.ffn_down.weight", b"blk.1.ffn_xxxx.weight"))
    out = run("said(Model, path)", broken)
    assert "tensor 'blk.1.ffn_down.weight' not found" in out
    unknown = tmp_path / "unknown.gguf"
    unknown.write_bytes(data.replace(b"llama", b"lluma"))
    out = run("said(Model, path)", unknown)
    assert out.startswith("UnsupportedError")
    assert "unknown model architecture: 'lluma'" in out


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_cut_files(part: float, tmp_path: Path, mtkit: Run) -> None:
    reference("llama_cpp")
    data = tiny().read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[: int(len(data) * part)])
    done = mtkit("generate", "x", "-m", "cut.gguf")
    assert done.returncode == 3, done.stderr
    assert done.stderr.count(b"\n") == 1


def test_interrupted_by_another_thread() -> None:
    run(
        """
        import threading, time
        with Model(path) as model:
            settings = ContextSettings(n_ctx=8192, n_batch=8192, n_ubatch=64)
            with Context(model, settings) as context:
                start = time.perf_counter()
                context.decode([5] * 64)
                context.logits()
                once = time.perf_counter() - start  # of the 128 parts that follow
                context.clear()
                threading.Timer(10 * once, context.interrupt).start()
                said(context.decode, [5] * 8192)
                assert 0 < context.n_past < 8192
                context.decode([5])
                context.logits()
        """,
        tiny(n_embd=512, n_layer=8, n_ff=2048),
    )


def test_no_tokenizer(tmp_path: Path) -> None:
    from mtkit.gguf import open_gguf
    from mtkit.gguf.writer import Key, NewTensor, write_gguf

    file = open_gguf(tiny())
    keys = [Key(name, file.metadata.type_name(name), value)
            for name, value in file.metadata.items()
            if not name.startswith("tokenizer.")]  # fmt: skip
    keys += [
        Key("tokenizer.ggml.model", "string", "no_vocab"),
        Key("llama.vocab_size", "u32", 1024),
    ]
    tensors = [NewTensor(t.name, t.shape, t.type, file.tensor_data(t)) for t in file.tensors]
    path = tmp_path / "none.gguf"
    write_gguf(str(path), keys, tensors)
    out = run(
        """
        said(generate, "x", model=path)
        made = generate([5, 6], model=path, n_predict=3)
        assert len(made.ids) == 3
        """,
        path,
    )
    assert "has no tokenizer" in out


MUTANTS = int(os.environ.get("MTKIT_MUTANTS") or 40)
TOOL = TESTS.parent / "tools" / "fuzz_models.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tool forks")
def test_no_mutant_ends_the_process() -> None:
    reference("llama_cpp")
    tiny()  # or skip: without the shared folder there is one model, too large to mutate in a test
    argv = [sys.executable, str(TOOL), "--count", str(MUTANTS), "--seed", "20"]
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts: Counter[str] = Counter()
    for count, name in re.findall(r"^ *(\d+) (\w+: exit code \d)", done.stdout, re.MULTILINE):
        counts[name] += int(count)
    assert sum(n for name, n in counts.items() if name.startswith("generate")) == MUTANTS
    assert counts["generate: exit code 0"] > MUTANTS // 10  # it is not all refused early
    assert counts["generate: exit code 3"] > MUTANTS // 10
    assert counts["chat: exit code 0"] > 0


def test_mutants_can_be_made_again() -> None:
    bases = [tiny("llama", n_embd=64, n_ff=64), tiny("t5", n_embd=64, n_ff=64)]
    made = [mutant(bases, 3, number) for number in range(12)]
    assert [mutant(bases, 3, number) for number in range(12)] == made
    assert len({content for content, _ in made}) == 12
    assert mutant(bases, 4, 0) != made[0]


@pytest.mark.parametrize(
    ("arch", "values"),
    [("llama", {"llama__block_count": 0}), ("llama", {"llama__block_count": 1 << 31}),
     ("t5", {"t5__block_count": 0}),
     ("llama", {"llama__attention__layer_norm_rms_epsilon": -1.0}),
     ("mamba", {"mamba__attention__layer_norm_rms_epsilon": float("nan")}),
     ("gemma3", {"gemma3__rope__dimension_count": 0}),
     ("gemma3", {"gemma3__rope__dimension_count": 7}),
     ("gemma3", {"gemma3__rope__dimension_count": 1 << 20}),
     ("llama", {"tokenizer__ggml__model": "bert"}),
     ("t5", {"tokenizer__ggml__add_bos_token": True})],
    ids=str,
)  # fmt: skip
def test_refused(arch: str, values: dict[str, Any], tmp_path: Path) -> None:
    path = changed(tiny(arch), tmp_path / "odd.gguf", **values)
    out = run('said(generate, "Hello there", model=path, n_predict=2)', path)
    assert out.startswith(("FormatError", "UnsupportedError", "ResourceError"))


def test_bytes_without_a_token(tmp_path: Path) -> None:
    """A SentencePiece vocabulary with no byte tokens, and few characters."""
    path = changed(tiny("llama-bpe"), tmp_path / "odd.gguf", tokenizer__ggml__model="llama")
    out = run(
        """
        said(generate, "a\\n", model=path, n_predict=2)
        said(generate, "\u4f60", model=path, n_predict=2)
        said(generate, "!", model=path, n_predict=2)
        assert len(generate([5], model=path, n_predict=2).ids) == 2
        """,
        path,
    )
    assert out.count("the tokenizer has no token for") == 3


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
