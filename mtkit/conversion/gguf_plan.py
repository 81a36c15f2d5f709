"""How a HuggingFace model folder becomes a GGUF: its keys, its tensors; no weight is read."""

from __future__ import annotations

import os

from mtkit.architectures import described, packed_classes
from mtkit.architectures.common_keys import SENTENCE_POOLING
from mtkit.architectures.config import MXFP4, quantization
from mtkit.architectures.matching import of_folder
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record
from mtkit.checkpoints import folder_files, model_folder, sentence_pooling
from mtkit.conversion import layer_numbers, model_keys
from mtkit.conversion.model_tensors import (
    FILE_TYPES,
    PACKED_FILE_TYPES,
    TYPES,
    check_type,
    new_tensors,
    usual_type,
)
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.gguf.values import DTYPES, F32, encoded
from mtkit.gguf.writer import NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.in_layers import Match
    from mtkit.checkpoints.folder_files import Stored
    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.gguf.writer import Key


class GgufPlan(Record):
    """How a folder becomes a GGUF.

    Attributes:
        folder: The folder.
        architecture: Of the model.
        config: With what transformers takes where it is silent.
        keys: What its metadata say, its tokenizer aside.
        generated: Tensors that config.json gives.
        matches: Where the others come from.
        type: Of its matrices: f32, f16, bf16 or q8_0.
        vocab: Number of ids.
    """

    folder: ModelFolder
    architecture: Architecture
    config: Config
    keys: tuple[Key, ...]
    generated: tuple[NewTensor, ...]
    matches: tuple[Match, ...]
    type: str
    vocab: int

    def tensors(self, done: Callable[[int], object] = lambda _: None) -> list[NewTensor]:
        """Return the tensors of the GGUF; ``done`` is told each number of bytes that was made."""
        wanted = TYPES[self.type]
        return [*self.generated, *new_tensors(self.matches, self.folder.tensors, wanted, done)]


def plan_gguf(path: str, kind: str = "auto") -> GgufPlan:
    """Look at a folder: what becomes of everything in it; no weight is read.

    Args:
        path: The folder.
        kind: Type of matrices: f32, f16, bf16, q8_0, or auto for the one that they have.

    Raises:
        UsageError: A file is missing, or ``kind`` is none of these.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit does not convert such a model.
    """
    check_type(kind)
    folder = model_folder.read(path, packed_classes())
    source = os.path.join(path, folder_files.CONFIG)
    pooling = sentence_pooling.of_folder(path)
    architecture, config = described({**folder.config, SENTENCE_POOLING: pooling}, source)
    try:
        shapes = shapes_of(architecture, config, folder.tensors)
        if kind == "auto":
            kind = usual_type(
                (one.weight.type, one.weight.shape) for one in folder.tensors.values()
            )
        is_packed = quantization(folder.config) == MXFP4
        types = PACKED_FILE_TYPES if is_packed else FILE_TYPES
        keys = tuple(model_keys.of_model(architecture, config, types[kind]))
        vocab = config.count("vocab_size")
        dims = architecture.sizes({key.name: key.value for key in keys}, vocab)
        matches = tuple(of_folder(architecture, dims, shapes))
        # Sizes are those of tensors that are there: what is computed from them is not too large.
        generated = tuple(_generated(architecture, config, dims))
        for match in matches:
            known = ("U8",) if match.row.change.stores else DTYPES
            _refuse_types((folder.tensors[name] for name in match.folder), known)
        keys = (*layer_numbers.keys(architecture, dims, folder.tensors), *keys)
        _refuse_nonzero(architecture, folder)
    except MtkitError as error:
        raise error.located(source) from None
    return GgufPlan(folder, architecture, config, keys, generated, matches, kind, vocab)


def shapes_of(
    architecture: Architecture, config: Config, tensors: Mapping[str, Stored]
) -> dict[str, tuple[int, ...]]:
    """Return name -> shape, slowest axis first, of the tensors that become those of a GGUF.

    Raises:
        FormatError: The config does not say which they are.
    """
    skips = architecture.skips
    return {
        name: one.weight.shape
        for name, one in tensors.items()
        if skips is None or not skips(name, config)
    }


def _refuse_types(tensors: Iterable[Stored], known: Collection[str]) -> None:
    """Refuse numbers that only the program which wrote them understands.

    Raises:
        UnsupportedError: There are some.
    """
    for one in tensors:
        if one.weight.type not in known:
            what = f"has the type {shown(one.weight.type)}, which mtkit does not convert"
            hint = "use the model in BF16, F16 or F32"
            field = f"tensor {quoted(one.weight.name)}"
            raise UnsupportedError(what, source=one.path, field=field, hint=hint)


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
            yield NewTensor(one.name, shape, F32, encoded(values, F32))
