"""What would end the process inside llama.cpp is an error here, or does not happen.

Each case runs in a process of its own, so that an abort or a segmentation fault is seen as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from llm_models import tiny
from llm_process import run
from support import reference, shared

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run


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
    assert out.count("the context holds 10 tokens, 11 are needed; raise --ctx") == 2


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
