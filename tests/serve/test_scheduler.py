"""The slots of one context answer together, each as if it were alone, in as much context as nobody
said; what is told wakes the event loop.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pytest
from llm_models import own, reciting, tiny
from serving import Asked, serving

from mtkit.api.generation import generate
from mtkit.errors import ResourceError, UnsupportedError, UsageError
from mtkit.llm.header import ModelHeader
from mtkit.memory_plan.plan import PlanSettings
from mtkit.serve.job import JobEnd, JobFailure, JobStart, QueueFull, ServerClosed
from mtkit.serve.model import Mailbox
from mtkit.serve.scheduler import batch_rows

TEXTS = (
    "The quick brown fox",
    "To list files, use",
    "Hello " * 90,
    "print(1)",
    "你好 and 😀",
    "a",
    "Once upon a time there was a directory with many files in it.",
)


def alone(model: Any, ids: list[int], limit: int, **given: Any) -> list[int]:
    made = generate(
        ids, model=model, n_predict=limit, threads=1, trial=False, kv_type="bf16", **given
    )
    return made.ids


@pytest.mark.parametrize(
    "name", ["own/model/mtkit-docs-target-q8_0.gguf", "own/model/mtkit-docs-target-q4_0.gguf"]
)
def test_greedy_answers_are_those_of_generate(name: str) -> None:
    check_exact(own(name), 40)


@pytest.mark.parametrize("arch", ["llama", "qwen3", "gemma3"])
def test_greedy_answers_of_random_models(arch: str) -> None:
    check_exact(tiny(arch, wtype="Q8_0"), 25)


LIST = 'root ::= "[" [0-9]+ (", " [0-9]+)* "]"'


@pytest.mark.parametrize(
    "options", [{}, {"draft_lookup": True, "draft_auto": False}, {"kv_unified": True}]
)
def test_tokens_that_nobody_waits_for_are_the_same(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    from mtkit.serve.slot import GrammarVerification

    late, chance = 0, random.Random(2)

    def is_ready(self: GrammarVerification, seconds: float = 0.0) -> bool:
        nonlocal late
        late += 1
        return chance.random() < 0.5 and is_there(self, max(seconds, 9.0))

    is_there = GrammarVerification.is_ready
    model = own("own/model/mtkit-docs-target-q4_0.gguf")
    asked = [
        {"grammar": LIST, "temperature": 0.0},
        {"grammar": LIST, "temperature": 1.0, "seed": 4, "top": 3},
        {"json_schema": '{"type": "array", "items": {"type": "integer"}}', "temperature": 0.0},
        {},
    ]
    told: list[Any] = []
    for is_late in (False, True):
        if is_late:
            monkeypatch.setattr(GrammarVerification, "is_ready", is_ready)
        with serving(model, parallel=4, **options) as (runner, scheduler):
            ids = runner.model.tokenize("Numbers: [1, 2, 3, 4] and [1, 2, 3, 4] and ")
            jobs = [Asked(ids, 30, **one) for one in asked]
            scheduler.submit([one.job for one in jobs])
            ends = [job.all() for job in jobs]
            assert all(isinstance(end, JobEnd) for end in ends), ends
            told.append([(job.ids, job.text, end.end) for job, end in zip(jobs, ends, strict=True)])
    assert told[0] == told[1]
    assert late > 60


def test_a_slow_grammar_holds_up_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from mtkit.llama import Grammar

    mask, going = Grammar.mask, threading.Event()

    def slow(self: Grammar, logits: Any) -> bool:
        going.wait(30)
        return mask(self, logits)

    monkeypatch.setattr(Grammar, "mask", slow)
    with serving(tiny(), parallel=3) as (_, scheduler):
        jobs = [Asked([1, 5, 9], 9, grammar='root ::= "a"+') for _ in range(2)]
        scheduler.submit([job.job for job in jobs])
        plain = Asked([1, 5], 40)
        scheduler.submit([plain.job])
        assert isinstance(plain.all(), JobEnd)  # while the others wait for their first tokens
        assert len(plain.ids) == 40
        assert any(slot.pending for slot in scheduler.slots)
        jobs[1].job.cancelled = True
        going.set()
        assert isinstance(jobs[0].all(), JobEnd)
        assert set(jobs[0].text) == {"a"}


def test_all_tokens_of_a_grammar_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.llm.sampling.MOST_OF_ANSWER", 0.0)
    with serving(tiny()) as (_, scheduler):
        slow = Asked([1, 5, 9], 9, grammar='root ::= "a"*')
        scheduler.submit([slow.job])
        failed = slow.all()
        assert isinstance(failed, JobFailure)
        assert "too many ways" in str(failed.error)


def test_a_grammar_that_becomes_slow_ends_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.llm.sampling.MOST_SECONDS", 0.0)
    with serving(tiny()) as (_, scheduler):
        slow, plain = Asked([1, 5, 9], 9, grammar='root ::= "a"*'), Asked([1, 5], 3)
        scheduler.submit([slow.job, plain.job])
        failed = slow.all()
        assert isinstance(failed, JobFailure)
        assert isinstance(failed.error, ResourceError)
        assert "too many ways" in str(failed.error)
        assert isinstance(plain.all(), JobEnd)


def check_exact(model: Any, limit: int) -> None:
    with serving(model, exact=True) as (runner, scheduler):
        prompts = [runner.model.tokenize(text) for text in TEXTS]
        expected = [alone(model, ids, limit) for ids in prompts]
        for ids, wanted in zip(prompts, expected, strict=True):  # one after the other
            asked = Asked(ids, limit)
            scheduler.submit([asked.job])
            asked.all()
            assert asked.ids == wanted
        chance = random.Random(3)
        for _ in range(3):  # all at once, in any order: slots come and go
            order = list(range(len(prompts)))
            chance.shuffle(order)
            many = [Asked(prompts[at], limit) for at in order]
            before = scheduler.rounds
            for asked in many:
                scheduler.submit([asked.job])
            for asked in many:
                asked.all()
            assert [asked.ids for asked in many] == [expected[at] for at in order]
            assert scheduler.rounds - before < sum(map(len, expected)) * 0.7  # they shared batches


def test_float_weights_are_not_called_exact() -> None:
    with (
        pytest.raises(UnsupportedError, match="depends on what else"),
        serving(tiny("llama"), exact=True),
    ):
        pass


def test_random_answers_follow_their_own_seed() -> None:
    given = {"temperature": 1.0, "seed": 7, "top_k": 0, "repeat_penalty": 1.3}
    model = tiny("llama", wtype="Q8_0")
    with serving(model, exact=True) as (runner, scheduler):
        ids = runner.model.tokenize("Hello")
        wanted = alone(model, ids, 15, **given)
        many = [Asked(ids, 15, **given), Asked(ids, 15), Asked(ids, 15, **{**given, "seed": 8})]
        for asked in many:
            scheduler.submit([asked.job])
        for asked in many:
            asked.all()
        assert many[0].ids == wanted
        assert many[1].ids == alone(model, ids, 15)
        assert many[2].ids != wanted


def test_an_answer_ends() -> None:
    with serving(reciting()) as (runner, scheduler):

        def asked(limit: int = 50, **options: Any) -> tuple[JobEnd, Asked]:
            one = Asked([runner.model.bos], limit, **options)
            scheduler.submit([one.job])
            return one.all(), one

        done, one = asked()
        assert (done.end, one.text.strip()) == ("eog", "Hello world, you read me.")
        done, one = asked(stops=["you", "read"])
        assert (done.end, done.stop, one.text.strip()) == ("stop", "you", "Hello world,")
        done, one = asked(3)
        assert (done.end, done.generated, len(one.ids)) == ("length", 3, 3)
        done, one = asked(4, grammar='root ::= "yes"')
        assert one.text == "yes"
        done, one = asked(3, top=4)
        for event in one.events[1:-1]:
            chances = event.chances
            assert chances.top[0] == (event.id, pytest.approx(chances.logprob))
            assert len(chances.top) == 4
            assert sorted(chances.top, key=lambda pair: -pair[1]) == chances.top


def test_a_prompt_that_was_there_is_not_computed_again() -> None:
    model = tiny("llama", wtype="Q8_0")
    with serving(model, exact=True, slots=2) as (_, scheduler):
        chance = random.Random(1)
        first = [chance.randrange(300, 900) for _ in range(150)]
        second = [chance.randrange(300, 900) for _ in range(150)]

        def ask(ids: list[int]) -> tuple[JobStart, list[int]]:
            asked = Asked(ids, 5)
            scheduler.submit([asked.job])
            asked.all()
            return asked.events[0], asked.ids

        begun, answer = ask(first)
        assert (begun.cached, begun.broken.cached) == (0, None)
        begun, _ = ask(second)
        assert begun.cached == 0
        begun, again = ask(first)  # finds its slot, and the last token is computed again
        assert (begun.cached, again) == (149, answer)
        begun, _ = ask([*first, *answer, 400])
        assert begun.cached == 154  # the last token of the answer never was computed
        assert (begun.broken.position, begun.broken.cached) == (154, None)
        changed = [*first[:100], 299, *first[101:]]
        begun, found = ask(changed)
        assert (begun.cached, begun.broken.position) == (100, 100)
        assert (begun.broken.cached, begun.broken.prompt) == (first[100], 299)
        assert found == alone(model, changed, 5)


def test_recurrent_memory_is_kept_where_a_prompt_goes_on() -> None:
    model = tiny("mamba")
    with serving(model, slots=2) as (runner, scheduler):
        ids = runner.model.tokenize("Hello world, you read me.")
        for text in (ids, ids, [*ids, *ids], ids[:-3]):
            asked = Asked(text, 8)
            scheduler.submit([asked.job])
            asked.all()
            assert asked.ids == generate(text, model=model, n_predict=8, threads=1, trial=False).ids


def test_the_queue_is_bounded_and_cancelled_jobs_leave() -> None:
    with serving(tiny("llama"), slots=2, queue=2, n_ctx=8192) as (_, scheduler):
        running = [Asked([1, 5, 9], 3000, ignore_eos=True) for _ in range(2)]
        waiting = [Asked([1, 5, 9], 3) for _ in range(2)]
        for asked in (*running, *waiting):
            scheduler.submit([asked.job])
        with pytest.raises(QueueFull) as refused:
            scheduler.submit([Asked([1], 3).job])
        assert refused.value.seconds >= 1
        for asked in running:
            asked.next()
        waiting[0].job.cancelled = True
        later = Asked([1, 5, 9], 3)
        scheduler.submit([later.job])  # in the place of one that nobody waits for
        running[0].job.cancelled = True
        assert waiting[1].all().end == "length"  # in the slot that became free
        assert later.all().end == "length"
        assert waiting[0].told.empty()
        running[1].job.cancelled = True
        end = time.monotonic() + 30
        while any(slot.job for slot in scheduler.slots) and time.monotonic() < end:
            time.sleep(0.01)
        assert not any(slot.job for slot in scheduler.slots)


def test_bad_jobs_do_not_end_the_others() -> None:
    with serving(tiny("llama")) as (_, scheduler):
        good = Asked([1, 5, 9], 60, ignore_eos=True)
        bad = [Asked([1, 5, 9], 9, grammar="root ::= ("), Asked([1, 10**6], 9)]
        for asked in (good, *bad):
            scheduler.submit([asked.job])
        for asked in bad:
            failed = asked.all()
            assert isinstance(failed, JobFailure)
            assert isinstance(failed.error, UsageError)
        assert good.all().generated == 60
        with pytest.raises(ResourceError, match="of 512 tokens exceeds the available"):
            scheduler.room(512)
        full = Asked([1] * 500, scheduler.room(500), ignore_eos=True)
        scheduler.submit([full.job])
        assert full.all().generated == 12


def test_a_failing_batch_fails_its_jobs_alone() -> None:
    with serving(tiny("llama")) as (_, scheduler):
        compute, broken = scheduler.context.compute, threading.Event()

        def failing(parts: Any) -> Any:
            if broken.is_set():
                broken.clear()
                raise UnsupportedError("llama.cpp fails")
            return compute(parts)

        scheduler.context.compute = failing
        many = [Asked([1, 5, number], 400, ignore_eos=True) for number in (7, 8)]
        for asked in many:
            scheduler.submit([asked.job])
            asked.next()
        broken.set()
        for asked in many:
            assert isinstance(asked.all(), JobFailure)
        after = Asked([1, 5, 7], 6)
        scheduler.submit([after.job])
        assert after.all().generated == 6


def test_the_end_tells_everyone() -> None:
    with serving(tiny("llama"), slots=1, n_ctx=8192) as (_, scheduler):
        running, waiting = (Asked([1, 5], 8000, ignore_eos=True) for _ in range(2))
        for asked in (running, waiting):
            scheduler.submit([asked.job])
        running.next()
        scheduler.drain()
        assert isinstance(waiting.all().error, ServerClosed)
        with pytest.raises(ServerClosed):
            scheduler.submit([waiting.job])
        assert scheduler.slots[0].job is running.job  # goes on
        scheduler.close()
        assert isinstance(running.all().error, ServerClosed)


def test_shares_of_a_batch() -> None:
    assert batch_rows([1, 1, 1], 128) == [1, 1, 1]
    assert batch_rows([700, 300], 512) == [256, 256]
    assert batch_rows([700, 30], 512) == [482, 30]
    assert batch_rows([1, 700, 1, 30], 128) == [1, 98, 1, 30]
    chance = random.Random(5)
    for _ in range(500):
        waiting = [chance.choice([1, 2, 40, 900]) for _ in range(chance.randrange(1, 9))]
        running, left = waiting.count(1), chance.randrange(9, 600)
        found = batch_rows(waiting, left)
        assert all(0 <= share <= count for share, count in zip(found, waiting, strict=True))
        assert sum(found) == running + min(left, sum(waiting) - running)


def test_the_beginning_is_told_before_the_prompt_is_computed() -> None:
    with serving(tiny()) as (_, scheduler):
        asked, found = Asked([1, 2, 3], 2), []
        scheduler.on_events = lambda: found.append((asked.told.qsize(), scheduler.rounds))
        scheduler.submit([asked.job])
        asked.all()
    assert found[0] == (1, 0)
    assert isinstance(asked.events[0], JobStart)


def test_what_nobody_waits_for_comes_with_what_somebody_does() -> None:
    async def run() -> None:
        mailbox, values = Mailbox(), []
        mailbox.attach()
        loop = asyncio.get_running_loop()
        wakes, waking = [], loop.call_soon_threadsafe

        def count(call: Any, *rest: Any) -> Any:
            wakes.append(call)
            return waking(call, *rest)

        loop.call_soon_threadsafe = count  # type: ignore[method-assign]

        def add(*new: int, urgent: bool = False, awaited: bool = True) -> None:
            for value in new:
                mailbox.add(values.append, value, urgent=urgent, awaited=awaited)
            mailbox.deliver()

        def count_timer(seconds: float, call: Any, *rest: Any) -> Any:
            if call == mailbox._fetch:
                timers.append(call)
            return later(seconds, call, *rest)

        timers, later = [], loop.call_later
        loop.call_later = count_timer  # type: ignore[method-assign]
        add(1, 2, awaited=False)
        await asyncio.sleep(0.05)
        assert (values, len(wakes)) == ([], 0)
        add(3, urgent=True)
        await asyncio.sleep(0.05)
        assert (values, len(wakes)) == ([1, 2, 3], 1)
        assert not timers  # the next token may be far
        mailbox._woken = time.monotonic() + 1  # just now, however slow this machine is
        add(4)
        add(5)  # the loop may fetch it by itself
        add(6, awaited=False)
        await asyncio.sleep(0.05)
        assert timers
        assert values == [1, 2, 3, 4, 5, 6]
        add(7, awaited=False)
        await asyncio.sleep(0.05)
        assert values[-1] == 6
        add(8)
        await asyncio.sleep(0.05)
        assert values[-2:] == [7, 8]

    asyncio.run(run())


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
