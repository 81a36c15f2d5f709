"""Slots that draft give the answers that they give without, and none is lost."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llm_models import own, reciting, tiny
from serving import Asked, serving
from serving_http import application, client
from support import shared

from mtkit.api.generation import generate
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.values import EMBEDDING, Rows
from mtkit.settings import DraftSettings
from mtkit.speculative import semantic_index, setup
from mtkit.speculative.costs import Costs
from mtkit.speculative.policy import shared_number

TARGET, DRAFT = "own/model/mtkit-docs-target-q8_0.gguf", "own/model/mtkit-docs-draft-q8_0.gguf"
ALWAYS: dict[str, Any] = {"draft_auto": False, "draft_max": 3}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is not remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def prompts() -> list[str]:
    """Return texts of several languages; the last repeats itself."""
    found = []
    for language in ("en", "zh", "code"):
        line = shared(f"own/prompts/{language}.jsonl").read_text("utf-8").splitlines()[0]
        found.append(json.loads(line)["prompt"][:300])
    return [*found, "one two three four five six seven " * 12]


def alone(model: Path, ids: list[int], limit: int, **given: Any) -> list[int]:
    """Return what ``mtkit generate`` writes without drafts."""
    made = generate(
        ids, model=model, n_predict=limit, threads=1, trial=False, kv_type="bf16", **given
    )
    return made.ids


def ask(scheduler: Any, ids: Sequence[int], limit: int, **options: Any) -> Asked:
    """Give a job to the slots."""
    asked = Asked(ids, limit, **options)
    scheduler.submit([asked.job])
    return asked


def group(name: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a group."""
    static: dict[str, Any] = {"draft": str(own(DRAFT))}
    if name in "CDE":
        lines = shared("own/freq/8k/en.txt").read_text("utf-8").splitlines()
        ids = [line.split()[0] for line in lines if not line.startswith("#")][:2048]
        (folder / "en.txt").write_text("\n".join(ids))
        static["sx_static_vocab"] = str(folder / "en.txt")
    if name == "D":
        file = open_gguf(str(own(TARGET)))
        semantic_index.write(Rows(file, file.names[EMBEDDING]), str(own(TARGET)), str(folder))
        static["sx_quant_embd"] = str(folder / "quant_embeddings.bin")
        static["sx_scales"] = str(folder / "scales.bin")
    if name == "E":
        static |= {"sx_seed_prompt": True, "sx_learn": True}
    if name == "lookup":
        return {"draft_lookup": True}
    return {**static, "draft_lookup": True} if name == "both" else static


@pytest.mark.parametrize("name", ["B", "C", "D", "E", "lookup", "both"])
def test_greedy_answers_are_those_of_generate(name: str, tmp_path: Path) -> None:
    model = own(TARGET)
    with serving(model, exact=True, **ALWAYS, **group(name, tmp_path)) as (runner, scheduler):
        ids = [runner.model.tokenize(text) for text in prompts()]
        wanted = [alone(model, one, 32) for one in ids]
        for at, one in enumerate(ids[:2]):
            asked = ask(scheduler, one, 32)
            assert asked.all().drafting["rounds"] >= 8
            assert asked.ids == wanted[at]
        before = scheduler.rounds
        many = [ask(scheduler, one, 32) for one in ids]
        # This one waits, and then runs beside those that draft.
        plain = ask(scheduler, ids[0], 32, speculative=False)
        done = [asked.all() for asked in many]
        assert [asked.ids for asked in many] == wanted
        assert plain.all().drafting is None
        assert plain.ids == wanted[0]
        seen = [one.drafting for one in done]
        assert all(one["accepted"] <= one["drafted"] for one in seen)
        assert sum(one["accepted"] for one in seen) > 20
        assert all(one["rounds"] + one["accepted"] == 32 for one in seen)
        assert scheduler.rounds - before < 32 + 32
        if name in "DE":
            assert seen[1]["dynamic_vocabulary"] > 0  # Chinese ids, which the English 2,048 lack
        if name == "D":
            assert seen[1]["triggers"] > 0


@pytest.mark.parametrize("arch", ["llama", "qwen3", "gemma3"])
def test_answers_of_random_models(arch: str) -> None:
    """What ends an answer ends it the same, wherever in a proposal that is."""
    model = tiny(arch, wtype="Q8_0")
    with serving(model, exact=True, **ALWAYS, draft=str(model), draft_lookup=True) as (
        _,
        scheduler,
    ):
        chance = random.Random(4)
        ids = [[chance.randrange(300, 900) for _ in range(size)] for size in (1, 5, 40, 150)]
        wanted = [alone(model, one, 30) for one in ids]
        for limits in ((30, 30, 30, 30), (1, 2, 3, 4), (5, 6, 7, 8)):
            many = [ask(scheduler, one, n) for one, n in zip(ids, limits, strict=True)]
            for asked in many:
                asked.all()
            assert [a.ids for a in many] == [w[:n] for w, n in zip(wanted, limits, strict=True)]


def test_random_answers_follow_their_seed() -> None:
    model = tiny("llama", wtype="Q8_0")
    given = {"temperature": 1.0, "seed": 7, "top_k": 5, "repeat_penalty": 1.3}
    with serving(model, exact=True, **ALWAYS, draft=str(model)) as (runner, scheduler):
        ids = runner.model.tokenize("Hello")
        many = [ask(scheduler, ids, 15, **given), ask(scheduler, ids, 15)]
        for asked in many:
            assert asked.all().drafting["drafted"] > 0
        assert many[0].ids == alone(model, ids, 15, **given)
        assert many[1].ids == alone(model, ids, 15)


def test_an_answer_ends_as_without_drafts() -> None:
    model = reciting()
    with serving(model, **ALWAYS, draft=str(model)) as (runner, scheduler):

        def told(**options: Any) -> tuple[str, str]:
            asked = ask(scheduler, [runner.model.bos], options.pop("limit", 50), **options)
            return asked.all().end, asked.text.strip()

        assert told() == ("eog", "Hello world, you read me.")
        assert told(stops=["you"]) == ("stop", "Hello world,")
        assert told(limit=3)[0] == "length"
        assert told(limit=9, grammar='root ::= "yes"')[1] == "yes"
        asked = ask(scheduler, [runner.model.bos], 4, top=3)
        asked.all()
        assert [len(event.chances.top) for event in asked.events[1:-1]] == [3] * 4


def test_each_slot_has_a_vocabulary_of_its_own(tmp_path: Path) -> None:
    """It is kept where a text goes on, and forgotten where another one begins."""
    with serving(own(TARGET), exact=True, slots=2, **ALWAYS, **group("E", tmp_path)) as pair:
        runner, scheduler = pair
        english, chinese, _, other = (runner.model.tokenize(text) for text in prompts())
        first, second = (slot.seat.draft.learning.vocabulary for slot in scheduler.slots)
        asked = ask(scheduler, chinese, 16)
        size = asked.all().drafting["dynamic_vocabulary"]
        assert (first.size, second.size) == (size, 0)
        assert size > 10
        further = ask(scheduler, [*chinese, *asked.ids, *chinese[:4]], 8)
        assert further.all().drafting["dynamic_vocabulary"] >= size
        learnt = set(first.ids[2048:].tolist()) & set(chinese) - {*english, *other}
        assert len(learnt) > 5
        for text in (english, other):  # one in each slot: both begin otherwise
            ask(scheduler, text[1:], 2).all()
        assert not learnt & set(first.ids.tolist())


def test_answers_that_are_cancelled_leave_slots_as_they_were() -> None:
    model = tiny("llama", wtype="Q8_0")
    chance = random.Random(8)
    with serving(model, exact=True, slots=3, **ALWAYS, draft=str(model)) as (_, scheduler):
        base = [chance.randrange(300, 900) for _ in range(40)]
        texts = [[*base[:size], 5 + size] for size in (5, 20, 35)]
        wanted = [alone(model, text, 12) for text in texts]
        for turn in range(30):
            many = [ask(scheduler, texts[(turn + at) % 3], 12 + 50 * (at > 1)) for at in range(4)]
            for asked in many[2:]:
                for _ in range(chance.randrange(1, 6)):
                    asked.next()
                asked.job.cancelled = True
            for at, asked in enumerate(many[:2]):
                asked.all()
                assert asked.ids == wanted[(turn + at) % 3]
        end = time.monotonic() + 30
        while any(slot.job for slot in scheduler.slots) and time.monotonic() < end:
            time.sleep(0.01)
        assert not any(slot.job for slot in scheduler.slots)
        for slot in scheduler.slots:
            assert slot.past == len(slot.ids)
            assert not slot.proposal.ids


def test_a_long_prompt_is_read_in_parts() -> None:
    """A draft that is far behind reads a part before each batch: the others wait for it."""
    model = tiny("llama", wtype="Q8_0")
    with serving(model, exact=True, slots=2, **ALWAYS, draft=str(model)) as (_, scheduler):
        ids = [300 + at % 500 for at in range(700)]
        asked = ask(scheduler, ids, 24)
        figures = asked.all().drafting
        assert asked.ids == alone(model, ids, 24)
        assert figures["drafted"] > 0
        assert figures["rounds"] >= 5  # the first ones were not drafted


def known(batches: dict[int, float], draft: float, read: float = 0.0) -> Costs:
    """Return costs that were measured."""
    found = Costs()
    for size, cost in batches.items():
        found.saw_batch(size, cost)
    found.saw_draft(1, draft)
    found.saw_reading(1, read)
    return found


def number(costs: Costs, rates: list[float], others: int = 0, behind: int = 0) -> list[int]:
    """Return how many are drafted in the next rounds."""
    numbers, rest = [], 0
    while len(numbers) < 40:
        count, _, rest = shared_number(costs, rates, others, behind, 100, 6)
        numbers += [count, *[0] * rest]
    return numbers[:40]


def test_how_many_are_drafted() -> None:
    flat = {2: 1.0, 16: 1.1, 32: 1.2}
    assert set(number(known(flat, 0.01), [0.9, 0.9])) == {6}
    assert set(number(known(flat, 0.3), [0.9, 0.9])) < {2, 3, 4}
    assert set(number(known(flat, 0.01), [0.0, 0.05])) == {0, 2}  # looks now and then
    assert number(known(flat, 0.01), [0.0, 0.05]).count(2) < 5
    linear = {16: 16.0}
    assert set(number(known(linear, 0.1), [0.9])) == {0}  # not even where all were accepted
    assert number(known(flat, 0.01, 10.0), [0.9], behind=50)[0] == 2  # too much to be read first
    alone, beside = (number(known({4: 2.2, 16: 7.0}, 0.05), [0.8], n)[0] for n in (0, 3))
    assert beside <= alone  # a second batch: llama.cpp takes equal numbers together


def test_what_clients_are_told(tmp_path: Path) -> None:
    given = {"exact": True, **ALWAYS, **group("D", tmp_path)}

    async def ask_all() -> None:
        with application(own(TARGET), **given) as (app, _):
            async with client(app) as http:
                body = {"prompt": prompts()[1], "max_tokens": 24}
                told = (await http.post("/v1/completions", json=body)).json()
                figures = told["timings"]["drafting"]
                assert 0 < figures["accepted"] <= figures["drafted"]
                assert figures["triggers"] > 0
                assert figures["dynamic_vocabulary"] > 0
                body["speculative"] = False
                plain = (await http.post("/v1/completions", json=body)).json()
                assert plain["choices"] == told["choices"]
                assert "drafting" not in plain["timings"]
                slots = (await http.get("/slots")).json()
                assert slots[0]["drafting"]["dynamic_vocabulary"] > 0
                text = (await http.get("/metrics")).text
                for name in ("drafted", "accepted"):
                    assert f"mtkit_{name}_tokens_total {figures[name]:.1f}" in text
                assert f"mtkit_draft_triggers_total {figures['triggers']:.1f}" in text

    asyncio.run(ask_all())


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"draft_max": 3}, "does nothing without"),
        ({"draft": "no such file"}, "no such file"),
        ({"draft_lookup": True, "context_shift": True}, "does not go with drafts"),
    ],
)
def test_what_cannot_draft(given: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what), serving(tiny("llama"), **given):
        pass


def test_a_profile(tmp_path: Path) -> None:
    """What sx tune wrote says what drafts; answers are those of generate."""
    model, path = own(TARGET), str(tmp_path / "p.json")
    about = {"origin": setup.describe_origin(str(model), str(own(DRAFT)), 1)}
    setup.write_profile(path, DraftSettings(draft=str(own(DRAFT)), draft_max=3), Costs(), about)
    with serving(model, exact=True, draft_auto=False, draft_profile=path) as (runner, scheduler):
        for text in prompts():
            ids = runner.model.tokenize(text)
            asked = ask(scheduler, ids, 24)
            figures = asked.all().drafting
            assert asked.ids == alone(model, ids, 24)
            assert figures["drafted"] > 0
