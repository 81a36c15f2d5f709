"""A decoder of transformers in numpy: the logits of the last position of a few prompts.

One pass over the weights serves all prompts; nothing is cached and nothing is fused.
"""

from __future__ import annotations

import os

from mtkit.architectures.config import Config, class_named
from mtkit.base.escape import quoted
from mtkit.checkpoints.folder_files import CONFIG
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.llm.forward.activations import gelu, looked_up_gelu, silu
from mtkit.llm.forward.families import family_of, window
from mtkit.llm.forward.rotary import frequencies, turned
from mtkit.llm.forward.rounding import Rounded
from mtkit.llm.forward.weights import Weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.gguf.types import TensorType

_EMBEDDING = "model.embed_tokens"
_DROPPED = ".rotary_emb.inv_freq"
"""End of tensors that nothing reads."""


class Decoder:
    """A model of a folder.

    Attributes:
        weights: Its tensors.
        vocab: Number of its ids.
    """

    def __init__(self, folder: ModelFolder, kind: TensorType | None = None) -> None:
        """Read its config.

        Args:
            folder: The model.
            kind: Round as llama.cpp does with matrices of this type; None: no rounding.

        Raises:
            UnsupportedError: It computes what is not known here.
            FormatError: A field is missing or not what it should be.
        """
        source = os.path.join(folder.path, CONFIG)
        try:
            self.family = family = family_of(class_named(folder.config))
        except MtkitError as error:
            raise error.located(source) from None
        self.config = config = Config(folder.config, source).with_defaults(family.defaults)
        tensors = folder.tensors
        self.weights = Weights(tensors) if kind is None else Rounded(tensors, kind)
        self._activation = silu
        if family.activation != "silu":
            self._activation = gelu if kind is None else looked_up_gelu
        said = config.text("hidden_activation", "hidden_act") or family.activation
        if said != family.activation and not (family.plus_one and said == "gelu"):
            raise UnsupportedError(
                f"is {quoted(said)}, not {family.activation}", source=source, field="hidden_act"
            )
        self.layers = config.count("num_hidden_layers")
        self.vocab = config.count("vocab_size")
        self.size = config.count("hidden_size")
        self.inner = config.count("intermediate_size")
        self.heads = config.count("num_attention_heads")
        self.kv_heads = config.whole("num_key_value_heads") or self.heads
        self.width = config.whole("head_dim") or self.size // self.heads
        if self.heads % self.kv_heads or self.width % 2:
            raise FormatError("heads cannot be shared or turned", source=source, field="head_dim")
        self.epsilon = config.number("rms_norm_eps") or 1e-6
        self.scale = (config.number("query_pre_attn_scalar") or self.width) ** -0.5

    def last_logits(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return the logits behind each prompt: float32 of shape (vocabulary,).

        Raises:
            FormatError: A tensor is missing, has another shape or is not of such a model.
            UnsupportedError: It computes what is not known here.
            UsageError: An id is none.
        """
        import numpy as np

        ids = [one for prompt in prompts for one in prompt]
        if not all(prompts) or not all(0 <= one < self.vocab for one in ids):
            raise UsageError(f"ids are 0 to {self.vocab - 1}, and a prompt has one at least")
        ends = np.cumsum([len(prompt) for prompt in prompts])
        try:
            with np.errstate(all="ignore"):
                starts = [0, *ends[:-1]]
                x = self._computed(ids, list(map(slice, starts, ends)))
                logits = self._head(self._norm(x[ends - 1], "model.norm"))
        except MtkitError as error:
            raise error.located(self.config.source) from None
        left = sorted(name for name in self.weights.left if not name.endswith(_DROPPED))
        if left:
            what = f"such a model has no tensor {quoted(left[0])}"
            raise FormatError(what, source=self.config.source)
        return list(logits)

    def _computed(self, ids: list[int], parts: list[slice]) -> Any:
        """Return the last hidden states: float32 of shape (tokens, width)."""
        import numpy as np

        x = self.weights.rows(f"{_EMBEDDING}.weight", (self.vocab, self.size), ids)
        if self.family.scales_embeddings:
            x *= np.float32(self.size**0.5)
        after = self.family.four_norms
        for layer in range(self.layers):
            name = f"model.layers.{layer}."
            h = self._attention(self._norm(x, f"{name}input_layernorm"), layer, parts)
            if after:
                h = self._norm(h, f"{name}post_attention_layernorm")
            x = x + h
            before = "pre_feedforward_layernorm" if after else "post_attention_layernorm"
            h = self._feed_forward(self._norm(x, f"{name}{before}"), f"{name}mlp.")
            if after:
                h = self._norm(h, f"{name}post_feedforward_layernorm")
            x = x + h
        return x

    def _norm(self, x: Any, name: str) -> Any:
        """Divide what stands on the last axis by its root mean square, times the weight."""
        import numpy as np

        weight = self.weights.vector(f"{name}.weight", x.shape[-1])
        root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        return x / root * (weight + 1 if self.family.plus_one else weight)

    def _attention(self, h: Any, layer: int, parts: list[slice]) -> Any:
        import numpy as np

        name = f"model.layers.{layer}.self_attn."
        product, heads, width = self.weights.product, self.heads, self.width
        q = product(h, f"{name}q_proj", heads * width).reshape(-1, heads, width)
        k = product(h, f"{name}k_proj", self.kv_heads * width).reshape(-1, self.kv_heads, width)
        v = product(h, f"{name}v_proj", self.kv_heads * width).reshape(-1, self.kv_heads, width)
        if self.family.head_norms:
            q, k = self._norm(q, f"{name}q_norm"), self._norm(k, f"{name}k_norm")
        behind = window(self.family, self.config, layer)
        # Gemma 3 alone turns the layers with a window in another way.
        other = behind is not None and self.config.get("rope_local_base_freq", "rope_parameters")
        kind = "sliding_attention" if other else "full_attention"
        speeds, scale = frequencies(self.config, kind, width)
        out = np.empty((len(h), heads * width), np.float32)
        for part in parts:
            positions = np.arange(part.stop - part.start)
            out[part] = self._mixed(
                turned(q[part], positions, speeds, scale),
                turned(k[part], positions, speeds, scale),
                v[part],
                behind,
            )
        return product(out, f"{name}o_proj", self.size)

    def _mixed(self, q: Any, k: Any, v: Any, behind: int | None) -> Any:
        """Mix the values of one prompt: float32 of shape (tokens, heads * width)."""
        import numpy as np

        count, shared = len(q), self.heads // self.kv_heads
        k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) * np.float32(self.scale)
        scores = _capped(scores, self.config.number("attn_logit_softcapping"))
        distance = np.arange(count)[:, None] - np.arange(count)
        hidden = (distance < 0) | (distance >= (behind or count))
        scores[:, hidden] = -np.inf
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = powers / powers.sum(axis=-1, keepdims=True)
        return np.einsum("hqk,khd->qhd", shares, v).reshape(count, -1)

    def _feed_forward(self, h: Any, name: str) -> Any:
        gate = self.weights.product(h, f"{name}gate_proj", self.inner)
        h = self._activation(gate) * self.weights.product(h, f"{name}up_proj", self.inner)
        return self.weights.product(h, f"{name}down_proj", self.size)

    def _head(self, x: Any) -> Any:
        is_tied = self.config.flag("tie_word_embeddings") or not self.weights.has("lm_head.weight")
        logits = self.weights.product(x, _EMBEDDING if is_tied else "lm_head", self.vocab)
        if is_tied:
            self.weights.left.discard("lm_head.weight")  # a copy that transformers replaces
        return _capped(logits, self.config.number("final_logit_softcapping"))


def _capped(values: Any, most: float | None) -> Any:
    import numpy as np

    return values if most is None else np.tanh(values / np.float32(most)) * np.float32(most)
