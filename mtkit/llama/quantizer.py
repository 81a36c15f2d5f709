"""The child process of a quantization: llama.cpp's own quantizer, which may end its process.

Started by ``mtkit.llm.quantization``. Each line on stdout is a JSON array: ["step", number, count]
for each tensor; in a dry run ["type", tensor, new type]; ["fallback", tensor, type of the mix, new
type], all of these before the first step; ["done"] at the end, since the library can end the
process with exit code 0, too. What llama.cpp refuses is one line on stderr and the exit
code of that error.

Source: llama-quant.cpp of llama.cpp; tools/quantize (how an importance matrix becomes weights).
"""

from __future__ import annotations

import ctypes
import json
import os
import re

from mtkit.errors import FormatError, MtkitError, ResourceError, UnsupportedError, UsageError
from mtkit.llama.importance import chosen_entries, read_importance
from mtkit.llama.shared_library import library, log
from mtkit.llama.trial import die_with_parent, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.llama.importance import Importance

_STEP = re.compile(r"^\[ *(\d+)/ *(\d+)\] (.*?) +- \[", re.DOTALL)
_TYPE = re.compile(r"^size = .* -> .* \((\w+)\)$")
_MISFIT = re.compile(
    r"^warning: (.*?) +- ncols +\d+ not .* \(required for type +(\w+)\) $", re.DOTALL
)
_FALLBACK = re.compile(r"^-> falling back to +(\w+)$")
_WHOLE, _FLOAT, _TEXT = 0, 1, 3
"""Numbers of llama_model_kv_override_type."""
_NEEDS_IMPORTANCE = "this type needs an importance matrix"
_IMPORTANCE_HINT = "add --imatrix FILE, or --imatrix-from FILE to make one from a text"
_MOST_TEXT = 127
"""Bytes of a text value."""


def main(job: str) -> None:
    """Quantize a model and end the process.

    Args:
        job: A JSON object: source, name (of it, for messages), target, type (a number), pure,
            requantize, threads, imatrix (a path or null), imatrix_name (what the new file calls it,
            or null), dry_run, tensor_types (pairs of a pattern and a number), output_type and
            embedding_type (a number or ""), leave_output, include and exclude (parts of names),
            prune (numbers of layers), overrides (key, number of its type, value), buffer (bytes of
            a tensor's rows that are in memory at a time).
    """
    die_with_parent()
    settings = json.loads(job)
    try:
        _quantize(settings)
    except MtkitError as error:
        leave(error.located(settings["name"]))
    except MemoryError:
        leave(ResourceError("out of memory", source=settings["name"]))
    _print_event("done")
    os._exit(0)


def _quantize(job: dict[str, Any]) -> None:
    lib = library()
    events = _Events()
    callback = lib.llama_log_callback(events.take)
    lib.llama_log_set(callback, ctypes.c_void_p(0))
    lib.llama_backend_init()
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.nthread = job["type"], job["threads"]
    params.pure, params.dry_run = job["pure"], job["dry_run"]
    params.allow_requantize = job["requantize"]
    params.max_buf_size = job["buffer"]
    if job["output_type"] != "":
        params.output_tensor_type = job["output_type"]
    if job["embedding_type"] != "":
        params.token_embedding_type = job["embedding_type"]
    if job["tensor_types"]:
        params.tt_overrides = _type_overrides(lib, job["tensor_types"])
    params.quantize_output_tensor = not job["leave_output"]
    overrides = list(job["overrides"])
    if job["prune"]:
        layers = (ctypes.c_int32 * (len(job["prune"]) + 1))(*job["prune"], -1)
        _kept_alive.append(layers)
        params.prune_layers = ctypes.cast(layers, ctypes.POINTER(ctypes.c_int32))
    if job["imatrix"] is not None:
        importance = read_importance(job["imatrix"])
        _print_event("importance", list(importance.entries))
        importance = chosen_entries(importance, job["include"], job["exclude"])
        params.imatrix = _importance_weights(lib, importance)
        overrides += _importance_keys(importance, job["imatrix_name"])
    if overrides:
        params.kv_overrides = _key_overrides(lib, overrides)
    source, target = os.fsencode(job["source"]), os.fsencode(job["target"])
    if lib.llama_model_quantize(source, target, ctypes.byref(params)) == 0:
        if events.needs_importance:
            raise UnsupportedError(_NEEDS_IMPORTANCE, hint=_IMPORTANCE_HINT)
        return
    message = log.errors()
    if "iostream" in message:
        raise ResourceError("cannot be written: the disk does not take it", source=job["path"])
    if "requires an importance matrix" in message:
        raise UnsupportedError(_NEEDS_IMPORTANCE, hint=_IMPORTANCE_HINT)
    if "imatrix size" in message:
        what = f"is the importance matrix of another model: {message.rpartition('imatrix ')[2]}"
        raise FormatError(what, source=job["imatrix_name"] or job["imatrix"])
    if "regular expression" in message:
        what = f"a pattern is none: {message.rpartition('failed to quantize: ')[2]}"
        raise UsageError(
            what, field="--tensor-type", hint="use a C++ regular expression, as in attn_v=q6_k"
        )
    raise UnsupportedError(
        f"llama.cpp does not quantize it: {message}" if message else "llama.cpp fails"
    )


class _Events:
    """What the log says of tensors, printed; a line of the log comes in pieces.

    Attributes:
        needs_importance: A dry run went well, but the quantization will not without a matrix.
    """

    def __init__(self) -> None:
        self.needs_importance = False
        self._tensor = self._mix_type = ""

    def take(self, level: int, text: bytes | None, data: object) -> None:
        """Take a piece of the log."""
        piece = (text or b"").decode("utf-8", "surrogateescape").rstrip("\n")
        if match := _STEP.match(piece):
            number, count, self._tensor = match.groups()
            _print_event("step", int(number), int(count))
        elif match := _TYPE.match(piece):
            _print_event("type", self._tensor, match[1].upper())
        elif match := _MISFIT.match(piece):
            self._tensor, self._mix_type = match[1], match[2].upper()
        elif match := _FALLBACK.match(piece):
            _print_event("fallback", self._tensor, self._mix_type, match[1].upper())
        self.needs_importance |= piece.endswith("will require an imatrix!")
        log.take(level, text, data)


def _print_event(*event: object) -> None:
    os.write(1, f"{json.dumps(event)}\n".encode())


def _type_overrides(lib: Any, pairs: list[tuple[str, int]]) -> Any:
    """Return llama.cpp's list of (pattern of names of tensors, type)."""
    overrides = (lib.llama_model_tensor_override * (len(pairs) + 1))()
    _kept_alive.append(overrides)
    for entry, (pattern, number) in zip(overrides, pairs, strict=False):
        entry.pattern, entry.type = pattern.encode("utf-8", "surrogateescape"), number
    return ctypes.cast(overrides, ctypes.POINTER(lib.llama_model_tensor_override))


def _importance_weights(lib: Any, importance: Importance) -> Any:
    """Return an importance matrix as llama.cpp takes it: tensor -> weight of each column."""
    import numpy as np

    entries = (lib.llama_model_imatrix_data * (len(importance.entries) + 1))()
    _kept_alive.append(entries)
    for entry, (name, (sums, counts)) in zip(entries, importance.entries.items(), strict=False):
        of_each = counts.astype(np.float32).reshape(-1, 1)
        weights = np.where(of_each > 0, sums / np.where(of_each > 0, of_each, 1), 1)
        weights = np.ascontiguousarray(weights, np.float32)
        label = name.encode("utf-8", "surrogateescape")
        _kept_alive.extend((weights, label))
        entry.name, entry.size = label, weights.size
        entry.data = weights.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    return ctypes.cast(entries, ctypes.POINTER(lib.llama_model_imatrix_data))


def _importance_keys(importance: Importance, name: str | None) -> Iterator[tuple[str, int, Any]]:
    """Return the metadata about an importance matrix that llama-quantize writes."""
    values = {
        "file": name,
        "dataset": importance.datasets[0] if importance.datasets else None,
        "entries_count": len(importance.entries),
        "chunks_count": importance.chunks or None,
    }
    for key, value in values.items():
        if value is not None:
            yield f"quantize.imatrix.{key}", _TEXT if isinstance(value, str) else _WHOLE, value


def _key_overrides(lib: Any, rows: list[tuple[str, int, Any]]) -> Any:
    """Return llama.cpp's list of keys that the new file gets."""
    overrides = (lib.llama_model_kv_override * (len(rows) + 1))()
    _kept_alive.append(overrides)
    for entry, (key, kind, value) in zip(overrides, rows, strict=False):
        entry.key, entry.tag = key.encode("utf-8", "surrogateescape"), kind
        if kind == _TEXT:
            cut = value.encode("utf-8", "surrogateescape")[:_MOST_TEXT]
            entry.value.val_str = cut.decode("utf-8", "ignore").encode()
        elif kind == _WHOLE:
            entry.value.val_i64 = value
        elif kind == _FLOAT:
            entry.value.val_f64 = value
        else:
            entry.value.val_bool = value
    return ctypes.cast(overrides, ctypes.POINTER(lib.llama_model_kv_override))


_kept_alive: list[object] = []
"""What llama.cpp's structures point to."""
