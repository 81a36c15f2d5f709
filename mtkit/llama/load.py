"""llama.cpp's parameters of a model: how it is loaded."""

from __future__ import annotations

import ctypes

from mtkit.errors import UsageError
from mtkit.llama.shared_library import devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.settings import LoadSettings

_MMAP, _NO_MMAP = 1, 0


def parameters(lib: Any, settings: LoadSettings) -> tuple[Any, list[Any]]:
    """Return llama.cpp's parameters of a model, and the arrays that they point to.

    Raises:
        UsageError: A device is not there, or the settings make no sense.
    """
    params = lib.llama_model_default_params()
    params.n_gpu_layers = settings.gpu_layers
    if settings.mmap is not None:
        params.load_mode = _MMAP if settings.mmap else _NO_MMAP
    params.check_tensors = settings.check_tensors
    params.use_extra_bufts = settings.repack
    arrays: list[Any] = []
    if settings.devices:
        handles = _handles(settings.devices)
        chosen = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)  # a NULL ends the list
        params.devices = ctypes.cast(chosen, ctypes.c_void_p)
        arrays.append(chosen)
    if settings.tensor_split:
        most = lib.llama_max_devices()
        if len(settings.tensor_split) > most:
            raise UsageError(f"--tensor-split has more than {most} parts")
        if not any(settings.tensor_split):
            raise UsageError("--tensor-split gives nothing to any GPU")
        shares = (ctypes.c_float * most)(*settings.tensor_split)
        params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        arrays.append(shares)
    return params, arrays


def _handles(names: tuple[str, ...]) -> list[int]:
    """Return the devices of these names but for the CPU, which is always there and no choice."""
    known = {device.name: device for device in devices()}
    for name in names:
        if name not in known:
            raise UsageError(f"no device {name!r}", hint=f"available: {', '.join(known) or 'none'}")
    return [known[name].handle for name in names if known[name].kind != "CPU"]
