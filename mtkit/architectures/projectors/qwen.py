"""Projectors of Qwen's models that see, and of those whose encoders are built like theirs.

Source: llama.cpp, conversion/qwenvl.py, qwen3vl.py, exaone.py, bailingmoe3.py.
"""

from __future__ import annotations

from mtkit.architectures.metadata import always, computed, with_keys
from mtkit.architectures.projectors.rows import (
    GELU,
    MODEL,
    POSITION,
    PREPROCESSOR,
    SILU,
    VISION,
    VISION_KEYS,
    Projector,
    activation,
    counted,
    encoder,
    epsilon,
    frames,
    kind,
    layers,
    limit,
    merge_size,
    positions,
    size_of,
    split_qkv,
)
from mtkit.architectures.table import Rows, join_rows, optional, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import KeyRow
    from mtkit.architectures.projectors.rows import Sizes


def _text_epsilon(config: Config) -> float:
    number = config.table(MODEL).number("rms_norm_eps")
    return 1e-6 if number is None else number


def window_pattern(config: Config) -> int:
    """Return every how many layers one sees the whole picture."""
    indexes = config.get("fullatt_block_indexes")
    if not isinstance(indexes, list) or not all(type(index) is int for index in indexes):
        raise config.wrong("is not a list of layers", "fullatt_block_indexes")
    every = indexes[0] + 1 if indexes else 0
    if every < 1 or indexes != list(range(every - 1, every * len(indexes), every)):
        raise config.wrong("are no layers at equal distances", "fullatt_block_indexes")
    return every


def qwen_merger(rest: Rows, feed_forward: str) -> tuple[Rows, Sizes]:
    """Return rows and sizes of Qwen2-VL's encoder with its own feed-forward networks."""
    blocks = "visual.blocks.{i}."
    rows = join_rows(
        frames("visual.patch_embed.proj"),
        layers(blocks, ln1="norm1", ln2="norm2", attn_out="attn.proj"),
        split_qkv(blocks, "attn.qkv"),
        row("visual.merger.ln_q", "v.post_ln", "embd"),
        row("visual.merger.mlp.0", "mm.0", "mm mm"),
        row("visual.merger.mlp.2", "mm.2", "out mm"),
        rest,
    )
    folder = f"visual.blocks.0.mlp.{feed_forward}.weight"
    sizes = {
        "ff": size_of("v.blk.0.ffn_up.weight", folder),
        "mm": size_of("mm.0.weight", "visual.merger.mlp.0.weight"),
    }
    return rows, sizes


_QWEN_KEYS = with_keys(
    VISION_KEYS,
    computed("image_size", "u32", lambda config: config.whole("image_size") or 560),
    counted("attention.head_count", "num_heads"),
    counted("block_count", "depth"),
)
_ROWS2, _SIZES2 = qwen_merger(
    layers("visual.blocks.{i}.", ffn_up="mlp.fc1", ffn_down="mlp.fc2"), "fc1"
)
_QWEN2 = encoder(
    VISION, "Qwen2VLForConditionalGeneration Qwen2VLModel Sarashina2VisionForCausalLM",
    (*with_keys(_QWEN_KEYS, counted("embedding_length", "embed_dim"),
                counted("feed_forward_length", "hidden_size")),
     kind("qwen2vl_merger"), always("attention.layer_norm_epsilon", "f32", 1e-6)),
    _ROWS2, ("visual.",), sizes=_SIZES2,
    defaults={"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16,
              "patch_size": 14},
)  # fmt: skip
QWEN25_ROWS, QWEN25_SIZES = qwen_merger(
    layers("visual.blocks.{i}.", ffn_up="mlp.up_proj", ffn_gate="mlp.gate_proj",
           ffn_down="mlp.down_proj"),
    "up_proj",
)  # fmt: skip
QWEN25_KEYS = (
    *_QWEN_KEYS,
    SILU,
    computed("n_wa_pattern", "u32", window_pattern),
    always("attention.layer_norm_epsilon", "f32", 1e-6),
)
QWEN25_DEFAULTS = {
    "depth": 32, "hidden_size": 3584, "num_heads": 16, "patch_size": 14, "intermediate_size": 3420,
    "fullatt_block_indexes": [7, 15, 23, 31],
}  # fmt: skip
_QWEN25 = encoder(
    VISION, "Qwen2_5_VLForConditionalGeneration", (*QWEN25_KEYS, kind("qwen2.5vl_merger")),
    QWEN25_ROWS, ("visual.",), sizes=QWEN25_SIZES, defaults=QWEN25_DEFAULTS,
)  # fmt: skip


def _without_model(name: str) -> str:
    return name.removeprefix("model.") if name.startswith("model.visual.") else name


def _deep_layers(config: Config) -> list[int]:
    indexes, count = config.get("deepstack_visual_indexes") or [], config.count("depth")
    if not isinstance(indexes, list) or not all(
        type(index) is int and 0 <= index < count for index in indexes
    ):
        raise config.wrong("is not a list of layers", "deepstack_visual_indexes")
    return indexes


def _qwen3_size(config: Config) -> int:
    positions = config.whole("num_position_embeddings")
    side = (2304 if positions is None else positions) ** 0.5
    return config.whole("image_size") or int(side * config.count("patch_size"))


_BLOCKS = layers("visual.blocks.{i}.", ln1="norm1", ln2="norm2", attn_qkv="attn.qkv",
                 attn_out="attn.proj")  # fmt: skip
_QWEN3_ROWS = join_rows(
    frames("visual.patch_embed.proj"),
    positions("visual.pos_embed"),
    _BLOCKS,
    layers("visual.blocks.{i}.", ffn_up="mlp.linear_fc1", ffn_down="mlp.linear_fc2"),
    row("visual.merger.norm", "v.post_ln", "embd"),
    row("visual.merger.linear_fc1", "mm.0", "mm mm"),
    row("visual.merger.linear_fc2", "mm.2", "out mm"),
)


def _deepstack(folder: str, layer: object) -> Rows:
    """Return the rows of what makes tokens of a layer's output."""
    gguf = f"v.deepstack.{layer}."
    return join_rows(
        row(f"{folder}norm", f"{gguf}norm", "mm"),
        row(f"{folder}linear_fc1", f"{gguf}fc1", "mm mm"),
        row(f"{folder}linear_fc2", f"{gguf}fc2", "out mm"),
    )


def _qwen3_rows(config: Config) -> Rows:
    places = (
        _deepstack(f"visual.deepstack_merger_list.{place}.", layer)
        for place, layer in enumerate(_deep_layers(config))
    )
    return join_rows(_QWEN3_ROWS, *places)


def _deep_flags(config: Config) -> list[bool]:
    deep = _deep_layers(config)
    return [layer in deep for layer in range(config.count("depth"))]


_QWEN3 = encoder(
    VISION,
    "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration "
    "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration "
    "Qwen4ExpForConditionalGeneration",
    (*with_keys(_QWEN_KEYS, computed("image_size", "u32", _qwen3_size)),
     kind("qwen3vl_merger"), GELU, counted("spatial_merge_size"),
     computed("attention.layer_norm_epsilon", "f32", _text_epsilon),
     computed("is_deepstack_layers", "bool[]", _deep_flags)),
    join_rows(_QWEN3_ROWS, optional(_deepstack("visual.deepstack_merger_list.{i}.", "{i}"))),
    ("visual.",),
    sizes={"position": size_of(POSITION, "visual.pos_embed.weight"),
           "mm": size_of("mm.0.weight", "visual.merger.linear_fc1.weight")},
    defaults={"depth": 27, "hidden_size": 1152, "num_heads": 16, "patch_size": 16,
              "intermediate_size": 4304, "spatial_merge_size": 2, "num_position_embeddings": 2304},
    renamed=_without_model,
    rows_of=_qwen3_rows,
)  # fmt: skip


def _omni_name(name: str) -> str:
    """Return a name of Qwen3-Omni's as Qwen3-VL has it."""
    new = name.removeprefix("thinker.")
    if new.startswith(("visual.merger", "visual.deepstack_merger_list.")):
        new = new.replace(".merger_list.", ".deepstack_merger_list.").replace(".ln_q.", ".norm.")
        new = new.replace(".mlp.0.", ".linear_fc1.").replace(".mlp.2.", ".linear_fc2.")
    return new


def omni(name: str) -> Architecture:
    """Return the encoder of Qwen3-Omni, as a part beside another."""
    own = always("projector_type", "string", "qwen3vl_merger")
    keys = tuple(own if key.name == "clip.projector_type" else key for key in _QWEN3.keys)
    return replace(
        _QWEN3, classes=(name,), keys=keys, renamed=_omni_name,
        skips=lambda tensor, _: not _omni_name(tensor).startswith("visual."),
    )  # fmt: skip


_GLM4_KEYS = (
    *with_keys(_QWEN_KEYS, counted("image_size")),
    *activation(required=False),
    epsilon(1e-5, "rms_norm_eps"),
)


def _glm(classes: str, *keys: KeyRow) -> Architecture:
    return encoder(
        VISION, classes, (*_GLM4_KEYS, *keys),
        join_rows(
            frames("visual.patch_embed.proj"),
            optional(positions("visual.embeddings.position_embedding"),
                     row("visual.post_conv_layernorm", "v.norm_embd", "embd")),
            _BLOCKS,
            layers("visual.blocks.{i}.", ffn_up="mlp.up_proj", ffn_gate="mlp.gate_proj",
                   ffn_down="mlp.down_proj"),
            optional(layers("visual.blocks.{i}.", attn_q_norm="attn.q_norm",
                            attn_k_norm="attn.k_norm")),
            row("visual.post_layernorm", "v.post_ln", "embd"),
            row("visual.downsample", "mm.patch_merger", "out embd 2 2"),
            row("visual.merger.proj", "mm.model.fc", "out out"),
            row("visual.merger.post_projection_norm", "mm.post_norm", "out"),
            row("visual.merger.gate_proj", "mm.gate", "mm out"),
            row("visual.merger.up_proj", "mm.up", "mm out"),
            row("visual.merger.down_proj", "mm.down", "out mm"),
        ),
        ("visual.",),
        sizes={"position": size_of(POSITION, "visual.embeddings.position_embedding.weight"),
               "ff": size_of("v.blk.0.ffn_up.weight", "visual.blocks.0.mlp.up_proj.weight"),
               "mm": size_of("mm.up.weight", "visual.merger.up_proj.weight")},
        defaults={"depth": 24, "hidden_size": 1536, "num_heads": 12, "image_size": 336,
                  "patch_size": 14, "intermediate_size": 13696, "hidden_act": "silu"},
        renamed=_without_model,
    )  # fmt: skip


def _pixels(field: str) -> Callable[[Config], int | None]:
    """Return a function for a number of pixels, where the preprocessor counts tokens."""

    def value(config: Config) -> int | None:
        table = config.table(PREPROCESSOR)
        tokens = table.whole(field)
        side = (table.whole("patch_size") or 14) * (table.whole("merge_size") or 2)
        return None if tokens is None else tokens * side**2

    return value


_GLM4 = _glm(
    "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration GlmOcrForConditionalGeneration",
    kind("glm4v"),
)
_GLM5 = _glm(
    "Glm5NextForConditionalGeneration", kind("glm5v"),
    merge_size(2),
    computed("swiglu_clamp", "f32", lambda config: config.number("swiglu_limit")),
    computed("image_min_pixels", "u32", _pixels("min_image_tokens")),
    computed("image_max_pixels", "u32", _pixels("max_image_tokens")),
)  # fmt: skip
_LING = encoder(
    VISION, "BailingMoeV3VLForConditionalGeneration",
    (*with_keys(_QWEN_KEYS, computed("image_size", "u32", _qwen3_size)), kind("ling3vl"), GELU,
     computed("spatial_merge_size", "u32", lambda config: config.whole("spatial_merge_size")),
     computed("attention.layer_norm_epsilon", "f32", _text_epsilon)),
    join_rows(
        frames("visual.patch_embed.proj"),
        positions("visual.pos_embed"),
        _BLOCKS,
        layers("visual.blocks.{i}.", ffn_up="mlp.linear_fc1", ffn_down="mlp.linear_fc2"),
        row("visual.merger.norm", "mm.input_norm", "embd"),
        row("linear_proj.0", "mm.0", "mm embd*4"),
        row("linear_proj.2", "mm.2", "out mm"),
    ),
    ("visual.", "linear_proj."),
    sizes={"position": size_of(POSITION, "visual.pos_embed.weight"),
           "mm": size_of("mm.0.weight", "linear_proj.0.weight")},
    renamed=_without_model,
)  # fmt: skip


_EXAONE = encoder(
    VISION, "Exaone4_5_ForConditionalGeneration",
    (*_QWEN_KEYS, kind("exaone4_5"), SILU, limit("min_pixels"), limit("max_pixels"),
     computed("attention.head_count_kv", "u32", lambda config: config.whole("num_key_value_heads")),
     epsilon(1e-6, "rms_norm_eps"),
     computed("window_size", "u32", lambda config: config.whole("window_size")),
     computed("n_wa_pattern", "u32", lambda config: window_pattern(config)
              if config.get("fullatt_block_indexes") else None)),
    join_rows(
        frames("visual.patch_embed.proj"),
        layers("visual.blocks.{i}.", ln1="norm1", ln2="norm2", attn_out="attn.proj",
               ffn_up="mlp.up_proj", ffn_gate="mlp.gate_proj", ffn_down="mlp.down_proj"),
        row("visual.blocks.{i}.attn.qkv", "v.blk.{i}.attn_qkv", "qkv embd"),
        row("visual.merger.ln_q", "v.post_ln", "embd"),
        row("visual.merger.mlp.0", "mm.0", "mm mm"),
        row("visual.merger.mlp.2", "mm.2", "out mm"),
    ),
    ("visual.",),
    sizes={"mm": size_of("mm.0.weight", "visual.merger.mlp.0.weight")},
    renamed=_without_model,
)  # fmt: skip

PROJECTORS = tuple(
    Projector(part.classes, (part,))
    for part in (_QWEN2, _QWEN25, _QWEN3, _GLM4, _GLM5, _LING, _EXAONE)
)
