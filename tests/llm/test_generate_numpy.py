"""Generation against plain numpy: llama.cpp's arithmetic has a second, readable form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from llm_models import tiny
from support import reference, shared

from mtkit.api.generation import generate
from mtkit.cli import main
from mtkit.conversion.model import convert_checkpoint
from mtkit.tokenizer.load import load

if TYPE_CHECKING:
    from pathlib import Path


PROMPT = "Once upon a time"


def test_stories260k_tells_what_llama2c_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 greedy tokens; the weights come from the checkpoint here and from the GGUF there."""
    reference("llama_cpp")
    from reference_llama import Llama

    checkpoint = shared("models/stories260K/stories260K.bin")
    tokenizer = load(shared("models/stories260K/tok512.bin"))
    made = convert_checkpoint(checkpoint, tokenizer, tmp_path / "stories.gguf").path
    ids = tokenizer.encode_ids(PROMPT)
    model = Llama.of_llama2c(checkpoint.read_bytes())
    wanted = model.greedy(ids, 100)

    found = generate(PROMPT, model=made, n_predict=100, threads=1)
    assert found.prompt_ids == ids
    assert found.ids == wanted
    capsys.readouterr()
    assert main(["generate", PROMPT, "-m", made, "-n", "100", "--threads", "1", "-q"]) == 0
    text = capsys.readouterr().out
    assert PROMPT + text.removesuffix("\n") == tokenizer.decode(ids + wanted)
    assert "Lily" in text

    whole = generate(PROMPT, model=made, n_predict=500, threads=1)
    assert whole.end == "eog"
    assert whole.ids[-1] == 1  # llama2.c's program stops at BOS, too
    best = model.logits(ids + whole.ids[:-1]).argmax(axis=-1).tolist()
    assert whole.ids == best[len(ids) - 1 :]


PROMPTS = ("Hello world", "The quick brown fox jumps over the lazy dog. " * 8, "你好 one two")


@pytest.mark.parametrize("prompt", PROMPTS, ids=["short", "beyond the near positions", "mixed"])
def test_t5_goes_through_encoder_and_decoder(prompt: str) -> None:
    path = tiny("t5", n_ff=256, n_embd=128, seed=3)
    from reference_t5 import T5

    made = generate(prompt, model=path, n_predict=40, threads=1, kv_type="f32")
    model = T5(path)
    assert made.prompt_ids[-1] == 1  # the tokenizer ends a prompt with </s>
    assert len(set(made.ids)) > 5
    assert made.ids == model.greedy(made.prompt_ids, 40, frozenset({1}))
