"""What a request may ask for is counted before any of it is done."""

from __future__ import annotations

import asyncio
import ctypes
import json
import subprocess
import sys
import threading
import time
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from support import reference

from mtkit.base.record import replace
from mtkit.errors import ResourceError, UsageError
from mtkit.settings import SamplerSettings

LEAF = {"type": "string", "pattern": "^[a-z]{1,20}[0-9]+$"}


def tool(name: str, objects: int) -> dict[str, Any]:
    inner = {"type": "object", "properties": {f"q{n}": LEAF for n in range(12)}}
    parameters = {"type": "object", "properties": {f"p{n}": inner for n in range(objects)}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize("seed", range(6))
def test_the_schemas_of_all_tools_have_one_budget(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference("msgspec")
    import mtkit.llama
    from mtkit.serve.request import MOST_GRAMMAR, MOST_GRAMMARS
    from mtkit.serve.tool import Tools

    rng, compiled = Random(seed), []
    monkeypatch.setattr(mtkit.llama, "check_schema", compiled.append)
    tools = [tool(f"f{n}", rng.randint(1, 60)) for n in range(rng.randint(1, 40))]
    sizes = [len(json.dumps(one["function"]["parameters"])) for one in tools]
    fits = max(sizes) <= MOST_GRAMMAR and sum(sizes) <= MOST_GRAMMARS
    try:
        Tools(None, tools, "required")._force_call(SamplerSettings())
        assert fits
        assert len(compiled) == len(tools)
    except UsageError as error:
        assert not fits, error
        assert not compiled


def test_an_assertion_of_the_grammar_library_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    llguidance = reference("llguidance")
    from mtkit.llama.grammar import byte_vocabulary, compile_grammar

    class Matcher:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def is_error(self) -> bool:
            return True

        def get_error(self) -> str:
            return "panic: assertion failed: grammar.symbols.len() < u16::MAX as usize - 10"

    vocabulary = byte_vocabulary()
    monkeypatch.setattr(llguidance, "LLMatcher", Matcher)
    with pytest.raises(ResourceError, match="is too large or too deep"):
        compile_grammar(vocabulary, "start: /a/", "grammar")


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (json.dumps({f"u{n}": 1 for n in range(110_000)}), False),
        ("{" + ",".join(f'"u{n}" :1' for n in range(110_000)) + "}", False),
        (json.dumps([{"a": {"b": 1}}] * 60_000), False),
        (json.dumps({"prompt": json.dumps({f"u{n}": 1 for n in range(110_000)})}), True),
        (json.dumps({"prompt": '": ' * 110_000}), True),
        (json.dumps({"prompt": [1] * 200_000}), True),
    ],
)
def test_the_fields_of_a_body_are_counted(body: str, passes: bool) -> None:
    reference("starlette")
    from starlette.requests import Request

    from mtkit.serve.reply import Problem
    from mtkit.serve.request import read_bytes

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    async def read() -> bytes:
        scope = {"type": "http", "method": "POST", "headers": [], "path": "/"}
        return await read_bytes(Request(scope, receive))

    if passes:
        assert asyncio.run(read()) == body.encode()
        return
    with pytest.raises(Problem, match="more than 100000 fields"):
        asyncio.run(read())


@pytest.mark.parametrize("seed", range(4))
def test_answers_of_one_request_do_not_hold_up_others(seed: int) -> None:
    reference("starlette")
    from mtkit.serve.job import Job, Terms
    from mtkit.serve.queue import JobQueue

    rng = Random(seed)
    slots: Any = [SimpleNamespace(number=number, job=None) for number in range(3)]
    queue = JobQueue(slots, 64)
    counts = [40, *(1 for _ in range(rng.randint(1, 5)))]
    jobs = [
        [Job([1], Terms(SamplerSettings()), 1, lambda _: None) for _ in range(count)]
        for count in counts
    ]
    with queue.change:
        for request in jobs:
            queue.add(request, 1.0)
    order = []
    for turn in range(sum(counts)):
        slot = slots[turn % 3]
        slot.job = None
        slot.job = queue.next([slot])
        order.append(slot.job)
    assert len({id(job) for job in order}) == sum(counts)
    assert [order.index(job) for job in jobs[0]] == sorted(order.index(job) for job in jobs[0])
    assert max(order.index(request[0]) for request in jobs) <= 2 * len(counts)


def test_long_bodies_are_read_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    reference("starlette")
    from mtkit.serve import request
    from mtkit.serve.reply import Problem

    pace, clock, slept = request.Pace(4), [100.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(request, "_reading", pace)
    monkeypatch.setattr(request.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(request.asyncio, "sleep", sleep)
    body = b"1," * 50_000  # a tenth of a second

    async def read(count: int) -> None:
        for _ in range(count):
            await request._wait_for_turn(body)

    asyncio.run(read(4))
    assert slept == pytest.approx([0.5, 1.0, 1.5], abs=0.01)
    with pytest.raises(Problem, match="too many long requests") as refused:
        asyncio.run(read(1))
    assert (refused.value.status, refused.value.headers) == (503, {"retry-after": "2"})
    clock[0] += 3600  # a clock that jumps holds up nobody
    asyncio.run(read(1))
    assert len(slept) == 3


def test_other_work_leaves_half_of_the_time_to_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    reference("starlette")
    from mtkit.serve.queue import JobQueue, Pace
    from mtkit.serve.scheduler import Scheduler, time

    clock, times = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    slot: Any = SimpleNamespace(number=0, job=None, past=0, used=0)
    queue = JobQueue([slot], 4)

    def work(_: object) -> None:
        times.append(clock[0])
        clock[0] += 0.5

    with queue.change:
        for _ in range(6):
            queue.add_work(None, work)
    mine: Any = SimpleNamespace(slots=[slot], _queue=queue, _pace=Pace(1))
    Scheduler._run_work(mine)
    Scheduler._run_work(mine)
    assert times == [100.0, 100.5]  # nothing else to do
    slot.job = object()
    for _ in range(20):
        Scheduler._run_work(mine)
        clock[0] += 0.125  # a batch
    assert [b - a for a, b in pairwise(times[1:])] == [1.0] * 4


@pytest.mark.parametrize("seed", range(4))
def test_costly_answers_take_turns_beside_plain_ones(seed: int) -> None:
    reference("starlette")
    from mtkit.serve.scheduler import slots_in_turn

    rng = Random(seed)
    slots: Any = [
        SimpleNamespace(
            number=number,
            waiting=rng.choice((0, 1, 1, 50)),
            is_costly=number > 1,
            turn=number,
        )
        for number in range(9)
    ]
    slots[0].waiting = 1
    costly = [slot for slot in slots if slot.waiting == 1 and slot.is_costly]
    room, went = rng.randint(0, 3), []
    for turn in range(10, 10 + len(costly)):
        batch = slots_in_turn(slots, room)
        assert [slot for slot in batch if slot not in costly] == [
            slot for slot in slots if slot not in costly
        ]
        mine = [slot for slot in costly if slot in batch]
        assert len(mine) == min(len(costly), max(room, 1))
        went += mine
        for slot in mine:
            slot.turn = turn
    assert all(slot in went for slot in costly)
    slots[0].waiting = slots[1].waiting = 0
    assert slots_in_turn(slots, 0) == slots  # nobody is held up


@pytest.mark.parametrize("row", [0.01, 0.1, 0.5, 2.0])
def test_a_batch_takes_little_longer_than_its_answers_do(row: float) -> None:
    reference("starlette")
    from mtkit.serve.scheduler import PROMPT_ROWS, BatchTimes

    times = BatchTimes()
    times.add(4, 9.0)
    assert times.room(1) == PROMPT_ROWS  # nothing is known
    for rows in [1, 9, 1, 40, 3, 1] * 9:
        times.add(rows, 1.0 + (rows - 1) * row)
    times.add(1, 60.0)  # the system did something else
    for own in (1, 3):
        alone = 1.0 + (own - 1) * row
        most = times.most * alone * 1.5
        assert alone + times.room(own) * row <= most
        assert times.room(own) >= min(PROMPT_ROWS, int(0.9 * alone / row))
    room, costly = times.room(1), 3.0
    for _ in range(60):  # what a costly answer takes alone is no measure, and what it adds counts
        times.add(1, costly, is_plain=False)
        times.add(2, 1.0 + costly, is_plain=False)
    assert times.room(1) <= min(room, 1)
    for _ in range(60):  # plain answers as fast as before, or on a busy machine
        times.add(3, 3 * (1.0 + 2 * row))
    assert times.room(1) <= min(room, 1)


def test_costly_jobs_wait_for_some_plain_ones() -> None:
    reference("starlette")
    from mtkit.serve.job import Job, Terms
    from mtkit.serve.queue import JobQueue

    sampler = SamplerSettings()
    costly = [
        Terms(replace(sampler, grammar="root ::= [a-z]")),
        Terms(replace(sampler, json_schema="{}")),
        Terms(replace(sampler, logit_bias=tuple((n, 1.0) for n in range(99)))),
        Terms(sampler, stops=["a"] * 99),
        Terms(sampler, top=0),
    ]
    slots: Any = [SimpleNamespace(number=0, job=None)]
    for terms in costly:
        queue = JobQueue(slots, 64)
        with queue.change:
            jobs = [Job([1], terms, 1, print) for terms in (terms, *[Terms(sampler)] * 9)]
            for job in jobs:
                queue.add([job], 1.0)
            order = [queue.next(slots) for _ in jobs]
        assert 0 < order.index(jobs[0]) < 4
        assert [job for job in order if job is not jobs[0]] == jobs[1:]


def test_long_work_is_done_one_after_the_other_with_pauses() -> None:
    reference("starlette")
    from mtkit.serve.request import Lane

    lane, spans = Lane("test", 2), []

    def work() -> None:
        start = time.monotonic()
        until = time.thread_time() + 0.005
        while time.thread_time() < until:
            pass
        spans.append((start, time.monotonic()))

    async def work_together() -> None:
        await asyncio.gather(*(lane.run(work) for _ in range(4)))

    asyncio.run(work_together())
    assert all(b - a >= 0.009 for (_, a), (b, _) in pairwise(spans))


@pytest.mark.parametrize("seed", range(4))
def test_long_bodies_are_decoded_where_there_is_room(seed: int) -> None:
    reference("starlette")
    from mtkit.serve.reply import ClientGone
    from mtkit.serve.request import BodyRoom

    rng, room, held, most = Random(seed), BodyRoom(1000), [0], [0]

    def request(leaves: bool) -> Any:
        async def receive() -> dict[str, str]:
            await asyncio.sleep(0 if leaves else 9)
            return {"type": "http.disconnect"}

        state = SimpleNamespace()
        return SimpleNamespace(receive=receive, state=state, scope={"state": vars(state)})

    async def ask(size: int, *, leaves: bool, early: bool) -> bool:
        mine = request(leaves)
        try:
            await room.take(mine, size)
            held[0] += min(size, 1000)
            most[0] = max(most[0], held[0])
            await asyncio.sleep(0.001)
            held[0] -= min(size, 1000)
            if early:
                room.leave()
                room.leave()
        except ClientGone:
            return False
        finally:
            room.give(mine.scope["state"])
        return True

    async def ask_together() -> list[bool]:
        rows = [(rng.choice((9, 300, 700, 5000)), rng.random() < 0.2) for _ in range(40)]
        asks = (ask(n, leaves=leaves, early=rng.random() < 0.5) for n, leaves in rows)
        answers = await asyncio.gather(*(asyncio.ensure_future(one) for one in asks))
        assert all(took for took, (_, leaves) in zip(answers, rows, strict=True) if not leaves)
        return answers

    answers = asyncio.run(ask_together())
    assert not all(answers)  # some left while they waited
    assert 700 < most[0] <= 1000
    assert room._left == 1000
    assert not room._waiting


def test_long_work_of_a_client_that_has_left_is_not_begun() -> None:
    reference("starlette")
    from mtkit.serve.reply import ClientGone
    from mtkit.serve.request import Lane, _receive

    lane, ran, free = Lane("test", 1), [], threading.Event()

    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def leave_later() -> dict[str, str]:
        while not ran:
            await asyncio.sleep(0.001)
        return await leave()

    async def work_together() -> None:
        first = asyncio.create_task(lane.run(lambda: free.wait(9)))
        await asyncio.sleep(0)
        _receive.set(leave)
        with pytest.raises(ClientGone):
            await lane.run(lambda: ran.append(1))
        free.set()
        assert await first
        _receive.set(leave_later)
        with pytest.raises(ClientGone):  # the model is lent until what has begun ends
            await lane.run(lambda: [ran.append(3), time.sleep(0.05), ran.append(4)])
        _receive.set(None)
        await lane.run(lambda: ran.append(2))

    asyncio.run(work_together())
    assert ran == [3, 4, 2]


def test_memory_is_given_back_until_no_long_grammar_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    reference("starlette")
    from mtkit.serve import guard

    stays, released = [True, True, False], []
    monkeypatch.setattr(guard, "_RELEASE_SECONDS", 0.001)
    monkeypatch.setattr(guard, "forget_long", lambda _: stays.pop(0))
    monkeypatch.setattr(guard, "release_memory", lambda: released.append(1))

    async def take(size: int) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": bytes(size)}

        with bodies.limit({"type": "http"}, receive) as limited:
            await limited()

    async def take_two() -> None:
        await take(1 << 15)
        await asyncio.sleep(0.02)
        assert not released
        await take((1 << 15) + 1)
        for _ in range(200):
            await asyncio.sleep(0.005)
            if not stays:
                break
        await asyncio.sleep(0.02)

    bodies = guard.BodyLimit(1 << 20)
    asyncio.run(take_two())
    assert len(released) == 3


@pytest.mark.parametrize("count", [65, 300, 5000])
def test_prompts_and_ids_are_counted_before_they_are_looked_at(count: int) -> None:
    reference("starlette")
    from mtkit.serve import prompt
    from mtkit.serve.job import PromptTooLong
    from mtkit.serve.queue import JobQueue
    from mtkit.serve.scheduler import Scheduler

    slots: Any = [SimpleNamespace(number=0, job=None)]
    scheduler: Any = SimpleNamespace(n_slot=64)
    scheduler.room = lambda size: Scheduler.room(scheduler, size)
    scheduler.check = lambda size, field: JobQueue(slots, 63).check(size, 1.0, field)
    for value, error in (
        ([1] * count, "tokens"), ([1, *["a"] * count], "tokens"), (["a"] * count, "answers"),
        ([[1]] * count, "answers"), ([None] * count, "answers"),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prompt, "prompt_of", None)
            with pytest.raises((UsageError, PromptTooLong), match=error):
                prompt.prompts_of(value, scheduler=scheduler)
    assert prompt.prompts_of([1] * 63, scheduler=scheduler) == [[1] * 63]
    assert prompt.prompts_of(["a"] * 64, scheduler=scheduler) == [["a"]] * 64


_BLOCKS = """
import os
from mtkit.base.process import return_memory

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

return_memory()
for size in (9_000_000, 5_000_000, 3_000_000):  # glibc alone keeps all but the first
    before = resident()
    blocks = [bytearray(b"x") * size for _ in range(5)]
    end = bytearray(900_000)  # in front of it nothing could be given back
    assert resident() > before + 4.5 * size / 1e6, "taken"
    del blocks
    assert resident() < before + 4, "kept"
    del end
"""


def test_large_blocks_are_given_back_at_once() -> None:
    """In a process of its own: the settings stay, and other threads would count."""
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("another C library than glibc")
    done = subprocess.run([sys.executable, "-c", _BLOCKS], capture_output=True, check=False)
    assert not done.returncode, done.stderr
