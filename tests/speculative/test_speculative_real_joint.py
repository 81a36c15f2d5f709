"""Random choices on a real model follow the target: chi-square of two tokens' joint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chi_square import p_value
from llm_models import tiny

from mtkit.base.record import replace
from mtkit.gguf import open_gguf
from mtkit.gguf.values import EMBEDDING, Rows
from mtkit.llm.runner import open_model
from mtkit.llm.sampling import Sampler
from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings, SamplerSettings
from mtkit.speculative import draft_model, semantic_index
from mtkit.speculative.drafts import Lookup
from mtkit.speculative.setup import open_speculation, prepare_settings

PROMPT = [1, 40, 77]
RUNS = 3000
TOP = 5


def softmax(logits: Any, temperature: float) -> Any:
    """Return ids and chances of the most likely tokens."""
    ids = np.argsort(-logits, kind="stable")[:TOP]
    chances = np.exp((logits[ids] - logits[ids[0]]).astype(np.float64) / temperature)
    return ids, chances / chances.sum()


def repeating(context: Any) -> list[int]:
    """Return a prompt behind which one of its own tokens is likely."""
    for token_id in range(300, 1000):
        context.clear()
        context.decode([1, token_id, 40])
        if token_id in softmax(context.logits(), 1.0)[0]:
            context.clear()
            return [1, token_id, 40]
    raise AssertionError


@pytest.mark.parametrize("group", ["B", "C", "D", "E", "lookup"])
def test_two_tokens(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens inside the static vocabulary and outside of it, emitted as often as they should."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")
    # Of three tokens no two came before: one that agrees is enough here.
    monkeypatch.setattr(draft_model, "Lookup", lambda **_: Lookup(1))
    target = str(tiny("llama", wtype="Q8_0", n_layer=1, n_embd=64, n_ff=64))
    draft = str(tiny("llama", wtype="Q8_0", n_layer=1, n_embd=64, n_ff=64, perturb=0.5))
    file = open_gguf(target)
    semantic_index.write(Rows(file, file.names[EMBEDDING]), target, str(tmp_path))
    (tmp_path / "v.txt").write_text("".join(f"{i}\n" for i in range(0, 1024, 2)))
    given: dict[str, Any] = {
        "B": {"draft": draft},
        "C": {"draft": draft, "sx_static_vocab": str(tmp_path / "v.txt")},
        "D": {
            "draft": draft,
            "sx_static_vocab": str(tmp_path / "v.txt"),
            "sx_threshold": -1.0,
            "sx_quant_embd": str(tmp_path / "quant_embeddings.bin"),
            "sx_topk": 3,
            "sx_scales": str(tmp_path / "scales.bin"),
        },
        "E": {"draft": draft, "sx_static_vocab": str(tmp_path / "v.txt"), "sx_learn": True},
        "lookup": {"draft_lookup": True},
    }[group]
    temperature = 0.7
    settings = prepare_settings(
        GenerateSettings(
            target, ContextSettings(threads=1, n_ctx=64),
            sampler=SamplerSettings(temperature=temperature, top_k=TOP, top_p=1.0, min_p=0.0),
            drafting=DraftSettings(draft_auto=False, draft_max=3, **given),
        )
    )  # fmt: skip
    with open_model(settings) as runner:
        context = runner.open_context(64)
        prompt = repeating(context) if group == "lookup" else PROMPT
        expected = {}
        context.decode(prompt)
        for first, chance in zip(*softmax(context.logits().copy(), temperature), strict=True):
            context.truncate(len(prompt))
            context.decode([int(first)])
            for second, then in zip(*softmax(context.logits(), temperature), strict=True):
                expected[int(first), int(second)] = chance * then
        context.clear()
        sampler = Sampler(context, replace(settings.sampler, seed=5), distributions=True)
        speculation = open_speculation(runner, settings, 5)
        assert speculation is not None
        seen: Counter[tuple[int, ...]] = Counter()
        drafted = accepted = 0
        for _ in range(RUNS):
            speculation.reset()
            runner.feed(prompt)
            for _token in runner.stream(sampler, 3, speculation=speculation, stop_at_eog=False):
                pass
            seen[tuple(runner.ids[len(prompt) : len(prompt) + 2])] += 1
            drafted += speculation.statistics.drafted
            accepted += speculation.statistics.accepted
        speculation.close()
        sampler.close()
    assert set(seen) <= set(expected)
    inside = {pair[0] % 2 == 0 for pair in seen}
    assert inside == {True, False}
    assert drafted
    assert accepted or group == "lookup"
    assert p_value(seen, expected) > 1e-4
