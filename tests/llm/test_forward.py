"""Models in plain numpy against the logits that transformers computes of the same folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from hf_models import cases, folder
from model_folders import write_folder

from mtkit.checkpoints.model_folder import read
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.llm.forward import Decoder

NAMES = (
    "llama-spm", "llama-bpe-tied-rope3", "llama-headdim-bias", "mistral", "qwen2", "qwen2-yarn",
    "qwen3", "gemma", "gemma2", "gemma3",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str) -> None:
    """To what the stored logits are rounded to, a thousandth of a percent."""
    wanted = cases()[name]["transformers"]
    decoder = Decoder(read(str(folder(name))))
    if name == "gemma2":  # its kernel in transformers ("sdpa") leaves this out
        decoder.config.fields["attn_logit_softcapping"] = None
    other = wanted["ids"][:3]
    logits = decoder.last_logits([other, wanted["ids"]])[1]
    assert max(abs(logits[at] - value) for at, value in wanted["top"]) < 2e-5 * wanted["std"]
    assert logits.argmax() == wanted["top"][0][0]
    assert abs(logits.std() - wanted["std"]) < 2e-6
    assert not decoder.weights.unread


def test_the_soft_cap_of_attention() -> None:
    """As transformers computes it with attn_implementation="eager": 0.2 % beside its default."""
    wanted = cases()["gemma2"]["transformers"]
    logits = Decoder(read(str(folder("gemma2")))).last_logits([wanted["ids"]])[0]
    apart = max(abs(logits[at] - value) for at, value in wanted["top"]) / wanted["std"]
    assert apart == pytest.approx(0.00200124, abs=2e-5)


def test_a_window_hides_what_is_before_it(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 1, "sliding_window": 4}
    decoder = Decoder(read(str(write_folder(tmp_path / "m", "MistralForCausalLM", config=config))))
    one, other, third = decoder.last_logits(
        [[5, 6, 7, 8, 9, 10], [50, 60, 7, 8, 9, 10], [5, 6, 70, 8, 9, 10]]
    )
    assert abs(one - other).max() < 1e-5
    assert abs(one - third).max() > 0.01


def test_what_is_not_computed(tmp_path: Path) -> None:
    other = write_folder(tmp_path / "mixtral", "MixtralForCausalLM")
    with pytest.raises(UnsupportedError, match="does not compute by itself"):
        Decoder(read(str(other)))
    relu = write_folder(tmp_path / "relu", config={"hidden_act": "relu"})
    with pytest.raises(UnsupportedError, match="is 'relu', not silu"):
        Decoder(read(str(relu)))
    scaled = write_folder(
        tmp_path / "scaled", config={"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    )
    with pytest.raises(UnsupportedError, match="'dynamic' is a scaling"):
        Decoder(read(str(scaled))).last_logits([[1]])


def test_tensors_have_to_be_those_of_the_family(tmp_path: Path) -> None:
    norms = write_folder(
        tmp_path / "more", change=lambda found: found.update({"model.layers.0.q_norm.weight": (4,)})
    )
    with pytest.raises(FormatError, match=r"no tensor 'model\.layers\.0\.q_norm\.weight'"):
        Decoder(read(str(norms))).last_logits([[1]])
    fewer = write_folder(tmp_path / "fewer", change=lambda found: found.pop("model.norm.weight"))
    with pytest.raises(FormatError, match=r"there is no tensor 'model\.norm\.weight'"):
        Decoder(read(str(fewer))).last_logits([[1]])
    short = write_folder(
        tmp_path / "short", change=lambda found: found.update({"model.norm.weight": (3,)})
    )
    with pytest.raises(FormatError, match=r"has the shape \[3\], but config.json says \[64\]"):
        Decoder(read(str(short))).last_logits([[1]])


@pytest.mark.parametrize("ids", [[], [-1], [10**9]])
def test_ids_that_are_none(ids: list[int], tmp_path: Path) -> None:
    decoder = Decoder(read(str(write_folder(tmp_path / "m"))))
    with pytest.raises(UsageError, match="ids are 0 to"):
        decoder.last_logits([ids])
