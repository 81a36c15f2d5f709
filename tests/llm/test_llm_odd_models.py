"""Model files with odd metadata are refused or run; none ends the process or hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from changed_models import changed
from llm_models import tiny
from llm_process import run

if TYPE_CHECKING:
    from pathlib import Path


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
