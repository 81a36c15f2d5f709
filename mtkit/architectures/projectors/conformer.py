"""Projectors that hear with conformers: LFM2-Audio's and Granite Speech's.

Source: llama.cpp, conversion/gemma.py (``ConformerAudioModel``), lfm2.py, granite.py.
"""

from __future__ import annotations

from mtkit.architectures.changes import Change, Reshaped, Split
from mtkit.architectures.metadata import always, computed, with_keys
from mtkit.architectures.projectors.rows import (
    AUDIO,
    AUDIO_KEYS,
    MODEL,
    Projector,
    counted,
    encoder,
    kind,
    size_of,
)
from mtkit.architectures.table import Rows, block, exact, join_rows, optional, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow

_EPSILON = always("attention.layer_norm_epsilon", "f32", 1e-5)


class _Folded(Change):
    """A batch norm as a weight and a bias: mean and variance are computed into them."""

    computes = True
    keeps_order = False
    slack = 1

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of each of the four."""
        return [shapes[0]] * count

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Compute them; 1e-5 is what PyTorch adds to the variance."""
        import numpy as np

        weight, bias, mean, variance = arrays
        factor = weight / np.sqrt(variance + np.float32(1e-5))
        return [factor, bias - mean * factor]


def _batch_norm(folder: str, gguf: str, axis: str) -> Rows:
    names = " ".join(
        f"{folder}.{part}" for part in ("weight", "bias", "running_mean", "running_var")
    )
    return plain(names, f"{gguf}.weight {gguf}.bias", f"{axis}, {axis}", _Folded())


def _norms(*pairs: tuple[str, str]) -> Rows:
    return join_rows(*(row(folder, gguf, "embd") for folder, gguf in pairs))


_LFM, _STEPS = "conformer.", "conformer.pre_encode."
_LFM2 = encoder(
    AUDIO, "Lfm2AudioForConditionalGeneration",
    (*with_keys(AUDIO_KEYS, counted("embedding_length", "d_model"),
                counted("feed_forward_length", "d_model"),
                counted("attention.head_count", "n_heads")),
     kind("lfm2a"), counted("num_mel_bins", "feat_in"), _EPSILON),
    join_rows(
        exact(
            *(plain(f"{_STEPS}conv.{number}.weight", f"a.conv1d.{number}.weight",
                    f"{out} {width} {kernel}") for number, out, width, kernel in
              ((0, "wide", "1", "3 3"), (2, "wide", "1", "3 3"), (3, "wide", "wide", "1 1"),
               (5, "wide", "1", "3 3"), (6, "wide", "wide", "1 1"))),
            *(plain(f"{_STEPS}conv.{number}.bias", f"a.conv1d.{number}.bias", "wide 1 1",
                    Reshaped("wide")) for number in (0, 2, 3, 5, 6)),
        ),
        row(f"{_STEPS}out", "a.pre_encode.out", "embd flat"),
        block(
            f"{_LFM}layers.{{i}}.",
            _norms(("norm_feed_forward1", "ffn_norm"), ("norm_feed_forward2", "ffn_norm_1"),
                   ("norm_conv", "norm_conv"), ("norm_self_att", "ln1"), ("norm_out", "ln2")),
            *(rows for number, end in ((1, ""), (2, "_1")) for rows in (
                row(f"feed_forward{number}.linear1", f"ffn_up{end}", "inner embd"),
                row(f"feed_forward{number}.linear2", f"ffn_down{end}", "embd inner"))),
            *(row(f"self_attn.linear_{key}", f"attn_{key}", "embd embd")
              for key in ("q", "k", "v", "out")),
            row("self_attn.linear_pos", "linear_pos", "embd embd"),
            *(plain(f"self_attn.pos_bias_{part}", f"pos_bias_{part}", "head key")
              for part in "uv"),
            exact(
                plain("conv.pointwise_conv1.weight", "conv_pw1.weight", "embd*2 embd",
                      Reshaped("embd*2 embd 1")),
                plain("conv.pointwise_conv2.weight", "conv_pw2.weight", "embd embd",
                      Reshaped("embd embd 1")),
                plain("conv.depthwise_conv.weight", "conv_dw.weight", "embd kernel",
                      Reshaped("embd 1 kernel")),
            ),
            optional(plain("conv.pointwise_conv1.bias", "conv_pw1.bias", "embd*2"),
                     plain("conv.pointwise_conv2.bias", "conv_pw2.bias", "embd"),
                     plain("conv.depthwise_conv.bias", "conv_dw.bias", "embd")),
            _batch_norm("conv.batch_norm", "conv_norm", "embd"),
            gguf="a.blk.{i}.",
        ),
        row("audio_adapter.model.0", "mm.a.mlp.0", "embd"),
        row("audio_adapter.model.1", "mm.a.mlp.1", "mm embd"),
        row("audio_adapter.model.3", "mm.a.mlp.3", "out mm"),
        row("audio_embedding.embedding", "a.position_embd", "codes out"),
        row("audio_embedding.embedding_norm", "a.position_embd_norm", "out"),
        row("audio_embedding.to_logits", "a.embd_to_logits", "codes out"),
    ),
    (_LFM, "audio_adapter.", "audio_embedding."),
    sizes={"embd*2": lambda dims: 2 * dims["embd"],
           "wide": size_of("a.conv1d.0.weight", f"{_STEPS}conv.0.weight"),
           "flat": size_of("a.pre_encode.out.weight", f"{_STEPS}out.weight", axis=1),
           "inner": size_of("a.blk.0.ffn_up.weight",
                            f"{_LFM}layers.0.feed_forward1.linear1.weight"),
           "kernel": size_of("a.blk.0.conv_dw.weight",
                             f"{_LFM}layers.0.conv.depthwise_conv.weight", axis=-1),
           "mm": size_of("mm.a.mlp.1.weight", "audio_adapter.model.1.weight"),
           "codes": size_of("a.position_embd.weight", "audio_embedding.embedding.weight")},
    without=("num_batches_tracked",),
)  # fmt: skip


def _of_model(key: str, field: str) -> KeyRow:
    return computed(key, "u32", lambda config: config.table(MODEL).count(field))


def _query_heads(config: Config) -> int:
    return config.table(MODEL).table("projector_config").count("num_attention_heads")


def _joined_layers(config: Config) -> list[int] | None:
    """Return the layers whose outputs stand beside that of the last one."""
    layers = config.get("cat_hidden_layers")
    if not layers:
        return None
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise config.wrong("is not a list of layers", "cat_hidden_layers")
    return layers


def _attention(folder: str, gguf: str, width: str) -> Rows:
    return join_rows(
        row(f"{folder}.attention.query", f"{gguf}_q", "query query"),
        row(f"{folder}.attention.key", f"{gguf}_k", f"query {width}"),
        row(f"{folder}.attention.value", f"{gguf}_v", f"query {width}"),
        row(f"{folder}.output.dense", f"{gguf}_out", "query query"),
        row(f"{folder}.output.LayerNorm", f"{gguf}_norm", "query"),
    )


_FIRST = "projector.qformer.encoder.layer.0."
_GRANITE = encoder(
    AUDIO, "GraniteSpeechForConditionalGeneration GraniteSpeechPlusForConditionalGeneration",
    (*with_keys(AUDIO_KEYS, counted("embedding_length", "hidden_dim"),
                computed("feed_forward_length", "u32", lambda config: config.count(
                    "hidden_dim") * config.count("feedforward_mult")),
                counted("attention.head_count", "num_heads")),
     kind("granite_speech"), counted("num_mel_bins", "input_dim"), _EPSILON,
     counted("chunk_size", "context_size"), counted("conv_kernel_size"), counted("max_pos_emb"),
     _of_model("projector.window_size", "window_size"),
     _of_model("projector.downsample_rate", "downsample_rate"),
     computed("projector.head_count", "u32", _query_heads),
     computed("feature_layer", "i32[]", _joined_layers)),
    join_rows(
        row("encoder.input_linear", "a.input_projection", "embd mel"),
        row("encoder.out", "a.enc_ctc_out", "letters embd"),
        row("encoder.out_mid", "a.enc_ctc_out_mid", "embd letters"),
        block(
            "encoder.layers.{i}.",
            _norms(("ff1.pre_norm", "ffn_norm"), ("ff2.pre_norm", "ffn_norm_1"),
                   ("attn.pre_norm", "ln1"), ("conv.norm", "norm_conv"), ("post_norm", "ln2")),
            *(rows for number, end in ((1, ""), (2, "_1")) for rows in (
                row(f"ff{number}.up_proj", f"ffn_up{end}", "ff embd"),
                row(f"ff{number}.down_proj", f"ffn_down{end}", "embd ff"))),
            row("attn.to_q", "attn_q", "inside embd"),
            row("attn.to_kv", "attn_k attn_v", "inside embd, inside embd", Split(-2), bias=False),
            row("attn.to_out", "attn_out", "embd inside"),
            plain("attn.rel_pos_emb.weight", "attn_rel_pos_emb", "places key"),
            exact(
                plain("conv.up_conv.weight", "conv_pw1.weight", "wide*2 embd",
                      Reshaped("wide*2 embd 1")),
                plain("conv.down_conv.weight", "conv_pw2.weight", "embd wide",
                      Reshaped("embd wide 1")),
                plain("conv.depth_conv.conv.weight", "conv_dw.weight", "wide kernel",
                      Reshaped("wide 1 kernel")),
            ),
            optional(plain("conv.up_conv.bias", "conv_pw1.bias", "wide*2"),
                     plain("conv.down_conv.bias", "conv_pw2.bias", "embd")),
            # The converter calls it conv_norm_var, which clip.cpp does not know.
            _batch_norm("conv.batch_norm", "conv_norm", "wide"),
            gguf="a.blk.{i}.",
        ),
        plain("projector.query", "a.proj_query", "1 queries query"),
        row("projector.qformer.layernorm", "a.proj_norm", "query"),
        optional(block(
            "projector.qformer.encoder.layer.{i}.",
            _attention("attention", "self_attn", "query"),
            _attention("crossattention", "cross_attn", "joined"),
            row("intermediate_query.dense", "ffn_up", "query_ff query"),
            row("output_query.dense", "ffn_down", "query query_ff"),
            row("output_query.LayerNorm", "ffn_norm", "query"),
            gguf="a.proj_blk.{i}.",
        )),
        row("projector.linear", "a.proj_linear", "out query"),
    ),
    ("encoder.", "projector."),
    sizes={"mel": lambda dims: dims.key("num_mel_bins"),
           "letters": size_of("a.enc_ctc_out.weight", "encoder.out.weight"),
           "inside": size_of("a.blk.0.attn_q.weight", "encoder.layers.0.attn.to_q.weight"),
           "places": size_of("a.blk.0.attn_rel_pos_emb",
                             "encoder.layers.0.attn.rel_pos_emb.weight"),
           "key": lambda dims: dims["inside"] // max(dims["head"], 1),
           "wide": size_of("a.blk.0.conv_dw.weight",
                           "encoder.layers.0.conv.depth_conv.conv.weight"),
           "wide*2": lambda dims: 2 * dims["wide"],
           "kernel": lambda dims: dims.key("conv_kernel_size"),
           "queries": size_of("a.proj_query", "projector.query", axis=1),
           "query": size_of("a.proj_norm.weight", "projector.qformer.layernorm.weight"),
           "joined": size_of("a.proj_blk.0.cross_attn_k.weight",
                             f"{_FIRST}crossattention.attention.key.weight", axis=1),
           "query_ff": size_of("a.proj_blk.0.ffn_up.weight",
                               f"{_FIRST}intermediate_query.dense.weight")},
    without=("attention_dists", "num_batches_tracked"),
)  # fmt: skip

PROJECTORS = tuple(Projector(part.classes, (part,)) for part in (_LFM2, _GRANITE))
