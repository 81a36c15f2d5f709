"""Quantized folders become what llama.cpp's converter makes of them, or what the library computes.

``tests/data/hf_forms.json.xz``: ``folders`` are cases as in hf_cases.json.xz; ``weights`` are
single weights, packed by bitsandbytes and MLX, with the hash of what these libraries make of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import hf_models
import numpy as np
import pytest

from mtkit.architectures.changes import Permuted, Transposed
from mtkit.architectures.metadata import Dims
from mtkit.architectures.table import row
from mtkit.architectures.tensor_match import Match
from mtkit.base.record import replace
from mtkit.checkpoints.folder_files import ComputedTensor, PackedTensor, StoredTensor
from mtkit.checkpoints.quantization import plain_tensors, with_settings
from mtkit.checkpoints.quantized import float8_values
from mtkit.checkpoints.safetensors import Weight
from mtkit.conversion.model import convert_model, plan_gguf
from mtkit.conversion.model_tensors import refuse_computed
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.gguf import open_gguf

FORMS = hf_models.form_cases()
WEIGHTS: dict[str, dict[str, Any]] = FORMS["weights"]
FOLDERS: dict[str, dict[str, Any]] = FORMS["folders"]


def stored(name: str, kind: str, shape: tuple[int, ...], data: bytes) -> StoredTensor:
    weight = Weight(name, kind, tuple(shape), 0, len(data))
    return StoredTensor(weight, memoryview(data), "model.safetensors")


def parts_of(name: str) -> dict[str, StoredTensor]:
    return {
        f"l.{part}": stored(f"l.{part}", kind, shape, base64.b64decode(text))
        for part, (kind, shape, text) in WEIGHTS[name]["tensors"].items()
    }


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_weight_is_what_the_library_computes(name: str) -> None:
    (weight,) = plain_tensors(WEIGHTS[name]["config"], parts_of(name)).values()
    assert isinstance(weight, ComputedTensor)
    digest = hashlib.sha256(weight.data).hexdigest()
    assert [weight.weight.type, list(weight.weight.shape), digest] == WEIGHTS[name]["weight"]
    # from any row on
    first, last = weight.weight.shape[1] + 3, 4 * weight.weight.shape[1]
    assert np.array_equal(weight.values(first, last), weight.floats().ravel()[first:last])


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, case in FOLDERS.items() for kind in case["expected"]]
)
def test_a_folder_is_what_the_converter_makes(name: str, kind: str) -> None:
    plan, tensors = plan_gguf(str(hf_models.form_folder(name)), kind), []
    for tensor in plan.tensors():
        digest = hashlib.sha256()
        for piece in tensor.pieces():
            digest.update(piece)
        tensors.append([tensor.name, tensor.type.name, list(tensor.shape), digest.hexdigest()])
    expected = FOLDERS[name]["expected"][kind]
    assert sorted(tensors) == sorted(expected["tensors"])
    written = expected.get("kv", {})  # which older cases lack
    keys = {key.name: key.value for key in plan.keys if key.name.startswith("general.")}
    extra = {name for name in written if name.startswith("general.tensor_extra.")}
    assert not written or extra <= keys.keys()
    assert {name: keys[name] for name in keys if name in written} == {
        name: value for name, (_, value) in written.items() if name in keys
    }


MISTRAL = [name for name in FOLDERS if name.startswith("mistral-")]
BEYOND = {
    f"tokenizer.{name}"
    for name in (
        "ggml.scores",
        "chat_template",
        "ggml.pre",
        "ggml.add_sep_token",
        "ggml.add_space_prefix",
    )
}
"""Zeros as scores of BPE, names of templates that llama.cpp has, defaults."""


@pytest.mark.parametrize("name", MISTRAL)
def test_the_keys_of_a_folder_in_mistrals_own_form(name: str, tmp_path: Path) -> None:
    folder = hf_models.form_folder(name)
    assert convert_model(folder, tmp_path / "m.gguf", allow_loss=("ids", "ids-possible")).model
    keys = hf_models.keys_of(open_gguf(tmp_path / "m.gguf"))
    expected = hf_models.keys_as_read(FOLDERS[name]["expected"]["auto"]["kv"])
    named = {key for key in keys | expected if key.startswith("general.") and "type" not in key}
    lengths = {key for key in keys if key.endswith(".context_length") and key not in expected}
    left = BEYOND | named | lengths  # the converter knows no max_seq_len; llama.cpp wants it
    assert {key: keys[key] for key in keys.keys() - left} == {
        key: expected[key] for key in expected.keys() - left
    }


def test_experts_in_mistrals_own_form_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(hf_models.form_folder("mistral-v7"), folder)
    params = json.loads((folder / "params.json").read_text())
    (folder / "params.json").write_text(json.dumps({**params, "moe": {"num_experts": 4}}))
    with pytest.raises(UnsupportedError, match="experts"):
        plan_gguf(str(folder))


def awq(bits: Any) -> dict[str, StoredTensor]:
    """A weight packed as AutoAWQ does: numbers of 4 bits, zeros, scales for 32 rows each."""
    numbers, zeros, scales = bits

    def pack(values: Any) -> Any:
        words = np.zeros((len(values), values.shape[1] // 8), np.uint32)
        for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
            words |= values[:, column::8].astype(np.uint32) << np.uint32(4 * place)
        return words

    arrays = {"qweight": pack(numbers), "qzeros": pack(zeros), "scales": scales}
    kinds = {"qweight": "I32", "qzeros": "I32", "scales": "F16"}
    return {
        f"l.{name}": stored(f"l.{name}", kinds[name], array.shape, array.tobytes())
        for name, array in arrays.items()
    }


AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}}


def test_awq() -> None:
    draw = np.random.default_rng(1)
    numbers, zeros = draw.integers(0, 16, (64, 24)), draw.integers(0, 16, (2, 24))
    scales = (draw.random((2, 24)) * 0.02).astype("<f2")
    (weight,) = plain_tensors(AWQ, awq((numbers, zeros, scales))).values()
    expected = (numbers - zeros.repeat(32, 0)).astype("<f2") * scales.repeat(32, 0)
    assert weight.weight.type == "F16"
    assert bytes(weight.data) == np.ascontiguousarray(expected.T).tobytes()


def test_values_of_eight_bits() -> None:
    """Against ml_dtypes' and the standard's landmarks."""
    small, wide = float8_values("F8_E4M3"), float8_values("F8_E5M2")
    assert small[[0x01, 0x08, 0x38, 0x7E, 0xFE]].tolist() == [2**-9, 2**-6, 1, 448, -448]
    assert np.isnan(small[[0x7F, 0xFF]]).all()
    assert wide[[0x01, 0x04, 0x3C, 0x7B]].tolist() == [2**-16, 2**-14, 1, 57344]
    assert np.isinf(wide[[0x7C, 0xFC]]).all()
    assert np.isnan(wide[[0x7D, 0xFF]]).all()


REFUSED = {
    "AWQ of another order": ({**AWQ["quantization_config"], "version": "gemv"}, "gemv"),
    "bits": ({**AWQ["quantization_config"], "bits": 3}, "bits"),
    "method": ({"quant_method": "hqq"}, "hqq"),
    "plain": ({"quant_method": "gptq", "bits": 4}, "no tensor is packed"),
    "groups": ({"quant_method": "compressed-tensors", "config_groups": {}}, "groups"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_said(name: str) -> None:
    settings, message = REFUSED[name]
    tensors = {"l.weight": stored("l.weight", "F32", (1, 2), bytes(8))}
    if "AWQ" in name or name == "bits":
        tensors = awq((np.zeros((32, 8)), np.zeros((1, 8)), np.zeros((1, 8), "<f2")))
    with pytest.raises(UnsupportedError) as caught:
        plain_tensors({"quantization_config": settings}, tensors)
    assert message in str(caught.value)


def nvfp4(shape: tuple[int, int]) -> dict[str, StoredTensor]:
    rows, columns = shape
    parts: dict[str, tuple[str, tuple[int, ...], bytes]] = {
        "l.weight": ("U8", (rows, columns // 2), bytes(range(256)) * (rows * columns // 512)),
        "l.weight_scale": ("F8_E4M3", (rows, columns // 16), b"\xb8" * (rows * columns // 16)),
        "l.weight_scale_2": ("F32", (), b"\0\0\0\x40"),
    }
    return {name: stored(name, *part) for name, part in parts.items()}


MODELOPT = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}


def test_nvfp4_keeps_its_bits_and_has_its_scales_beside_it() -> None:
    (matrix,) = plain_tensors(MODELOPT, nvfp4((8, 128))).values()
    assert isinstance(matrix, PackedTensor)
    assert matrix.scales == {".scale": 2.0, ".input_scale": 1.0}
    assert len(matrix.data) == matrix.weight.n_bytes == 8 * 2 * 36
    assert (
        bytes(matrix.data[:8]).hex() == "3838383840005100"
    )  # four scales, then numbers 0 and 8, 1 and 9
    # codes 0, 1, 2 … of a row, whose scale is 1
    assert matrix.values(0, 8).tolist() == [0, 0, 0.5, 0, 1, 0, 1.5, 0]


@pytest.mark.parametrize("part", ["l.weight", "l.weight_scale", "l.weight_scale_2"])
def test_parts_of_nvfp4_that_do_not_fit(part: str) -> None:
    parts = nvfp4((8, 128))
    old = parts[part]
    shape = (*old.weight.shape[:-1], 24) if old.weight.shape else (3,)
    size = int(np.prod(shape)) * (4 if old.weight.type == "F32" else 1)
    parts[part] = stored(part, old.weight.type, shape, bytes(size))
    with pytest.raises(FormatError, match="fit"):
        plain_tensors(MODELOPT, parts)


def test_columns_of_nvfp4_are_not_rearranged() -> None:
    """GPT-2 has its matrices transposed."""
    (matrix,) = plain_tensors(MODELOPT, nvfp4((128, 128))).values()
    shape = ((128, 128),)
    for change, is_refused in ((Transposed(), True), (Permuted("head"), False)):
        line = replace(row("l", "l", "embd embd")[0], change=change)
        match = Match(line, Dims({}, {}), ("l.weight",), ("l.weight",), shape, shape)
        with pytest.raises(UnsupportedError, match="NVFP4") if is_refused else nullcontext():
            refuse_computed(match, {"l.weight": matrix})


def drawn(draw: random.Random, name: str) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
    """A weight with something wrong: a part is missing, of another shape, type or setting."""
    parts = parts_of(name)
    part = draw.choice(list(parts))
    old, kind = parts[part], draw.randrange(5)
    shape, data = list(old.weight.shape), bytearray(old.data)
    config = {key: dict(value) for key, value in WEIGHTS[name]["config"].items()}
    if kind == 0:
        del parts[part]
    elif kind == 1 and shape:
        axis = draw.randrange(len(shape))
        shape[axis] += draw.choice((-1, 1, shape[axis]))
        size = len(data) // max(int(np.prod(old.weight.shape)), 1)
        data = (data * 3)[: int(np.prod(shape)) * size]
        parts[part] = stored(part, old.weight.type, tuple(shape), bytes(data))
    elif kind == 2:
        other = draw.choice(("F32", "U32", "I32"))
        if len(data) % 4 == 0:
            parts[part] = stored(part, other, (len(data) // 4,), bytes(data))
    elif kind == 3:
        place = draw.randrange(len(data))
        data[place] = draw.randrange(256)
        parts[part] = stored(part, old.weight.type, old.weight.shape, bytes(data))
    else:
        settings = next(iter(config.values()))
        settings[draw.choice(["quant_method", "bits", "group_size"])] = draw.choice(
            [0, -1, "4", None, [4], 1 << 40, 3, "gptq"]
        )
    return config, parts


def test_a_damaged_weight_is_a_value_or_one_error() -> None:
    draw, values = random.Random(5), 0
    for _ in range(600):
        config, parts = drawn(draw, draw.choice(list(WEIGHTS)))
        try:
            for weight in plain_tensors(config, parts).values():
                assert len(weight.data) == weight.weight.n_bytes
            values += 1
        except (FormatError, UnsupportedError) as error:
            assert isinstance(error, MtkitError)
            assert "\n" not in str(error)
    assert 0 < values < 600


def test_a_config_beside_mistrals_own_form(tmp_path: Path) -> None:
    source, folder = hf_models.form_folder("mistral-v7"), tmp_path / "m"
    shutil.copytree(source, folder)
    (folder / "config.json").write_text(json.dumps({"architectures": ["MistralForCausalLM"]}))
    plain, beside = plan_gguf(str(source)), plan_gguf(str(folder))
    assert {key.name: key.value for key in beside.keys} == {
        key.name: key.value for key in plain.keys
    }
    assert [one.name for one in beside.tensors()] == [one.name for one in plain.tensors()]
    assert any("config.json is not read" in note for note in beside.folder_notes)
    (folder / "model.safetensors").write_bytes(b"")  # what transformers reads comes first
    with pytest.raises(MtkitError, match=r"model\.safetensors"):
        plan_gguf(str(folder))


@pytest.mark.parametrize("kind", ["U8", "F8_E8M0"])
def test_powers_of_two_have_two_names(kind: str) -> None:
    """A file that does not know the type of a scale has its bits."""
    values, exponents = bytes(range(0x30, 0x38)), bytes([127, 130])
    parts = {
        "l.weight": stored("l.weight", "F8_E4M3", (2, 4), values),
        "l.scale": stored("l.scale", kind, (1, 1), exponents[1:]),
        "e.weight": stored("e.weight", "I8", (1, 16), bytes(range(16))),
        "e.scale": stored("e.scale", kind, (1, 1), exponents[:1]),
    }
    tensors = plain_tensors({"quantization_config": {"quant_method": "fp8"}}, parts)
    codes = np.frombuffer(values, np.uint8)
    assert np.array_equal(tensors["l.weight"].floats().ravel(), float8_values("F8_E4M3")[codes] * 8)
    packed = tensors["e.weight"]
    assert isinstance(packed, PackedTensor)
    low, high = (bytes(range(16))[part] for part in (slice(0, 8), slice(8, 16)))
    pairs = [(a & 15 | b << 4 & 0xF0, a >> 4 | b & 0xF0) for a, b in zip(low, high, strict=True)]
    assert bytes(packed.data) == bytes([127, *(byte for pair in pairs for byte in pair)])


def test_settings_of_a_text_part_count() -> None:
    """Kimi K2.5 has them beside the fields of the text model."""
    settings = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    whole = with_settings({"text_config": {"quantization_config": settings}}, {})
    assert whole["quantization_config"] == settings
