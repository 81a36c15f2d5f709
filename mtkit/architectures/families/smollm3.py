"""SmolLM3: a Llama of which every fourth layer has no rotary positions.

Source: llama.cpp, conversion/llama.py (``SmolLM3Model``), src/models/smollm3.cpp; transformers,
models/smollm3.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import default_fields, only
from mtkit.architectures.families.llama import KEYS, LLAMA, LLAMA_3, config
from mtkit.architectures.table import Architecture
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


def _turning(config: Config) -> None:
    layers = config.get("no_rope_layers")
    if isinstance(layers, list) and layers != [int(n % 4 != 3) for n in range(len(layers))]:
        what = "is not every fourth layer, which llama.cpp cannot run"
        raise UnsupportedError(what, source=config.source, field="no_rope_layers")


SMOLLM_3 = Architecture(
    "smollm3",
    ("SmolLM3ForCausalLM",),
    "smollm3",
    KEYS,
    LLAMA.rows,
    checks=(only("no_rope_layer_interval", 4), _turning),
    defaults=default_fields(32768, rms_norm_eps=1e-6, num_key_value_heads=4, rope_theta=2000000.0),
    generated=(LLAMA_3,),
    config=lambda dims, tensor: {**config(dims, tensor), "no_rope_layer_interval": 4},
)
