"""What the folder of an adapter says: kind, rank, modules, base model; whether it is converted."""

from __future__ import annotations

import os

from mtkit.base.escape import printable
from mtkit.base.record import Record
from mtkit.checkpoints import adapter_folder
from mtkit.checkpoints.folder_files import files_in, read_json, tensors_of
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class AdapterReport(Record):
    """An adapter, as far as its files can be read.

    Attributes:
        kind: "LoRA", "DoRA", "MLX LoRA", another type of PEFT, or "unknown".
        ranks: Of its matrices, the smallest first.
        modules: Last part of the name of a layer -> how many layers it changes.
        base: Name or path of its base model; "" where it says none.
        files: Files of weights -> bytes.
        refused: Why it is not converted; None: it is, with its base model.
    """

    path: str
    kind: str
    ranks: tuple[int, ...]
    alpha: object
    modules: Mapping[str, int]
    base: str
    tensors: int
    parameters: int
    files: Mapping[str, int]
    refused: MtkitError | None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Describe it as a JSON document, schema ``mtkit.inspect/1``."""
        return {
            "schema": "mtkit.inspect/1",
            "kind": "adapter",
            "path": printable(self.path),
            "adapter": self.kind,
            "rank": list(self.ranks),
            "alpha": self.alpha,
            "modules": {printable(name): count for name, count in self.modules.items()},
            "base": printable(self.base),
            "tensors": self.tensors,
            "parameters": self.parameters,
            "files": {printable(name): size for name, size in self.files.items()},
            "refused": self.refused
            and {"what": printable(str(self.refused)), "exit_code": self.refused.exit_code},
            "notes": list(self.notes),
        }


def inspect_adapter(path: str) -> AdapterReport:
    """Read the folder of an adapter; no weight is read."""
    config: Mapping[str, Any] = {}
    refused: MtkitError | None = None
    notes: tuple[str, ...] = ()
    try:
        config = read_json(os.path.join(path, adapter_folder.CONFIG))
        notes = tuple(adapter_folder.notes(path, config))
        adapter_folder.read(path)
    except MtkitError as error:
        refused = error.located(path)
    files = {
        name: os.path.getsize(os.path.join(path, name))
        for name in files_in(path)
        if adapter_folder.is_weights(name)
    }
    shapes = _shapes(path, files)
    layers = {name.removeprefix(adapter_folder.PREFIX): shape for name, shape in shapes.items()}
    modules: dict[str, int] = {}
    ranks = set()
    for name, shape in layers.items():
        stem, is_a = adapter_folder.layer_of(name)
        if is_a:
            module = stem.rpartition(".")[2]
            modules[module] = modules.get(module, 0) + 1
            ranks.add(min(shape) if shape else 0)
    base = config.get("base_model_name_or_path") or config.get("model")
    return AdapterReport(
        path,
        adapter_folder.kind_of(config),
        tuple(sorted(ranks)) or _whole(adapter_folder.rank_of(config)),
        adapter_folder.alpha_of(config),
        modules,
        base if isinstance(base, str) else "",
        len(shapes),
        sum(_size(shape) for shape in shapes.values()),
        files,
        refused,
        notes,
    )


def _shapes(path: str, files: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name in files:
        if name.endswith(".safetensors"):
            try:
                for stored in tensors_of(os.path.join(path, name)):
                    shapes[stored.weight.name] = stored.weight.shape
            except MtkitError:
                continue  # reading it strictly says what is wrong
    return shapes


def _size(shape: tuple[int, ...]) -> int:
    from math import prod

    return prod(shape)


def _whole(value: object) -> tuple[int, ...]:
    return (value,) if type(value) is int else ()
