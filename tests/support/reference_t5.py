"""A plain numpy T5 with a gated feed-forward part, to compare llama.cpp's results with.

As in the paper and in transformers' ``T5ForConditionalGeneration``: RMS norms in front of each
part, attention without a scale, one table of relative positions for all layers of a side (none
between the sides), GELU by tanh at the gate, an output matrix of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from reference_llama import rms_norm, softmax, tensors_of

if TYPE_CHECKING:
    from pathlib import Path

    from reference_llama import Array

FARTHEST = 128
"""Distance from which on all tokens have the same relative position."""


class T5:
    """An encoder and a decoder."""

    def __init__(self, path: Path) -> None:
        self.tensors, meta = tensors_of(path)
        assert meta["general.architecture"] == "t5"
        self.layers: int = meta["t5.block_count"]
        self.heads: int = meta["t5.attention.head_count"]
        self.buckets: int = meta["t5.attention.relative_buckets_count"]
        self.start: int = meta["t5.decoder_start_token_id"]
        self.epsilon = np.float32(meta["t5.attention.layer_norm_rms_epsilon"])

    def encode(self, ids: list[int]) -> Array:
        """Return the hidden states of a prompt."""
        x = self.tensors["token_embd.weight"][ids]
        bias = self._bias("enc", len(ids))
        for layer in range(self.layers):
            name = f"enc.blk.{layer}"
            h = self._norm(x, f"{name}.attn_norm")
            x = x + self._attend(f"{name}.attn", h, h, bias)
            x = x + self._forward(name, x)
        return self._norm(x, "enc.output_norm")

    def decode(self, ids: list[int], encoded: Array) -> Array:
        """Return the logits behind each token, of shape (tokens, vocabulary)."""
        size = len(ids)
        x = self.tensors["token_embd.weight"][ids]
        bias = self._bias("dec", size)
        bias[:, np.triu(np.ones((size, size), bool), 1)] = -np.inf
        for layer in range(self.layers):
            name = f"dec.blk.{layer}"
            h = self._norm(x, f"{name}.attn_norm")
            x = x + self._attend(f"{name}.attn", h, h, bias)
            h = self._norm(x, f"{name}.cross_attn_norm")
            x = x + self._attend(f"{name}.cross_attn", h, encoded, np.float32(0))
            x = x + self._forward(name, x)
        return self._norm(x, "dec.output_norm") @ self._weight("output").T

    def greedy(self, prompt: list[int], count: int, ends: frozenset[int]) -> list[int]:
        """Return the most likely tokens, up to one that ends."""
        encoded = self.encode(prompt)
        found = [self.start]
        while len(found) <= count and (len(found) == 1 or found[-1] not in ends):
            found.append(int(self.decode(found, encoded)[-1].argmax()))
        return found[1:]

    def _weight(self, name: str) -> Array:
        return self.tensors[f"{name}.weight"]

    def _norm(self, x: Array, name: str) -> Array:
        return rms_norm(x, self._weight(name), self.epsilon)

    def _forward(self, name: str, x: Array) -> Array:
        h = self._norm(x, f"{name}.ffn_norm")
        gate = h @ self._weight(f"{name}.ffn_gate").T
        bent = np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))
        gelu = np.float32(0.5) * gate * (1 + bent)
        inner = gelu * (h @ self._weight(f"{name}.ffn_up").T)
        return inner.astype(np.float32) @ self._weight(f"{name}.ffn_down").T

    def _attend(self, name: str, h: Array, other: Array, bias: Any) -> Array:
        q, k, v = (
            (x @ self._weight(f"{name}_{letter}").T).reshape(len(x), self.heads, -1)
            for letter, x in (("q", h), ("k", other), ("v", other))
        )
        weights = softmax(np.einsum("qhd,khd->hqk", q, k) + bias)
        return np.einsum("hqk,khd->qhd", weights, v).reshape(len(h), -1) @ (
            self._weight(f"{name}_o").T
        )

    def _bias(self, side: str, size: int) -> Array:
        """Return what is added to scores, of shape (heads, query, key)."""
        table = self._weight(f"{side}.blk.0.attn_rel_b")
        distance = np.arange(size)[None, :] - np.arange(size)[:, None]
        return table[self._bucket(distance, both=side == "enc")].transpose(2, 0, 1).copy()

    def _bucket(self, distance: Any, *, both: bool) -> Any:
        """Return the row of the table for key minus query: near ones alone, far ones together."""
        count = self.buckets // 2 if both else self.buckets
        ahead = np.where(distance > 0, count, 0) if both else 0
        far = np.abs(distance) if both else np.maximum(-distance, 0)
        exact = count // 2
        logarithm = np.log(np.maximum(far, 1) / exact) / np.log(FARTHEST / exact)
        rough = np.minimum(exact + (logarithm * (count - exact)).astype(int), count - 1)
        return ahead + np.where(far < exact, far, rough)
