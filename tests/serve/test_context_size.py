"""How much context slots get where nobody says."""

from __future__ import annotations

from typing import Any

import pytest
from llm_models import tiny
from serving import Asked, serving

from mtkit.llm.header import ModelHeader
from mtkit.memory_plan.plan import PlanSettings


def auto(model: Any, **given: Any) -> tuple[int, Any]:
    """Return the tokens that fit a slot, and the settings of the context."""
    with serving(model, n_ctx=None, **given) as (_, scheduler):
        return scheduler.n_slot, scheduler.context.settings


def test_a_slot_can_take_what_the_model_was_trained_with() -> None:
    model = tiny("llama", wtype="Q8_0", n_ctx=10000)
    n_slot, settings = auto(model)
    assert (n_slot, settings.n_ctx, settings.kv_unified) == (10000, 4 * 4096, True)
    n_slot, settings = auto(model, slots=2)
    assert (n_slot, settings.n_ctx) == (10000, 10000)
    n_slot, settings = auto(model, exact=True)
    assert (n_slot, settings.n_ctx, settings.kv_unified) == (10000, 40000, False)
    n_slot, settings = auto(model, draft_lookup=True)
    assert (n_slot, settings.n_ctx, settings.kv_unified) == (4096, 4 * 4096, False)
    short = tiny("llama", n_ctx=300)
    assert auto(short)[0] == 300


def test_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama", n_ctx=1 << 20)
    header = ModelHeader(str(model))
    needed = header.plan(PlanSettings(n_ctx=50176, n_seq=4, kv_unified=True)).most
    monkeypatch.setattr("mtkit.memory_plan.plan.available_memory", lambda: needed * 8 // 7 + 8)
    assert auto(model)[0] == 50176
    monkeypatch.setattr("mtkit.memory_plan.plan.available_memory", lambda: 1)
    assert auto(model)[0] == 2048  # what is not there is said by whoever loads it
    monkeypatch.setattr("mtkit.memory_plan.plan.available_memory", lambda: None)
    assert auto(tiny("llama", n_ctx=9000), slots=1)[0] == 9000


def test_small_windows_are_planned_and_answer_as_whole_ones() -> None:
    """A prompt that was cut where a window is gone is computed again."""
    model = tiny("gemma3", swa=40)
    first = list(range(300, 700))
    prompts = [first, [*first, 7, 8], [*first[:100], 9], [*first[:100], 9, 10], first]
    found = []
    for swa_full in (True, False):
        with serving(model, slots=1, swa_full=swa_full, n_batch=64, n_ubatch=64) as (_, scheduler):
            answers = []
            for ids in prompts:
                asked = Asked(ids, 8)
                scheduler.submit([asked.job])
                asked.all()
                answers.append((asked.events[0].cached, asked.ids))
            found.append(answers)
    whole, small = found
    assert [ids for _, ids in whole] == [ids for _, ids in small]
    assert [cached for cached, _ in whole] == [0, 400, 100, 101, 100]
    assert [cached for cached, _ in small] == [0, 400, 0, 101, 100]


@pytest.mark.parametrize(("arch", "options"), [("mamba", {}), ("gemma3", {"swa": 40})])
def test_shared_cells_of_other_memories(arch: str, options: dict[str, Any]) -> None:
    """A recurrent state, and windows: several at a time answer as one alone."""
    model = tiny(arch, **options)
    prompts = [list(range(300 + number, 420)) for number in (0, 20, 90)]
    with serving(model, slots=1, n_ctx=1024) as (_, scheduler):
        wanted = [ask(scheduler, [ids])[0] for ids in prompts]
    with serving(model, n_ctx=None) as (_, scheduler):
        assert scheduler.context.settings.kv_unified
        assert ask(scheduler, prompts) == wanted
        assert ask(scheduler, [[*ids, 7] for ids in prompts]) != wanted
        assert ask(scheduler, prompts) == wanted


def ask(scheduler: Any, prompts: list[list[int]]) -> list[list[int]]:
    many = [Asked(ids, 40, ignore_eos=True) for ids in prompts]
    scheduler.submit([asked.job for asked in many])
    for asked in many:
        assert asked.all().generated == 40
    return [asked.ids for asked in many]
