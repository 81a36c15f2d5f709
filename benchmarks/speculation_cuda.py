"""What a round of speculative decoding costs on a GPU, without any model file.

    python benchmarks/speculation_cuda.py --json

Two transformers of random weights in BF16 have the shapes of Qwen3 8B and Qwen2.5 0.5B, both with
151,936 ids. Timed with CUDA graphs: a batch of 1 to 16 tokens of the target, a token of the draft
with its whole head, with a head of some rows alone (a static vocabulary), and a search for the
neighbors of a token in an int8 table. Then rounds are run as a program would run them, the host
waiting for each result; whether a drafted token is taken is drawn with a given probability, for
random weights do not agree. Groups as in docs/shenxing.md:

    A  the target alone
    B  a draft with its whole head
    C  a draft with a static vocabulary: a token outside of it is never accepted
    D  C with a search behind a rejected token
    E  C that learns the ids of the text

It needs PyTorch and a CUDA device. ``--toy`` runs all of it with tiny shapes on the CPU: that shows
whether it works, and nothing about costs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

TARGET = {"width": 4096, "layers": 36, "heads": 32, "kv_heads": 8, "inner": 12288}
DRAFT = {"width": 896, "layers": 24, "heads": 14, "kv_heads": 2, "inner": 4864}
VOCABULARY = 151_936
_TOY = {"width": 64, "layers": 2, "heads": 4, "kv_heads": 2, "inner": 128}


class Decoder(nn.Module):
    """A decoder with a cache that is full: what a step computes, whatever it says."""

    def __init__(
        self, shape: dict[str, int], ids: int, rows: int, cache: int, most: int, device: str
    ) -> None:
        super().__init__()
        width, inner = shape["width"], shape["inner"]
        self.heads, self.kv_heads = shape["heads"], shape["kv_heads"]
        self.head = width // self.heads
        kv = self.kv_heads * self.head
        options = {"dtype": torch.bfloat16, "device": device}

        def matrix(*sizes: int) -> Tensor:
            return torch.randn(*sizes, **options) / math.sqrt(sizes[-1])

        self.embedding = matrix(ids, width)
        self.output = self.embedding if rows == ids else matrix(rows, width)
        qkv, out, up, down = (
            (width + 2 * kv, width),
            (width, width),
            (2 * inner, width),
            (width, inner),
        )
        self.layers = [
            tuple(matrix(*sizes) for sizes in (qkv, out, up, down)) for _ in range(shape["layers"])
        ]
        room = (1, self.kv_heads, cache + most, self.head)
        self.caches = [(matrix(*room), matrix(*room)) for _ in range(shape["layers"])]
        self.cache = cache
        self.ones = torch.ones(width, **options)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of the tokens that come next, most likely ones, for each given id."""
        x = self.embedding[ids]
        count = len(ids)
        kv = self.kv_heads * self.head
        end = self.cache + count
        mask = torch.ones(count, end, dtype=torch.bool, device=ids.device).tril(self.cache)
        for (qkv, out, up, down), (keys, values) in zip(self.layers, self.caches, strict=True):
            normed = functional.rms_norm(x, x.shape[-1:], self.ones)
            q, k, v = (normed @ qkv.T).split([x.shape[-1], kv, kv], -1)
            keys[0, :, self.cache : end] = k.view(count, self.kv_heads, self.head).transpose(0, 1)
            values[0, :, self.cache : end] = v.view(count, self.kv_heads, self.head).transpose(0, 1)
            q = q.view(1, count, self.heads, self.head).transpose(1, 2)
            attended = functional.scaled_dot_product_attention(
                q, keys[:, :, :end], values[:, :, :end], attn_mask=mask, enable_gqa=True
            )
            x = x + attended.transpose(1, 2).reshape(count, -1) @ out.T
            gate, value = (functional.rms_norm(x, x.shape[-1:], self.ones) @ up.T).chunk(2, -1)
            x = x + (functional.silu(gate) * value) @ down.T
        return (functional.rms_norm(x, x.shape[-1:], self.ones) @ self.output.T).argmax(-1)


class Eager:
    """A step as it is, on the CPU."""

    def __init__(self, step: Any, count: int) -> None:
        self.step, self.ids = step, torch.zeros(count, dtype=torch.long)

    def __call__(self) -> list[int]:
        """Compute the ids."""
        with torch.no_grad():
            found: list[int] = self.step(self.ids).tolist()
        return found

    def milliseconds(self, times: int = 5) -> float:
        """Median time."""
        taken = []
        for _ in range(times):
            start = time.perf_counter()
            self()
            taken.append(1000 * (time.perf_counter() - start))
        return statistics.median(taken)


class Captured:
    """A step as a CUDA graph: one call from the host, as engines do it."""

    def __init__(self, step: Any, count: int) -> None:
        self.step = step  # a graph does not keep the memory that it reads
        self.ids = torch.zeros(count, dtype=torch.long, device="cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                step(self.ids)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.result = step(self.ids)

    def __call__(self) -> list[int]:
        """Compute, and wait for the ids."""
        self.graph.replay()
        found: list[int] = self.result.tolist()
        return found

    def milliseconds(self, times: int = 30) -> float:
        """Median time on the device."""
        taken = []
        for _ in range(times):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.graph.replay()
            end.record()
            torch.cuda.synchronize()
            taken.append(start.elapsed_time(end))
        return statistics.median(taken)


def neighbors(table: Tensor, scales: Tensor) -> Any:
    """Return a search for the 50 rows most alike: the whole table is read once."""

    def search(ids: Tensor) -> Tensor:
        found = torch.zeros(len(table), device=table.device)
        wanted = table[ids[:1]][0].to(torch.bfloat16)
        for part in range(0, len(table), 1 << 14):  # in parts: no int8 product has one row
            rows = slice(part, part + (1 << 14))
            found[rows] = table[rows].to(torch.bfloat16) @ wanted * scales[rows]
        return found.topk(50).indices

    return search


def rounds(
    group: str, drafted: int, rate: float, outside: float, steps: dict[str, Any], tokens: int
) -> dict[str, float]:
    """Write tokens in rounds, and return tokens a second and tokens a round.

    Args:
        group: A to E.
        drafted: Tokens drafted a round.
        rate: Probability that a drafted token is the target's, where the draft can say it.
        outside: Part of the text's ids that the static vocabulary lacks.
        steps: What is captured: ``target`` by width, ``draft``, ``static``, ``search``.
        tokens: Tokens to write.
    """
    draw = random.Random(1)
    draft = steps["draft" if group == "B" else "static"]
    verify = steps["target"][1 if group == "A" else drafted + 1]
    # What a repaired vocabulary still lacks: the share that docs/shenxing.md measured for D and E
    # between C and B (acceptance 0.24, 0.47 of 0.50).
    lacking = {"A": 0.0, "B": 0.0, "C": outside, "D": 0.12 * outside, "E": 0.12 * outside}[group]
    written = taken = count = 0
    start = time.perf_counter()  # every step waits for its result
    while written < tokens:
        accepted = 0
        if group != "A":
            for _ in range(drafted):
                draft()
            while accepted < drafted and draw.random() < rate * (1 - lacking):
                accepted += 1
        verify()
        if group == "D" and not accepted and draw.random() < outside:
            steps["search"]()
        written += accepted + 1
        taken += accepted
        count += 1
    seconds = time.perf_counter() - start
    return {"tokens_per_second": written / seconds, "per_round": written / count}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=int, default=512, help="tokens that came before")
    parser.add_argument("--static", type=int, default=16_384, help="ids of the static vocabulary")
    parser.add_argument("--outside", type=float, default=0.15, help="part of a text outside of it")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.6, 0.8, 0.9])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--toy", action="store_true", help="tiny shapes, on the CPU")
    given = parser.parse_args()
    torch.manual_seed(1)
    most = 16
    captured: Any = Captured
    big, small, device, ids, static = TARGET, DRAFT, "cuda", VOCABULARY, given.static
    if given.toy:
        captured, big, small, device, ids, static = Eager, _TOY, _TOY, "cpu", 4096, 512
        torch.set_num_threads(1)
    target = Decoder(big, ids, ids, given.cache, most, device)
    steps: dict[str, Any] = {
        "target": {count: captured(target, count) for count in range(1, most + 1)},
        "draft": captured(Decoder(small, ids, ids, given.cache, 1, device), 1),
        "static": captured(Decoder(small, ids, static, given.cache, 1, device), 1),
    }
    table = torch.randint(-127, 128, (ids, 1024), dtype=torch.int8, device=device)
    steps["search"] = captured(neighbors(table, torch.rand(ids, device=device)), 1)
    costs = {
        "device": device if given.toy else torch.cuda.get_device_name(),
        "target": {count: step.milliseconds() for count, step in steps["target"].items()},
        **{name: steps[name].milliseconds() for name in ("draft", "static", "search")},
    }
    if not given.json:
        print(costs, flush=True)
    found = []
    for rate in given.rates:
        base = rounds("A", 0, 0, 0, steps, given.tokens)["tokens_per_second"]
        for group in "ABCDE":
            for drafted in (0,) if group == "A" else (2, 3, 4, 6, 8):
                row = rounds(group, drafted, rate, given.outside, steps, given.tokens)
                row |= {"rate": rate, "drafted": drafted, "speed": row["tokens_per_second"] / base}
                found.append({"group": group, **row})
                if not given.json:
                    print(
                        f"{rate:.2f} {group} {drafted} drafted "
                        f"{row['tokens_per_second']:8.1f} tokens/s {row['speed']:6.2f} x A "
                        f"{row['per_round']:6.2f} a round",
                        flush=True,
                    )
    if given.json:
        print(json.dumps({"costs": costs, "rounds": found}))


if __name__ == "__main__":
    main()
