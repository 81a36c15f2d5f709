"""What a GGUF is if it is not a model, and what matters of it.

The container holds more than models: adapters, statistics for quantizing, encoders of images and
sound, directions to steer by. ``general.type`` and ``general.architecture`` tell, and the names of
tensors in files from before there was such a key.
Source: llama.cpp, convert_lora_to_gguf.py, llama-adapter.cpp, tools/imatrix, tools/mtmd/clip.cpp,
tools/cvector-generator; gguf-py, constants.py.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.gguf import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal

    from mtkit.gguf import Metadata, Tensor

    Kind = Literal[
        "model", "vocabulary", "lora", "imatrix", "mmproj", "draft", "control-vector", "unknown"
    ]
    Fact = tuple[str, Any]

TITLES: dict[Kind, str] = {
    "model": "model",
    "vocabulary": "vocabulary without weights",
    "lora": "LoRA adapter",
    "imatrix": "importance matrix",
    "mmproj": "multimodal projector",
    "draft": "draft head",
    "control-vector": "control vector",
    "unknown": "of no kind that is known",
}
NO_MODEL: dict[Kind, str] = {
    "vocabulary": "has a vocabulary but no weights",
    "lora": "is a LoRA adapter, not a model",
    "imatrix": "is an importance matrix, not a model",
    "mmproj": "is a multimodal projector, not a language model",
    "control-vector": "is a control vector, not a model",
}
"""What is wrong with such a file where a model is wanted."""
DRAFTS = frozenset({"eagle3", "dflash", "gemma4-assistant"})
"""Architectures that take embeddings or hidden states of the model for which they draft."""
_LORA_A, _LORA_B = ".lora_a", ".lora_b"
_SUMS = ".in_sum2"
_MOST_LISTED = 256
"""Datasets, tokens and bases that are listed; the metadata has all of them."""


class Content(Record):
    """What a GGUF is, and what matters of it.

    Attributes:
        facts: (name, value) in the order in which people ask for them.
    """

    kind: Kind
    facts: tuple[Fact, ...]


def find_content(metadata: Metadata, tensors: Sequence[Tensor]) -> Content:
    """Tell what a file is; of a set of shards from the tensors of all."""
    kind = _kind(metadata, tensors)
    find = _FACTS.get(kind)
    facts = find(metadata, tensors) if find else ()
    return Content(kind, tuple((name, value) for name, value in facts if value not in (None, "")))


def _kind(metadata: Metadata, tensors: Sequence[Tensor]) -> Kind:
    file_type, architecture = (metadata.get(f"general.{name}") for name in ("type", "architecture"))
    names = [tensor.name for tensor in tensors]
    has_tokenizer = any(key.startswith("tokenizer.") for key in metadata)
    signs: tuple[tuple[Kind, bool], ...] = (
        ("lora", file_type == "adapter" or any(name.endswith(_LORA_A) for name in names)),
        ("imatrix", file_type == "imatrix" or any(name.endswith(_SUMS) for name in names)),
        ("mmproj", file_type == "mmproj" or architecture == "clip"),
        ("control-vector", architecture == "controlvector"),
        ("draft", architecture in DRAFTS and bool(names)),
        ("vocabulary", not names and has_tokenizer and "split.count" not in metadata),
        ("model", isinstance(architecture, str)),
    )
    return next((kind for kind, is_so in signs if is_so), "unknown")


def _lora(metadata: Metadata, tensors: Sequence[Tensor]) -> Iterator[Fact]:
    yield "base", _base(metadata)
    yield "type", _value(metadata, "adapter.type", str)
    ranks = sorted({t.shape[0] for t in tensors if t.name.endswith(_LORA_B) and t.shape})
    alpha = _value(metadata, "adapter.lora.alpha", float)
    yield "rank", ranks[0] if len(ranks) == 1 else ranks or None
    yield "alpha", alpha
    if alpha is not None and len(ranks) == 1 and ranks[0]:
        yield "scale", alpha / ranks[0]  # what the product of the pair is multiplied by
    changed = [t.name[: -len(_LORA_A)] for t in tensors if t.name.endswith(_LORA_A)]
    yield "tensors", len(changed)
    yield "targets", sorted({_without_block(name) for name in changed}) or None
    yield "task", _value(metadata, "adapter.lora.task_name", str)
    yield "prompt prefix", _value(metadata, "adapter.lora.prompt_prefix", str)
    yield "invocation tokens", _list_value(metadata, "adapter.alora.invocation_tokens")


def _imatrix(metadata: Metadata, tensors: Sequence[Tensor]) -> Iterator[Fact]:
    yield "datasets", _list_value(metadata, "imatrix.datasets")
    chunks = _value(metadata, "imatrix.chunk_count", int)
    size = _value(metadata, "imatrix.chunk_size", int)
    yield "chunks", chunks
    yield "tokens in a chunk", size
    yield "tokens", chunks * size if chunks and size else None
    yield "entries", sum(tensor.name.endswith(_SUMS) for tensor in tensors)


def _mmproj(metadata: Metadata, _: Sequence[Tensor]) -> Iterator[Fact]:
    yield "base", _base(metadata)
    shared = _value(metadata, "clip.projector_type", str)
    for part in ("vision", "audio"):
        if not _value(metadata, f"clip.has_{part}_encoder", bool):
            continue
        own = _value(metadata, f"clip.{part}.projector_type", str)
        yield f"{part} projector", own or shared or "mlp"  # clip.cpp's default
        for name, key in _ENCODER[part]:
            yield f"{part} {name}", _value(metadata, f"clip.{part}.{key}", int)
    widths = [_value(metadata, f"clip.{part}.projection_dim", int) for part in _ENCODER]
    yield "for models with embeddings of", next(filter(None, widths), None)


_ENCODER = {
    "vision": (
        ("image size", "image_size"),
        ("patch size", "patch_size"),
        ("layers", "block_count"),
        ("embedding", "embedding_length"),
        ("projection", "projection_dim"),
    ),
    "audio": (
        ("mel bins", "num_mel_bins"),
        ("layers", "block_count"),
        ("embedding", "embedding_length"),
        ("projection", "projection_dim"),
    ),
}


def _draft(metadata: Metadata, _: Sequence[Tensor]) -> Iterator[Fact]:
    yield "base", _base(metadata)
    architecture = metadata.get("general.architecture")
    begin = f"{architecture}."
    for key, value in metadata.items():
        if key.startswith(begin) and "target" in key:
            name = key[len(begin) :].replace("_", " ")
            yield name, _list_value(metadata, key) if isinstance(value, GgufArray) else value


def _control_vector(metadata: Metadata, tensors: Sequence[Tensor]) -> Iterator[Fact]:
    yield "base", _value(metadata, "controlvector.model_hint", str)
    yield "layers", _value(metadata, "controlvector.layer_count", int)
    directions = [tensor for tensor in tensors if tensor.name.startswith("direction.")]
    yield "directions", len(directions)
    widths = sorted({tensor.n_elements for tensor in directions})
    yield "embedding", widths[0] if len(widths) == 1 else widths or None


_FACTS: dict[Kind, Callable[[Metadata, Sequence[Tensor]], Iterator[Fact]]] = {
    "lora": _lora,
    "imatrix": _imatrix,
    "mmproj": _mmproj,
    "draft": _draft,
    "control-vector": _control_vector,
}


def _base(metadata: Metadata) -> str | list[str] | None:
    """Return the models that a file is for, by the first of repository, name and address."""
    count = _value(metadata, "general.base_model.count", int) or 1
    models = []
    for number in range(min(count, _MOST_LISTED)):
        values = (
            _value(metadata, f"general.base_model.{number}.{name}", str)
            for name in ("repo_url", "name", "url")
        )
        if model := next(filter(None, values), None):
            models.append(model)
    return models[0] if len(models) == 1 else models or None


def _value(metadata: Metadata, key: str, kind: type) -> Any:
    value = metadata.get(key)
    return value if type(value) is kind else None


def _list_value(metadata: Metadata, key: str) -> list[Any] | None:
    value = metadata.get(key)
    if not isinstance(value, GgufArray) or value.element.name == "array":
        return None
    return list(value[:_MOST_LISTED])


def _without_block(name: str) -> str:
    """Return what is left of ``blk.7.attn_q.weight`` without its block: ``attn_q``."""
    parts = [part for part in name.removesuffix(".weight").split(".") if not part.isdecimal()]
    return ".".join(parts[1:] if len(parts) > 1 and parts[0] == "blk" else parts)
