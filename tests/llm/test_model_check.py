"""A converted model against its folder: sound ones pass in every type, broken ones in none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hf_models import folder
from model_folders import write_folder
from support import reference

from mtkit.architectures.changes import SAME, Computed, Permuted
from mtkit.base.record import replace
from mtkit.conversion.model import GgufPlan, convert_model, prepare_gguf
from mtkit.errors import AnswerNo, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.writer import write_gguf
from mtkit.llm import model_check
from mtkit.llm.model_check import verify_model

KINDS = ("f32", "f16", "bf16", "q8_0")


@pytest.fixture(autouse=True)
def _llama(monkeypatch: pytest.MonkeyPatch) -> None:
    reference("llama_cpp")
    monkeypatch.setenv("MTKIT_TRIAL", "0")


@pytest.mark.parametrize("name", ["llama-bpe-tied-rope3", "qwen2", "qwen3", "gemma2", "gemma3"])
def test_a_sound_file_passes(name: str, tmp_path: Path) -> None:
    for kind in KINDS:
        path = convert_model(folder(name), tmp_path / f"{kind}.gguf", kind=kind).path
        found = verify_model(str(folder(name)), path)
        assert found.prompts == 2
        assert found.deviation < 0.005 + 1.3 * found.rounding
        if kind == "f32":
            assert found.deviation < 0.0005
            assert found.rounding < 0.004  # of an activation that llama.cpp looks up


def unpermuted(plan: GgufPlan) -> GgufPlan:
    return with_change(plan, Permuted, "attn_")


def one_unpermuted(plan: GgufPlan) -> GgufPlan:
    return with_change(plan, Permuted, "blk.1.attn_k")


def without_one(plan: GgufPlan) -> GgufPlan:
    return with_change(plan, Computed, "norm")


def last_norm_without_one(plan: GgufPlan) -> GgufPlan:
    return with_change(plan, Computed, "output_norm")


def with_change(plan: GgufPlan, kind: type, part: str) -> GgufPlan:
    """Return a plan that leaves values as they are where they should be changed."""
    matches = tuple(
        replace(one, row=replace(one.row, change=SAME))
        if isinstance(one.row.change, kind) and part in one.gguf[0]
        else one
        for one in plan.matches
    )
    assert matches != plan.matches
    return replace(plan, matches=matches)


def swapped(plan: GgufPlan) -> GgufPlan:
    names = {"ffn_gate": "ffn_up", "ffn_up": "ffn_gate"}

    def other(name: str) -> str:
        part = name.split(".")[-2]
        return name.replace(part, names.get(part, part))

    matches = tuple(
        replace(one, gguf=tuple(other(name) for name in one.gguf)) for one in plan.matches
    )
    return replace(plan, matches=matches)


def without_factors(plan: GgufPlan) -> GgufPlan:
    assert plan.generated
    return replace(plan, generated=())


@pytest.mark.parametrize("kind", ["f32", "q8_0"])
@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("llama-spm", unpermuted),
        ("llama-bpe-tied-rope3", one_unpermuted),
        ("llama-bpe-tied-rope3", without_factors),
        ("gemma", without_one),
        ("gemma", last_norm_without_one),
        ("llama-spm", swapped),
        ("gemma3", swapped),
    ],
)
def test_a_broken_file_does_not(
    name: str, broken: Callable[[GgufPlan], GgufPlan], kind: str, tmp_path: Path
) -> None:
    made = prepare_gguf(str(folder(name)), kind)
    path = str(tmp_path / "broken.gguf")
    write_gguf(path, made.draft.keys.values(), broken(made.plan).tensors())
    with pytest.raises(AnswerNo, match=r"llama\.cpp computes other logits") as caught:
        verify_model(str(folder(name)), path, name="m.gguf")
    assert caught.value.source == "m.gguf"
    assert " behind prompt " in str(caught.value)


def test_one_wrong_row_of_the_head(tmp_path: Path) -> None:
    """The mean over a vocabulary hardly moves."""
    made = prepare_gguf(str(folder("llama-spm")), "f32")
    path = tmp_path / "m.gguf"
    write_gguf(str(path), made.draft.keys.values(), made.plan.tensors())
    file = open_gguf(str(path))
    head = file.names["output.weight"]
    data = bytearray(path.read_bytes())
    row = head.shape[0] * 4
    at = file.data_offset + head.offset + 77 * row
    data[at : at + row] = bytes(row)
    path.write_bytes(data)
    with pytest.raises(AnswerNo, match=r"0\.\d\d% of their deviation apart"):
        verify_model(str(folder("llama-spm")), str(path))


def test_numbers_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_folder(tmp_path / "m", "Qwen2ForCausalLM")
    path = convert_model(base, tmp_path / "m.gguf", kind="f32").path
    real = model_check.compute_logits
    monkeypatch.setattr(
        model_check,
        "compute_logits",
        lambda *given: [one * np.float32("nan") for one in real(*given)],
    )
    with pytest.raises(AnswerNo):
        verify_model(str(base), path)


def test_prompts_of_ones_own(tmp_path: Path) -> None:
    base = write_folder(tmp_path / "m", "Qwen2ForCausalLM")
    path = convert_model(base, tmp_path / "m.gguf", kind="f32").path
    assert verify_model(str(base), path, [[1], [2, 3], [4, 5, 6]]).prompts == 3


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    base = write_folder(tmp_path / "mixtral", "MixtralForCausalLM")
    path = convert_model(base, tmp_path / "m.gguf").path
    with pytest.raises(UnsupportedError, match="does not compute by itself"):
        verify_model(str(base), path)
    from llm_models import OWN
    from support import shared

    other = shared(next(name for name in OWN if name.endswith("q4_0.gguf")))
    with pytest.raises(UnsupportedError, match="has matrices in Q4_0"):
        verify_model(str(write_folder(tmp_path / "llama")), str(other))
