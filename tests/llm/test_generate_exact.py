"""Greedy generation is, id by id, what llama-cpp-python's own ``Llama`` generates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from llm_models import ARCHITECTURES, OWN, own, tiny
from support import reference

from mtkit.api.generation import generate

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = 200
PROMPT = "The quick brown fox lists files. 你好"


def by_llama(path: Path, made: Any) -> list[int]:
    """Ids that ``Llama`` gives for the same prompt ids and the same context."""
    llama_cpp = reference("llama_cpp")
    context = made.context
    llama = llama_cpp.Llama(
        str(path),
        n_ctx=context.n_ctx,
        n_batch=context.n_batch,
        n_ubatch=context.n_ubatch,
        n_threads=context.threads,
        n_threads_batch=context.threads,
        flash_attn=context.flash_attention == "on",
        n_gpu_layers=0,
        verbose=False,
    )
    try:
        found: list[int] = []
        for token in llama.generate(made.prompt_ids, temp=0.0, repeat_penalty=1.0):
            found.append(token)
            if llama_cpp.llama_vocab_is_eog(llama._model.vocab, token) or len(found) == TOKENS:
                break
        return found
    finally:
        llama.close()


def check(path: Path, **options: Any) -> None:
    made = generate(PROMPT, model=path, n_predict=TOKENS, threads=1, **options)
    assert made.end in ("eog", "length")
    assert len(made.ids) == TOKENS or made.end == "eog"
    assert made.ids == by_llama(path, made)


@pytest.mark.parametrize("name", OWN)
def test_trained_models(name: str) -> None:
    check(own(name))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_random_models(arch: str) -> None:
    check(tiny(arch))


@pytest.mark.parametrize(
    "options",
    [{"flash_attention": "off"}, {"n_batch": 4}, {"n_batch": 32, "n_ubatch": 8}],
    ids=["no flash attention", "small batches", "small ubatches"],
)
def test_other_contexts(options: dict[str, Any]) -> None:
    check(tiny("llama"), **options)


def test_recurrent_model() -> None:
    check(tiny("mamba"))
