"""A HuggingFace model folder as one GGUF that llama.cpp runs.

config.json gives the metadata, safetensors the weights, the tokenizer goes the way of every
conversion: what would be lost is named or refused, and what was written is compared on the built-in
texts before the file appears. Weights are streamed from the mapped files.
"""

from __future__ import annotations

import os

from mtkit.architectures import of_class
from mtkit.architectures.config import Config
from mtkit.architectures.dims import Dims
from mtkit.architectures.matching import of_folder
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.checkpoints import model_folder
from mtkit.conversion import held, model_keys
from mtkit.conversion.model_tensors import FILE_TYPES, TYPES, new_tensors, usual_type
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.gguf.values import F32, stored
from mtkit.gguf.writer import Key, NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from mtkit.architectures import Architecture
    from mtkit.architectures.matching import Match
    from mtkit.checkpoints.model_folder import ModelFolder


class Plan(Record):
    """How a folder becomes a GGUF.

    Attributes:
        folder: The folder.
        architecture: Of the model.
        config: With what transformers takes where it is silent.
        keys: What its metadata say, its tokenizer aside.
        generated: Tensors that config.json gives.
        matches: Where the others come from.
        type: Of its matrices: f32, f16, bf16 or q8_0.
    """

    folder: ModelFolder
    architecture: Architecture
    config: Config
    keys: tuple[Key, ...]
    generated: tuple[NewTensor, ...]
    matches: tuple[Match, ...]
    type: str

    def tensors(self, done: Callable[[int], object] = lambda _: None) -> list[NewTensor]:
        """Return the tensors of the GGUF; ``done`` is told each number of bytes that was made."""
        wanted = TYPES[self.type]
        return [*self.generated, *new_tensors(self.matches, self.folder.tensors, wanted, done)]


def plan_of(path: str, kind: str = "auto") -> Plan:
    """Look at a folder: what becomes of everything in it; no weight is read.

    Args:
        path: The folder.
        kind: Type of matrices: f32, f16, bf16, q8_0, or auto for the one that they have.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit does not convert such a model.
    """
    folder = model_folder.read(path)
    source = os.path.join(path, model_folder.CONFIG)
    try:
        architecture = of_class(folder.architecture)
        config = Config(folder.config, source)
        if architecture.defaults is not None:
            config = config.with_defaults(architecture.defaults(config))
        shapes = {name: one.weight.shape for name, one in folder.tensors.items()}
        if kind == "auto":
            kind = usual_type(
                (one.weight.type, one.weight.shape) for one in folder.tensors.values()
            )
        keys = tuple(model_keys.of_model(architecture, config, FILE_TYPES[kind]))
        dims = dims_of(architecture, keys, config.count("vocab_size"))
        generated = tuple(_generated(architecture, config, dims))
        matches = tuple(of_folder(architecture, dims, shapes))
        keys = (*held.keys(architecture, dims, folder.tensors), *keys)
        _refuse_nonzero(architecture, folder)
    except MtkitError as error:
        raise error.located(source) from None
    return Plan(folder, architecture, config, keys, generated, matches, kind)


def dims_of(architecture: Architecture, keys: Collection[Key], vocab: int) -> Dims:
    """Return the sizes of a model."""
    start = f"{architecture.name}."
    found = {key.name.removeprefix(start): key.value for key in keys if key.name.startswith(start)}
    return Dims({**found, "vocab": vocab}, architecture.dims)


def _refuse_nonzero(architecture: Architecture, folder: ModelFolder) -> None:
    import numpy as np

    for name, one in folder.tensors.items():
        if name.endswith(architecture.zeros) and np.frombuffer(one.data, np.uint8).any():
            what = f"is not zero, and llama.cpp has no such tensor in a {architecture.name} model"
            raise UnsupportedError(what, field=f"tensor {quoted(name)}")


def _generated(architecture: Architecture, config: Config, dims: Dims) -> Iterator[NewTensor]:
    for one in architecture.generated:
        values = one.values(config, dims)
        if values is not None:
            shape = tuple(reversed(dims.shape(one.axes)))
            yield NewTensor(one.name, shape, F32, stored(values, F32))
