"""A plain numpy forward pass of llama models, to compare llama.cpp's results with.

Everything is computed anew for every call, in float32, with no cache and no trick: RMS norms,
rotations of neighboring elements, attention with shared key and value heads, SwiGLU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from support import reference

if TYPE_CHECKING:
    from pathlib import Path

PARTS = (
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output",
    "ffn_norm", "ffn_gate", "ffn_up", "ffn_down",
)  # fmt: skip
Array = np.ndarray[Any, np.dtype[np.float32]]


def tensors_of(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the tensors of a GGUF as float32 (rows are outputs) and its numbers and texts."""
    gguf = reference("gguf")
    reader = gguf.GGUFReader(str(path))
    tensors = {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        for tensor in reader.tensors
    }
    single = {
        name: field.contents()
        for name, field in reader.fields.items()
        if field.types[0] != gguf.GGUFValueType.ARRAY
    }
    return tensors, single


class Llama:
    """A model of the architecture ``llama``."""

    def __init__(
        self,
        tensors: dict[str, Array],
        *,
        layers: int,
        heads: int,
        kv_heads: int,
        epsilon: float,
        base: float,
    ) -> None:
        self.tensors = tensors
        self.layers, self.heads, self.kv_heads = layers, heads, kv_heads
        self.epsilon, self.base = np.float32(epsilon), base

    @classmethod
    def of_gguf(cls, path: Path) -> Llama:
        """Read a GGUF; quantized tensors are what they stand for."""
        tensors, meta = tensors_of(path)
        assert meta["general.architecture"] == "llama"
        return cls(
            tensors,
            layers=meta["llama.block_count"],
            heads=meta["llama.attention.head_count"],
            kv_heads=meta["llama.attention.head_count_kv"],
            epsilon=meta["llama.attention.layer_norm_rms_epsilon"],
            base=meta.get("llama.rope.freq_base", 10000.0),
        )

    @classmethod
    def of_llama2c(cls, data: bytes) -> Llama:
        """Read a checkpoint as llama2.c's program walks through it."""
        dim, hidden, layers, heads, kv_heads, vocab, seq = np.frombuffer(data, "<i4", 7).tolist()
        rest = np.frombuffer(data, "<f4", offset=28)
        wide = dim // heads * kv_heads

        def take(*shape: int) -> Array:
            nonlocal rest
            size = int(np.prod(shape))
            found, rest = rest[:size].reshape(shape), rest[size:]
            return found

        tensors = {"token_embd.weight": take(abs(vocab), dim)}
        for name, shape in (
            ("attn_norm", (dim,)), ("attn_q", (dim, dim)), ("attn_k", (wide, dim)),
            ("attn_v", (wide, dim)), ("attn_output", (dim, dim)), ("ffn_norm", (dim,)),
            ("ffn_gate", (hidden, dim)), ("ffn_down", (dim, hidden)), ("ffn_up", (hidden, dim)),
        ):  # fmt: skip
            for layer, part in enumerate(take(layers, *shape)):
                tensors[f"blk.{layer}.{name}.weight"] = part
        tensors["output_norm.weight"] = take(dim)
        take(2, seq, dim // heads // 2)
        if vocab < 0:
            tensors["output.weight"] = take(-vocab, dim)
        assert not len(rest)
        return cls(
            tensors, layers=layers, heads=heads, kv_heads=kv_heads, epsilon=1e-5, base=10000.0
        )

    def logits(self, ids: list[int]) -> Array:
        """Return the logits behind each token, of shape (tokens, vocabulary)."""
        found = self.tensors
        x = found["token_embd.weight"][ids]
        for layer in range(self.layers):
            part = {name: found[f"blk.{layer}.{name}.weight"] for name in PARTS}
            x = x + self._attention(rms_norm(x, part["attn_norm"], self.epsilon), part)
            h = rms_norm(x, part["ffn_norm"], self.epsilon)
            gate = h @ part["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ part["ffn_up"].T)) @ part["ffn_down"].T
        x = rms_norm(x, found["output_norm.weight"], self.epsilon)
        return x @ found.get("output.weight", found["token_embd.weight"]).T

    def _attention(self, h: Array, part: dict[str, Array]) -> Array:
        size = len(h)
        q = (h @ part["attn_q"].T).reshape(size, self.heads, -1)
        k = (h @ part["attn_k"].T).reshape(size, self.kv_heads, -1)
        v = (h @ part["attn_v"].T).reshape(size, self.kv_heads, -1)
        q, k = rotated(q, self.base), rotated(k, self.base)
        shared = self.heads // self.kv_heads
        k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(np.float32(q.shape[-1]))
        scores[:, np.triu(np.ones((size, size), bool), 1)] = -np.inf
        return np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(size, -1) @ (
            part["attn_output"].T
        )

    def greedy(self, ids: list[int], count: int) -> list[int]:
        """Return the most likely tokens behind a prompt, one after the other."""
        found = list(ids)
        for _ in range(count):
            found.append(int(self.logits(found)[-1].argmax()))
        return found[len(ids) :]

    def losses(self, ids: list[int]) -> Array:
        """Return the negative logarithm of the probability of each token but the first."""
        logits = self.logits(ids[:-1]).astype(np.float64)
        highest = logits.max(axis=-1, keepdims=True)
        total = np.log(np.exp(logits - highest).sum(axis=-1)) + highest[:, 0]
        return total - logits[np.arange(len(ids) - 1), ids[1:]]


def rms_norm(x: Array, weight: Array, epsilon: np.float32) -> Array:
    """Divide each row by its root mean square and multiply by the weight."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight


def softmax(scores: Array) -> Array:
    """Return the weights of each row."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def rotated(x: Array, base: float) -> Array:
    """Turn the pairs (0, 1), (2, 3) … of each head by angles that grow with the position."""
    size, _, width = x.shape
    angles = np.arange(size)[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = (f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
    return out


def as_f32(path: Path, target: Path) -> Path:
    """Write a model with all its tensors as 32-bit floats."""
    from mtkit.gguf import open_gguf
    from mtkit.gguf.types import TENSOR_TYPES
    from mtkit.gguf.writer import Key, NewTensor, write_gguf

    file, (tensors, _) = open_gguf(str(path)), tensors_of(path)
    keys = [
        Key(name, file.metadata.type_name(name), 0 if name == "general.file_type" else value)
        for name, value in file.metadata.items()
    ]
    f32 = TENSOR_TYPES[0]
    rows = [NewTensor(t.name, t.shape, f32, tensors[t.name].tobytes()) for t in file.tensors]
    write_gguf(str(target), keys, rows)
    return target
