"""Tensors of a folder that no GGUF has: what is computed anyway, copies, a head that is tied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from model_folders import write_folder

from mtkit.conversion.model import plan_gguf
from mtkit.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from model_folders import Shapes

BUFFER = (1, 1, 128, 128)
T5 = {
    "d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_decoder_layers": 2,
    "num_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("LlamaForCausalLM", {"model.layers.0.self_attn.rotary_emb.inv_freq": (8,)}),
        ("GPT2LMHeadModel", {"h.0.attn.bias": BUFFER, "h.1.attn.masked_bias": ()}),
        ("GPTBigCodeForCausalLM", {"transformer.h.0.attn.bias": BUFFER}),
        ("GPTNeoXForCausalLM", {"gpt_neox.layers.0.attention.bias": BUFFER}),
        ("GemmaForCausalLM", {"lm_head.weight": (128, 64)}),
        ("Gemma2ForCausalLM", {"lm_head.weight": (128, 64)}),
        ("T5ForConditionalGeneration", {"decoder.embed_tokens.weight": (128, 64)}),
        ("T5EncoderModel", {"encoder.embed_tokens.weight": (128, 64)}),
    ],
)
def test_what_no_gguf_has_stays_out(name: str, more: Shapes, tmp_path: Path) -> None:
    def names(folder: str, added: Shapes) -> list[str]:
        path = write_folder(
            tmp_path / folder,
            name,
            config=T5,
            optional=(),
            change=lambda shapes: shapes.update(added),
            tokenizer="",
        )
        return [tensor.name for tensor in plan_gguf(str(path)).tensors()]

    assert names("more", more) == names("plain", {})
    with pytest.raises(FormatError, match="has no tensor 'more"):
        names("unknown", {"more.attn.weight": (1,)})


def test_a_copy_alone_is_the_tensor(tmp_path: Path) -> None:
    def renamed(shapes: Shapes) -> None:
        shapes["encoder.embed_tokens.weight"] = shapes.pop("shared.weight")

    name = "T5EncoderModel"
    path = write_folder(tmp_path / "t5", name, config=T5, optional=(), change=renamed, tokenizer="")
    made = {tensor.name for tensor in plan_gguf(str(path)).tensors()}
    assert "token_embd.weight" in made
