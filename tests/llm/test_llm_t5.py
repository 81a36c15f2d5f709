"""Encoder-decoder models: prompts of any length, and what they cannot do."""

from __future__ import annotations

import pytest
from llm_models import tiny
from support import reference

from mtkit.errors import ResourceError, UnsupportedError


@pytest.fixture(autouse=True)
def _library() -> None:
    reference("llama_cpp")


def test_prompts_longer_than_a_batch() -> None:
    """The encoder takes a prompt whole; llama.cpp ends the process when it does not fit."""
    from mtkit.api.generation import generate
    from mtkit.llama import Context, ContextSettings, Model

    path = tiny("t5")
    made = generate("word " * 400, model=path, n_predict=3, n_batch=64, n_ubatch=64)
    assert len(made.prompt_ids) > 400
    assert made.context.n_ubatch >= len(made.prompt_ids)
    with Model(str(path)) as model:
        settings = ContextSettings(n_ctx=256, n_batch=32, flash_attention="auto")
        with (
            Context(model, settings) as context,
            pytest.raises(ResourceError, match="the encoder takes 1 to 32"),
        ):
            context.encode([5] * 33)


def test_no_session_and_no_chat() -> None:
    from mtkit.api.generation import generate

    with pytest.raises(UnsupportedError, match="encoder-decoder"):
        generate("x", model=tiny("t5"), n_predict=2, save_session="session")


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "q5_1", "iq4_nl"])
def test_keys_and_values_are_kept_whole(kind: str) -> None:
    """llama.cpp writes beyond its memory where they are quantized."""
    from mtkit.api.generation import generate

    with pytest.raises(UnsupportedError, match=f"nothing in {kind}; --kv-type f16, bf16 or f32"):
        generate("x", model=tiny("t5"), n_predict=2, kv_type=kind)
    for whole in ("f16", "bf16", "f32"):
        assert generate("x", model=tiny("t5"), n_predict=2, kv_type=whole).ids
