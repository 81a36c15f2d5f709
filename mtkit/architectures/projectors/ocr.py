"""Projectors of DeepSeek-OCR and its kin: SAM's encoder, then CLIP's or one built like Qwen2.

Source: llama.cpp, conversion/deepseek.py (``DeepseekOCRVisionModel``).
"""

from __future__ import annotations

from mtkit.architectures.changes import Reshaped
from mtkit.architectures.metadata import always, computed
from mtkit.architectures.projectors.rows import (
    GELU,
    POSITION,
    VISION,
    VISION_KEYS,
    Projector,
    encoder,
    epsilon,
    kind,
    layers,
    patches,
    positions,
    row_scale,
    size_of,
)
from mtkit.architectures.table import Rows, block, exact, in_layers, join_rows, optional, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.projectors.rows import Sizes

_SAM = "model.sam_model."


def _of_layer(name: str, folder: str) -> Any:
    """Return a function for the rows of a table that each layer has in a size of its own."""
    return lambda dims: size_of(
        f"v.sam.blk.{dims.layer}.{name}.weight", f"{_SAM}blocks.{dims.layer}.{folder}.weight"
    )(dims)


def _is_of_sam(dims: Dims) -> bool:
    return dims.layer < dims.key("sam.block_count")


_SAM_ROWS = join_rows(
    plain(f"{_SAM}patch_embed.proj.weight", "v.sam.patch_embd.weight", "sam 3 grain grain"),
    plain(f"{_SAM}patch_embed.proj.bias", "v.sam.patch_embd.bias", "sam"),
    exact(plain(f"{_SAM}pos_embed.weight", "v.sam.pos_embd.weight", "1 side side sam")),
    in_layers(
        _is_of_sam,
        block(
            f"{_SAM}blocks.{{i}}.",
            row("norm1", "pre_ln", "sam"),
            row("norm2", "post_ln", "sam"),
            row("attn.qkv", "attn.qkv", "sam*3 sam"),
            row("attn.proj", "attn.out", "sam sam"),
            exact(plain("attn.rel_pos_h.weight", "attn.pos_h.weight", "tall sam_key"),
                  plain("attn.rel_pos_w.weight", "attn.pos_w.weight", "wide sam_key")),
            row("mlp.lin1", "mlp.lin1", "sam_ff sam"),
            row("mlp.lin2", "mlp.lin2", "sam sam_ff"),
            gguf="v.sam.blk.{i}.",
        ),
    ),
    exact(
        plain(f"{_SAM}neck.0.weight", "v.sam.neck.0.weight", "neck sam 1 1"),
        row(f"{_SAM}neck.1", "v.sam.neck.1", "neck"),
        plain(f"{_SAM}neck.2.weight", "v.sam.neck.2.weight", "neck neck 3 3"),
        row(f"{_SAM}neck.3", "v.sam.neck.3", "neck"),
        plain(f"{_SAM}net_2.weight", "v.sam.net_2.weight", "net neck 3 3"),
        plain(f"{_SAM}net_3.weight", "v.sam.net_3.weight", "last net 3 3"),
    ),
    row("model.projector.layers", "mm.model.fc", "out seen"),
    optional(plain("model.image_newline", "v.image_newline", "out")),
    plain("model.view_seperator", "v.view_seperator", "1 out", Reshaped("out")),
)  # fmt: skip
_SAM_SIZES: Sizes = {
    "sam": lambda dims: dims.key("sam.embedding_length"),
    "sam*3": lambda dims: 3 * dims["sam"],
    "sam_key": lambda dims: dims["sam"] // max(dims.key("sam.head_count"), 1),
    "sam_ff": size_of("v.sam.blk.0.mlp.lin1.weight", f"{_SAM}blocks.0.mlp.lin1.weight"),
    "grain": size_of("v.sam.patch_embd.weight", f"{_SAM}patch_embed.proj.weight", axis=-1),
    "side": size_of("v.sam.pos_embd.weight", f"{_SAM}pos_embed.weight", axis=1),
    "tall": _of_layer("attn.pos_h", "attn.rel_pos_h"),
    "wide": _of_layer("attn.pos_w", "attn.rel_pos_w"),
    "neck": size_of("v.sam.neck.0.weight", f"{_SAM}neck.0.weight"),
    "net": size_of("v.sam.net_2.weight", f"{_SAM}net_2.weight"),
    "last": size_of("v.sam.net_3.weight", f"{_SAM}net_3.weight"),
    "seen": size_of("mm.model.fc.weight", "model.projector.layers.weight", axis=1),
}


def _with_weight(name: str) -> str:
    return f"{name}.weight" if name.endswith(("pos_embed", "rel_pos_h", "rel_pos_w")) else name


def _fields(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the fields of the second encoder, and those of SAM's as ``sam``."""
    vision = document.get("vision_config")
    parts = vision.get("width") if isinstance(vision, dict) else None
    if not isinstance(vision, dict) or not isinstance(parts, dict):
        return None
    clip, qwen = parts.get("clip-l-14-224"), parts.get("qwen2-0-5b")
    fields: dict[str, Any] = {**vision, "width": None, "sam": parts.get("sam_vit_b")}
    if isinstance(clip, dict):
        heads = clip.get("heads")
        # The converter takes four times the number of heads for the width of the networks, which
        # clip.cpp does not ask for.
        width = 4 * heads if type(heads) is int else None
        fields.update({**clip, "intermediate_size": width})
    elif isinstance(qwen, dict):
        fields["hidden_size"] = qwen.get("dim")
    return fields


def _sam_key(name: str, field: str) -> KeyRow:
    return computed(f"sam.{name}", "u32", lambda config: config.table("sam").count(field))


def _encoder(
    classes: str, key: str, tiles: int, rows: Rows, tower: str, *more: KeyRow,
    sizes: Sizes, defaults: Mapping[str, Any],
) -> Architecture:  # fmt: skip
    return encoder(
        VISION, classes,
        (*VISION_KEYS, kind(key), epsilon(1e-6), GELU, row_scale(),
         computed("window_size", "u32", lambda config: config.whole("window_size") or 14),
         always("preproc_min_tiles", "u32", 2), always("preproc_max_tiles", "u32", tiles),
         _sam_key("block_count", "layers"), _sam_key("embedding_length", "width"),
         _sam_key("head_count", "heads"), *more),
        join_rows(_SAM_ROWS, rows),
        (_SAM, tower, "model.projector.", "model.image_newline", "model.view_seperator"),
        sizes={**_SAM_SIZES, **sizes}, defaults=defaults, renamed=_with_weight,
    )  # fmt: skip


_CLIP = "model.vision_model."
_CLIP_ROWS = join_rows(
    exact(plain(f"{_CLIP}embeddings.class_embedding", "v.class_embd", "embd"),
          patches(f"{_CLIP}embeddings.patch_embedding"),
          positions(f"{_CLIP}embeddings.position_embedding")),
    row(f"{_CLIP}pre_layrnorm", "v.pre_ln", "embd"),
    layers(f"{_CLIP}transformer.layers.{{i}}.", ln1="layer_norm1", ln2="layer_norm2",
           attn_qkv="self_attn.qkv_proj", attn_out="self_attn.out_proj"),
    block(f"{_CLIP}transformer.layers.{{i}}.", row("mlp.fc1", "ffn_up", "clip_ff embd"),
          row("mlp.fc2", "ffn_down", "embd clip_ff"), gguf="v.blk.{i}."),
)  # fmt: skip


def _ocr(classes: str, tiles: int) -> Architecture:
    return _encoder(
        classes, "deepseekocr", tiles, _CLIP_ROWS, _CLIP,
        sizes={"position": size_of(POSITION, f"{_CLIP}embeddings.position_embedding.weight"),
               "clip_ff": size_of("v.blk.0.ffn_up.weight",
                                  f"{_CLIP}transformer.layers.0.mlp.fc1.weight")},
        defaults={},
    )  # fmt: skip


_QWEN = "model.qwen2_model.model.model."
_QUERIES = "model.qwen2_model.query_"
_OCR2 = _encoder(
    "DeepseekOCR2ForCausalLM", "deepseekocr2", 6,
    join_rows(
        layers(f"{_QWEN}layers.{{i}}.", ln1="input_layernorm", ln2="post_attention_layernorm",
               attn_q="self_attn.q_proj", attn_out="self_attn.o_proj", ffn_gate="mlp.gate_proj",
               ffn_up="mlp.up_proj", ffn_down="mlp.down_proj"),
        block(f"{_QWEN}layers.{{i}}.self_attn.", row("k_proj", "attn_k", "k embd"),
              row("v_proj", "attn_v", "k embd"), gguf="v.blk.{i}."),
        row(f"{_QWEN}norm", "v.post_ln", "embd"),
        *(plain(f"{_QUERIES}{side}.weight", f"v.resample_query_{side}.weight",
                f"queries{side} embd") for side in (768, 1024)),
    ),
    "model.qwen2_model.",
    always("attention.head_count_kv", "u32", 2),
    sizes={f"queries{side}": size_of(f"v.resample_query_{side}.weight", f"{_QUERIES}{side}.weight")
           for side in (768, 1024)},
    defaults={"patch_size": 16, "intermediate_size": 4864, "num_attention_heads": 14, "layers": 24},
)  # fmt: skip

PROJECTORS = tuple(
    Projector(part.classes, (part,), fields=_fields)
    for part in (_ocr("DeepseekOCRForCausalLM", 9), _ocr("UnlimitedOCRForCausalLM", 32), _OCR2)
)
