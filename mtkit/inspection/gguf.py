"""Inspect a GGUF file as llama.cpp's loader goes through it.

Architecture, hyper-parameters, vocabulary, then tensors by input, repeating block and output. All
of it comes from the metadata and the tensor table: no tensor data is touched, so a file of any size
costs the same, and a file whose tokenizer is wrong can be looked at.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.gguf import open_gguf
from mtkit.gguf.shards import shard_set
from mtkit.gguf.types import FILE_TYPES, GUESSED_FILE_TYPE
from mtkit.inspection.hyperparameters import count, hyperparameters
from mtkit.inspection.kinds import Content, content
from mtkit.inspection.tensors import Group, Mix, groups, places, quantization_mix
from mtkit.inspection.vocabulary import Vocabulary, vocabulary
from mtkit.memory_plan.layers import cache_per_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from mtkit.base.binary import Source
    from mtkit.base.rules import Finding
    from mtkit.gguf import GgufFile
    from mtkit.gguf.shards import ShardSet
    from mtkit.inspection.hyperparameters import HyperParameter


class GgufReport(Record):
    """What a GGUF file holds.

    Attributes:
        file: Header, metadata and tensor table.
        content: Model, adapter or something else, with what matters of it.
        shards: The set that the file belongs to; None when it stands alone.
        name: ``general.name``; empty where there is none.
        architecture: ``general.architecture``; empty where there is none.
        file_type: Name of ``general.file_type``; empty where there is none.
        parameters: Elements of all tensors (of the whole set where it is there).
        bits_per_weight: Bits of tensor data per element; 0 without tensors.
        mix: Tensor types with their share, the largest first.
        hyperparameters: As llama.cpp names them.
        vocabulary: The tokenizer; None where the file holds none.
        layers: Tensors by input, block and output.
        places: Where the bytes are, by purpose.
        weights: Bytes of all tensors.
        cache_per_token: Bytes of keys and values for one token of context, in 16 bits; None where
            it is not known.
        n_ctx_train: Tokens of context that the model was trained with; None where it is not known.
        findings: Rules that are broken, those of the set of shards included.
    """

    file: GgufFile
    content: Content
    shards: ShardSet | None
    name: str
    architecture: str
    file_type: str
    parameters: int
    bits_per_weight: float
    mix: tuple[Mix, ...]
    hyperparameters: tuple[HyperParameter, ...]
    vocabulary: Vocabulary | None
    layers: tuple[Group, ...]
    places: tuple[tuple[str, int], ...]
    weights: int
    cache_per_token: int | None
    n_ctx_train: int | None
    findings: tuple[Finding, ...]


def inspect_gguf(source: str | os.PathLike[str] | Source) -> GgufReport:
    """Read a GGUF file and say what is in it.

    Raises:
        FormatError: The file is damaged, or it is the first of a set of shards that is wrong.
        UsageError: The file does not exist or cannot be read.
    """
    file = open_gguf(source)
    shards = shard_set(file)
    tensors = tuple(file.tensors)
    if shards and shards.is_complete:
        tensors = tuple(t for shard in shards.shards if shard.file for t in shard.file.tensors)
    parameters = sum(tensor.n_elements for tensor in tensors)
    weights = sum(tensor.n_bytes for tensor in tensors)
    values = hyperparameters(file)
    return GgufReport(
        file=file,
        content=content(file.metadata, tensors),
        shards=shards if shards and shards.count > 1 else None,
        name=_text(file, "general.name"),
        architecture=_text(file, "general.architecture"),
        file_type=file_type_name(file),
        parameters=parameters,
        bits_per_weight=weights * 8 / parameters if parameters else 0.0,
        mix=quantization_mix(tensors),
        hyperparameters=values,
        vocabulary=vocabulary(file.metadata),
        layers=groups(tensors),
        places=places(tensors),
        weights=weights,
        cache_per_token=cache_per_token(file.metadata),
        n_ctx_train=count(values, "n_ctx_train"),
        findings=file.findings + (shards.findings if shards else ()),
    )


def _text(file: GgufFile, key: str) -> str:
    value = file.metadata.get(key)
    return value if isinstance(value, str) else ""


def file_type_name(file: GgufFile) -> str:
    """Return the name of ``general.file_type``; empty where there is none."""
    value = file.metadata.get("general.file_type")
    if not isinstance(value, int) or isinstance(value, bool):
        return ""
    name = FILE_TYPES.get(value & ~GUESSED_FILE_TYPE, f"unknown ({value})")
    return f"{name} (guessed)" if value & GUESSED_FILE_TYPE else name
