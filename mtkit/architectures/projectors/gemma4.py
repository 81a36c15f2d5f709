"""The projector of Gemma 4: an encoder of pictures and, in small models, a conformer for sound.

Its matrices may have limits of what goes in and comes out, four numbers each.

Source: llama.cpp, conversion/gemma.py (``Gemma4VisionAudioModel``).
"""

from __future__ import annotations

from math import isqrt

from mtkit.architectures.changes import Change, Computed, Reshaped
from mtkit.architectures.metadata import always, computed, with_keys
from mtkit.architectures.projectors.rows import (
    AUDIO,
    AUDIO_KEYS,
    VISION,
    VISION_KEYS,
    Projector,
    TilesLast,
    counted,
    encoder,
    epsilon,
    layers,
    size_of,
)
from mtkit.architectures.table import Rows, block, exact, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.metadata import Dims

_CLASS = "Gemma4ForConditionalGeneration"
_SEES, _HEARS = "model.vision_tower.", "model.audio_tower."
_LIMITS = ("input_max", "input_min", "output_max", "output_min")


def _limited(folder: str, start: str, **names: tuple[str, str]) -> Rows:
    """Return the rows of matrices of each layer, and of their limits.

    Args:
        names: Of a matrix in the GGUF -> in the folder, and its axes.
    """
    numbers = (
        plain(f"{name}.{limit}", f"{key}.{limit}", "1", Reshaped(""), optional=True)
        for key, (name, _) in names.items()
        for limit in _LIMITS
    )
    matrices = (row(name, key, axes, bias=False) for key, (name, axes) in names.items())
    return block(folder, *matrices, *numbers, gguf=f"{start}blk.{{i}}.")


def _renamed(name: str) -> str:
    new = name.replace(".linear.weight", ".weight")
    scales = ("layer_scalar", "position_embedding_table", "per_dim_scale", "per_dim_key_scale")
    return f"{new}.weight" if new.endswith(scales) else new


def _softplus(array: Any) -> Any:
    import numpy as np

    return np.logaddexp(0, array.astype(np.float64)).astype(np.float32)


def _inverse(array: Any) -> Any:
    import numpy as np

    return np.log(np.expm1(array))


_TABLE = f"{_SEES}patch_embedder.position_embedding_table.weight"
_SEEING = encoder(
    VISION, _CLASS,
    (*with_keys(VISION_KEYS, always("image_size", "u32", 224)),
     always("projector_type", "string", "gemma4v"), epsilon(1e-6)),
    join_rows(
        plain(f"{_SEES}patch_embedder.input_proj.weight", "v.patch_embd.weight",
              "embd 3 patch patch", TilesLast()),
        exact(plain(_TABLE, "v.position_embd.weight", "2 position embd")),
        layers(f"{_SEES}encoder.layers.{{i}}.", ln1="input_layernorm",
               ln2="pre_feedforward_layernorm", attn_post_norm="post_attention_layernorm",
               ffn_post_norm="post_feedforward_layernorm", attn_q_norm="self_attn.q_norm",
               attn_k_norm="self_attn.k_norm"),
        _limited(f"{_SEES}encoder.layers.{{i}}.", "v.",
                 attn_q=("self_attn.q_proj", "q embd"), attn_k=("self_attn.k_proj", "k embd"),
                 attn_v=("self_attn.v_proj", "k embd"), attn_out=("self_attn.o_proj", "embd q"),
                 ffn_gate=("mlp.gate_proj", "ff embd"), ffn_up=("mlp.up_proj", "ff embd"),
                 ffn_down=("mlp.down_proj", "embd ff")),
        plain(f"{_SEES}encoder.layers.{{i}}.layer_scalar.weight", "v.blk.{i}.out_scale.weight",
              "1", optional=True),
        *(plain(f"{_SEES}{name}", f"v.{name}", "embd", optional=True)
          for name in ("std_bias", "std_scale")),
        row("model.embed_vision.embedding_projection", "mm.input_projection", "out embd",
            bias=False),
    ),
    (_SEES, "model.embed_vision."),
    sizes={"position": size_of("v.position_embd.weight", _TABLE, axis=1
           ),
           "key": size_of("v.blk.0.attn_q_norm.weight",
                          f"{_SEES}encoder.layers.0.self_attn.q_norm.weight"),
           "k": size_of("v.blk.0.attn_k.weight",
                        f"{_SEES}encoder.layers.0.self_attn.k_proj.weight")},
    defaults={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16,
              "num_attention_heads": 12, "patch_size": 16},
    renamed=_renamed,
)  # fmt: skip
_STEPS = f"{_HEARS}subsample_conv_projection."


def _norms(**names: str) -> Rows:
    rows = (row(name, key, "embd", bias=False) for key, name in names.items())
    return block(f"{_HEARS}layers.{{i}}.", *rows, gguf="a.blk.{i}.")


_HEARING = encoder(
    AUDIO, _CLASS,
    (*with_keys(AUDIO_KEYS, computed("feed_forward_length", "u32",
                                     lambda config: 4 * config.count("hidden_size"))),
     always("projector_type", "string", "gemma4a"),
     computed("num_mel_bins", "u32", lambda config: config.whole("input_feat_size") or 128),
     epsilon(1e-6)),
    join_rows(
        exact(
            plain(f"{_STEPS}layer0.conv.weight", "a.conv1d.0.weight", "first 1 3 3"),
            plain(f"{_STEPS}layer1.conv.weight", "a.conv1d.1.weight", "second first 3 3"),
            row(f"{_STEPS}input_proj_linear", "a.input_projection", "embd flat", bias=False),
            plain(f"{_HEARS}layers.{{i}}.lconv1d.depthwise_conv1d.weight",
                  "a.blk.{i}.conv_dw.weight", "embd kernel", Reshaped("embd 1 kernel")),
        ),
        row(f"{_STEPS}layer0.norm", "a.conv1d.0.norm", "first", bias=False),
        row(f"{_STEPS}layer1.norm", "a.conv1d.1.norm", "second", bias=False),
        _limited(f"{_HEARS}layers.{{i}}.", "a.",
                 ffn_up=("feed_forward1.ffw_layer_1", "ff embd"),
                 ffn_down=("feed_forward1.ffw_layer_2", "embd ff"),
                 ffn_up_1=("feed_forward2.ffw_layer_1", "ff embd"),
                 ffn_down_1=("feed_forward2.ffw_layer_2", "embd ff"),
                 conv_pw1=("lconv1d.linear_start", "embd*2 embd"),
                 conv_pw2=("lconv1d.linear_end", "embd embd"),
                 attn_q=("self_attn.q_proj", "embd embd"),
                 attn_k=("self_attn.k_proj", "embd embd"),
                 attn_v=("self_attn.v_proj", "embd embd"),
                 attn_out=("self_attn.post", "embd embd"),
                 attn_k_rel=("self_attn.relative_k_proj", "embd embd")),
        _norms(ffn_norm="feed_forward1.pre_layer_norm",
               ffn_post_norm="feed_forward1.post_layer_norm",
               ffn_norm_1="feed_forward2.pre_layer_norm",
               ffn_post_norm_1="feed_forward2.post_layer_norm",
               conv_norm="lconv1d.pre_layer_norm", norm_conv="lconv1d.conv_norm", ln2="norm_out",
               attn_post_norm="norm_post_attn", attn_pre_norm="norm_pre_attn"),
        plain(f"{_HEARS}layers.{{i}}.self_attn.per_dim_scale.weight",
              "a.blk.{i}.per_dim_scale.weight", "key", Computed(_softplus, _inverse, 1)),
        row(f"{_HEARS}output_proj", "a.pre_encode.out", "wide embd"),
        row("model.embed_audio.embedding_projection", "mm.a.input_projection", "out wide",
            bias=False),
    ),
    (_HEARS, "model.embed_audio."),
    sizes={"embd*2": lambda dims: 2 * dims["embd"],
           "first": size_of("a.conv1d.0.weight", f"{_STEPS}layer0.conv.weight"),
           "second": size_of("a.conv1d.1.weight", f"{_STEPS}layer1.conv.weight"),
           "flat": size_of("a.input_projection.weight", f"{_STEPS}input_proj_linear.weight",
                           axis=1),
           "kernel": size_of("a.blk.0.conv_dw.weight",
                             f"{_HEARS}layers.0.lconv1d.depthwise_conv1d.weight", axis=-1),
           "wide": size_of("a.pre_encode.out.weight", f"{_HEARS}output_proj.weight")},
    defaults={"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8},
    renamed=_renamed,
)  # fmt: skip


class _ColorsFirst(Change):
    """Lines of pixels with the colors last, which llama.cpp has first; a bias likewise."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shape."""
        return list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Move the colors."""
        import numpy as np

        (array,) = arrays
        side = isqrt(array.shape[-1] // 3)
        square = array.reshape(*array.shape[:-1], side, side, 3)
        return [np.moveaxis(square, -1, -3).reshape(array.shape)]


class _AxesFirst(Change):
    """Positions with the two axes of a picture second, which the GGUF has first."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape with both axes exchanged."""
        first, second, *rest = shapes[0]
        return [(second, first, *rest)]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Exchange them."""
        return [arrays[0].swapaxes(0, 1)]


_UNIFIED, _EMBEDDER = "Gemma4UnifiedForConditionalGeneration", "model.vision_embedder."
_PLACES = f"{_EMBEDDER}pos_embedding.weight"
_NONE = tuple(
    always(name, "u32", 0)
    for name in ("feed_forward_length", "block_count", "attention.head_count")
)
"""There is no transformer."""
_UNIFIED_SEEING = encoder(
    VISION, _UNIFIED,
    (*with_keys(VISION_KEYS, always("image_size", "u32", 224),
                counted("embedding_length", "mm_embed_dim"), *_NONE),
     always("projector_type", "string", "gemma4uv"), epsilon(1e-6)),
    join_rows(
        row(f"{_EMBEDDER}patch_dense", "v.patch_embd", "embd lines", _ColorsFirst(), bias=False),
        plain(f"{_EMBEDDER}patch_dense.bias", "v.patch_embd.bias", "embd", optional=True),
        row(f"{_EMBEDDER}patch_ln1", "v.patch_norm.1", "lines", _ColorsFirst()),
        row(f"{_EMBEDDER}patch_ln2", "v.patch_norm.2", "embd"),
        row(f"{_EMBEDDER}pos_norm", "v.patch_norm.3", "embd"),
        plain(_PLACES, "v.position_embd.weight", "2 position embd", _AxesFirst()),
        row("model.embed_vision.embedding_projection", "mm.input_projection", "out embd",
            bias=False),
    ),
    (_EMBEDDER, "model.embed_vision."),
    sizes={"lines": size_of("v.patch_embd.weight", f"{_EMBEDDER}patch_dense.weight", axis=1),
           "position": lambda dims: size_of("v.position_embd.weight", axis=1)(dims)
           or size_of(_PLACES)(dims)},
    defaults={"patch_size": 16},
    renamed=lambda name: f"{name}.weight" if name.endswith("pos_embedding") else name,
)  # fmt: skip
_UNIFIED_HEARING = encoder(
    AUDIO, _UNIFIED,
    (*with_keys(AUDIO_KEYS, counted("embedding_length", "audio_embed_dim"), *_NONE),
     always("projector_type", "string", "gemma4ua"),
     computed("num_mel_bins", "u32", lambda config: config.whole("input_feat_size") or 128),
     epsilon(1e-6)),
    row("model.embed_audio.embedding_projection", "mm.a.input_projection", "out embd", bias=False),
    ("model.embed_audio.",),
)  # fmt: skip
PROJECTORS = (
    Projector((_CLASS,), (_SEEING, _HEARING)),
    Projector((_UNIFIED,), (_UNIFIED_SEEING, _UNIFIED_HEARING)),
)
