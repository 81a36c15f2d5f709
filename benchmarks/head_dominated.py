"""Drafts whose head outweighs their layers: the case that a static vocabulary is for.

    python benchmarks/head_dominated.py --json

A pair is made with structured random weights. Target and draft are bigram models: their layers are
computed and add nothing, and the row of the head for the token behind t is the embedding of t. The
successors form rings of tokens, so a text comes back to the same ids; the draft knows the wrong
successor of some, and some ids are outside the static vocabulary. The target is in BF16, the draft
in Q8_0 with one layer. B, C, D, D+ and E then write with the same drafted number, and with the
number that is found (``auto``). Shown: tokens a second against A, milliseconds of a drafted token.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.base.record import replace
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.values import EMBEDDING, Rows
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.llm.runner import open_model
from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings
from mtkit.speculative import semantic_index, setup
from mtkit.speculative.bench import LOOKUP, Bench, groups_of, summarize

TYPES = {"F32": 0, "Q8_0": 8, "BF16": 30}
FIRST = 300
"""Ids below are control and byte tokens."""


def main() -> None:
    """Make the pair, run the groups, print rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vocabulary", type=int, default=131_072)
    parser.add_argument("--static", type=int, default=16_384)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=16, help="of the target")
    parser.add_argument("--ring", type=int, default=40, help="tokens until a text repeats")
    parser.add_argument("--wrong", type=float, default=0.15, help="successors the draft misses")
    parser.add_argument("--rare", type=float, default=0.15, help="ids outside the static ones")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--draft-max", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rings = _make(Path(name), given)
        found = [row for auto in (False, True) for row in _measure(Path(name), rings, given, auto)]
    if given.json:
        print(json.dumps(found))
        return
    for row in found:
        print(
            f"{'auto' if row['auto'] else 'fixed':6}{row['group']:8}"
            f"{row['tokens_per_second']:8.1f} tokens/s {row['speed']:6.2f} x A "
            f"{row['same']:>5} {row['per_round']:6.2f} a round {row['draft_ms']:7.2f} ms a token"
        )


def _make(folder: Path, given: argparse.Namespace) -> list[list[int]]:
    """Write target.gguf, draft.gguf, vocab.txt and the table; return the rings of tokens."""
    random = np.random.default_rng(1)
    count, width = given.vocabulary, given.width
    successor, wrong = np.arange(count), np.arange(count)
    rings = []
    common = random.permutation(np.arange(FIRST, given.static))
    rare = random.permutation(np.arange(given.static, count))
    for number in range(given.prompts + 1):  # the last one is for warming up
        ring = common[number * given.ring : (number + 1) * given.ring].copy()
        places = random.permutation(given.ring)[: round(given.rare * given.ring)]
        ring[places] = rare[number * given.ring : number * given.ring + len(places)]
        successor[ring] = np.roll(ring, -1)
        wrong[ring] = successor[ring]
        missed = ring[random.random(given.ring) < given.wrong]
        wrong[missed] = random.choice(common[len(common) // 2 :], len(missed))
        rings.append(ring.tolist())
    embedding = random.standard_normal((count, width), np.float32)
    for path, layers, kind, behind in (
        ("target.gguf", given.layers, "BF16", successor), ("draft.gguf", 1, "Q8_0", wrong)
    ):  # fmt: skip
        head = np.zeros((count, width), np.float32)
        np.add.at(head, behind, embedding)
        _write(str(folder / path), embedding, head, layers, kind, random)
    (folder / "vocab.txt").write_text("".join(f"{i}\n" for i in range(given.static)))
    file = open_gguf(str(folder / "target.gguf"))
    semantic_index.write(Rows(file, file.names[EMBEDDING]), file.name, str(folder))
    return rings


def _write(path: str, embedding: Any, head: Any, layers: int, kind: str, random: Any) -> None:
    """Write a llama whose layers add nothing."""
    count, width = embedding.shape
    inner = 2 * width
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [2, 3, 3, *[6] * 256]
    tokens += [f"w{i}" for i in range(len(tokens), count)]
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("llama.context_length", "u32", 4096),
        Key("llama.embedding_length", "u32", width),
        Key("llama.block_count", "u32", layers),
        Key("llama.feed_forward_length", "u32", inner),
        Key("llama.attention.head_count", "u32", width // 64),
        Key("llama.attention.head_count_kv", "u32", width // 64),
        Key("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5),
        Key("llama.rope.dimension_count", "u32", 64),
        Key("tokenizer.ggml.model", "string", "llama"),
        Key("tokenizer.ggml.tokens", "string[]", tokens),
        Key("tokenizer.ggml.scores", "f32[]", [0.0] * count),
        Key("tokenizer.ggml.token_type", "i32[]", types + [1] * (count - len(types))),
        Key("tokenizer.ggml.bos_token_id", "u32", 1),
        Key("tokenizer.ggml.eos_token_id", "u32", 2),
    ]
    tensors = [_tensor(EMBEDDING, embedding, kind), _tensor("output.weight", head, kind)]
    ones = np.ones(width, np.float32)
    tensors.append(_tensor("output_norm.weight", ones, "F32"))
    for layer in range(layers):
        shapes = {
            "attn_q": (width, width), "attn_k": (width, width), "attn_v": (width, width),
            "attn_output": (width, width), "ffn_gate": (inner, width), "ffn_up": (inner, width),
            "ffn_down": (width, inner),
        }  # fmt: skip
        for name, shape in shapes.items():
            values = random.standard_normal(shape, np.float32) * 0.02
            if name in ("attn_output", "ffn_down"):
                values[:] = 0
            tensors.append(_tensor(f"blk.{layer}.{name}.weight", values, kind))
        for name in ("attn_norm", "ffn_norm"):
            tensors.append(_tensor(f"blk.{layer}.{name}.weight", ones, "F32"))
    write_gguf(path, keys, tensors, force=True)


def _tensor(name: str, values: Any, kind: str) -> NewTensor:
    """Return a tensor of float32 values, rounded to its type."""
    if kind == "BF16":
        bits = values.view(np.uint32)
        data = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    elif kind == "Q8_0":
        blocks = values.reshape(-1, 32)
        scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
        rows = np.zeros(len(blocks), np.dtype([("d", "<f2"), ("q", "i1", 32)]))
        rows["d"] = scale[:, 0]
        rows["q"] = np.rint(blocks / np.where(scale > 0, scale, 1))
        data = rows.tobytes()
    else:
        data = values.tobytes()
    return NewTensor(name, values.shape[::-1], TENSOR_TYPES[TYPES[kind]], data)


def _measure(
    folder: Path, rings: list[list[int]], given: argparse.Namespace, auto: bool
) -> list[dict[str, Any]]:
    drafting = DraftSettings(
        draft=str(folder / "draft.gguf"), draft_max=given.draft_max, draft_auto=auto,
        sx_static_vocab=str(folder / "vocab.txt"),
        sx_quant_embd=str(folder / semantic_index.EMBEDDINGS),
        sx_scales=str(folder / semantic_index.SCALES),
    )  # fmt: skip
    groups = groups_of(drafting)
    lookup = groups.pop(LOOKUP)  # a ring is all repetition
    assert lookup is not None
    settings = setup.prepare_settings(
        GenerateSettings(
            str(folder / "target.gguf"), ContextSettings(threads=given.threads), drafting=lookup
        )
    )
    prompts = [("rings", n, [1, *ring[:6]]) for n, ring in enumerate(rings[: given.prompts])]
    with open_model(settings) as runner:
        runner.open_context(given.tokens + 32)
        bench = Bench(runner, replace(settings, drafting=drafting), groups)
        runs = list(bench.runs(prompts, 0.0, given.tokens))
    found = []
    for row in summarize(runs, "A2", None):
        seen: Any = row.get("drafting") or {}
        drafted = seen.get("drafted", 0)
        found.append({
            "auto": auto, "group": row["group"], "tokens_per_second": row["tokens_per_second"],
            "speed": row["speed"], "same": f"{row['identical']}/{row['prompts']}",
            "per_round": seen.get("tokens_per_round", 1.0),
            "draft_ms": 1000 * seen.get("draft_seconds", 0.0) / drafted if drafted else 0.0,
            "acceptance": seen.get("acceptance"),
        })  # fmt: skip
    return found


if __name__ == "__main__":
    main()
