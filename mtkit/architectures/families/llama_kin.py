"""Models with the tensors of Llama: InternLM 3, IQuest Coder, openPangu, Nanbeige 4.2.

Names in a GGUF: "llama".

Source: llama.cpp, conversion/pangu.py, conversion/nanbeige.py.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    FEED_FORWARD,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.families.llama import DEFAULTS, KEYS, LLAMA
from mtkit.architectures.metadata import computed, head_dim, with_keys
from mtkit.architectures.table import Architecture, tied_head
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


def _loops(config: Config) -> int:
    return config.whole("num_loops") or 1


OWN_CODE = replace(
    LLAMA, classes=("InternLM3ForCausalLM", "IQuestCoderForCausalLM"), defaults=DEFAULTS
)
PANGU_EMBEDDED = Architecture(
    "pangu-embedded",
    ("PanguEmbeddedForCausalLM",),
    "PanguEmbedded",
    with_keys(
        KEYS,
        computed("attention.key_length", "u32", head_dim, "head_dim"),
        computed("attention.value_length", "u32", head_dim, "head_dim"),
    ),
    decoder(NORMS, attention(), FEED_FORWARD),
    defaults=default_fields(32768, rms_norm_eps=1e-5),
    skips=tied_head,
    config=config_fields(hidden_act="silu", bias=ATTENTION_BIAS),
)
NANBEIGE = replace(
    LLAMA,
    name="nanbeige",
    classes=("NanbeigeForCausalLM",),
    model_type="nanbeige",
    defaults=DEFAULTS,
    keys=(
        *KEYS,
        computed("num_loops", "u32", _loops, "num_loops"),
        computed(
            "skip_loop_final_norm",
            "bool",
            lambda config: config.flag("skip_loop_final_norm") or False,
            "skip_loop_final_norm",
        ),
    ),
)
