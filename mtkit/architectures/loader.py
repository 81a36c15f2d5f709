"""Which optional tensors llama.cpp's loader requires, and which it accepts.

By the rows of the families most tensors can have a bias, as a class of transformers may. The loader
accepts no tensor of a GGUF that it does not know, and requires others: what it requires or accepts
beyond weights is here, by the name of the architecture.

Source: llama.cpp, src/models (``load_arch_tensors``), llama-model.cpp (``create_tensor_qkv``);
tests/checks/test_loaded.py asks llama.cpp itself.
"""

from __future__ import annotations

from mtkit.architectures.table import BIAS, WEIGHT
from mtkit.base.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.architectures.table import Architecture, Row, Rows


class LoaderTensors(Record):
    """What the loader requires and accepts; names without ``blk.N.``, biases without ``.bias``.

    Attributes:
        wants: Biases that it requires, or without which it reads where nothing is (mamba-base.cpp).
        takes: Biases that it takes besides, apart from those of queries, keys and values.
        head: Whether it refuses a model without an output matrix.
        more: Whole names of tensors that no folder has.
        needs: Whole names of tensors that it requires in every layer, though a folder can lack
            them, or the converter leaves them out.
    """

    wants: str = ""
    takes: str = ""
    head: bool = False
    more: str = ""
    needs: str = ""


_GPT = "attn_norm attn_output attn_qkv ffn_down ffn_norm ffn_up output_norm"
_DENSE = "dense_2.weight dense_3.weight"
_OF_PICTURES = (
    "vis_attn_qkv.weight vis_attn_output.weight vis_gate.weight vis_down.weight vis_up.weight"
)
_BIASED = "attn_output ffn_down ffn_gate ffn_up"
_LOADERS = {
    "apertus": LoaderTensors(
        takes="attn_output", head=True, more="attn_q_norm.bias attn_k_norm.bias"
    ),
    "arwkv7": LoaderTensors(takes="time_mix_ln", head=True),
    "baichuan": LoaderTensors(head=True),
    "bailingmoe": LoaderTensors(head=True),
    "bailingmoe2": LoaderTensors(head=True),
    "bert": LoaderTensors(
        "attn_output_norm layer_output_norm token_embd_norm",
        "attn_output ffn_down ffn_up cls cls.output",
        more="cls.weight cls.bias cls.output.weight cls.output.bias",
    ),
    "bloom": LoaderTensors(f"{_GPT} token_embd_norm"),
    "codeshell": LoaderTensors(_GPT, head=True),
    "cogvlm": LoaderTensors(needs=_OF_PICTURES),
    "dbrx": LoaderTensors(head=True),
    "deci": LoaderTensors(takes=_BIASED, more="rope_freqs.weight"),
    "deepseek4": LoaderTensors(takes="exp_probs_b_vl", head=True),
    "dots1": LoaderTensors(head=True),
    "ernie4_5": LoaderTensors(takes="attn_output"),
    "ernie4_5-moe": LoaderTensors(takes="attn_output"),
    "exaone-moe": LoaderTensors(head=True),
    "falcon": LoaderTensors("attn_norm output_norm", "attn_norm_2"),
    "falcon-h1": LoaderTensors("ssm_conv1d", _BIASED),
    "gemma-embedding": LoaderTensors(more=_DENSE),
    "gemma3": LoaderTensors(more=_DENSE),
    "gemma3n": LoaderTensors(needs="attn_k.weight attn_k_norm.weight attn_v.weight"),
    "glm-dsa": LoaderTensors(takes="indexer.k_norm"),
    "glm5-next": LoaderTensors(takes="indexer.k_norm", head=True),
    "gpt-oss": LoaderTensors("attn_output", head=True),
    "gpt2": LoaderTensors(_GPT),
    "gptneox": LoaderTensors(_GPT, head=True),
    "granite": LoaderTensors(takes=_BIASED),
    "granitehybrid": LoaderTensors("ssm_conv1d", _BIASED),
    "granitemoe": LoaderTensors(takes="attn_output"),
    "hy_v4": LoaderTensors("indexer.k_norm", head=True),
    "jais": LoaderTensors(f"{_GPT} ffn_gate", head=True),
    "jais2": LoaderTensors(
        "attn_k attn_norm attn_output attn_q attn_v ffn_down ffn_norm ffn_up output_norm"
    ),
    "jamba": LoaderTensors("ssm_conv1d"),
    "jina-bert-v2": LoaderTensors(
        "attn_output attn_output_norm ffn_down layer_output_norm token_embd_norm",
        "attn_k_norm attn_norm_2 attn_q_norm cls ffn_up",
    ),
    "kimi-k3": LoaderTensors(head=True),
    "kimi-linear": LoaderTensors(head=True),
    "lfm2": LoaderTensors(more="dense_2.weight dense_2.bias"),
    "lfm2moe": LoaderTensors("exp_probs_b", more="dense_2.weight dense_2.bias"),
    "llada-moe": LoaderTensors(head=True),
    "llama": LoaderTensors(takes=_BIASED, more="rope_freqs.weight"),
    "llama-embed": LoaderTensors(takes=_BIASED, more="rope_freqs.weight"),
    "mamba": LoaderTensors("ssm_conv1d"),
    "mamba2": LoaderTensors("ssm_conv1d"),
    "maple": LoaderTensors(head=True),
    "mellum": LoaderTensors(head=True),
    "mimo2": LoaderTensors(head=True),
    "minimax-m2": LoaderTensors(head=True),
    "minimax-m3": LoaderTensors(head=True),
    "modern-bert": LoaderTensors(takes="cls.output"),
    "mpt": LoaderTensors(takes=f"{_GPT} attn_q_norm attn_k_norm"),
    "muse-glimmer": LoaderTensors(head=True),
    "nemotron": LoaderTensors(takes="attn_output ffn_down ffn_up", head=True),
    "nemotron_h": LoaderTensors("ssm_conv1d", "attn_output ffn_down ffn_up"),
    "nemotron_h_moe": LoaderTensors("ssm_conv1d", "attn_output"),
    "neo-bert": LoaderTensors(takes="cls cls.output"),
    "nomic-bert": LoaderTensors(takes="attn_output ffn_down ffn_up"),
    "nomic-bert-moe": LoaderTensors(takes="attn_output ffn_down ffn_up"),
    "olmo2": LoaderTensors(head=True),
    "olmoe": LoaderTensors(head=True),
    "orion": LoaderTensors("attn_norm ffn_norm output_norm", head=True),
    "pangu-embedded": LoaderTensors("attn_output"),
    "phi2": LoaderTensors("attn_norm attn_output ffn_down ffn_up output output_norm", head=True),
    "phimoe": LoaderTensors("attn_norm attn_output ffn_norm output output_norm", head=True),
    "qwen": LoaderTensors(head=True),
    "qwen2": LoaderTensors(takes="output"),
    "qwen2moe": LoaderTensors(head=True),
    "qwen3": LoaderTensors(more="cls.output.weight"),
    "rwkv6qwen2": LoaderTensors(
        takes="output_norm time_mix_key time_mix_receptance time_mix_value", head=True
    ),
    "stablelm": LoaderTensors("attn_norm output_norm", "ffn_norm", head=True),
    "starcoder": LoaderTensors(_GPT),
    "starcoder2": LoaderTensors("attn_norm attn_output ffn_down ffn_norm ffn_up output_norm"),
    "step35": LoaderTensors(head=True),
    "xverse": LoaderTensors(head=True),
}
_EVERYWHERE = "attn_q attn_k attn_v attn_qkv"
_HEAD = f"output{WEIGHT}"
_SCALES = (".scale", ".input_scale")
"""Ends of tensors that a matrix of the type NVFP4 can have beside it."""


def with_loader_rows(architecture: Architecture) -> Architecture:
    """Return an architecture with the optional rows that its loader wants, or takes."""
    loaded = _LOADERS.get(architecture.name, LoaderTensors())
    return replace(
        architecture,
        rows=tuple(_loader_rows(architecture.rows, loaded)),
        packed=tuple(_loader_rows(architecture.packed, loaded)),
    )


def _loader_rows(rows: Rows, loaded: LoaderTensors) -> Iterable[Row]:
    wants, takes = loaded.wants.split(), (*_EVERYWHERE.split(), *loaded.takes.split())
    for row in rows:
        bases = [name_in_layer(name).removesuffix(BIAS) for name in row.gguf]
        if not row.optional:
            yield row
        elif loaded.head and row.gguf == (_HEAD,):
            yield replace(row, optional=False)
        elif not row.gguf[0].endswith(BIAS):
            yield row
        elif all(name in wants for name in bases):
            yield replace(row, optional=False)
        elif all(name in takes for name in bases):
            yield row


def name_in_layer(name: str) -> str:
    """Return the name of a tensor in its layer."""
    parts = name.split(".", 2)
    return parts[2] if parts[0] == "blk" and len(parts) == 3 else name


def is_loaded(architecture: str, name: str, names: Iterable[str]) -> bool:
    """Tell whether the loader takes a tensor that no row has."""
    for end in _SCALES:
        if name.endswith(end):
            return name.removesuffix(end) + WEIGHT in names
    loaded = _LOADERS.get(architecture, LoaderTensors())
    return name_in_layer(name) in (*loaded.more.split(), *loaded.needs.split())


def needed_names(architecture: str) -> list[str]:
    """Return the names in a layer of tensors that the loader requires though a folder can lack."""
    return _LOADERS.get(architecture, LoaderTensors()).needs.split()
