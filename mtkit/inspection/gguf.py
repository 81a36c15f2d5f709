"""Inspect a GGUF file as llama.cpp's loader goes through it.

Architecture, hyper-parameters, vocabulary, then tensors by input, repeating block and output. All
of it comes from the metadata and the tensor table: no tensor data is touched, so a file of any size
costs the same. Nothing of a tokenizer is checked or built, so a file whose tokenizer is wrong can
be looked at; values of an unexpected type are left out, the metadata table shows them.

Hyper-parameters have the names that llama.cpp's loader gives them. Their keys begin with the
architecture's name (``llama.block_count``). Where a file leaves one out, llama.cpp derives it from
others; such values are marked as derived.
Source: llama-arch.cpp (key names), llama-model.cpp ``load_hparams`` (defaults).
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.gguf import GgufArray, open_gguf
from mtkit.gguf.shards import shard_set
from mtkit.gguf.types import FILE_TYPES, GUESSED_FILE_TYPE
from mtkit.inspection.kinds import Content, find_content
from mtkit.memory_plan.cache import cache_per_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.base.rules import Finding
    from mtkit.gguf import GgufFile, Metadata, Tensor
    from mtkit.gguf.shards import ShardSet


TOKEN_TYPES = {1: "normal", 2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}

_KEY = "tokenizer.ggml."
_ID = "_token_id"
_FLAGS = ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix")
_TEMPLATE = "tokenizer.chat_template"


class SpecialId(Record):
    """A special id of the metadata.

    Attributes:
        role: ``bos``, ``eos``, ``unknown`` …, as the key names it.
        text: Text of the token; None when the id is beyond the vocabulary.
    """

    role: str
    token_id: int
    text: str | None


class Vocabulary(Record):
    """A tokenizer in short.

    Attributes:
        model: ``tokenizer.ggml.model``; empty where it is missing or no string.
        pre: ``tokenizer.ggml.pre``; empty where it is missing or no string.
        types: Tokens by type, (name, count); empty where the file does not say.
        flags: (name, value) of ``add_bos_token`` and the like, where the file has them.
    """

    model: str
    pre: str
    tokens: int
    merges: int
    types: tuple[tuple[str, int], ...]
    special_ids: tuple[SpecialId, ...]
    flags: tuple[tuple[str, bool], ...]
    chat_templates: tuple[str, ...]


def read_vocabulary(metadata: Metadata) -> Vocabulary | None:
    """Sum up the tokenizer; None where the metadata holds none."""
    if not any(key.startswith("tokenizer.") for key in metadata):
        return None
    tokens = _strings(metadata, "tokens")
    flags = [(name, metadata.get(_KEY + name)) for name in _FLAGS]
    templates = [key for key in metadata if key.startswith(_TEMPLATE) and key != _TEMPLATE + "s"]
    return Vocabulary(
        model=_vocabulary_text(metadata, "model"),
        pre=_vocabulary_text(metadata, "pre"),
        tokens=len(tokens) if tokens is not None else 0,
        merges=len(_strings(metadata, "merges") or ()),
        types=_type_counts(metadata.get(_KEY + "token_type")),
        special_ids=_special_ids(metadata, tokens),
        flags=tuple((name, value) for name, value in flags if isinstance(value, bool)),
        chat_templates=tuple(key[len(_TEMPLATE) + 1 :] or "default" for key in templates),
    )


def _vocabulary_text(metadata: Metadata, name: str) -> str:
    value = metadata.get(_KEY + name)
    return value if isinstance(value, str) else ""


def _strings(metadata: Metadata, name: str) -> GgufArray | None:
    value = metadata.get(_KEY + name)
    is_strings = isinstance(value, GgufArray) and value.element.name == "string"
    return value if is_strings else None


def _type_counts(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, GgufArray) or value.element.name != "i32":
        return ()
    data = value.numbers().data.tobytes()
    low = data[::4]
    small = sum(data[shift::4].count(0) == len(low) for shift in (1, 2, 3)) == 3
    counts = {name: low.count(number) for number, name in TOKEN_TYPES.items()} if small else {}
    for number in () if small else value.numbers():
        name = TOKEN_TYPES.get(number, "undefined")
        counts[name] = counts.get(name, 0) + 1
    counts["undefined"] = len(value) - sum(
        many for name, many in counts.items() if name != "undefined"
    )
    return tuple((name, many) for name, many in counts.items() if many)


def _special_ids(metadata: Metadata, tokens: GgufArray | None) -> tuple[SpecialId, ...]:
    ids = []
    for key, value in metadata.items():
        if not key.startswith(_KEY) or not key.endswith(_ID) or type(value) is not int:
            continue
        has_token = tokens is not None and 0 <= value < len(tokens)
        role = key[len(_KEY) : -len(_ID)]
        ids.append(SpecialId(role, value, tokens[value] if tokens and has_token else None))
    return tuple(ids)


class HyperParameter(Record):
    """One hyper-parameter.

    Attributes:
        value: int, float, bool, str or a list with one value for each layer.
    """

    name: str
    label: str
    value: Any
    key: str


MOST_LAYERS = 4096
"""A longer array is not a list of values by layer (llama.cpp's limit is 512)."""

# llama.cpp's name, key behind the architecture, label.
_HYPERPARAMETERS = (
    ("n_layer", "block_count", "layers"),
    ("n_embd", "embedding_length", "embedding"),
    ("n_ff", "feed_forward_length", "feed-forward"),
    ("n_head", "attention.head_count", "heads"),
    ("n_head_kv", "attention.head_count_kv", "key/value heads"),
    ("n_embd_head_k", "attention.key_length", "key length"),
    ("n_embd_head_v", "attention.value_length", "value length"),
    ("n_ctx_train", "context_length", "context"),
    ("n_rot", "rope.dimension_count", "rope dimensions"),
    ("rope_freq_base_train", "rope.freq_base", "rope base"),
    ("rope_scaling_type_train", "rope.scaling.type", "rope scaling"),
    ("rope_scaling_factor", "rope.scaling.factor", "rope scaling factor"),
    ("n_ctx_orig_yarn", "rope.scaling.original_context_length", "context before scaling"),
    ("f_norm_eps", "attention.layer_norm_epsilon", "norm epsilon"),
    ("f_norm_rms_eps", "attention.layer_norm_rms_epsilon", "RMS norm epsilon"),
    ("n_swa", "attention.sliding_window", "sliding window"),
    ("causal_attn", "attention.causal", "causal"),
    ("f_attention_scale", "attention.scale", "attention scale"),
    ("f_clamp_kqv", "attention.clamp_kqv", "QKV clamp"),
    ("f_max_alibi_bias", "attention.max_alibi_bias", "ALiBi bias"),
    ("n_lora_q", "attention.q_lora_rank", "query LoRA rank"),
    ("n_lora_kv", "attention.kv_lora_rank", "key/value LoRA rank"),
    ("n_expert", "expert_count", "experts"),
    ("n_expert_used", "expert_used_count", "experts used"),
    ("n_expert_shared", "expert_shared_count", "shared experts"),
    ("n_ff_exp", "expert_feed_forward_length", "expert feed-forward"),
    ("n_ff_shexp", "expert_shared_feed_forward_length", "shared expert feed-forward"),
    ("n_layer_dense_lead", "leading_dense_block_count", "leading dense layers"),
    ("f_logit_scale", "logit_scale", "logit scale"),
    ("f_embedding_scale", "embedding_scale", "embedding scale"),
    ("f_residual_scale", "residual_scale", "residual scale"),
    ("f_attn_logit_softcapping", "attn_logit_softcapping", "attention softcap"),
    ("f_final_logit_softcapping", "final_logit_softcapping", "final softcap"),
    ("pooling_type", "pooling_type", "pooling"),
    ("ssm_d_conv", "ssm.conv_kernel", "SSM convolution"),
    ("ssm_d_inner", "ssm.inner_size", "SSM inner size"),
    ("ssm_d_state", "ssm.state_size", "SSM state"),
    ("ssm_dt_rank", "ssm.time_step_rank", "SSM time step rank"),
    ("ssm_n_group", "ssm.group_count", "SSM groups"),
    ("wkv_head_size", "wkv.head_size", "WKV head size"),
    ("dec_n_layer", "decoder_block_count", "decoder layers"),
    ("n_vocab", "vocab_size", "vocabulary"),
)
_LABELS = {name: label for name, _, label in _HYPERPARAMETERS}
ROPE_FREQ_BASE = 10000.0
"""llama.cpp's default where the file has no ``rope.freq_base``."""


def read_hyperparameters(file: GgufFile) -> tuple[HyperParameter, ...]:
    """Return the hyper-parameters of a model in the loader's order; empty without architecture."""
    metadata = file.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        return ()
    by_name: dict[str, HyperParameter] = {}
    for name, suffix, label in _HYPERPARAMETERS:
        key = f"{architecture}.{suffix}"
        if key in metadata:
            by_name[name] = HyperParameter(name, label, _plain_number(metadata[key]), key)
    for name, value in _derived_numbers(by_name, file):
        if name not in by_name:
            by_name[name] = HyperParameter(name, _LABELS[name], value, "")
    return tuple(by_name[name] for name, _, _ in _HYPERPARAMETERS if name in by_name)


def positive_number(values: tuple[HyperParameter, ...], name: str) -> int | None:
    """Return a hyper-parameter that is one positive whole number, or None."""
    for item in values:
        if item.name == name and type(item.value) is int and item.value > 0:
            return item.value
    return None


def _plain_number(value: Any) -> Any:
    if not isinstance(value, GgufArray):
        return value
    return list(value) if len(value) <= MOST_LAYERS else f"{len(value)} values"


def _derived_numbers(by_name: dict[str, HyperParameter], file: GgufFile) -> list[tuple[str, Any]]:
    values = tuple(by_name.values())
    derived: list[tuple[str, Any]] = []
    if "n_head" in by_name:
        derived.append(("n_head_kv", by_name["n_head"].value))
        width, heads = positive_number(values, "n_embd"), positive_number(values, "n_head")
        if width and heads:
            derived += [(name, width // heads) for name in ("n_embd_head_k", "n_embd_head_v")]
    if "n_rot" in by_name:
        derived.append(("rope_freq_base_train", ROPE_FREQ_BASE))
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, GgufArray):
        derived.append(("n_vocab", len(tokens)))
    return derived


# Tensors outside the blocks that llama.cpp counts to the input; the rest belongs to the output.
_INPUT = ("token_embd", "position_embd", "token_types", "per_layer_", "enc.token_embd", "v.", "a.")
_SHARED = ("rope_freqs", "rope_factors")
"""Used by every block, stored once."""


class TypeMix(Record):
    """The tensors of one type."""

    type: str
    tensors: int
    parameters: int
    n_bytes: int


class TensorGroup(Record):
    """The tensors of one layer.

    Attributes:
        name: ``input``, a block such as ``blk.0``, ``shared``, or ``output``.
        kind: ``input``, ``repeating`` or ``output``, as llama.cpp places layers.
    """

    name: str
    kind: str
    tensors: tuple[Tensor, ...]

    @property
    def parameters(self) -> int:
        """Elements of the group's tensors."""
        return sum(tensor.n_elements for tensor in self.tensors)

    @property
    def n_bytes(self) -> int:
        """Bytes of the group's tensors."""
        return sum(tensor.n_bytes for tensor in self.tensors)


def quantization_mix(tensors: Iterable[Tensor]) -> tuple[TypeMix, ...]:
    """Count tensors by type; the type with most bytes first."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type.name, []).append(tensor)
    mix = [
        TypeMix(name, len(same), sum(t.n_elements for t in same), sum(t.n_bytes for t in same))
        for name, same in by_type.items()
    ]
    return tuple(sorted(mix, key=lambda item: -item.n_bytes))


def tensor_groups(tensors: Iterable[Tensor]) -> tuple[TensorGroup, ...]:
    """Sort tensors into input, blocks by number, and output."""
    groups: dict[tuple[int, str, int], list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(_place(tensor.name), []).append(tensor)
    kinds = ("input", "repeating", "repeating", "output")
    return tuple(
        TensorGroup(f"{prefix}.{number}" if order == 1 else prefix, kinds[order], tuple(same))
        for (order, prefix, number), same in sorted(groups.items(), key=lambda item: item[0])
    )


def _place(name: str) -> tuple[int, str, int]:
    """Order of a tensor's group, its name, and the number of the block."""
    parts = name.split(".")
    for index, part in enumerate(parts[1:], 1):
        if part.isascii() and part.isdecimal() and len(part) < 6:
            return 1, ".".join(parts[:index]), int(part)
    if name.startswith(_INPUT):
        return 0, "input", 0
    if name.startswith(_SHARED):
        return 2, "shared", 0
    return 3, "output", 0


def bytes_by_purpose(tensors: Iterable[Tensor]) -> tuple[tuple[str, int], ...]:
    """Sum the bytes by purpose: (purpose, bytes), the largest first."""
    sums: dict[str, int] = {}
    for tensor in tensors:
        purpose = _purpose(tensor.name)
        sums[purpose] = sums.get(purpose, 0) + tensor.n_bytes
    return tuple(sorted(sums.items(), key=lambda item: -item[1]))


def _purpose(name: str) -> str:
    parts = [part for part in name.split(".") if not part.isdecimal()] or [name]
    if parts[-1] in {"weight", "bias", "scale"} and len(parts) > 1:
        parts.pop()
    own = parts[-1]
    if "norm" in own:
        return "norms"
    if own in {"token_embd", "output"} or len(parts) == 1:
        return own if own in {"token_embd", "output"} else "other"
    if own.endswith(("_exps", "_exp")):
        return "experts"
    for begin, purpose in (("ffn", "ffn"), ("attn", "attention"), ("cross_attn", "attention"),
                           ("ssm", "ssm"), ("time_mix", "time mix")):  # fmt: skip
        if own.startswith(begin):
            return purpose
    return "other"


class GgufReport(Record):
    """What a GGUF file holds.

    Attributes:
        content: Model, adapter or something else, with what matters of it.
        shards: The set that the file belongs to; None when it stands alone.
        name: ``general.name``; empty where there is none.
        architecture: ``general.architecture``; empty where there is none.
        file_type: Name of ``general.file_type``; empty where there is none.
        parameters: Elements of all tensors (of the whole set where it is there).
        bits_per_weight: Bits of tensor data per element; 0 without tensors.
        mix: Tensor types with their share, the largest first.
        vocabulary: The tokenizer; None where the file holds none.
        places: Where the bytes are, by purpose.
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
    mix: tuple[TypeMix, ...]
    hyperparameters: tuple[HyperParameter, ...]
    vocabulary: Vocabulary | None
    layers: tuple[TensorGroup, ...]
    places: tuple[tuple[str, int], ...]
    weights: int
    cache_per_token: int | None
    n_ctx_train: int | None
    findings: tuple[Finding, ...]


def inspect_gguf(source: str | os.PathLike[str] | Source) -> GgufReport:
    """Read a GGUF file and say what is in it."""
    file = open_gguf(source)
    shards = shard_set(file)
    tensors = tuple(file.tensors)
    if shards and shards.is_complete:
        tensors = tuple(t for shard in shards.shards if shard.file for t in shard.file.tensors)
    parameters = sum(tensor.n_elements for tensor in tensors)
    weights = sum(tensor.n_bytes for tensor in tensors)
    values = read_hyperparameters(file)
    return GgufReport(
        file=file,
        content=find_content(file.metadata, tensors),
        shards=shards if shards and shards.count > 1 else None,
        name=_text(file, "general.name"),
        architecture=_text(file, "general.architecture"),
        file_type=file_type_name(file),
        parameters=parameters,
        bits_per_weight=weights * 8 / parameters if parameters else 0.0,
        mix=quantization_mix(tensors),
        hyperparameters=values,
        vocabulary=read_vocabulary(file.metadata),
        layers=tensor_groups(tensors),
        places=bytes_by_purpose(tensors),
        weights=weights,
        cache_per_token=cache_per_token(file.metadata),
        n_ctx_train=positive_number(values, "n_ctx_train"),
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
