"""Generation against plain numpy: llama.cpp's arithmetic has a second, readable form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import reference, shared

from mtkit.checkpoint_conversion import convert_checkpoint
from mtkit.cli import main
from mtkit.llm.generate import generate
from mtkit.loading import load

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
    wanted = Llama.of_llama2c(checkpoint.read_bytes()).greedy(ids, 100)

    found = generate(PROMPT, model=made, n_predict=100, threads=1)
    assert found.prompt_ids == ids
    assert found.ids == wanted
    capsys.readouterr()
    assert main(["generate", PROMPT, "-m", made, "-n", "100", "--threads", "1", "-q"]) == 0
    text = capsys.readouterr().out
    assert PROMPT + text.removesuffix("\n") == tokenizer.decode(ids + wanted)
    assert "Lily" in text
