"""What the child of a quantisation does: llama.cpp's own quantizer, which may end its process.

Started by ``mtkit.llm.quantization``. How far it is stands on stdout, a line for each tensor; what
llama.cpp refuses is one line on stderr and the exit code of that error.
Source: llama-quant.cpp of llama.cpp; tools/quantize (how an importance matrix becomes weights).
"""

from __future__ import annotations

import ctypes
import json
import os
import re

from mtkit.errors import FormatError, MtkitError, ResourceError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.llama.shared_library import library, log
from mtkit.llama.trial import die_with_parent, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STEP = re.compile(rb"^\[ *(\d+)/ *(\d+)\]")
_SUMS, _COUNTS = ".in_sum2", ".counts"


def main(job: str) -> None:
    """Quantise a model and end the process.

    Args:
        job: A JSON object: source, target, type (a number), pure, requantize, threads, imatrix (a
            path or null), dry_run.
    """
    die_with_parent()
    wanted = json.loads(job)
    try:
        _quantize(wanted)
    except MtkitError as error:
        leave(error.located(wanted["source"]))
    except MemoryError:
        leave(ResourceError("out of memory", source=wanted["source"]))
    os._exit(0)


def _quantize(job: dict[str, Any]) -> None:
    lib = library()
    told = lib.llama_log_callback(_tell)
    lib.llama_log_set(told, ctypes.c_void_p(0))
    lib.llama_backend_init()
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.nthread = job["type"], job["threads"]
    params.pure, params.dry_run = job["pure"], job["dry_run"]
    params.allow_requantize = job["requantize"]
    if job["imatrix"] is not None:
        params.imatrix = _importance(lib, job["imatrix"])
    source, target = os.fsencode(job["source"]), os.fsencode(job["target"])
    if lib.llama_model_quantize(source, target, ctypes.byref(params)) == 0:
        return
    said = log.errors()
    if "iostream" in said:
        raise ResourceError("cannot be written: the disk does not take it", source=job["path"])
    raise UnsupportedError(f"llama.cpp does not quantise it: {said}" if said else "llama.cpp fails")


def _tell(level: int, text: bytes | None, data: object) -> None:
    """Take a piece of the log; the line that begins a tensor says how far it is."""
    found = _STEP.match(text or b"")
    if found:
        os.write(1, b"%s %s\n" % found.groups())
    log.take(level, text, data)


def _importance(lib: Any, path: str) -> Any:
    """Return an importance matrix as llama.cpp takes it: tensor -> weight of each column.

    Raises:
        FormatError: The file is not one.
    """
    import numpy as np

    file = open_gguf(path)
    names = [name for name in file.names if name.endswith(_SUMS)]
    if not names:
        hint = "llama-imatrix writes one; a .dat of older versions is not read"
        raise FormatError("holds no importance matrix", source=path, hint=hint)
    made = (lib.llama_model_imatrix_data * (len(names) + 1))()
    _kept.append(made)
    for entry, name in zip(made, names, strict=False):
        stem = name.removesuffix(_SUMS)
        counts = file.names.get(stem + _COUNTS)
        sums = file.names[name]
        if counts is None or {sums.type.name, counts.type.name} != {"F32"}:
            raise FormatError("has no counts of 32-bit floats", source=path, field=sums.label)
        of_each = np.frombuffer(file.tensor_data(counts), "<f4").reshape(-1, 1)
        total = np.frombuffer(file.tensor_data(sums), "<f4")
        if not len(of_each) or len(total) % len(of_each):
            raise FormatError("does not go with its counts", source=path, field=sums.label)
        total = total.reshape(len(of_each), -1)
        weights = np.where(of_each > 0, total / np.where(of_each > 0, of_each, 1), 1)
        weights = np.ascontiguousarray(weights, np.float32)
        label = stem.encode("utf-8", "surrogateescape")
        _kept.extend((weights, label))
        entry.name, entry.size = label, weights.size
        entry.data = weights.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    return ctypes.cast(made, ctypes.POINTER(lib.llama_model_imatrix_data))


_kept: list[object] = []
"""What llama.cpp points to."""
