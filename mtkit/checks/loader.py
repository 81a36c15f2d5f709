"""What llama.cpp's loader demands of a GGUF beyond the format: one rule a row.

A file that breaks one of these is sound, and mtkit reads it; llama.cpp refuses it. Numbers that
each layer can have for itself (heads, lengths) are compared layer by layer. Which tensors with
which shapes a model has, the table of architectures tells: llama.cpp refuses a model that lacks
one, has one of another shape, or one that it has no use for; what it takes though the table does
not have it is a note.
Source: gguf.cpp, llama-model-loader.cpp (``get_key_or_arr``) and llama-model.cpp
(``load_hparams``, ``load_tensors``) of llama.cpp, by way of ``architectures.families``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.architectures import architectures_of_name
from mtkit.architectures.loader import is_loaded, name_in_layer, needed_names
from mtkit.architectures.tensor_match import Fault, recognize
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.base.rules import AGAIN, Finding, Rule
from mtkit.checks.report import survey
from mtkit.checks.tensors import TYPE_RULES, fault_findings
from mtkit.errors import MtkitError, format_count
from mtkit.formats.gguf.metadata import ARCHITECTURES, LLAMA_VERSION
from mtkit.gguf.draft import misplaced_tensors
from mtkit.gguf.rules import LLAMA_CPP, MAX_NAME_BYTES, PLACE
from mtkit.gguf.types import ARRAY, I32, U32
from mtkit.inspection.kinds import DRAFTS, find_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mtkit.architectures.tensor_match import Recognition
    from mtkit.checks.report import Place
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor


LAYER_NAMES = (
    "feed_forward_length", "attention.head_count", "attention.head_count_kv", "expert_used_count",
    "expert_feed_forward_length", "swiglu_clamp_exp", "swiglu_clamp_shexp",
)  # fmt: skip
"""Where there is an array, it has a number for each layer."""
_WHOLE_NAMES = ("xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps")
"""Likewise, without the architecture in front."""
_FEED_FORWARD = "feed_forward_length"
_SECTIONS, _HOW_MANY = "rope.dimension_sections", 4
_QUERIES = ("attn_q.weight", "attn_q_b.weight", "attn_qkv.weight")
_KEYS = ("attn_k.weight", "attn_kv.weight", "attn_qkv.weight", "attn_kv_a_mqa.weight")


class LayerNumbers(Record):
    """A hyperparameter.

    Attributes:
        values: The one of all layers, or one for each; empty where it is no u32 or array of them,
            which another rule tells.
    """

    key: str
    values: Sequence[int] = ()
    offset: int | None = None
    is_array: bool = False

    def at(self, layer: int) -> int | None:
        """Return the value of a layer; None where there is none."""
        at = layer if self.is_array else 0
        return self.values[at] if 0 <= at < len(self.values) else None


def layer_numbers(file: GgufFile, name: str) -> LayerNumbers:
    """Return a hyperparameter of the architecture of a file."""
    key = f"{file.metadata.get('general.architecture')}.{name}"
    entry = file.metadata.entries.get(key)
    if entry is not None and entry.type.name == "u32":
        return LayerNumbers(key, (entry.value,), entry.value_offset)
    if entry is not None and entry.type is ARRAY and entry.value.element in (U32, I32):
        return LayerNumbers(key, entry.value.numbers(), entry.value_offset, True)
    return LayerNumbers(key)


def _lengths(file: GgufFile, _tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    count = layer_numbers(file, "block_count")
    architecture = file.metadata.get("general.architecture")
    if count.is_array or not count.values:
        return
    layers = count.values[0]
    names = (*(f"{architecture}.{name}" for name in LAYER_NAMES), *_WHOLE_NAMES)
    lengths = {**dict.fromkeys(names, layers), f"{architecture}.{_SECTIONS}": _HOW_MANY}
    for key, length in lengths.items():
        entry = file.metadata.entries.get(key)
        if entry is None or entry.type is not ARRAY or len(entry.value) == length:
            continue
        reason = f"{count.key} is {layers}" if length == layers else f"llama.cpp wants {length}"
        what = f"has {format_count(len(entry.value), 'value')}, but {reason}"
        yield key, what, entry.value_offset


def _heads(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    """Heads share the width of a row, and key/value heads the heads, unless layers differ."""
    if not isinstance(file.metadata.get("general.architecture"), str):
        return  # another rule reports it
    width = layer_numbers(file, "embedding_length")
    heads = layer_numbers(file, "attention.head_count")
    groups = layer_numbers(file, "attention.head_count_kv")
    own_length = bool(layer_numbers(file, "attention.key_length").values)
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
    yield from _zero_heads(file, heads, _QUERIES, there)
    if architectures_of_name(str(file.metadata.get("general.architecture"))):
        # Layers of linear attention can have keys, and no heads of attention (Kimi Linear).
        linear = {layer for layer, name in there if name.startswith("ssm_")}
        attention = {(layer, name) for layer, name in there if layer not in linear}
        yield from _zero_heads(file, groups, _KEYS, attention)


def _in_layer(tensor: Tensor) -> tuple[int | None, str]:
    """Return the layer of a tensor, of encoder or decoder as well, and its name there."""
    name = tensor.name.removeprefix("enc.").removeprefix("dec.")
    return replace(tensor, name=name).block, name.split(".", 2)[-1]


def _zero_heads(
    file: GgufFile, count: LayerNumbers, names: tuple[str, ...], there: set[tuple[int | None, str]]
) -> Iterator[Place]:
    """Yield a count of heads that is 0 in a layer which has attention."""
    layers = layer_numbers(file, "block_count")
    blocks = range(min(layers.values[0], len(there))) if layers.values else range(1)
    for layer in blocks:
        if count.at(layer) == 0 and any((layer, name) in there for name in names):
            where = f" in layer {layer}" if count.is_array else ""
            yield count.key, f"is 0{where}, but there are attention tensors", count.offset
            return


LAYER_RULES = (
    survey("loader-per-layer", "warning", LLAMA_CPP, "value",
           "An array with one number per layer does not have block_count numbers; llama.cpp "
           "refuses the file.", _lengths),
    survey("loader-heads", "warning", LLAMA_CPP, "head_count",
           "The head count does not divide the embedding length, is not a multiple of the "
           "key/value heads, or is missing or 0 although the model has attention tensors.", _heads),
)  # fmt: skip
"""For models, with the tensors of all their shards."""


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
        return  # another rule reports it
    for tensor, place in misplaced_tensors(file):
        field, offset = tensor.place("offset")
        yield field, f"has its data at {tensor.offset}, not at {place} behind the last", offset
        return  # llama.cpp ends at the first


def _architecture(file: GgufFile) -> Iterator[Place]:
    entry = file.metadata.entries.get(ARCHITECTURE)
    if entry and isinstance(entry.value, str) and entry.value not in ARCHITECTURES:
        what = f"is {entry.value!r}, which llama-cpp-python {LLAMA_VERSION} does not know"
        if not entry.value:
            what = "is empty: llama.cpp loads no model without its architecture"
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


CONTAINER_RULES = (
    survey("loader-empty", "warning", LLAMA_CPP, "tensor_count",
           "The file has neither weights nor a tokenizer, only a header.", _empty),
    survey("loader-version", "warning", LLAMA_CPP, "version",
           "The GGUF version is not one that llama.cpp reads (2 or 3). Convert the original "
           "model again.", _version),
    survey("loader-byte-order", "warning", LLAMA_CPP, "version",
           "The byte order is not this machine's, so llama.cpp cannot load the file. mtkit "
           "convert-endian changes it.", _byte_order),
    survey("loader-nested-array", "warning", LLAMA_CPP, "value",
           "The metadata has an array of arrays, which llama.cpp does not support.", _nested),
    survey("loader-name-length", "warning", LLAMA_CPP, "name",
           "A tensor's name has 64 bytes: the format allows it, but llama.cpp keeps 63 and a "
           "NUL.", _name_length),
    survey("loader-offsets", "warning", LLAMA_CPP, "offset",
           "The tensor data is not in the order of the tensor table, or has gaps; llama.cpp "
           "refuses the file.", _offsets),
)  # fmt: skip
"""For every GGUF."""
OPENING_RULES = (
    survey("loader-first-shard", "warning", LLAMA_CPP, "split.no",
           "This is not the first shard. Give llama.cpp the first one.", _first_shard),
    survey("loader-shards", "warning", LLAMA_CPP, COUNT,
           "Shards are missing in this folder; download the rest.", _missing_shards),
)  # fmt: skip
"""For the file that was named, of a set of shards."""


def names_model(file: GgufFile, tensors: Sequence[Tensor]) -> bool:
    """Tell a file that has to say which model it is: nothing shows that it is of another kind."""
    kinds = ("model", "unknown") if "general.type" not in file.metadata else ("model",)
    return bool(tensors) and find_content(file.metadata, tensors).kind in kinds


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
        return  # another rule reports it
    for size in _SIZES:
        key = f"{architecture}.{size}"
        if key not in file.metadata:
            yield key, "is missing", None


def needed_types(architecture: str) -> dict[str, str]:
    """Return key -> the type that llama.cpp takes."""
    named = ((name, kind) for kind, names in _TYPES.items() for name in names)
    return {**{f"{architecture}.{name}": kind for name, kind in named}, **_PLAIN_TYPES}


def _types(file: GgufFile, _: tuple[Tensor, ...]) -> Iterator[Place]:
    architecture = file.metadata.get(ARCHITECTURE)
    if not isinstance(architecture, str):
        return  # another rule reports it
    for key, kind in needed_types(architecture).items():
        entry = file.metadata.entries.get(key)
        if entry is None or entry.type.name == kind:
            continue
        per_layer = key.removeprefix(f"{architecture}.") in LAYER_NAMES
        if per_layer and entry.type is ARRAY and entry.value.element in (U32, I32):
            continue
        yield key, f"is of type {file.metadata.type_name(key)}, not {kind}", entry.value_offset


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
    # HRM-Text counts how often a layer runs, and has two stacks of layers.
    _, stack, _ = _hyperparameter(file, "hrm.layers_per_stack")
    count = count if stack is None else min(count, 2 * stack)
    numbers = {tensor.block for tensor in tensors if tensor.block is not None}
    heads, wide = layer_numbers(file, "attention.head_count"), layer_numbers(file, _FEED_FORWARD)
    missing = [
        number
        for number in range(count)
        # A layer that was cut out of a model (DeciLM) has neither heads nor a feed-forward part.
        if number not in numbers and not heads.at(number) == wide.at(number) == 0
    ]
    if missing:
        yield key, f"is {count}, but block {missing[0]} has no tensor", offset
    beyond = sorted(number for number in numbers if number >= count)
    if beyond:
        yield key, f"is {count}, but tensors of block {beyond[0]} are there", offset


def _feed_forward(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    """Some models keep gate and up in one tensor, twice as long."""
    if not isinstance(file.metadata.get(ARCHITECTURE), str):
        return  # another rule reports it
    key, size, offset = _hyperparameter(file, _FEED_FORWARD)
    up = next((t for t in tensors if t.name == f"{_BLOCK}0.ffn_up.weight"), None)
    if up is not None and key not in file.metadata:
        yield key, "is missing, but there are feed-forward tensors", None
    if size is None or up is None or len(up.shape) < 2 or _has_other_width(file):
        return
    if up.shape[1] not in (size, 2 * size):
        yield key, f"is {size}, blk.0.ffn_up.weight has {up.shape[1]} rows", offset


def _has_other_width(file: GgufFile) -> bool:
    """Tell whether the table has another width than usual, as of Qwen 1; it is compared later."""
    widths = {
        row.axes[row.gguf.index(name)].split()[0]
        for architecture in architectures_of_name(str(file.metadata.get(ARCHITECTURE)))
        for row in architecture.rows
        for name in row.gguf
        if name == f"{_BLOCK}{{i}}.ffn_up.weight"
    }
    return bool(widths) and widths.isdisjoint({"ff", "ff*2"})


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


NO_TOKENIZER = survey("loader-tokenizer", "warning", LLAMA_CPP, "tokenizer.ggml.model",
                      "The file has weights but no tokenizer; llama.cpp does not load it.",
                      _tokenizer)  # fmt: skip
MODEL_RULES = (
    NO_TOKENIZER,
    survey("loader-sizes", "warning", LLAMA_CPP, "value",
           "Context length, embedding length or block count is missing, so no program can load "
           "the model.", _sizes),
    survey("loader-key-type", "warning", LLAMA_CPP, "value",
           "A hyperparameter has the wrong type; llama.cpp accepts only the type named in the "
           "finding.", _types),
    survey("loader-experts", "warning", LLAMA_CPP, "expert_used_count",
           "expert_used_count is not between 1 and expert_count.", _experts),
    survey("loader-rope-scaling", "warning", LLAMA_CPP, "rope.scaling.type",
           "The RoPE scaling type is unknown; llama.cpp aborts.", _scaling),
    survey("loader-blocks", "warning", LLAMA_CPP, "block_count",
           "The tensors blk.0, blk.1 and so on do not match block_count.", _blocks),
    *LAYER_RULES,
    survey("loader-feed-forward", "warning", LLAMA_CPP, "feed_forward_length",
           "feed_forward_length is not the number of rows of ffn_up.", _feed_forward),
    survey("loader-rotation", "warning", LLAMA_CPP, "rope.dimension_count",
           "rope.dimension_count differs from the head size, which llama.cpp refuses for this "
           "architecture.", _rotated),
    survey("loader-embedding", "warning", LLAMA_CPP, "shape",
           "token_embd.weight does not have one row of embedding_length per token.", _embedding),
    *TYPE_RULES,
)  # fmt: skip
"""For models, with the tensors of all their shards."""
ARCHITECTURE_RULES = (
    survey("loader-architecture", "warning", LLAMA_CPP, ARCHITECTURE,
           "The architecture is unknown to this version of llama.cpp: a newer one may support "
           "it, or the file is for another program, as models that make images are.",
           _architecture),
)  # fmt: skip
"""For models and vocabularies."""


# fmt: off
MISSING = Rule("model-tensor-missing", "warning", LLAMA_CPP, "tensor",
               "A tensor that every model of this architecture has is missing; llama.cpp "
               f"refuses the file. {AGAIN}")
SHAPE = Rule("model-tensor-shape", "warning", LLAMA_CPP, "shape",
             "The shape of a tensor does not match the metadata; llama.cpp refuses the file. "
             "Either the metadata was edited or the tensor is from another model.")
SURPLUS = Rule("model-tensor-surplus", "warning", LLAMA_CPP, "tensor",
               "The file has a tensor that this architecture does not use; llama.cpp refuses "
               "the file. Remove it, or convert the original model again.")
UNKNOWN = Rule("model-tensor-unknown", "note", "mtkit", "tensor",
               "The file has a tensor that llama.cpp accepts but mtkit cannot convert.")
# fmt: on
TENSOR_RULES = (MISSING, SHAPE, SURPLUS, UNKNOWN)
_FUSED_NAMES = {
    f"attn_qkv{end}": tuple(f"attn_{letter}{end}" for letter in "qkv")
    for end in (".weight", ".bias")
} | {"ffn_gate_up_exps.weight": ("ffn_gate_exps.weight", "ffn_up_exps.weight")}
"""Tensor -> those that llama.cpp takes it for."""
TENSORS_PART = "required tensors"


def tensor_findings(
    file: GgufFile, tensors: Sequence[Tensor]
) -> Iterator[Finding | tuple[str, str]]:
    """Yield what is wrong with the tensors of a model, or why they were not looked at."""
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in tensors}
    try:
        match = recognize(file.metadata, shapes)
    except MtkitError as error:
        yield TENSORS_PART, str(error)
        return
    model = match.architecture.name
    by_name = {tensor.name: tensor for tensor in tensors}

    def finding(rule: Rule, name: str, what: str) -> Finding:
        tensor = by_name.get(name)
        offset = tensor.place(rule.field)[1] if tensor else None
        return Finding(rule, f"tensor {quoted(name)}", what, offset)

    fused = _fused_tensors(match.tensors.faults, shapes)
    faults = [
        fault
        for fault in (*match.tensors.faults, *_needs(match, shapes))
        if not _is_loader_rule(fault)
        and not (fault.kind == "missing" and fused.keys() >= {*fault.names})
    ]
    unknown = [name for fault in faults if fault.kind == "unknown" for name in fault.names]
    wholes = {*fused.values()}
    loaded = tuple(name for name in unknown if name in wholes or is_loaded(model, name, shapes))
    surplus = tuple(name for name in unknown if name not in set(loaded))
    yield from fault_findings(
        [fault.in_file_order() for fault in faults if fault.kind != "unknown"]
        + [Fault("unknown", surplus)] * bool(surplus),
        finding,
        (MISSING, SHAPE, SURPLUS),
        (f"is missing: {model} models have it", "the metadata says", f"{model} models have none"),
    )
    for name in loaded:
        yield finding(UNKNOWN, name, f"is not among those of {model} models that mtkit converts")


def _needs(match: Recognition, shapes: Collection[str]) -> Iterator[Fault]:
    """Yield what the loader wants beyond the rows: tensors that are missing, or there twice."""
    layers = {
        name.removesuffix(inner)
        for name in shapes
        if (inner := name_in_layer(name)) != name and name.startswith(_BLOCK)
    }
    known = {n for fault in match.tensors.faults if fault.kind == "missing" for n in fault.names}
    for layer in sorted(layers):
        needed = [layer + name for name in needed_names(match.architecture.name)]
        if missing := tuple(name for name in needed if name not in shapes and name not in known):
            yield Fault("missing", missing)
        parts = tuple(
            name for letter in "qkv" if (name := f"{layer}attn_{letter}.weight") in shapes
        )
        if f"{layer}attn_qkv.weight" in shapes and parts:
            yield Fault("unknown", parts)


def _is_loader_rule(fault: Fault) -> bool:
    """Tell what the rules of the loader say of the embedding."""
    return fault.names == (EMBEDDING,) and fault.kind != "unknown"


def _fused_tensors(faults: Iterable[Fault], there: Collection[str]) -> dict[str, str]:
    """Return missing tensors by name, with the one that is there in the place of several."""
    wholes = {part: whole for whole, parts in _FUSED_NAMES.items() for part in parts}
    missing = [name for fault in faults if fault.kind == "missing" for name in fault.names]
    candidates = {
        name: name.removesuffix(name_in_layer(name)) + wholes.get(name_in_layer(name), "")
        for name in missing
    }
    return {
        name: whole
        for name, whole in candidates.items()
        if whole in there
        and not any(
            whole.removesuffix(name_in_layer(whole)) + suffix in there
            for suffix in _FUSED_NAMES[name_in_layer(whole)]
        )
    }
