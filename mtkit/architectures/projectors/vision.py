"""Projectors that see: encoders of pictures, and what makes tokens of them.

Source: llama.cpp, conversion (classes of ``MmprojModel``), tools/mtmd/clip.cpp; defaults:
transformers, the configurations of the encoders.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE, SAME, Change, Permuted
from mtkit.architectures.metadata import always, computed, with_keys
from mtkit.architectures.projectors.rows import (
    BREAK,
    GELU,
    MODEL,
    PREPROCESSOR,
    SILU,
    VISION,
    VISION_KEYS,
    Projector,
    TilesLast,
    activation,
    counted,
    encoder,
    epsilon,
    frames,
    kind,
    layers,
    patches,
    scale,
    size_of,
    split_qkv,
)
from mtkit.architectures.table import Rows, exact, half, join_rows, optional, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.projectors.rows import Sizes

POSITION = "v.position_embd.weight"


def positions(folder: str) -> Rows:
    """Return the row of the learned positions."""
    return plain(f"{folder}.weight", POSITION, "position embd")


def _siglip(tower: str, change: Change = SAME, out: str = "out_proj") -> Rows:
    """Return the rows of SigLIP."""
    return join_rows(
        patches(f"{tower}embeddings.patch_embedding", change),
        positions(f"{tower}embeddings.position_embedding"),
        row(f"{tower}post_layernorm", "v.post_ln", "embd"),
        layers(
            f"{tower}encoder.layers.{{i}}.", ln1="layer_norm1", ln2="layer_norm2",
            attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj",
            attn_out=f"self_attn.{out}", ffn_up="mlp.fc1", ffn_down="mlp.fc2",
        ),
    )  # fmt: skip


def _siglip_sizes(tower: str, **more: Callable[[Dims], int]) -> Sizes:
    folder = f"{tower}embeddings.position_embedding.weight"
    return {"position": size_of(POSITION, folder), **more}


def _exact_embeddings(rows: Rows) -> Rows:
    """Return rows of which those that embed are F32 in every file."""
    return join_rows(
        *(exact((part,)) if ".embeddings." in part.folder[0] else (part,) for part in rows)
    )


_SIGLIP = "vision_tower.vision_model."


def _gemma3_scale(config: Config) -> int | None:
    tokens = config.table(PREPROCESSOR).whole("image_seq_length")
    side = int((256 if tokens is None else tokens) ** 0.5)
    factor = config.count("image_size") // config.count("patch_size") // max(side, 1)
    return factor if factor > 0 and factor != 4 else None


_GEMMA3 = encoder(
    VISION, "Gemma3ForConditionalGeneration",
    (*VISION_KEYS, kind("gemma3"), epsilon(1e-6), GELU, scale(_gemma3_scale)),
    join_rows(
        _exact_embeddings(_siglip(_SIGLIP)),
        half(plain("multi_modal_projector.mm_input_projection.weight",
                   "mm.input_projection.weight", "embd out")),
        row("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", "embd", PLUS_ONE,
            bias=False),
    ),
    ("vision_tower.", "multi_modal_projector."),
    sizes=_siglip_sizes(_SIGLIP),
    defaults={"layer_norm_eps": 1e-6, "image_size": 224, "patch_size": 16, "hidden_size": 768,
              "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    renamed=lambda name: name.replace("_weight", ".weight"),
    without=("vision_model.head.",),
)  # fmt: skip


def _longest_edge(config: Config) -> int:
    edge = config.table(PREPROCESSOR).table("size").whole("longest_edge")
    return config.count("image_size") if edge is None else edge


def _idefics(name: str, defaults: dict[str, Any]) -> Architecture:
    tower = "model.vision_model."
    return encoder(
        VISION, name,
        (*VISION_KEYS, kind("idefics3"), epsilon(1e-5), GELU,
         scale(lambda config: config.table(MODEL).whole("scale_factor") or 2),
         computed("preproc_image_size", "u32", _longest_edge)),
        join_rows(
            _exact_embeddings(_siglip(tower)),
            row("model.connector.modality_projection.proj", "mm.model.fc", "out tile", bias=False),
        ),
        (tower, "model.connector."),
        sizes=_siglip_sizes(tower),
        defaults={**defaults, "layer_norm_eps": 1e-6, "image_size": 224, "patch_size": 32,
                  "num_hidden_layers": 12},
    )  # fmt: skip


_SMOLVLM = _idefics(
    "SmolVLMForConditionalGeneration",
    {"hidden_size": 1152, "num_attention_heads": 16, "intermediate_size": 3072},
)
_IDEFICS3 = _idefics(
    "Idefics3ForConditionalGeneration",
    {"hidden_size": 1152, "num_attention_heads": 16, "intermediate_size": 3072},
)


def _last_layers(config: Config) -> int:
    """Return how many layers of LFM2-VL's encoder count; the others are in the GGUF as well."""
    layer = config.table(MODEL).get("vision_feature_layer")
    return config.count("num_hidden_layers") + (layer + 1 if type(layer) is int else 0)


_LFM2 = encoder(
    VISION, "Lfm2VlForConditionalGeneration",
    (*with_keys(VISION_KEYS, always("image_size", "u32", 256),
                computed("block_count", "u32", _last_layers)),
     kind("lfm2"), epsilon(1e-6), GELU,
     scale(lambda config: config.table(MODEL).whole("downsample_factor") or 2)),
    join_rows(
        _siglip(_SIGLIP, TilesLast()),
        optional(row("multi_modal_projector.layer_norm", "mm.input_norm", "tile")),
        row("multi_modal_projector.linear_1", "mm.1", "mm tile"),
        row("multi_modal_projector.linear_2", "mm.2", "out mm"),
    ),
    ("vision_tower.", "multi_modal_projector."),
    sizes=_siglip_sizes(
        _SIGLIP, mm=size_of("mm.1.weight", "multi_modal_projector.linear_1.weight")
    ),
    defaults={"layer_norm_eps": 1e-6, "patch_size": 16, "hidden_size": 768,
              "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    renamed=lambda name: name.removeprefix("model."),
)  # fmt: skip


_MERGER = "model.vision_tower.vit_merger."
_MINICPM = encoder(
    VISION, "MiniCPMV4_6ForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("image_size", "u32", lambda config: config.table(
        PREPROCESSOR).whole("scale_resolution") or config.count("image_size"))),
     kind("minicpmv4_6"), epsilon(1e-6), GELU,
     scale(lambda config: 2 if _is_fourfold(config) else 4),
     computed("wa_layer_indexes", "i32[]", lambda config: [
         config.table(MODEL).whole("insert_layer_id") or config.whole("insert_layer_id") or 6])),
    join_rows(
        _siglip("model.vision_tower."),
        optional(
            row(f"{_MERGER}layer_norm1", "v.vit_merger.ln1", "embd"),
            *(row(f"{_MERGER}self_attn.{name}", f"v.vit_merger.attn_{key}", "embd embd")
              for key, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"),
                                ("out", "out_proj"))),
            row(f"{_MERGER}pre_norm", "v.vit_merger.ds_ln", "embd*4"),
            row(f"{_MERGER}linear_1", "v.vit_merger.ds_ffn_up", "window embd*4"),
            row(f"{_MERGER}linear_2", "v.vit_merger.ds_ffn_down", "embd window"),
        ),
        row("model.merger.mlp.0.pre_norm", "mm.input_norm", "embd*4"),
        row("model.merger.mlp.0.linear_1", "mm.up", "mm embd*4"),
        row("model.merger.mlp.0.linear_2", "mm.down", "out mm"),
    ),
    ("model.vision_tower.", "model.merger."),
    sizes=_siglip_sizes(
        "model.vision_tower.",
        window=size_of("v.vit_merger.ds_ffn_up.weight", f"{_MERGER}linear_1.weight"),
        mm=size_of("mm.up.weight", "model.merger.mlp.0.linear_1.weight"),
    ),
    defaults={"layer_norm_eps": 1e-6},
)  # fmt: skip


def _is_fourfold(config: Config) -> bool:
    mode = config.table(PREPROCESSOR).text("downsample_mode") or "16x"
    if mode not in ("4x", "16x"):
        raise config.table(PREPROCESSOR).wrong("is neither 4x nor 16x", "downsample_mode")
    return mode == "4x"


def _janus_width(config: Config) -> int:
    own, ratio = config.whole("intermediate_size"), config.number("mlp_ratio")
    return own or round(config.count("hidden_size") * (ratio or 4.0))


_JANUS = encoder(
    VISION, "JanusForConditionalGeneration",
    (*with_keys(VISION_KEYS, computed("feed_forward_length", "u32", _janus_width)),
     kind("janus_pro"), epsilon(1e-6), *activation(required=False)),
    join_rows(
        _siglip("model.vision_model.", out="projection_layer"),
        row("model.aligner.fc1", "mm.0", "out embd"),
        row("model.aligner.hidden_layers.0", "mm.1", "out out"),
    ),
    ("model.vision_model.", "model.aligner."),
    sizes=_siglip_sizes("model.vision_model."),
    defaults={"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
              "patch_size": 16, "image_size": 384, "layer_norm_eps": 1e-6, "hidden_act": "gelu"},
)  # fmt: skip


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
    VISION, "Qwen2VLForConditionalGeneration",
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
_GLM4 = encoder(
    VISION,
    "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration "
    "GlmOcrForConditionalGeneration",
    (*with_keys(_QWEN_KEYS, counted("image_size")), kind("glm4v"),
     *activation(required=False), epsilon(1e-5, "rms_norm_eps")),
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

_PIXTRAL = {
    "ln1": "attention_norm", "ln2": "ffn_norm", "attn_v": "attention.v_proj",
    "attn_out": "attention.o_proj", "ffn_gate": "feed_forward.gate_proj",
    "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj",
}  # fmt: skip
_PIXTRAL_OWN = {
    "ln1": "attention_norm", "ln2": "ffn_norm", "attn_q": "attention.wq", "attn_k": "attention.wk",
    "attn_v": "attention.wv", "attn_out": "attention.wo", "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
}  # fmt: skip


def _pixtral_rows(tower: str, adapter: tuple[str, str, str, str], names: dict[str, str]) -> Rows:
    blocks = f"{tower}transformer.layers.{{i}}."
    first, second, norm, merger = adapter
    return join_rows(
        patches(f"{tower}patch_conv"),
        row(f"{tower}ln_pre", "v.pre_ln", "embd"),
        layers(blocks, **names),
        row(first, "mm.1", "mm embd"),
        row(second, "mm.2", "out mm"),
        optional(row(norm, "mm.input_norm", "embd"), row(merger, "mm.patch_merger", "embd embd*4")),
    )


def _permuted(blocks: str) -> Rows:
    return tuple(
        row_
        for key in "qk"
        for row_ in row(
            f"{blocks}attention.{key}_proj", f"v.blk.{{i}}.attn_{key}", "embd embd",
            Permuted("head"),
        )
    )  # fmt: skip


def _pixtral(classes: str, key: KeyRow) -> Architecture:
    projector = "multi_modal_projector."
    adapter = (f"{projector}linear_1", f"{projector}linear_2", f"{projector}norm",
               f"{projector}patch_merger.merging_layer")  # fmt: skip
    blocks = "vision_tower.transformer.layers.{i}."
    return encoder(
        VISION, classes,
        (*VISION_KEYS, key, epsilon(1e-5), *activation(required=True),
         computed("spatial_merge_size", "u32",
                  lambda config: config.table(MODEL).whole("spatial_merge_size"))),
        join_rows(_pixtral_rows("vision_tower.", adapter, _PIXTRAL), _permuted(blocks)),
        ("vision_tower.", projector),
        sizes={"mm": size_of("mm.1.weight", f"{projector}linear_1.weight")},
        defaults={"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                  "num_attention_heads": 16, "image_size": 1024, "patch_size": 16,
                  "hidden_act": "gelu"},
        renamed=lambda name: name.replace("model.vision_encoder.", "vision_tower.").replace(
            "model.vision_projection.", projector),
    )  # fmt: skip


_MISTRAL = _pixtral("LlavaForConditionalGeneration Mistral3ForConditionalGeneration",
                    kind("pixtral"))  # fmt: skip
_LIGHTON = _pixtral("LightOnOCRForConditionalGeneration", kind("lightonocr"))


class _PickedRow(Change):
    """One row of the text model's embedding: that of the token that ends a line of patches."""

    keeps_order = False

    def __init__(self, token: int) -> None:
        self._token = token

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of the whole embedding."""
        return [dims.shape("vocabulary out")]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Pick it."""
        return [arrays[0][self._token]]


_OWN_TABLE = "tok_embeddings.weight"


def _line_end(token: int) -> Rows:
    return plain(_OWN_TABLE, "v.token_embd.img_break", "out", _PickedRow(token), optional=True)


_OWN_ROWS = _pixtral_rows(
    "vision_encoder.",
    ("vision_language_adapter.w_in", "vision_language_adapter.w_out", "pre_mm_projector_norm",
     "patch_merger.merging_layer"),
    _PIXTRAL_OWN,
)  # fmt: skip
_MEAN, _DEVIATION = (
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
)
"""Those of CLIP. Source: mistral_common (``DATASET_MEAN``)."""
OWN_PIXTRAL = encoder(
    VISION, "PixtralModel",
    (*with_keys(VISION_KEYS, always("image_mean", "f32[]", _MEAN),
                always("image_std", "f32[]", _DEVIATION)),
     kind("pixtral"), SILU,
     computed("attention.layer_norm_epsilon", "f32",
              lambda config: config.table(MODEL).number("norm_eps")),
     computed("clip.rope.freq_base", "f32", lambda config: config.number("rope_theta")),
     computed("spatial_merge_size", "u32", lambda config: config.count("spatial_merge_size")
              if config.text("mm_projector_id") == "patch_merge" else None)),
    join_rows(_OWN_ROWS, _line_end(0)),
    ("vision_encoder.", "vision_language_adapter.", "patch_merger.", "pre_mm_projector_norm",
     _OWN_TABLE),
    sizes={"mm": size_of("mm.1.weight", "vision_language_adapter.w_in.weight"),
           "vocabulary": size_of(_OWN_TABLE)},
    rows_of=lambda config: join_rows(_OWN_ROWS, _line_end(config.count(BREAK))),
)  # fmt: skip


def _tile_side(config: Config) -> int:
    ratio = config.table(MODEL).number("downsample_ratio") or config.number("pixel_shuffle_ratio")
    if not ratio or not 0 < ratio <= 1:
        raise config.wrong("is not between 0 and 1", "downsample_ratio")
    return int(1 / ratio)


def _tiles(name: str) -> Callable[[Config], int | None]:
    return lambda config: config.table(MODEL).whole(name) or None


def _intern_name(name: str) -> str:
    new = f"vision_tower.{name}" if name.startswith("vision_model") else name
    bare = (".ls" in new or "position_embedding" in new) and not new.endswith(".weight")
    return f"{new}.weight" if bare else new


_INTERN = encoder(
    VISION, "InternVisionModel",
    (*VISION_KEYS, kind("internvl"), epsilon(1e-6), *activation(required=True), scale(_tile_side),
     computed("preproc_min_tiles", "u32", _tiles("min_dynamic_patch")),
     computed("preproc_max_tiles", "u32", _tiles("max_dynamic_patch"))),
    join_rows(
        plain(f"{_SIGLIP}embeddings.class_embedding", "v.class_embd", "1 1 embd"),
        patches(f"{_SIGLIP}embeddings.patch_embedding"),
        plain(f"{_SIGLIP}embeddings.position_embedding.weight", POSITION, "1 position embd"),
        layers(f"{_SIGLIP}encoder.layers.{{i}}.", ln1="norm1", ln2="norm2", ls1="ls1", ls2="ls2",
               attn_out="attn.proj", ffn_up="mlp.fc1", ffn_down="mlp.fc2"),
        split_qkv(f"{_SIGLIP}encoder.layers.{{i}}.", "attn.qkv"),
        optional(*(row(f"{_SIGLIP}encoder.layers.{{i}}.attn.{key}_norm",
                       f"v.blk.{{i}}.attn_{key}_norm", "embd") for key in "qk")),
        row("mlp1.0", "mm.model.mlp.0", "tile"),
        row("mlp1.1", "mm.model.mlp.1", "mm tile"),
        row("mlp1.3", "mm.model.mlp.3", "out mm"),
    ),
    ("vision_tower.", "mlp1."),
    sizes={"position": lambda dims: 1 + (dims.key("image_size") // dims["patch"]) ** 2,
           "mm": size_of("mm.model.mlp.1.weight", "mlp1.1.weight")},
    renamed=_intern_name,
)  # fmt: skip


def _llama_name(name: str) -> str:
    return f"{name}.weight" if name.endswith("positional_embedding_vlm") else name


_LLAMA4 = encoder(
    VISION, "Llama4ForConditionalGeneration",
    (*VISION_KEYS, kind("llama4"), epsilon(1e-5, "norm_eps"), scale(_tile_side), GELU),
    join_rows(
        plain("vision_model.class_embedding", "v.class_embd", "embd"),
        row("vision_model.patch_embedding.linear", "v.patch_embd", "embd pixels", bias=False),
        positions("vision_model.positional_embedding_vlm"),
        row("vision_model.layernorm_pre", "v.pre_ln", "embd"),
        row("vision_model.layernorm_post", "v.post_ln", "embd"),
        layers("vision_model.model.layers.{i}.", ln1="input_layernorm",
               attn_post_norm="post_attention_layernorm", attn_q="self_attn.q_proj",
               attn_k="self_attn.k_proj", attn_v="self_attn.v_proj", attn_out="self_attn.o_proj",
               ffn_up="mlp.fc1", ffn_down="mlp.fc2"),
        row("vision_model.vision_adapter.mlp.fc1", "mm.model.mlp.1", "mm tile"),
        row("vision_model.vision_adapter.mlp.fc2", "mm.model.mlp.2", "wide mm"),
        row("multi_modal_projector.linear_1", "mm.model.fc", "out wide"),
    ),
    ("vision_model.", "multi_modal_projector."),
    sizes={"position": lambda dims: 1 + (dims.key("image_size") // dims["patch"]) ** 2,
           "mm": size_of("mm.model.mlp.1.weight", "vision_model.vision_adapter.mlp.fc1.weight"),
           "wide": size_of("mm.model.mlp.2.weight", "vision_model.vision_adapter.mlp.fc2.weight")},
    defaults={"hidden_size": 768, "num_hidden_layers": 34, "num_attention_heads": 16,
              "intermediate_size": 5632, "image_size": 448, "patch_size": 14, "norm_eps": 1e-5,
              "pixel_shuffle_ratio": 0.5},
    renamed=_llama_name,
)  # fmt: skip


class _Grid(Change):
    """Positions of a square grid, a line each in the GGUF."""

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of the grid."""
        return [(dims["grid"], shapes[0][0] // max(dims["grid"], 1), shapes[0][1])]


_GRID = "vision_tower.patch_embed.pos_emb.weight"


def _grid_positions(dims: Dims) -> int:
    rows, *columns = dims.shapes.get(_GRID) or dims.shapes.get(POSITION) or (0,)
    return rows * columns[0] if len(columns) == 2 else rows


_KIMI = encoder(
    VISION, "KimiVLForConditionalGeneration",
    (*with_keys(VISION_KEYS, always("image_size", "u32", 896)), kind("kimivl"), GELU,
     scale(lambda _: 2), epsilon(1e-5)),
    join_rows(
        patches("vision_tower.patch_embed.proj"),
        plain(_GRID, POSITION, "position embd", _Grid()),
        layers("vision_tower.encoder.blocks.{i}.", ln1="norm0", ln2="norm1", attn_out="wo",
               ffn_up="mlp.fc0", ffn_down="mlp.fc1"),
        split_qkv("vision_tower.encoder.blocks.{i}.", "wqkv"),
        row("vision_tower.encoder.final_layernorm", "v.post_ln", "embd"),
        row("multi_modal_projector.pre_norm", "mm.input_norm", "embd"),
        row("multi_modal_projector.linear_1", "mm.1", "mm tile"),
        row("multi_modal_projector.linear_2", "mm.2", "out mm"),
    ),
    ("vision_tower.", "multi_modal_projector."),
    sizes={"grid": size_of(_GRID), "position": _grid_positions,
           "mm": size_of("mm.1.weight", "multi_modal_projector.linear_1.weight")},
    defaults={"patch_size": 14, "num_attention_heads": 16, "num_hidden_layers": 27,
              "hidden_size": 1152, "intermediate_size": 4304},
)  # fmt: skip

PROJECTORS = tuple(
    Projector(part.classes, (part,))
    for part in (
        _GEMMA3, _QWEN2, _QWEN25, _QWEN3, _SMOLVLM, _IDEFICS3, _MISTRAL, _LIGHTON, OWN_PIXTRAL,
        _INTERN, _LLAMA4, _MINICPM, _LFM2, _KIMI, _GLM4, _JANUS,
    )
)  # fmt: skip
