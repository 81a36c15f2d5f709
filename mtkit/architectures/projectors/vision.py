"""Projectors that see: encoders of pictures, and what makes tokens of them.

Source: llama.cpp, conversion (classes of ``MmprojModel``), tools/mtmd/clip.cpp; defaults:
transformers, the configurations of the encoders.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE, Change, Permuted
from mtkit.architectures.metadata import always, computed, with_keys
from mtkit.architectures.projectors.rows import (
    BREAK,
    FOLDER_LAYERS,
    GELU,
    LINE_END,
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
    activation,
    encoder,
    epsilon,
    kind,
    layers,
    patches,
    positions,
    row_scale,
    scale,
    siglip,
    siglip_sizes,
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


def _exact_embeddings(rows: Rows) -> Rows:
    """Return rows of which those that embed are F32 in every file."""
    return join_rows(
        *(exact((part,)) if ".embeddings." in part.folder[0] else (part,) for part in rows)
    )


_SIGLIP = "vision_tower.vision_model."


_GEMMA3 = encoder(
    VISION, "Gemma3ForConditionalGeneration",
    (*VISION_KEYS, kind("gemma3"), epsilon(1e-6), GELU, row_scale()),
    join_rows(
        _exact_embeddings(siglip(_SIGLIP)),
        half(plain("multi_modal_projector.mm_input_projection.weight",
                   "mm.input_projection.weight", "embd out")),
        row("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", "embd", PLUS_ONE,
            bias=False),
    ),
    ("vision_tower.", "multi_modal_projector."),
    sizes=siglip_sizes(_SIGLIP),
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
            _exact_embeddings(siglip(tower)),
            row("model.connector.modality_projection.proj", "mm.model.fc", "out tile", bias=False),
        ),
        (tower, "model.connector."),
        sizes=siglip_sizes(tower),
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
     computed(FOLDER_LAYERS, "", lambda config: config.count("num_hidden_layers")),
     kind("lfm2"), epsilon(1e-6), GELU,
     scale(lambda config: config.table(MODEL).whole("downsample_factor") or 2)),
    join_rows(
        siglip(_SIGLIP, TilesLast()),
        optional(row("multi_modal_projector.layer_norm", "mm.input_norm", "tile")),
        row("multi_modal_projector.linear_1", "mm.1", "mm tile"),
        row("multi_modal_projector.linear_2", "mm.2", "out mm"),
    ),
    ("vision_tower.", "multi_modal_projector."),
    sizes=siglip_sizes(
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
        siglip("model.vision_tower."),
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
    sizes=siglip_sizes(
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
        siglip("model.vision_model.", out="projection_layer"),
        row("model.aligner.fc1", "mm.0", "out embd"),
        row("model.aligner.hidden_layers.0", "mm.1", "out out"),
    ),
    ("model.vision_model.", "model.aligner."),
    sizes=siglip_sizes("model.vision_model."),
    defaults={"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
              "patch_size": 16, "image_size": 384, "layer_norm_eps": 1e-6, "hidden_act": "gelu"},
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


_TABLE, _OWN_TABLE = "language_model.model.embed_tokens.weight", "tok_embeddings.weight"


def _line_end(table: str, config: Config | None = None) -> Rows:
    change = _PickedRow(config.count(BREAK) if config else 0)
    return plain(table, LINE_END, "out", change, optional=True)


def _pixtral(classes: str, key: KeyRow, more: Rows = ()) -> Architecture:
    projector = "multi_modal_projector."
    adapter = (f"{projector}linear_1", f"{projector}linear_2", f"{projector}norm",
               f"{projector}patch_merger.merging_layer")  # fmt: skip
    blocks = "vision_tower.transformer.layers.{i}."
    rows = join_rows(_pixtral_rows("vision_tower.", adapter, _PIXTRAL), _permuted(blocks))
    return encoder(
        VISION, classes,
        (*VISION_KEYS, key, epsilon(1e-5), *activation(required=True),
         computed("spatial_merge_size", "u32",
                  lambda config: config.table(MODEL).whole("spatial_merge_size"))),
        join_rows(rows, more),
        ("vision_tower.", projector, *(part.folder[0] for part in more)),
        sizes={"mm": size_of("mm.1.weight", f"{projector}linear_1.weight"),
               "vocabulary": size_of(_TABLE)},
        defaults={"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                  "num_attention_heads": 16, "image_size": 1024, "patch_size": 16,
                  "hidden_act": "gelu"},
        renamed=_pixtral_name,
        rows_of=(lambda config: join_rows(rows, _line_end(_TABLE, config))) if more else None,
    )  # fmt: skip


def _pixtral_name(name: str) -> str:
    if name == "model.language_model.embed_tokens.weight":
        return _TABLE
    new = name.replace("model.vision_encoder.", "vision_tower.")
    return new.replace("model.vision_projection.", "multi_modal_projector.")


# The converter leaves the line's end out, without which llama.cpp does not load the file.
_MISTRAL = _pixtral("LlavaForConditionalGeneration Mistral3ForConditionalGeneration",
                    kind("pixtral"), _line_end(_TABLE))  # fmt: skip
_LIGHTON = _pixtral("LightOnOCRForConditionalGeneration", kind("lightonocr"))


_OWN_ROWS = _pixtral_rows(
    "vision_encoder.",
    ("vision_language_adapter.w_in", "vision_language_adapter.w_out", "pre_mm_projector_norm",
     "patch_merger.merging_layer"),
    _PIXTRAL_OWN,
)  # fmt: skip
OWN_PIXTRAL = encoder(
    VISION, "PixtralModel",
    (*with_keys(VISION_KEYS, always("image_mean", "f32[]", MEAN),
                always("image_std", "f32[]", STANDARD_DEVIATION)),
     kind("pixtral"), SILU,
     computed("attention.layer_norm_epsilon", "f32",
              lambda config: config.table(MODEL).number("norm_eps")),
     computed("clip.rope.freq_base", "f32", lambda config: config.number("rope_theta")),
     computed("spatial_merge_size", "u32", lambda config: config.count("spatial_merge_size")
              if config.text("mm_projector_id") == "patch_merge" else None)),
    join_rows(_OWN_ROWS, _line_end(_OWN_TABLE)),
    ("vision_encoder.", "vision_language_adapter.", "patch_merger.", "pre_mm_projector_norm",
     _OWN_TABLE),
    sizes={"mm": size_of("mm.1.weight", "vision_language_adapter.w_in.weight"),
           "vocabulary": size_of(_OWN_TABLE)},
    rows_of=lambda config: join_rows(_OWN_ROWS, _line_end(_OWN_TABLE, config)),
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
        _GEMMA3, _SMOLVLM, _IDEFICS3, _MISTRAL, _LIGHTON, OWN_PIXTRAL,
        _INTERN, _LLAMA4, _MINICPM, _LFM2, _KIMI, _JANUS,
    )
)  # fmt: skip
