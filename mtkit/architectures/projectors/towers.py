"""Projectors that see, of models whose encoders are like no other's: each a few rows.

Source: llama.cpp, conversion (classes of ``MmprojModel``), tools/mtmd/clip.cpp.
"""

from __future__ import annotations

from math import isqrt

from mtkit.architectures.changes import Behind, Change, Permuted, Reshaped, Split
from mtkit.architectures.metadata import always, computed, with_keys
from mtkit.architectures.projectors.rows import (
    GELU,
    MEAN,
    MODEL,
    POSITION,
    PREPROCESSOR,
    SILU,
    STANDARD_DEVIATION,
    VISION,
    VISION_KEYS,
    Projector,
    TilesLast,
    colors,
    encoder,
    epsilon,
    frames,
    kind,
    layers,
    limit,
    merge_size,
    patches,
    positions,
    scale,
    siglip,
    siglip_sizes,
    size_of,
)
from mtkit.architectures.table import (
    as_patches,
    block,
    join_rows,
    plain,
    row,
)
from mtkit.base.record import replace
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow

_LIMITS = (limit("min_pixels"), limit("max_pixels"))
_HUNYUAN = encoder(
    VISION, "HunYuanVLForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", lambda config: config.whole(
        "image_size", "max_image_size") or 2048)),
     kind("hunyuanvl"), GELU, epsilon(1e-5, "rms_norm_eps"), merge_size(2), *_LIMITS),
    join_rows(
        patches("vit.embeddings.patch_embedding"),
        plain("vit.embeddings.position_embedding.weight", POSITION, "position embd", Behind(1)),
        layers("vit.layers.{i}.", ln1="input_layernorm", ln2="post_attention_layernorm",
               attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj",
               attn_out="self_attn.o_proj", ffn_up="mlp.dense_h_to_4h",
               ffn_down="mlp.dense_4h_to_h"),
        as_patches(row("vit.perceive.proj.0", "mm.0", "first embd 2 2"),
                   row("vit.perceive.proj.2", "mm.2", "second first 1 1")),
        row("vit.perceive.mlp", "mm.model.fc", "out second"),
        row("vit.perceive.before_rms", "mm.pre_norm", "embd", bias=False),
        row("vit.perceive.after_rms", "mm.post_norm", "out", bias=False),
        plain("vit.perceive.image_begin", "mm.image_begin", "out"),
        plain("vit.perceive.image_end", "mm.image_end", "out"),
        plain("vit.perceive.image_newline", "v.image_newline", "second"),
        plain("vit.perceive.image_sep", "v.view_seperator", "out"),
    ),
    ("vit.",),
    sizes={"position": lambda dims: size_of(POSITION)(dims) or max(0, size_of(
               "vit.embeddings.position_embedding.weight")(dims) - 1),
           "first": size_of("mm.0.weight", "vit.perceive.proj.0.weight"),
           "second": size_of("mm.2.weight", "vit.perceive.proj.2.weight")},
)  # fmt: skip


def _largest_side(config: Config) -> int:
    return isqrt(config.table(PREPROCESSOR).count("max_pixels"))


_TOWER = "model.vision_model."
_PADDLE = encoder(
    VISION, "PaddleOCRVisionModel",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", _largest_side)), kind("paddleocr"),
     GELU, epsilon(1e-6, "rms_norm_eps"), *_LIMITS),
    join_rows(
        siglip(_TOWER),
        row("mlp_AR.pre_norm", "mm.input_norm", "embd"),
        row("mlp_AR.linear_1", "mm.1", "mm embd*4"),
        row("mlp_AR.linear_2", "mm.2", "out mm"),
    ),
    (_TOWER, "mlp_AR."),
    sizes=siglip_sizes(_TOWER, mm=size_of("mm.1.weight", "mlp_AR.linear_1.weight")),
    renamed=lambda name: name.replace("visual.", "model."),
    without=("packing_position_embedding", "vision_model.head"),
)  # fmt: skip
_COG = "model.vision."
_COGVLM = encoder(
    VISION, "CogVLMForCausalLM", (*VISION_KEYS, epsilon(1e-6), kind("cogvlm")),
    join_rows(
        plain(f"{_COG}patch_embedding.cls_embedding", "v.class_embd", "1 embd"),
        patches(f"{_COG}patch_embedding.proj"),
        positions(f"{_COG}patch_embedding.position_embedding"),
        layers(f"{_COG}transformer.layers.{{i}}.", ln1="input_layernorm",
               ln2="post_attention_layernorm", attn_qkv="attention.query_key_value",
               attn_out="attention.dense", ffn_up="mlp.fc1", ffn_down="mlp.fc2"),
        row(f"{_COG}linear_proj.linear_proj", "mm.model.fc", "out embd", bias=False),
        row(f"{_COG}linear_proj.norm1", "mm.post_fc_norm", "out"),
        row(f"{_COG}linear_proj.dense_h_to_4h", "mm.up", "mm out", bias=False),
        row(f"{_COG}linear_proj.gate_proj", "mm.gate", "mm out", bias=False),
        row(f"{_COG}linear_proj.dense_4h_to_h", "mm.down", "out mm", bias=False),
        plain(f"{_COG}boi", "v.boi", "1 1 out"),
        plain(f"{_COG}eoi", "v.eoi", "1 1 out"),
    ),
    (_COG,),
    sizes={"position": size_of(POSITION, f"{_COG}patch_embedding.position_embedding.weight"),
           "mm": size_of("mm.up.weight", f"{_COG}linear_proj.dense_h_to_4h.weight")},
)  # fmt: skip
_DOTS = "vision_tower."
_DOTSOCR = encoder(
    VISION, "DotsOCRForCausalLM",
    (*with_keys(VISION_KEYS, always("image_size", "u32", 0)), kind("dots_ocr"), *_LIMITS,
     epsilon(1e-5, "rms_norm_eps"), scale(lambda config: config.count("spatial_merge_size")),
     SILU),
    join_rows(
        patches(f"{_DOTS}patch_embed.patchifier.proj"),
        row(f"{_DOTS}patch_embed.patchifier.norm", "v.pre_ln", "embd"),
        layers(f"{_DOTS}blocks.{{i}}.", ln1="norm1", ln2="norm2", attn_qkv="attn.qkv",
               attn_out="attn.proj", ffn_gate="mlp.fc1", ffn_down="mlp.fc2", ffn_up="mlp.fc3"),
        row(f"{_DOTS}post_trunk_norm", "mm.post_norm", "embd"),
        row(f"{_DOTS}merger.ln_q", "mm.input_norm", "embd"),
        row(f"{_DOTS}merger.mlp.0", "mm.0", "mm tile"),
        row(f"{_DOTS}merger.mlp.2", "mm.2", "out mm"),
    ),
    (_DOTS,),
    sizes={"mm": size_of("mm.0.weight", f"{_DOTS}merger.mlp.0.weight")},
)  # fmt: skip


def _youtu_flag(name: str) -> KeyRow:
    def value(config: Config) -> bool | None:
        own = (config.text("hidden_act") or "gelu_pytorch_tanh").lower()
        own = "gelu" if own.startswith("gelu") else own
        if own not in ("gelu", "silu"):
            raise config.wrong("is neither gelu nor silu, as llama.cpp has them", "hidden_act")
        return True if own == name else None

    return computed(f"clip.use_{name}", "bool", value)


def _full_layers(config: Config) -> list[int]:
    indexes = config.get("fullatt_block_indexes")
    if not isinstance(indexes, list) or not all(type(index) is int for index in indexes):
        raise config.wrong("is not a list of layers", "fullatt_block_indexes")
    return indexes


_YOUTU_TOWER = "siglip2.vision_model."
_YOUTU = encoder(
    VISION, "YoutuVLForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", lambda config: config.whole(
        "image_size") or 560)),
     kind("youtuvl"), epsilon(1e-6), _youtu_flag("gelu"), _youtu_flag("silu"), merge_size(2),
     computed("window_size", "u32", lambda config: config.whole("window_size")),
     computed("wa_layer_indexes", "i32[]", _full_layers)),
    join_rows(
        siglip(_YOUTU_TOWER, places=False, patch="embd pixels"),
        row("merger.ln_q", "mm.input_norm", "embd"),
        row("merger.mlp.0", "mm.0", "mm embd*4"),
        row("merger.mlp.2", "mm.2", "out mm"),
    ),
    (_YOUTU_TOWER, "merger."),
    sizes={"mm": size_of("mm.0.weight", "merger.mlp.0.weight")},
)  # fmt: skip


class _PairsOfAxes(Change):
    """Queries and keys with the pairs of both axes in turn, which stand apart in the GGUF."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shape."""
        return list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take the axes apart; values stay as they are."""
        import numpy as np

        third, heads = len(arrays[0]) // 3, dims["head"]
        *turned, values = np.split(arrays[0], 3)
        rest = arrays[0].shape[1:]
        if not heads or third % (4 * heads):
            what = f"{third} rows are not those of {heads} heads of a width that 4 divides"
            raise FormatError(what, field="num_attention_heads")
        parts = [
            part.reshape(heads, third // heads // 4, 2, 2, *rest).swapaxes(1, 2) for part in turned
        ]
        return [np.concatenate([*(part.reshape(third, *rest) for part in parts), values])]


def _patch_limit(config: Config) -> int:
    most = config.table(PREPROCESSOR).whole("in_patch_limit")
    return (16384 if most is None else most) * config.count("patch_size") ** 2


def _side(name: str, default: int) -> KeyRow:
    return computed(
        f"vision.pos_emb_{name}", "u32",
        lambda config: config.whole(f"init_pos_emb_{name}") or default,
    )  # fmt: skip


def _merge(config: Config) -> int:
    sides = config.get("merge_kernel_size") or [2, 2]
    if not isinstance(sides, list) or type(sides[0]) is not int:
        raise config.wrong("is not two whole numbers", "merge_kernel_size")
    return int(sides[0])


def _kimi_name(name: str) -> str:
    new = name.replace("mm_projector.linear_", "mm_projector.proj.linear_")
    return new.replace(".proj.0.", ".proj.linear_1.").replace(".proj.2.", ".proj.linear_2.")


_KIMI_PLACES = f"{_DOTS}patch_embed.pos_emb.weight"
_KIMI = encoder(
    VISION, "KimiK25ForConditionalGeneration Glm5vForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", lambda config: (config.whole(
        "init_pos_emb_height") or 64) * config.count("patch_size"))),
     kind("kimik25"), _side("height", 64), _side("width", 64), _side("time", 4),
     computed("clip.use_gelu", "bool", lambda config: (config.text("projector_hidden_act")
                                                       or "gelu") == "gelu"),
     epsilon(1e-5, "projector_ln_eps"), scale(_merge),
     computed("image_min_pixels", "u32", lambda config: 8 * config.count("patch_size") ** 2),
     computed("image_max_pixels", "u32", _patch_limit)),
    join_rows(
        patches(f"{_DOTS}patch_embed.proj"),
        plain(_KIMI_PLACES, POSITION, "height width embd"),
        layers(f"{_DOTS}encoder.blocks.{{i}}.", ln1="norm0", ln2="norm1", attn_out="wo",
               ffn_up="mlp.fc0", ffn_down="mlp.fc1"),
        row(f"{_DOTS}encoder.blocks.{{i}}.wqkv", "v.blk.{i}.attn_qkv", "embd*3 embd",
            _PairsOfAxes()),
        row(f"{_DOTS}encoder.final_layernorm", "v.post_ln", "embd"),
        row("mm_projector.pre_norm", "mm.input_norm", "embd"),
        row("mm_projector.proj.linear_1", "mm.1", "mm tile"),
        row("mm_projector.proj.linear_2", "mm.2", "out mm"),
    ),
    (_DOTS, "mm_projector."),
    sizes={"height": size_of(POSITION, _KIMI_PLACES), "width": size_of(POSITION, _KIMI_PLACES,
                                                                       axis=1),
           "mm": size_of("mm.1.weight", "mm_projector.proj.linear_1.weight")},
    defaults={"patch_size": 14},
    renamed=_kimi_name,
)  # fmt: skip


def _patch_budget(name: str) -> KeyRow:
    def value(config: Config) -> int:
        preprocessor = config.table(PREPROCESSOR)
        own = preprocessor.whole(f"{name}_num_patches")
        count = config.table(MODEL).count(f"{name}_num_patches") if own is None else own
        return count * preprocessor.count("patch_size") ** 2

    return computed(f"image_{name}_pixels", "u32", value)


def _phi_side(config: Config) -> int:
    return isqrt(config.whole("num_patches") or 256) * config.table(PREPROCESSOR).count(
        "patch_size"
    )


_PHI_TOWER = "vision_tower.vision_model."
_PHI = encoder(
    VISION, "Phi4ForCausalLMV",
    (*with_keys(
        VISION_KEYS,
        computed("image_size", "u32", _phi_side),
        computed("patch_size", "u32", lambda config: config.table(PREPROCESSOR).count(
            "patch_size")),
        # The tokens are made of the output of the last layer but one.
        computed("block_count", "u32", lambda config: max(
            0, config.count("num_hidden_layers") - 1))),
     kind("phi4"), _patch_budget("min"), _patch_budget("max"), GELU, epsilon(1e-6)),
    join_rows(
        siglip(_PHI_TOWER, TilesLast(), norm=False),
        row("mm_projector.0", "mm.0", "mm embd"),
        row("mm_projector.2", "mm.2", "out mm"),
    ),
    (_PHI_TOWER, "mm_projector.0.", "mm_projector.2."),
    sizes=siglip_sizes(_PHI_TOWER, mm=size_of("mm.0.weight", "mm_projector.0.weight")),
    defaults={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
              "num_attention_heads": 12, "layer_norm_eps": 1e-6},
    renamed=lambda name: name.removeprefix("model.").replace("vision_tower.vision_tower.",
                                                             "vision_tower."),
    without=(".vision_model.head.", ".vision_model.post_layernorm."),
)  # fmt: skip


def _is_unused(name: str, config: Config) -> bool:
    last = f".encoder.layers.{config.count('num_hidden_layers') - 1}."
    return last in name or (_PHI.skips is not None and _PHI.skips(name, config))


class _AxesTogether(Change):
    """Queries and keys whose halves have time, height and width; the GGUF has both halves of each.

    Source: llama.cpp, conversion/minimax.py (``_permute_vit_qk``).
    """

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shape."""
        return list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring the halves together."""
        (array,), heads = arrays, dims["head"]
        width = len(array) // max(heads, 1)
        part = 2 * (width // 2) // 3 // 2
        order = [
            half * 3 * part + axis * part + place
            for axis in range(3) for half in range(2) for place in range(part)
        ]  # fmt: skip
        order += range(6 * part, width)
        split = array.reshape(heads, width, *array.shape[1:])
        return [split[:, order].reshape(array.shape)]


def _compression(config: Config) -> int:
    return config.table("img_token_compression_config").whole("spatial_merge_size") or 2


_MINIMAX = encoder(
    VISION, "MiniMaxM3VLForConditionalGeneration MiniMaxM3SparseForConditionalGeneration",
    (*VISION_KEYS, kind("minimax_m3"), GELU, epsilon(1e-5),
     computed("spatial_merge_size", "u32", _compression)),
    join_rows(
        frames(f"{_PHI_TOWER}embeddings.patch_embedding"),
        row(f"{_PHI_TOWER}pre_layrnorm", "v.pre_ln", "embd"),
        layers(f"{_PHI_TOWER}encoder.layers.{{i}}.", ln1="layer_norm1", ln2="layer_norm2",
               attn_v="self_attn.v_proj", attn_out="self_attn.out_proj", ffn_up="mlp.fc1",
               ffn_down="mlp.fc2"),
        *(row(f"{_PHI_TOWER}encoder.layers.{{i}}.self_attn.{key}_proj", f"v.blk.{{i}}.attn_{key}",
              "embd embd", _AxesTogether()) for key in "qk"),
        row("multi_modal_projector.linear_1", "mm.1", "mm embd"),
        row("multi_modal_projector.linear_2", "mm.2", "out mm"),
        row("patch_merge_mlp.linear_1", "mm.merger.fc1", "merged out*4"),
        row("patch_merge_mlp.linear_2", "mm.merger.fc2", "out merged"),
    ),
    ("vision_tower.", "multi_modal_projector.", "patch_merge_mlp."),
    sizes={"mm": size_of("mm.1.weight", "multi_modal_projector.linear_1.weight"),
           "merged": size_of("mm.merger.fc1.weight", "patch_merge_mlp.linear_1.weight"),
           "out*4": lambda dims: 4 * dims["out"]},
)  # fmt: skip


class _SummedFrames(Change):
    """Patches of several pictures, one behind the other, that are added up in the GGUF."""

    computes = True
    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of lines."""
        return [(shapes[0][0], dims["lines"])]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Add the pictures."""
        out, *square = shapes[0]
        return [arrays[0].reshape(out, -1, *square).sum(1)]


_MUSE_PATCHES = "model.vision_tower.patch_embedder.patch_embedding"
_MUSE_PLACES = "model.vision_tower.patch_embedder.position_embedding_table"
_MUSE_BLOCKS = "model.vision_tower.layers.{i}."
_MUSE = encoder(
    VISION, "MuseGlimmerForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", lambda config: config.count(
        "pos_emb_height") * config.count("patch_size") * config.count("merge_size"))),
     kind("muse-glimmer"), epsilon(1e-5),
     computed("spatial_merge_size", "u32", lambda config: config.count("merge_size"))),
    join_rows(
        patches(_MUSE_PATCHES, _SummedFrames()),
        positions(_MUSE_PLACES),
        row("model.vision_tower.ln_pre", "v.pre_ln", "embd"),
        row("model.vision_tower.ln_post", "v.post_ln", "embd"),
        layers(_MUSE_BLOCKS, ln1="norm1", ln2="norm2", attn_v="attn.v_proj", attn_out="attn.proj",
               ffn_up="mlp.fc1", ffn_down="mlp.fc2"),
        *(row(f"{_MUSE_BLOCKS}attn.{key}_proj", f"v.blk.{{i}}.attn_{key}", "embd embd",
              Permuted("head")) for key in "qk"),
        row("model.vision_adapter.fc1", "mm.0", "first flat"),
        row("model.vision_adapter.fc2", "mm.1", "second first"),
        row("model.vision_projection", "mm.2", "out second"),
    ),
    ("model.vision_tower.", "model.vision_adapter.", "model.vision_projection."),
    sizes={"lines": size_of(f"{_MUSE_PATCHES}.weight", axis=1),
           "position": size_of(POSITION, f"{_MUSE_PLACES}.weight"),
           "first": size_of("mm.0.weight", "model.vision_adapter.fc1.weight"),
           "flat": size_of("mm.0.weight", "model.vision_adapter.fc1.weight", axis=1),
           "second": size_of("mm.1.weight", "model.vision_adapter.fc2.weight")},
)  # fmt: skip


def _deepseek4(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the fields of DeepSeek V4's encoder, which stand in config.json itself."""
    start = "vision_"
    names = {"n_layers": "num_hidden_layers", "dim": "hidden_size", "inter_dim":
             "intermediate_size", "n_heads": "num_attention_heads"}  # fmt: skip
    fields = {
        names.get(name.removeprefix(start), name.removeprefix(start)): value
        for name, value in document.items()
        if name.startswith(start)
    }
    return fields if fields.get("num_hidden_layers") else None


_DEEPSEEK4 = encoder(
    VISION, "DeepseekV4ForCausalLM",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", lambda config: 16 * config.count(
        "patch_size") * config.count("downsample_ratio")),
        colors("image_mean", [0.5] * 3), colors("image_std", [0.5] * 3)),
     kind("deepseek4v"), always("attention.layer_norm_epsilon", "f32", 1e-6), SILU,
     scale(lambda config: config.count("downsample_ratio")),
     computed("image_min_pixels", "u32", lambda config: config.count("min_pixels"))),
    join_rows(
        patches("vision.patch_embed.proj", Reshaped("embd pixels")),
        layers("vision.blocks.{i}.", ln1="norm1", ln2="norm2", attn_qkv="attn.wqkv",
               attn_out="attn.wo", ffn_down="mlp.w2"),
        block("vision.blocks.{i}.", row("mlp.w1", "ffn_gate ffn_up", "ff embd, ff embd",
                                        Split(-2), bias=False), gguf="v.blk.{i}."),
        row("vision.norm", "v.post_ln", "embd"),
        row("aligner.w1", "mm.1", "mm tile"),
        row("aligner.w2", "mm.2", "out mm"),
        plain("image_newline", "v.image_newline", "out"),
        *(plain(f"image_{name}", f"v.token_embd.img_{name}", "out")
          for name in ("start", "end", "pad")),
    ),
    ("vision.", "aligner.", "image_"),
    sizes={"mm": size_of("mm.1.weight", "aligner.w1.weight")},
)  # fmt: skip


def _step_width(config: Config) -> int:
    own, ratio = config.whole("intermediate_size"), config.number("mlp_ratio")
    width = config.count("hidden_size", "width")
    return own or round(width * (8960 / 1536 if ratio is None else ratio))


def _step_name(name: str) -> str:
    new = name.replace("attn.in_proj_", "attn.in_proj.")
    new = f"{new}.weight" if new.endswith("vision_model.positional_embedding") else new
    return new.replace(".gamma", ".weight") if ".ls_" in new else new


def _stride(config: Config) -> int:
    return config.table(MODEL).count("understand_projector_stride")


_STEP_BLOCKS = "vision_model.transformer.resblocks.{i}."
_STEP = encoder(
    VISION, "StepVLForConditionalGeneration Step3p7ForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("feed_forward_length", "u32", _step_width),
                colors("image_mean", MEAN), colors("image_std", STANDARD_DEVIATION)),
     kind("step3vl"), epsilon(1e-5), scale(lambda config: _stride(config) ** 2),
     always("preproc_image_size", "u32", 3024)),
    join_rows(
        patches("vision_model.conv1"),
        positions("vision_model.positional_embedding"),
        row("vision_model.ln_pre", "v.pre_ln", "embd"),
        layers(_STEP_BLOCKS, ln1="ln_1", ln2="ln_2", ls1="ls_1", ls2="ls_2",
               attn_qkv="attn.in_proj", attn_out="attn.out_proj", ffn_up="mlp.c_fc",
               ffn_down="mlp.c_proj"),
        as_patches(row("vision_model.vit_downsampler1", "mm.0", "first embd 3 3"),
                   row("vision_model.vit_downsampler2", "mm.1", "second first 3 3")),
        row("vit_large_projector", "mm.model.fc", "out second"),
    ),
    ("vision_model.", "vit_large_projector."),
    sizes={"position": size_of(POSITION, "vision_model.positional_embedding.weight"),
           "first": size_of("mm.0.weight", "vision_model.vit_downsampler1.weight"),
           "second": size_of("mm.1.weight", "vision_model.vit_downsampler2.weight")},
    renamed=_step_name,
)  # fmt: skip

PROJECTORS = (
    *(
        Projector(part.classes, (part,))
        for part in (
            _HUNYUAN, _PADDLE, _COGVLM, _DOTSOCR, _YOUTU, _KIMI, replace(_PHI, skips=_is_unused),
            _MINIMAX, _MUSE, _STEP,
        )
    ),
    Projector(_DEEPSEEK4.classes, (_DEEPSEEK4,), fields=_deepseek4),
)  # fmt: skip
