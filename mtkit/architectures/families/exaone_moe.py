"""K-EXAONE, a mixture of experts, and the text part of EXAONE 4.5; both predict further tokens.

Names in a GGUF: "exaone4".

Source: llama.cpp, conversion/exaone.py (``ExaoneMoEModel``, ``Exaone4_5_TextModel``);
transformers, models/exaone_moe, models/exaone4_5.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    FEED_FORWARD,
    HEAD_NORMS,
    NORMS,
    attention,
    decoder,
    default_fields,
)
from mtkit.architectures.expert_rows import ROUTED, ROUTING_KEYS
from mtkit.architectures.families.exaone import EXAONE_4, defaults
from mtkit.architectures.metadata import always, computed, u32, with_keys
from mtkit.architectures.next_tokens import (
    NEXT_DIMS,
    hidden_layers,
    is_first_next,
    is_next,
    next_keys,
)
from mtkit.architectures.table import (
    Architecture,
    block,
    in_layers,
    join_rows,
    row,
)
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

_PREFIX = "model.layers.{i}."


def _with_next(rows: Rows, further: Rows) -> Rows:
    """Return rows with those of the layers behind the last, which a folder counts anew."""
    layers = tuple(row for row in rows if row.gguf[0].startswith("blk."))
    whole = tuple(row for row in rows if row not in layers)
    return join_rows(
        whole,
        in_layers(lambda dims: not is_next(dims), layers),
        in_layers(is_next, block("mtp.layers.{n}.", further)),
        in_layers(
            is_first_next,
            block(
                "mtp.",
                row("fc", "nextn.eh_proj", "embd 2embd", bias=False),
                row("pre_fc_norm_embedding", "nextn.enorm", "embd", bias=False),
                row("pre_fc_norm_hidden", "nextn.hnorm", "embd", bias=False),
                row("norm", "nextn.shared_head_norm", "embd", bias=False),
            ),
        ),
    )


def _next_or_zero(config: Config) -> int:
    return config.whole("num_nextn_predict_layers") or 0


def _shared_width(config: Config) -> int:
    return config.count("moe_intermediate_size") * (config.whole("num_shared_experts") or 0)


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    fields = {**(EXAONE_4.config(dims, tensor) if EXAONE_4.config else {}), **hidden_layers(dims)}
    kinds = fields.get("layer_types")
    return {**fields, "layer_types": kinds[: fields["num_hidden_layers"]]} if kinds else fields


_ROUTED = tuple(
    replace(r, folder=("mlp.e_score_correction_bias",)) if "exp_probs_b.bias" in r.gguf else r
    for r in ROUTED
)
EXAONE_MOE = Architecture(
    "exaone-moe",
    ("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"),
    "exaone_moe",
    (
        *with_keys(
            EXAONE_4.keys,
            *ROUTING_KEYS,
            *next_keys(),
            computed("nextn_predict_layers", "u32", _next_or_zero, "num_nextn_predict_layers"),
            u32("leading_dense_block_count", "first_k_dense_replace", "first_last_k_dense_replace"),
            u32("expert_shared_count", "num_shared_experts"),
            always("rope.scaling.type", "string", "none"),
        ),
        computed("expert_shared_feed_forward_length", "u32", _shared_width),
    ),
    _with_next(
        decoder(NORMS, attention(), HEAD_NORMS, _ROUTED),
        join_rows(NORMS, attention(), HEAD_NORMS, FEED_FORWARD),
    ),
    defaults=lambda config: {
        **defaults(config),
        **default_fields(
            2048, num_key_value_heads=32, first_k_dense_replace=1, moe_intermediate_size=1024,
            num_shared_experts=1, routed_scaling_factor=2.5, norm_topk_prob=True,
        )(config),
    },
    dims=NEXT_DIMS,
    config=_config,
)  # fmt: skip
_NEXT_LAYER = tuple(
    replace(r, folder=tuple(n.removeprefix(_PREFIX) for n in r.folder),
            gguf=tuple(n.removeprefix("blk.{i}.") for n in r.gguf))
    for r in EXAONE_4.rows if r.gguf[0].startswith("blk.")
)  # fmt: skip
EXAONE_4_5 = replace(
    EXAONE_4,
    classes=("Exaone4_5_ForConditionalGeneration",),
    model_type="exaone4_5_text",
    keys=with_keys(EXAONE_4.keys, *next_keys()),
    rows=_with_next(EXAONE_4.rows, _NEXT_LAYER),
    fits=lambda dims: dims.key("nextn_predict_layers", 0) > 0,
    dims=NEXT_DIMS,
    config=_config,
)
