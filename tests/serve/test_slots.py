"""What a job can ask of its slot, and what slots do where they are full."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from llm_models import tiny
from serving import Asked, serving
from support import reference

from mtkit.base.record import replace
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.serve.job import JobEnd, JobProgress, JobStart, Piece
from mtkit.serve.scheduler import Scheduler
from mtkit.serve.slot import (
    Slot,
    most_probable,
    read_slot_file,
    token_chances,
    write_slot_file,
)

FIRST, SECOND = list(range(300, 400)), list(range(500, 620))


def ask(scheduler: Any, ids: list[int], most: int = 5, **options: Any) -> Asked:
    asked = Asked(ids, most, **options)
    scheduler.submit([asked.job])
    assert isinstance(asked.all(), JobEnd)
    return asked


def test_a_short_beginning_in_common_does_not_take_a_slot() -> None:
    with serving(tiny("llama"), slots=2) as (_, scheduler):
        slots = [ask(scheduler, ids).events[0] for ids in (FIRST, [*FIRST[:9], *SECOND])]
        assert [begun.slot for begun in slots] == [0, 1]
        again = ask(scheduler, [*FIRST, 7]).events[0]
        assert (again.slot, again.cached) == (0, 100)
        longer = ask(scheduler, [*FIRST[:50], *SECOND]).events[0]
        assert (longer.slot, longer.cached) == (0, 50)  # more than a tenth of it


def test_a_job_can_name_its_slot_and_refuse_what_that_remembers() -> None:
    with serving(tiny("llama"), slots=2) as (_, scheduler):
        assert ask(scheduler, FIRST, slot=1).events[0].slot == 1
        assert ask(scheduler, FIRST, slot=0).events[0].cached == 0
        assert ask(scheduler, FIRST, slot=1).events[0].cached == 99
        assert ask(scheduler, FIRST, slot=1, cached=False).events[0].cached == 0
        long = Asked([1, 5], 1000, slot=0, ignore_eos=True)
        waits = Asked(FIRST, slot=0)
        scheduler.submit([long.job])
        long.next()
        scheduler.submit([waits.job])
        assert ask(scheduler, SECOND).events[0].slot == 1  # is not held up
        assert waits.told.empty()
        long.job.cancelled = True
        waits.all()
        assert waits.events[0].slot == 0
        with pytest.raises(UsageError, match="no slot 2: this server has 2"):
            scheduler.submit([Asked(FIRST, slot=2).job])


def test_progress_is_told_batch_by_batch() -> None:
    with serving(tiny("llama"), slots=1, n_batch=64) as (_, scheduler):

        def told(ids: list[int]) -> list[tuple[int, int, int]]:
            asked = ask(scheduler, ids, progress=True)
            assert isinstance(asked.events[0], JobStart)
            found = [event for event in asked.events if isinstance(event, JobProgress)]
            seconds = [event.seconds for event in found]
            assert seconds[0] == 0
            assert seconds == sorted(seconds)
            first = next(event for event in asked.events if isinstance(event, Piece))
            assert first.seconds >= seconds[-1]
            return [(event.total, event.cached, event.processed) for event in found]

        assert told(FIRST) == [(100, 0, 0), (100, 0, 64), (100, 0, 100)]
        assert told(FIRST) == [(100, 99, 99), (100, 99, 100)]
        assert not any(isinstance(event, JobProgress) for event in ask(scheduler, SECOND).events)


def test_probabilities_behind_the_samplers() -> None:
    with serving(tiny("llama")) as (_, scheduler):

        def tops(**options: Any) -> list[Any]:
            asked = ask(scheduler, FIRST, 4, top=8, ignore_eos=True, **options)
            return [event for event in asked.events if isinstance(event, Piece)]

        drawn = {"temperature": 1.5, "top_k": 3, "top_p": 1.0, "min_p": 0.0, "seed": 4}
        for piece in tops(sampled=True, **drawn):
            assert len(piece.chances.top) == 3
            assert sum(math.exp(chance) for _, chance in piece.chances.top) == pytest.approx(1)
            assert dict(piece.chances.top)[piece.id] == pytest.approx(piece.chances.logprob)
        plain = tops(**drawn)
        assert [piece.id for piece in plain] == [piece.id for piece in tops(sampled=True, **drawn)]
        assert all(len(piece.chances.top) == 8 for piece in plain)
        for piece in tops(sampled=True):
            assert piece.chances.top == [(piece.id, 0.0)]
        biased = {"logit_bias": [(77, 60.0)], **drawn}
        for piece in tops(sampled=True, **biased):
            assert piece.id == 77
            assert piece.chances.logprob == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("size", [1, 63, 64, 700, 20_011])
def test_the_most_probable_tokens_are_those_of_a_whole_sort(size: int) -> None:
    np = reference("numpy")
    rng = np.random.default_rng(size)
    for draw in (rng.normal(0, 3, size), rng.integers(0, 4, size), np.sort(rng.normal(0, 9, size))):
        for impossible in (0.0, 0.5, 0.999):
            row = draw.astype(np.float32)
            row[rng.random(size) < impossible] = -np.inf
            whole = np.argsort(-row, kind="stable")
            for top in (1, 2, 20, 100, 1000):
                best = whole[:top][row[whole[:top]] > -np.inf]
                assert most_probable(row, top).tolist() == best.tolist()
            row[0] = 1.0
            chances = token_chances(row, 0, 0)
            assert chances.top == []
            assert chances.logprob == pytest.approx(1 - np.log(np.exp(row, dtype=float).sum()))


def test_a_full_slot_forgets_half_of_its_text() -> None:
    with serving(tiny("llama"), slots=1, n_ctx=256, context_shift=True) as (_, scheduler):
        asked = ask(scheduler, FIRST, 400, ignore_eos=True)
        done = asked.events[-1]
        assert (done.end, done.generated, done.truncated) == ("length", 400, True)
        ids = scheduler.slots[0].ids
        assert len(ids) < 256
        assert [*FIRST, *asked.ids][-len(ids) - 1 : -1][-100:] == ids[-100:]
        kept = ask(scheduler, SECOND, 200, ignore_eos=True, keep=30, cached=False)
        assert kept.events[-1].truncated
        assert scheduler.slots[0].ids[:30] == SECOND[:30]
        assert not ask(scheduler, [5, 6], 9).events[-1].truncated
    with serving(tiny("llama"), slots=1, n_ctx=256) as (_, scheduler):
        asked = Asked(FIRST, scheduler.room(100), ignore_eos=True)
        asked.job.terms = replace(asked.job.terms, limit=None)
        scheduler.submit([asked.job])
        done = asked.all()
        assert (done.generated, done.truncated) == (156, True)


def test_memory_that_cannot_be_shifted_is_refused() -> None:
    with (
        pytest.raises(UnsupportedError, match="cannot be shifted"),
        serving(tiny("mamba"), context_shift=True),
    ):
        pass


def test_slots_share_their_cells() -> None:
    """Answers that find no cells wait, and are the same in the end."""
    model = tiny("llama")
    prompts = [[300 + number, 5, 9] for number in range(4)]
    with serving(model, slots=1, n_ctx=256) as (_, scheduler):
        wanted = [ask(scheduler, ids, 90, ignore_eos=True).ids for ids in prompts]
    with serving(model, slots=4, n_ctx=256, kv_unified=True) as (_, scheduler):
        assert scheduler.room(6) == 250
        many = [Asked(ids, 90, ignore_eos=True) for ids in prompts]
        scheduler.submit([asked.job for asked in many])
        for asked in many:
            assert asked.all().generated == 90
        assert [asked.ids for asked in many] == wanted
        whole = ask(scheduler, FIRST, scheduler.room(100), ignore_eos=True)
        assert whole.events[-1].generated == 156  # what the others remembered is forgotten
    with (
        pytest.raises(UsageError, match="depends on the others"),
        serving(tiny("llama", wtype="Q8_0"), exact=True, kv_unified=True),
    ):
        pass


def save(scheduler: Scheduler, slot: int, path: str) -> tuple[int, int]:
    """Save a slot; returns tokens and bytes."""
    tokens, parts = scheduler.run_on_slot(slot, Slot.save).result(30)
    return tokens, write_slot_file(scheduler.context.model, path, parts)


def restore(scheduler: Scheduler, slot: int, path: str) -> int:
    """Restore a slot; returns its tokens."""
    data = read_slot_file(scheduler.context.model, path)
    return scheduler.run_on_slot(slot, lambda slot: slot.restore(data)).result(30)


def test_a_state_that_does_not_fit_leaves_a_slot_as_it_was(tmp_path: Path) -> None:
    path = str(tmp_path / "slot")
    with serving(tiny("llama"), slots=1, n_ctx=512) as (_, scheduler):
        ask(scheduler, [*FIRST, *SECOND], slot=0)
        save(scheduler, 0, path)
    for options in ({"n_ctx": 128}, {"n_ctx": 512, "kv_type": "q8_0", "flash_attention": "on"}):
        with serving(tiny("llama"), slots=1, **options) as (_, scheduler):
            answer = ask(scheduler, FIRST).ids
            with pytest.raises(FormatError, match="does not fit"):
                restore(scheduler, 0, path)
            again = ask(scheduler, FIRST)
            assert (again.events[0].cached, again.ids) == (99, answer)


def test_a_slot_is_saved_and_restored(tmp_path: Path) -> None:
    path = str(tmp_path / "slot")
    with serving(tiny("llama"), slots=2) as (_, scheduler):
        answer = ask(scheduler, FIRST, slot=1).ids
        tokens, size = save(scheduler, 1, path)
        assert tokens == 104
        assert size == (tmp_path / "slot").stat().st_size
        assert scheduler.run_on_slot(1, lambda slot: slot.erase()).result(30) == 104
        assert ask(scheduler, FIRST, slot=1).events[0].cached == 0
        assert restore(scheduler, 0, path) == 104
        again = ask(scheduler, FIRST, slot=0)
        assert (again.events[0].cached, again.ids) == (99, answer)

        raw = (tmp_path / "slot").read_bytes()
        flipped, token = bytearray(raw), bytearray(raw)
        flipped[-1000] ^= 1
        token[24 + 4 * 50] ^= 1
        kept = scheduler.slots[0].ids
        more = raw[:8] + (105).to_bytes(4, "little") + raw[12:]
        for name, damaged in {
            "cut": raw[:-9], "none": b"", "flipped": bytes(flipped), "more": more,
            "token": bytes(token),
            "magic": b"x" + raw[1:], "plain": raw[:-40],
        }.items():  # fmt: skip
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(FormatError, match=r"does not fit|damaged|cut"):
                restore(scheduler, 0, str(tmp_path / name))
            assert scheduler.slots[0].ids == kept
        assert ask(scheduler, FIRST, slot=0).events[0].cached == 99
        with pytest.raises(UsageError, match="no such file"):
            restore(scheduler, 0, path + "x")
        with pytest.raises(UsageError, match="no slot 7"):
            scheduler.run_on_slot(7, lambda slot: slot.erase())

        busy = Asked([1, 5], 1000, slot=0, ignore_eos=True)
        scheduler.submit([busy.job])
        busy.next()
        erased = scheduler.run_on_slot(0, lambda slot: slot.erase())
        assert not erased.done()
        busy.job.cancelled = True
        assert erased.result(30) > 0
        assert ask(scheduler, FIRST, slot=0).ids == answer
