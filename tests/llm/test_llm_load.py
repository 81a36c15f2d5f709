"""What llama.cpp is given to load a model with: lists of devices and shares as llama.h has them."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest
from llm_models import tiny
from support import reference

from mtkit.errors import UsageError
from mtkit.llama import Device, LoadSettings, Model, library
from mtkit.llama import model as backend_load

CPU = Device("CPU", "a processor", "CPU", 0, 0, 0x10)
GPUS = tuple(Device(f"GPU{n}", "a card", "GPU", 0, 0, 0x100 + n) for n in range(3))


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch) -> Any:
    reference("llama_cpp")
    monkeypatch.setattr(backend_load, "devices", lambda: [CPU, *GPUS])
    return library()


@pytest.mark.parametrize(
    ("names", "handles"),
    [(("GPU2", "GPU0"), [0x102, 0x100]), (("CPU",), []), (("CPU", "GPU1"), [0x101])],
)
def test_devices_end_with_null(lib: Any, names: tuple[str, ...], handles: list[int]) -> None:
    """An empty list, for the CPU alone, is no NULL pointer: that would mean all devices."""
    params, arrays = backend_load.model_parameters(lib, LoadSettings(devices=names))
    gc.collect()
    assert params.devices == ctypes.addressof(arrays[0])
    count = len(handles) + 1
    found = list((ctypes.c_void_p * count).from_address(params.devices))
    assert found == [*handles, None]


def test_no_choice_is_null(lib: Any) -> None:
    params, arrays = backend_load.model_parameters(lib, LoadSettings())
    assert params.devices is None
    assert not params.tensor_split
    assert arrays == []


def test_shares_are_as_many_as_llama_cpp_reads(lib: Any) -> None:
    params, arrays = backend_load.model_parameters(lib, LoadSettings(tensor_split=(3.0, 1.0)))
    most = lib.llama_max_devices()
    assert params.tensor_split[:most] == [3.0, 1.0, *[0.0] * (most - 2)]
    assert ctypes.sizeof(arrays[0]) == 4 * most


def test_devices_that_are_not_there(lib: Any) -> None:
    with pytest.raises(UsageError, match="available: CPU, GPU0, GPU1, GPU2"):
        backend_load.model_parameters(lib, LoadSettings(devices=("GPU9",)))


def test_a_model_keeps_what_its_parameters_point_to() -> None:
    reference("llama_cpp")
    settings = LoadSettings(devices=("CPU",), tensor_split=(1.0,), gpu_layers=5)
    with Model(str(tiny()), settings) as model:
        callback, arrays = model._kept
        assert callback
        assert len(arrays) == 2
        assert model.tokenize("Hello")
