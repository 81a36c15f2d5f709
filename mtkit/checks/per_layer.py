"""What llama.cpp's loader demands of numbers that each layer can have for itself: heads, lengths.

Source: llama-model-loader.cpp (``get_key_or_arr``), llama-model.cpp (``load_hparams``).
"""

from __future__ import annotations

from mtkit.architectures import of_name
from mtkit.base.record import Record, replace
from mtkit.checks.report import survey
from mtkit.errors import counted
from mtkit.gguf.rules import LLAMA_CPP
from mtkit.gguf.types import ARRAY, I32, U32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.checks.report import Place
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

NAMES = (
    "feed_forward_length", "attention.head_count", "attention.head_count_kv", "expert_used_count",
    "expert_feed_forward_length", "swiglu_clamp_exp", "swiglu_clamp_shexp",
)  # fmt: skip
"""Where there is an array, it has a number for each layer."""
_WHOLE_NAMES = ("xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps")
"""Likewise, without the architecture in front."""
_SECTIONS, _HOW_MANY = "rope.dimension_sections", 4
_QUERIES = ("attn_q.weight", "attn_qkv.weight")
_KEYS = ("attn_k.weight", "attn_qkv.weight", "attn_kv_a_mqa.weight")


class Numbers(Record):
    """A hyperparameter.

    Attributes:
        key: Its whole name.
        values: The one of all layers, or one for each; empty where it is no u32 or array of them,
            which another rule tells.
        offset: Of the value.
        is_array: Whether each layer has its own.
    """

    key: str
    values: Sequence[int] = ()
    offset: int | None = None
    is_array: bool = False

    def at(self, layer: int) -> int | None:
        """Return the value of a layer; None where there is none."""
        at = layer if self.is_array else 0
        return self.values[at] if 0 <= at < len(self.values) else None


def numbers_of(file: GgufFile, name: str) -> Numbers:
    """Return a hyperparameter of the architecture of a file."""
    key = f"{file.metadata.get('general.architecture')}.{name}"
    entry = file.metadata.entries.get(key)
    if entry is not None and entry.type.name == "u32":
        return Numbers(key, (entry.value,), entry.value_offset)
    if entry is not None and entry.type is ARRAY and entry.value.element in (U32, I32):
        return Numbers(key, entry.value.numbers(), entry.value_offset, True)
    return Numbers(key)


def _lengths(file: GgufFile, _tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    count = numbers_of(file, "block_count")
    architecture = file.metadata.get("general.architecture")
    if count.is_array or not count.values:
        return
    layers = count.values[0]
    names = (*(f"{architecture}.{name}" for name in NAMES), *_WHOLE_NAMES)
    wanted = {**dict.fromkeys(names, layers), f"{architecture}.{_SECTIONS}": _HOW_MANY}
    for key, length in wanted.items():
        entry = file.metadata.entries.get(key)
        if entry is None or entry.type is not ARRAY or len(entry.value) == length:
            continue
        said = f"{count.key} is {layers}" if length == layers else f"llama.cpp wants {length}"
        yield key, f"has {counted(len(entry.value), 'value')}, but {said}", entry.value_offset


def _heads(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    """Heads share the width of a row, and key/value heads the heads, unless layers differ."""
    if not isinstance(file.metadata.get("general.architecture"), str):
        return  # another rule's
    width = numbers_of(file, "embedding_length")
    heads = numbers_of(file, "attention.head_count")
    groups = numbers_of(file, "attention.head_count_kv")
    own_length = bool(numbers_of(file, "attention.key_length").values)
    there = {_in_layer(tensor) for tensor in tensors}
    has_attention = any((0, name) in there for name in _QUERIES)
    if heads.key not in file.metadata and has_attention:
        yield heads.key, "is missing, but there are attention tensors", None
    if heads.values and not heads.is_array and width.values and not width.is_array:
        count = heads.values[0]
        if count and not own_length and width.values[0] % count:
            what = f"is {count}, which does not divide embedding_length {width.values[0]}"
            yield heads.key, what, heads.offset
        if count and groups.values and not groups.is_array and groups.values[0]:
            shared = groups.values[0]
            if count % shared:
                what = f"is {shared}, which does not divide head_count {count}"
                yield groups.key, what, groups.offset
    yield from _none(file, heads, _QUERIES, there)
    if of_name(str(file.metadata.get("general.architecture"))):
        # Layers of other architectures can have keys, and no heads of attention (Kimi Linear).
        yield from _none(file, groups, _KEYS, there)


def _in_layer(tensor: Tensor) -> tuple[int | None, str]:
    """Return the layer of a tensor, of encoder or decoder as well, and its name there."""
    name = tensor.name.removeprefix("enc.").removeprefix("dec.")
    return replace(tensor, name=name).block, name.split(".", 2)[-1]


def _none(
    file: GgufFile, count: Numbers, names: tuple[str, ...], there: set[tuple[int | None, str]]
) -> Iterator[Place]:
    """Yield a count of heads that is 0 in a layer which has attention."""
    layers = numbers_of(file, "block_count")
    blocks = range(min(layers.values[0], len(there))) if layers.values else range(1)
    for layer in blocks:
        if count.at(layer) == 0 and any((layer, name) in there for name in names):
            where = f" in layer {layer}" if count.is_array else ""
            yield count.key, f"is 0{where}, but there are attention tensors", count.offset
            return


PER_LAYER = (
    survey("loader-per-layer", "warning", LLAMA_CPP, "value", _lengths),
    survey("loader-heads", "warning", LLAMA_CPP, "head_count", _heads),
)
"""Held against models, with the tensors of all their shards."""
