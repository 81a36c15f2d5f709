"""How much room a computation takes: the widest moment of llama.cpp's graph.

The graph's memory is reused from step to step, so it is as large as what lives at its widest
moment: at the feed-forward part with its three matrices, at the attention, or at the logits. The
mask, which says what each token may look at, lives as long as any layer. An estimate: what the
allocator leaves unused between its pieces is not predicted.

Source: the "compute buffer size" of llama.cpp's log; ``tests/memory_plan/test_plan.py`` compares.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf import Tensor
    from mtkit.memory_plan.layers import Layer

_ENCODERS = {"t5", "t5encoder"}
_BYTES = 4  # of what is computed; with flash attention the mask has half of it


def compute_bytes(
    metadata: Any,
    tensors: tuple[Tensor, ...],
    layers: tuple[Layer, ...],
    *,
    n_ctx: int,
    cells: list[int],
    n_ubatch: int,
    n_outputs: int,
    flash_attention: bool,
) -> int:
    """Estimate the room to compute ``n_ubatch`` tokens at once.

    llama.cpp reserves it for the logits of all of them; what is not computed stays untouched.

    Args:
        metadata: Of the model.
        tensors: Of all its files.
        layers: What they remember; none where that is not known.
        n_ctx: Tokens of a sequence.
        cells: Of them, those that a cache holds, for layers of each kind; each has a mask.
        n_ubatch: Tokens computed at once; an encoder takes the whole context.
        n_outputs: Of them, those whose logits are computed.
        flash_attention: Attention in one kernel, without a score for each pair of tokens.
    """
    name = metadata.get("general.architecture")

    def number(suffix: str) -> int:
        value = metadata.get(f"{name}.{suffix}")
        value = max(value, default=0) if isinstance(value, (list, tuple)) else value
        return value if type(value) is int and 0 < value < 1 << 32 else 0

    table = next((t for t in tensors if t.name == "token_embd.weight"), None)
    n_vocab = table.shape[-1] if table is not None and table.shape else 0
    width, heads = number("embedding_length"), number("attention.head_count")
    used = number("expert_used_count")
    inner = max(number("feed_forward_length"), number("expert_feed_forward_length") * used)
    feed = max(3 * inner + (4 + used) * width, 6 * number("ssm.inner_size") + 2 * width)
    key = number("attention.key_length") or width // max(heads, 1)
    value = number("attention.value_length") or key
    stored = max((layer.key + layer.value for layer in layers), default=0)
    attention = 3 * width + heads * (key + value) + stored
    if name in _ENCODERS:  # scores and a bias of every head, for every pair of tokens
        pairs = n_ctx * (3 * heads + 1)
        return n_ctx * _BYTES * (pairs + 2 * max(feed, attention, n_vocab + 2 * width))
    cells = cells if layers else [n_ctx]
    mask = sum(cells)
    if flash_attention:
        mask //= 2
    else:
        attention += max(cells, default=0) * heads
    logits = n_outputs * (n_vocab + 2 * width)
    return _BYTES * max(n_ubatch * (mask + max(feed, attention)), logits)
