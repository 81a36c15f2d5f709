"""Which of the tensors that a model may have llama.cpp's loader asks for, and which it refuses.

The rows of the families say that most tensors can have a bias, as a class of transformers may. Of
a GGUF the loader takes no tensor that it does not know and misses each that it wants: what it wants
or takes beyond weights is here, by the name of the architecture.

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


class Loaded(Record):
    """What the loader does beside the rows; names without ``blk.N.``, biases without their end.

    Attributes:
        wants: Biases without which it refuses a model.
        takes: Biases that it takes besides, apart from those of queries, keys and values.
        head: Whether it refuses a model without an output matrix.
        more: Whole names of tensors that no folder has.
    """

    wants: str = ""
    takes: str = ""
    head: bool = False
    more: str = ""


_GPT = "attn_norm attn_output attn_qkv ffn_down ffn_norm ffn_up output_norm"
_DENSE = "dense_2.weight dense_3.weight"
_LOADED = {
    "apertus": Loaded(takes="attn_output", head=True, more="attn_q_norm.bias attn_k_norm.bias"),
    "bert": Loaded(
        "attn_output_norm layer_output_norm token_embd_norm",
        "attn_output ffn_down ffn_up cls cls.output",
        more="cls.weight cls.bias cls.output.weight cls.output.bias",
    ),
    "bloom": Loaded(f"{_GPT} token_embd_norm"),
    "ernie4_5": Loaded(takes="attn_output"),
    "ernie4_5-moe": Loaded(takes="attn_output"),
    "falcon": Loaded("attn_norm output_norm", "attn_norm_2"),
    "gemma-embedding": Loaded(more=_DENSE),
    "gemma3": Loaded(more=_DENSE),
    "gpt-oss": Loaded("attn_output", head=True),
    "gpt2": Loaded(_GPT),
    "gptneox": Loaded(_GPT, head=True),
    "granite": Loaded(takes="attn_output ffn_down ffn_gate ffn_up"),
    "granitemoe": Loaded(takes="attn_output"),
    "lfm2": Loaded(more="dense_2.weight dense_2.bias"),
    "lfm2moe": Loaded("exp_probs_b", more="dense_2.weight dense_2.bias"),
    "llama": Loaded(takes="attn_output ffn_down ffn_gate ffn_up", more="rope_freqs.weight"),
    "mamba": Loaded("ssm_conv1d"),
    "mpt": Loaded(takes=f"{_GPT} attn_q_norm attn_k_norm"),
    "nemotron": Loaded(takes="attn_output ffn_down ffn_up", head=True),
    "olmo2": Loaded(head=True),
    "olmoe": Loaded(head=True),
    "phi2": Loaded("attn_norm attn_output ffn_down ffn_up output output_norm", head=True),
    "phimoe": Loaded("attn_norm attn_output ffn_norm output output_norm", head=True),
    "qwen2": Loaded(takes="output"),
    "qwen2moe": Loaded(head=True),
    "qwen3": Loaded(more="cls.output.weight"),
    "stablelm": Loaded("attn_norm output_norm", "ffn_norm", head=True),
    "starcoder": Loaded(_GPT),
    "starcoder2": Loaded("attn_norm attn_output ffn_down ffn_norm ffn_up output_norm"),
}
_EVERYWHERE = "attn_q attn_k attn_v attn_qkv"
_HEAD = f"output{WEIGHT}"
_SCALES = (".scale", ".input_scale")
"""Ends of tensors that a matrix of the type NVFP4 can have beside it."""


def as_loaded(architecture: Architecture) -> Architecture:
    """Return an architecture with the optional rows that its loader wants, or takes."""
    loaded = _LOADED.get(architecture.name, Loaded())
    return replace(
        architecture,
        rows=tuple(_held(architecture.rows, loaded)),
        packed=tuple(_held(architecture.packed, loaded)),
    )


def _held(rows: Rows, loaded: Loaded) -> Iterable[Row]:
    wants, takes = loaded.wants.split(), (*_EVERYWHERE.split(), *loaded.takes.split())
    for row in rows:
        bases = [base(name).removesuffix(BIAS) for name in row.gguf]
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


def base(name: str) -> str:
    """Return the name of a tensor in its layer."""
    parts = name.split(".", 2)
    return parts[2] if parts[0] == "blk" and len(parts) == 3 else name


def is_taken(architecture: str, name: str, names: Iterable[str]) -> bool:
    """Tell whether the loader takes a tensor that no row has.

    Args:
        architecture: Name of the architecture.
        name: Of the tensor.
        names: Of all tensors of the model.
    """
    for end in _SCALES:
        if name.endswith(end):
            return name.removesuffix(end) + WEIGHT in names
    return base(name) in _LOADED.get(architecture, Loaded()).more.split()
