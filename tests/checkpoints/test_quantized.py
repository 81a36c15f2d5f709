"""Quantized folders become what llama.cpp's converter makes of them, or what the library computes.

``tests/data/hf_forms.json.xz``: ``folders`` are cases as in hf_cases.json.xz; ``weights`` are
single weights, packed by bitsandbytes and MLX, with the hash of what these libraries make of them.
"""

from __future__ import annotations

import base64
import hashlib
import random
from typing import Any

import hf_models
import numpy as np
import pytest

from mtkit.checkpoints.folder_files import ComputedTensor, StoredTensor
from mtkit.checkpoints.quantization import plain_tensors
from mtkit.checkpoints.quantized import float8_values
from mtkit.checkpoints.safetensors import Weight
from mtkit.conversion.model import plan_gguf
from mtkit.errors import FormatError, MtkitError, UnsupportedError

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
    assert sorted(tensors) == sorted(FOLDERS[name]["expected"][kind]["tensors"])


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
