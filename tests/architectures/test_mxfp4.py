"""gpt-oss as published: experts in MXFP4 stay so, and mean the same numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import hf_models
import numpy as np
import pytest
from support import reference

from mtkit.checkpoints import model_folder
from mtkit.checkpoints.safetensors import NewWeight, file_chunks
from mtkit.checks import check
from mtkit.conversion.folder_report import folder_side
from mtkit.conversion.model import convert_model, plan_gguf
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.inspection.difference import find_difference

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
VALUES = np.concatenate([VALUES, -VALUES])
"""What the 16 codes stand for (OCP Microscaling Formats, E2M1)."""
NAMES = ("gate_up_proj", "down_proj")


def packed_folder(path: Path, kind: str = "U8", **fields: Any) -> dict[str, Any]:
    """Write the small model with random experts in 4 bits; return those tensors."""
    source = hf_models.folder("gpt-oss")
    folder = model_folder.read(str(source))
    random = np.random.default_rng(4)
    made: dict[str, Any] = {}
    weights = []
    for name, one in folder.tensors.items():
        if name.endswith(NAMES):
            experts, width, rows = one.weight.shape
            shape = (experts, rows, width // 32)
            made[f"{name}_blocks"] = random.integers(0, 256, (*shape, 16), np.uint8)
            made[f"{name}_scales"] = random.integers(110, 135, shape, np.uint8)
        else:
            data, weight = one.data, one.weight
            weights.append(
                NewWeight(name, weight.type, weight.shape, weight.n_bytes, lambda d=data: iter([d]))
            )
    for name, array in made.items():
        weights.append(
            NewWeight(name, kind, array.shape, array.nbytes, lambda a=array: iter([a.tobytes()]))
        )
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"".join(map(bytes, file_chunks(weights))))
    config = {**folder.config, "quantization_config": {"quant_method": "mxfp4"}, **fields}
    (path / "config.json").write_text(json.dumps(config))
    return made


def numbers(blocks: Any, scales: Any) -> Any:
    """Return what the tensors of a folder mean, [expert, row, column]."""
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*scales.shape, 32)
    scaled = VALUES[codes] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return scaled.reshape(*scales.shape[:2], -1)


@pytest.mark.parametrize(("kind", "file_type"), [("auto", 38), ("f16", 38), ("q8_0", 7)])
def test_experts_stay_in_four_bits(kind: str, file_type: int, tmp_path: Path) -> None:
    """Rows of gate and up, which alternate, are two tensors; the type of the file says so."""
    gguf = reference("gguf")
    made = packed_folder(tmp_path / "model")
    plan = plan_gguf(str(tmp_path / "model"), kind)
    assert [key.value for key in plan.keys if key.name == "general.file_type"] == [file_type]
    tensors = {one.name: one for one in plan.tensors()}
    layer = "model.layers.1.mlp.experts."
    both, down = (
        numbers(made[f"{layer}{name}_blocks"], made[f"{layer}{name}_scales"]) for name in NAMES
    )
    for name, wanted in {"gate": both[:, ::2], "up": both[:, 1::2], "down": down}.items():
        one = tensors[f"blk.1.ffn_{name}_exps.weight"]
        data = np.frombuffer(b"".join(map(bytes, one.pieces())), np.uint8)
        found = gguf.dequantize(data.reshape(-1, 17), gguf.GGMLQuantizationType.MXFP4)
        assert (one.type.name, one.shape) == ("MXFP4", tuple(reversed(wanted.shape)))
        assert np.array_equal(found.reshape(wanted.shape), wanted)


def test_other_models_stay_refused(tmp_path: Path) -> None:
    """Only the family that llama.cpp has in 4 bits is taken so."""
    packed_folder(tmp_path / "model", architectures=["LlamaForCausalLM"])
    with pytest.raises(UnsupportedError, match="quantized"):
        plan_gguf(str(tmp_path / "model"))


def test_blocks_are_bytes(tmp_path: Path) -> None:
    """Another type of the same size is refused."""
    packed_folder(tmp_path / "model", kind="I8")
    with pytest.raises(UnsupportedError, match="I8"):
        plan_gguf(str(tmp_path / "model"))


def test_a_row_is_whole_blocks(tmp_path: Path) -> None:
    """A width that is no multiple of 32 has no blocks."""
    packed_folder(tmp_path / "model", intermediate_size=100)
    with pytest.raises(FormatError, match="multiple of 32"):
        plan_gguf(str(tmp_path / "model"))


def test_a_packed_folder_is_sound_and_equal_to_its_file(tmp_path: Path) -> None:
    """Its tokenizer is beside it: what is written of it has the same bytes and no error."""
    path, target = tmp_path / "model", tmp_path / "made.gguf"
    packed_folder(path)
    for file in hf_models.folder("gpt-oss").glob("tokenizer*"):
        shutil.copy(file, path)
    assert not check(str(path)).findings
    convert_model(path, target)
    assert not [one for one in check(str(target)).findings if one.rule.code.startswith("model-")]
    done = find_difference(folder_side(str(path)), open_gguf(str(target)), values=True)
    assert done.is_made
    assert done.sums is not None
    assert done.sums.rmse == 0
