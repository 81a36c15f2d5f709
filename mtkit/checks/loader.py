"""What llama.cpp's loader demands of a GGUF beyond the format: one rule a row.

A file that breaks one of these is sound, and mtkit reads it; llama.cpp refuses it.
Source: gguf.cpp, llama-model-loader.cpp and llama-model.cpp (``load_hparams``) of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.checks.per_layer import NAMES, PER_LAYER
from mtkit.checks.report import survey
from mtkit.checks.tensor_types import TYPES
from mtkit.formats.gguf.architectures import ARCHITECTURES, VERSION
from mtkit.gguf.oddities import misplaced
from mtkit.gguf.rules import LLAMA_CPP, MAX_NAME_BYTES, PLACE
from mtkit.gguf.types import ARRAY, I32, U32
from mtkit.inspection.kinds import DRAFTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtkit.checks.report import Place
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

ARCHITECTURE = "general.architecture"
_SIZES = ("context_length", "embedding_length", "block_count")
"""Hyperparameters without which no model is loaded."""
_TYPES = {
    "u32": (
        *_SIZES, "feed_forward_length", "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "attention.value_length", "rope.dimension_count", "vocab_size",
        "expert_count", "expert_used_count", "rope.scaling.original_context_length",
        "embedding_length_out", "pooling_type",
    ),
    "f32": (
        "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor",
        "rope.scale_linear", "rope.scaling.attn_factor",
    ),
    "string": ("rope.scaling.type",),
    "bool": ("rope.scaling.finetuned", "attention.causal"),
}  # fmt: skip
"""Hyperparameters by the one type that llama.cpp takes."""
_PLAIN_TYPES = {
    "general.file_type": "u32",
    "tokenizer.ggml.token_type_count": "u32",
    "tokenizer.ggml.remove_extra_whitespaces": "bool",
    "tokenizer.ggml.normalizer.lowercase": "bool",
}
"""Keys that are named the same in every model."""
_SCALINGS = frozenset({"none", "linear", "yarn", "longrope"})
COUNT = "split.count"
MAX_BLOCKS = 512
_ROTATED = frozenset({"llama", "deci", "falcon", "baichuan"})
_BLOCK, _STACKS, EMBEDDING = "blk.", ("blk.", "enc.blk.", "dec.blk."), "token_embd.weight"


def _version(file: GgufFile) -> Iterator[Place]:
    if file.version == 1:
        yield "version", "is 1, which llama.cpp no longer reads", 4


def _byte_order(file: GgufFile) -> Iterator[Place]:
    if file.byte_order == "big":
        yield "version", "is big-endian: only hosts of that byte order load it", 4


def _nested(file: GgufFile) -> Iterator[Place]:
    for entry in file.metadata.entries.values():
        if entry.type is ARRAY and entry.value.element is ARRAY:
            field, offset = entry.place("value")
            yield field, "is an array of arrays", offset


def _name_length(file: GgufFile) -> Iterator[Place]:
    for tensor in file.tensors:
        size = len(tensor.name.encode("utf-8", "surrogateescape"))
        if size == MAX_NAME_BYTES:
            field, offset = tensor.place("name")
            yield field, f"has a name of {size} bytes; llama.cpp has room for {size - 1}", offset


def _offsets(file: GgufFile) -> Iterator[Place]:
    """Data must stand in the order of the table, with nothing but padding between."""
    if any(finding.rule in PLACE for finding in file.findings):
        return  # another rule's
    for tensor, wanted in misplaced(file):
        field, offset = tensor.place("offset")
        yield field, f"has its data at {tensor.offset}, not at {wanted} behind the last", offset
        return  # llama.cpp ends at the first


def _architecture(file: GgufFile) -> Iterator[Place]:
    entry = file.metadata.entries.get(ARCHITECTURE)
    if entry and isinstance(entry.value, str) and entry.value not in ARCHITECTURES:
        what = f"is {entry.value!r}, which llama-cpp-python {VERSION} does not know"
        yield ARCHITECTURE, what, entry.value_offset
    elif not has_tokenizer(file) and not (entry and isinstance(entry.value, str)):
        # Where there is a tokenizer, its reader says so.
        kind = file.metadata.type_name(ARCHITECTURE) if entry else ""
        yield ARCHITECTURE, f"is of type {kind}, not string" if entry else "is missing", None


def _first_shard(file: GgufFile) -> Iterator[Place]:
    number = file.metadata.get("split.no")
    if type(number) is int and number > 0:
        offset = file.metadata.entries["split.no"].value_offset
        yield "split.no", f"is {number}: this is not the first shard; open the first one", offset


def _missing_shards(file: GgufFile) -> Iterator[Place]:
    from mtkit.gguf.shards import shard_set

    shards = shard_set(file, strict=False)
    if shards and shards.number == 0:
        for shard in shards.shards:
            if shard.file is None:
                yield COUNT, f"{shard.path} is missing or damaged", None


def _empty(file: GgufFile) -> Iterator[Place]:
    if not file.tensors and not has_tokenizer(file) and COUNT not in file.metadata:
        yield "tensor_count", "is 0, and there is no tokenizer either: the file holds nothing", 8


CONTAINER = (
    survey("loader-empty", "warning", LLAMA_CPP, "tensor_count", _empty),
    survey("loader-version", "warning", LLAMA_CPP, "version", _version),
    survey("loader-byte-order", "warning", LLAMA_CPP, "version", _byte_order),
    survey("loader-nested-array", "warning", LLAMA_CPP, "value", _nested),
    survey("loader-name-length", "warning", LLAMA_CPP, "name", _name_length),
    survey("loader-offsets", "warning", LLAMA_CPP, "offset", _offsets),
)
"""Held against every GGUF."""
OPENED = (
    survey("loader-first-shard", "warning", LLAMA_CPP, "split.no", _first_shard),
    survey("loader-shards", "warning", LLAMA_CPP, COUNT, _missing_shards),
)
"""Held against the file of a set that was named."""


def is_of_no_kind(file: GgufFile, tensors: Iterable[Tensor]) -> bool:
    """Tell a file of tensors that says of itself neither what it is nor for which model."""
    says = isinstance(file.metadata.get(ARCHITECTURE), str) or "general.type" in file.metadata
    return bool(tensors) and not says


def is_model(file: GgufFile, tensors: Iterable[Tensor]) -> bool:
    """Tell a model from adapters, importance matrices, projectors and control vectors."""
    if file.metadata.get("general.type", "model") != "model":
        return False
    return any(t.name == EMBEDDING or t.name.startswith(_STACKS) for t in tensors)


def has_tokenizer(file: GgufFile) -> bool:
    """Tell whether a file says anything about a tokenizer."""
    return any(key.startswith("tokenizer.") for key in file.metadata)


def _tokenizer(file: GgufFile, _: tuple[Tensor, ...]) -> Iterator[Place]:
    if not has_tokenizer(file):
        yield "tokenizer.ggml.model", "is missing: the model has no tokenizer", None


def _sizes(file: GgufFile, _: tuple[Tensor, ...]) -> Iterator[Place]:
    architecture = file.metadata.get(ARCHITECTURE)
    if not isinstance(architecture, str):
        return  # another rule's
    for size in _SIZES:
        key = f"{architecture}.{size}"
        if key not in file.metadata:
            yield key, "is missing", None


def wanted_types(architecture: str) -> dict[str, str]:
    """Return key -> the type that llama.cpp takes."""
    named = ((name, kind) for kind, names in _TYPES.items() for name in names)
    return {**{f"{architecture}.{name}": kind for name, kind in named}, **_PLAIN_TYPES}


def _types(file: GgufFile, _: tuple[Tensor, ...]) -> Iterator[Place]:
    architecture = file.metadata.get(ARCHITECTURE)
    if not isinstance(architecture, str):
        return  # another rule's
    for key, wanted in wanted_types(architecture).items():
        entry = file.metadata.entries.get(key)
        if entry is None or entry.type.name == wanted:
            continue
        per_layer = key.removeprefix(f"{architecture}.") in NAMES
        if per_layer and entry.type is ARRAY and entry.value.element in (U32, I32):
            continue
        yield key, f"is of type {file.metadata.type_name(key)}, not {wanted}", entry.value_offset


def _experts(file: GgufFile, _: tuple[Tensor, ...]) -> Iterator[Place]:
    key, count, _at = _hyperparameter(file, "expert_count")
    used, number, offset = _hyperparameter(file, "expert_used_count")
    if count and used not in file.metadata:
        yield used, f"is missing, {key} is {count}", None
    elif count and number is not None and not 0 < number <= count:
        yield used, f"is {number}, {key} is {count}", offset


def _scaling(file: GgufFile, _: tuple[Tensor, ...]) -> Iterator[Place]:
    key = f"{file.metadata.get(ARCHITECTURE)}.rope.scaling.type"
    entry = file.metadata.entries.get(key)
    if entry and isinstance(entry.value, str) and entry.value not in _SCALINGS:
        known = ", ".join(sorted(_SCALINGS))
        yield key, f"is {entry.value!r}, llama.cpp knows {known}", entry.value_offset


def _hyperparameter(file: GgufFile, name: str) -> tuple[str, int | None, int | None]:
    """Return the key, the value where it is a u32, and its offset; ``_types`` tells of others."""
    key = f"{file.metadata.get(ARCHITECTURE)}.{name}"
    entry = file.metadata.entries.get(key)
    value = entry.value if entry and entry.type.name == "u32" else None
    return key, value, entry.value_offset if entry else None


def _blocks(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    key, count, offset = _hyperparameter(file, "block_count")
    if count is None or not any(t.name.startswith(_BLOCK) for t in tensors):
        return
    if count > MAX_BLOCKS:
        yield key, f"is {count}, llama.cpp has room for {MAX_BLOCKS}", offset
        return
    numbers = {tensor.block for tensor in tensors if tensor.block is not None}
    missing = [number for number in range(count) if number not in numbers]
    if missing:
        yield key, f"is {count}, but block {missing[0]} has no tensor", offset
    beyond = sorted(number for number in numbers if number >= count)
    if beyond:
        yield key, f"is {count}, but tensors of block {beyond[0]} are there", offset


def _feed_forward(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    """Some models keep gate and up in one tensor, twice as long."""
    if not isinstance(file.metadata.get(ARCHITECTURE), str):
        return  # another rule's
    key, size, offset = _hyperparameter(file, "feed_forward_length")
    up = next((t for t in tensors if t.name == f"{_BLOCK}0.ffn_up.weight"), None)
    if up is not None and key not in file.metadata:
        yield key, "is missing, but there are feed-forward tensors", None
    if size is None or up is None or len(up.shape) < 2:
        return
    if up.shape[1] not in (size, 2 * size):
        yield key, f"is {size}, blk.0.ffn_up.weight has {up.shape[1]} rows", offset


def _rotated(file: GgufFile, _tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    """A few architectures rotate whole heads and refuse anything else."""
    key, rotated, offset = _hyperparameter(file, "rope.dimension_count")
    names = ("embedding_length", "attention.head_count", "attention.key_length")
    width, heads, length = (_hyperparameter(file, name)[1] for name in names)
    if file.metadata.get(ARCHITECTURE) not in _ROTATED or rotated is None:
        return
    size = length if length is not None else width // heads if width and heads else None
    if size is not None and rotated != size:
        yield key, f"is {rotated}, a head has {size}", offset


def _embedding(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    metadata = file.metadata
    width = _hyperparameter(file, "embedding_length")[1]
    tokens = metadata.get("tokenizer.ggml.tokens")
    rows = len(tokens) if isinstance(tokens, Sequence) and not isinstance(tokens, str) else None
    is_draft = metadata.get(ARCHITECTURE) in DRAFTS
    if not is_draft and not any(tensor.name == EMBEDDING for tensor in tensors):
        yield EMBEDDING, "is missing", None
    for tensor in tensors:
        if tensor.name != EMBEDDING or len(tensor.shape) < 2:
            continue
        field, offset = tensor.place("shape")
        if width is not None and tensor.shape[0] != width:
            yield field, f"has rows of {tensor.shape[0]}, embedding_length is {width}", offset
        if rows is not None and tensor.shape[1] != rows:
            yield field, f"has {tensor.shape[1]} rows for {rows} tokens", offset


NO_TOKENIZER = survey("loader-tokenizer", "warning", LLAMA_CPP, "tokenizer.ggml.model", _tokenizer)
MODEL = (
    NO_TOKENIZER,
    survey("loader-sizes", "warning", LLAMA_CPP, "value", _sizes),
    survey("loader-key-type", "warning", LLAMA_CPP, "value", _types),
    survey("loader-experts", "warning", LLAMA_CPP, "expert_used_count", _experts),
    survey("loader-rope-scaling", "warning", LLAMA_CPP, "rope.scaling.type", _scaling),
    survey("loader-blocks", "warning", LLAMA_CPP, "block_count", _blocks),
    *PER_LAYER,
    survey("loader-feed-forward", "warning", LLAMA_CPP, "feed_forward_length", _feed_forward),
    survey("loader-rotation", "warning", LLAMA_CPP, "rope.dimension_count", _rotated),
    survey("loader-embedding", "warning", LLAMA_CPP, "shape", _embedding),
    *TYPES,
)
"""Held against models, with the tensors of all their shards."""
ARCHITECTURES_RULE = (
    survey("loader-architecture", "warning", LLAMA_CPP, ARCHITECTURE, _architecture),
)
"""Held against models and vocabularies."""
