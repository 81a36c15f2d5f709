"""CodeShell.

Source: llama.cpp, conversion/codeshell.py (``CodeShellModel``).
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME
from mtkit.architectures.families.gpt2 import GPT2, KEYS
from mtkit.architectures.families.gpt2 import rows as gpt2_rows
from mtkit.architectures.metadata import always, computed, u32, with_keys
from mtkit.base.record import replace

CODESHELL = replace(
    GPT2,
    name="codeshell",
    classes=("CodeShellForCausalLM",),
    model_type="codeshell",
    keys=with_keys(
        KEYS,
        computed("feed_forward_length", "u32", lambda config: 4 * config.count("n_embd")),
        u32("attention.head_count_kv", "num_query_groups"),
        always("rope.freq_base", "f32", 10000.0),
        always("rope.scaling.type", "string", "linear"),
        always("rope.scaling.factor", "f32", 1.0),
    ),
    rows=tuple(r for r in gpt2_rows(SAME) if "position_embd.weight" not in r.gguf),
    checks=(),
    config=lambda dims, tensor: {"activation_function": "gelu_pytorch_tanh"},
)
