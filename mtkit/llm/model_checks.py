"""Metadata on which llama.cpp ends the process or never returns, instead of refusing the file.

Source: assertions of llama.cpp at 0c1e57098 (llama-model.cpp ``load_hparams``, llama-vocab.cpp
``token_to_byte``, ggml-cpu/ops.cpp ``rms_norm`` and ``rope``), found with each number and each text
of the metadata set to odd values.
"""

from __future__ import annotations

from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_LAYERS = 512
"""LLAMA_MAX_LAYERS."""
_EPSILONS = ("layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon")
_BYTE = 6
"""llama_token_type."""


def check_metadata(metadata: Any, source: str) -> None:
    """Check what llama.cpp only asserts.

    Raises:
        FormatError: A value would end the process.
    """
    architecture = metadata["general.architecture"]

    def refuse(key: str) -> None:
        raise FormatError(f"is {metadata[key]!r}", source=source, field=key)

    def number(key: str) -> int:
        value = metadata.get(f"{architecture}.{key}")
        return value if type(value) is int else 0

    for name in ("block_count", "decoder_block_count"):
        key = f"{architecture}.{name}"
        if key in metadata and not 0 < number(name) <= _MOST_LAYERS:
            refuse(key)
    for name in _EPSILONS:
        key = f"{architecture}.attention.{name}"
        if key in metadata and not metadata[key] >= 0:  # no number is not, either
            refuse(key)
    heads = number("attention.head_count")
    width = number("attention.key_length") or (number("embedding_length") // heads if heads else 0)
    for name in ("rope.dimension_count", "rope.dimension_count_swa"):
        key = f"{architecture}.{name}"
        turned = number(name)
        if width and key in metadata and (turned % 2 or not 0 < turned <= width):
            refuse(key)
    if metadata.get("tokenizer.ggml.model") == "bert":
        types = metadata.get("tokenizer.ggml.token_type")
        if hasattr(types, "__iter__") and _BYTE in types:
            refuse("tokenizer.ggml.model")
