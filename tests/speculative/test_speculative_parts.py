"""Lookup, policy, what is known, statistics and the exact profile, each by itself."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.errors import UnsupportedError, UsageError
from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings, LoadSettings
from mtkit.settings.declaration import settings_of
from mtkit.speculative import exactness
from mtkit.speculative.costs import Costs
from mtkit.speculative.drafts import Lookup
from mtkit.speculative.policy import Policy, break_even
from mtkit.speculative.rounds import Statistics
from mtkit.speculative.setup import prepare_settings


def longest_repeat(ids: list[int]) -> int:
    """Return the length of the longest suffix that occurs before."""
    for length in range(len(ids) - 1, 0, -1):
        suffix = ids[-length:]
        if any(ids[at : at + length] == suffix for at in range(len(ids) - length)):
            return length
    return 0


@pytest.mark.parametrize("seed", range(30))
def test_lookup_finds_the_longest_suffix(seed: int) -> None:
    random = Random(seed)
    shortest = random.choice((1, 2, 3))
    lookup, ids = Lookup(shortest), [random.randrange(4)]
    lookup.begin(ids)
    found = 0
    for _ in range(120):
        ids += random.choices(range(random.choice((2, 4, 9))), k=random.choice((1, 1, 3)))
        length = longest_repeat(ids)
        proposed = lookup.propose(ids, 5).ids
        if length < shortest:
            assert not proposed
            continue
        found += 1
        suffix = ids[-length:]
        ends = [at + length for at in range(len(ids) - length) if ids[at : at + length] == suffix]
        assert proposed in [ids[end : end + 5] for end in ends]
        assert proposed == lookup.propose(ids, 5).ids
    assert found


def test_lookup_begins_anew_with_another_text() -> None:
    lookup = Lookup(1)
    lookup.begin([1, 2, 3, 1])
    assert lookup.propose([1, 2, 3, 1], 2).ids == [2, 3]
    lookup.begin([1, 2, 3, 1, 2])
    assert lookup.propose([1, 2, 3, 1, 2], 1).ids == [3]
    lookup.begin([7, 8, 7])
    assert lookup.propose([7, 8, 7], 4).ids == [8, 7]


def test_lookup_that_may_lose_nothing_waits_for_more_tokens() -> None:
    ahead = [False]
    lookup, ids = Lookup(is_ahead=lambda: ahead[0]), [*range(20), 99, *range(7)]
    assert lookup.behind(ids) is None
    assert not lookup.propose(ids, 2).ids
    assert lookup.propose([*ids, 7], 2).ids == [8, 9]
    ahead[0] = True
    assert Lookup(is_ahead=lambda: ahead[0]).propose(ids, 2).ids == [7, 8]


def test_lookup_is_linear() -> None:
    """Whatever repeats: the states are at most two a token."""
    lookup = Lookup()
    ids = [1] * 20_000 + [1, 2] * 5_000
    assert lookup.propose(ids, 2).ids == [1, 2]
    assert 30_000 < len(lookup._next) <= 2 * 30_000


UNIT = 0.01
"""Seconds of a plain token."""
COSTS = {
    "steep": {2: 2.3, 4: 2.9, 5: 4.5, 8: 4.7, 16: 8.2},
    "middle": {2: 1.6, 4: 1.9, 8: 2.5, 16: 3.7},
    "flat": {2: 1.0, 16: 1.2},
}


def known(batches: dict[int, float], draft: float = 0.0, read: float = 0.0) -> Costs:
    """Return costs that were measured often."""
    found = Costs()
    for _ in range(3):
        for size, cost in batches.items():
            found.saw_batch(size, cost)
        found.saw_draft(1, draft)
        found.saw_reading(1, read)
    return found


def rounds(
    policy: Policy,
    chance: float,
    true: Costs,
    wanted: int,
    behind: int = 0,
    looked_up: tuple[float, float] = (0.0, 0.0),
) -> float:
    """Return the speed against plain decoding of so many tokens, accepted with a chance.

    ``looked_up``: how often a lookup finds something, and with which chance that is accepted.
    """
    random, spent, tokens, steps, unread = Random(1), 0.0, 0, 0, behind
    while tokens < wanted:
        if size := policy.size_to_measure(steps):
            policy.saw_measurement(size, UNIT * true.verify(size))
            spent, steps = spent + true.verify(size), 0
        free = bool(looked_up[0]) and random.random() < looked_up[0]
        behind, right = (0, looked_up[1]) if free else (unread, chance)
        drafted = policy.count(wanted - tokens, behind, free=free)
        drafted = min(drafted, wanted - tokens - 1)
        if not drafted:
            rest = min(max(policy.rest(), 1), wanted - tokens)
            policy.saw_plain(rest, [UNIT] * min(rest, 8))
            tokens, spent, unread, steps = tokens + rest, spent + rest, unread + rest, steps + rest
            continue
        accepted = steps = 0
        while accepted < drafted and random.random() < right:
            accepted += 1
        verify = true.verify(policy.rows(drafted + 1))
        cost = true.draft(drafted, free=free) + true.reading(behind)
        unread = unread + accepted + 1 if free else 0
        policy.saw(drafted, accepted, UNIT * cost, UNIT * verify, free=free)
        spent += verify + cost
        tokens += accepted + 1
    return tokens / spent


@pytest.mark.parametrize("behind", [0, 300])
@pytest.mark.parametrize("wanted", [64, 4000])
@pytest.mark.parametrize("chance", [0.0, 0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("draft", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("remembered", [False, True])
def test_never_much_slower_than_plain(
    chance: float, costs: str, draft: float, wanted: int, behind: int, remembered: bool
) -> None:
    """At the least 0.95 of plain decoding, in a short text but for what is measured, too.

    Only a draft that promises much and is wrong costs a short text more: once to read it.
    """
    true = known(COSTS[costs], draft, draft / 4)
    policy = Policy(8, known(COSTS[costs], draft, draft / 4) if remembered else Costs())
    policy.costs.guess = 0.7 * draft
    speed = rounds(policy, chance, true, wanted, behind)
    if wanted > 64:
        assert speed > 0.95
        return
    began_in_vain = bool(draft and behind and chance < 0.9)
    assert speed > (0.5 if began_in_vain else 0.93 if remembered else 0.83)


def strict_text(seed: int) -> tuple[float, float]:
    """Return the greatest loss at any end of a drawn text, and the speed at its last one.

    The loss is in plain tokens beyond two and 2% of those that the process took until then.

    Costs, acceptance and their noise are drawn, and so is how wrong the known costs are.
    """
    random = Random(seed)
    true, profile = Costs(), Costs()
    steep, draft = random.uniform(0.05, 1.1), random.choice((0.0, random.uniform(0.02, 1.5)))
    wrong = random.choice((1.0, 1.0, random.uniform(0.7, 1.5)))  # the machine was busy
    for size in (2, 3, 4, 5, 6, 8, 9, 12, 16):
        cost = 1 + steep * (size - 1) * random.uniform(0.5, 1)
        for _ in range(3):
            true.saw_batch(size, cost)
            profile.saw_batch(size, max(cost * wrong, 0.5))
    if draft:
        true.saw_draft(1, draft)
        profile.saw_draft(1, draft * wrong)
        true.saw_reading(1, draft / 4)
        profile.saw_reading(1, draft / 4 * wrong)
    profile.tried, profile.accepted, profile.free = 50.0, random.uniform(0, 50), (50.0, 45.0)
    profile.checked, profile.load = 16, random.uniform(0, 30)
    load, before = profile.load, random.uniform(0, 150)
    policy = Policy(15, profile, mixed=bool(draft), checks=True, strict=True)
    policy.began(before * UNIT)
    policy.refusal(400, 100)
    noise = random.uniform(0, 0.05)
    tokens = spent = 0.0
    most, unread, loaded = -1.0, int(before), not draft
    chance = often = 0.0
    while tokens < 400:
        if random.random() < 0.05 or not tokens:
            chance, often = random.choice((0.0, 0.3, 0.9, 0.99)), random.choice((0, 0.1, 0.95))
        free = bool(draft) and random.random() < often
        finds = not draft and random.random() < often
        proposes = bool(draft) or finds
        behind = 0 if free or not draft else unread
        count = policy.count(400, behind, free=free) if proposes else 0
        if not count:
            rest = max(policy.rest(), 1) if proposes else 1
            times = [UNIT * random.gauss(1, noise) for _ in range(min(rest, 8))]
            policy.saw_plain(rest, times)
            tokens, spent, unread = tokens + rest, spent + rest, unread + rest
        else:
            accepted = 0
            while accepted < count and random.random() < chance:
                accepted += 1
            drafting = 0.0 if free or not draft else true.draft(count) + true.reading(unread)
            if drafting and not loaded:
                loaded, spent = True, spent + load
                policy.saw_load(load * UNIT)
            verifying = true.verify(policy.rows(count + 1)) * random.gauss(1, noise)
            unread = unread + accepted + 1 if free else 0
            policy.saw(count, accepted, UNIT * drafting, UNIT * verifying, free=free or not draft)
            spent, tokens = spent + drafting + verifying, tokens + accepted + 1
        most = max(most, spent - tokens - 2 - 0.02 * (before + tokens))
    return most, (before + tokens) / (before + spent)


def test_a_profile_never_loses_two_percent() -> None:
    """And two tokens, wherever a text ends: of the process, whose loading and prompt count."""
    results = [strict_text(seed) for seed in range(24)]
    assert max(most for most, _ in results) <= 0
    assert min(speed for _, speed in results) >= 0.98
    assert max(speed for _, speed in results) > 1.5
    assert sum(speed > 1.1 for _, speed in results) >= 4


@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize(
    ("costs", "chance", "least"), [("flat", 0.9, 2.7), ("middle", 0.8, 1.3), ("steep", 0.98, 1.15)]
)
def test_what_pays_is_drafted(costs: str, chance: float, least: float, remembered: bool) -> None:
    true = known(COSTS[costs], 0.05, 0.01)
    policy = Policy(8, known(COSTS[costs], 0.05, 0.01) if remembered else Costs())
    assert rounds(policy, chance, true, 1000, 50) > least


@pytest.mark.parametrize(
    ("looked_up", "chance", "behind", "least"),
    [
        ((0.95, 0.98), 0.9, 300, 2.4),  # an edit: a model would read the prompt for nothing
        ((0.1, 0.3), 0.95, 20, 1.2),  # code: the model is right where the lookup is not
        ((0.1, 0.3), 0.3, 20, 0.94),  # neither is
    ],
)
def test_a_lookup_before_a_model_has_an_acceptance_of_its_own(
    looked_up: tuple[float, float], chance: float, behind: int, least: float
) -> None:
    costs = {2: 1.86, 4: 1.8, 8: 3.3, 16: 4.4}
    found = known(costs, 0.27, 0.08)
    found.tried, found.accepted, found.free = 50.0, 43.0, (50.0, 45.0)
    policy = Policy(15, found, mixed=True)
    assert rounds(policy, chance, known(costs, 0.27, 0.08), 128, behind, looked_up) > least
    assert found.draft(1) == pytest.approx(0.27)
    assert found.free != (50.0, 45.0)


def test_a_batch_is_computed_in_the_rows_that_take_the_least_time() -> None:
    found = known({2: 1.9, 3: 2.7, 4: 1.8, 8: 3.3})
    policy = Policy(7, found)
    assert [policy.rows(size) for size in range(1, 9)] == [1, 4, 4, 4, 5, 6, 7, 8]
    assert Policy(2, found).rows(2) == 2
    assert Policy(7, found, auto=False).rows(2) == 2
    assert Policy(7, found, width=4).rows(1) == 4
    assert Policy(7, found, checks=True).rows(2) == 2  # no batch of four was compared


def test_what_cannot_pay_is_not_drafted_nor_loaded() -> None:
    """Not even if nearly all were accepted; a lookup before a model can pay where it cannot."""
    policy = Policy(8, known(COSTS["steep"], 0.5))
    assert "no draft pays" in policy.refusal(200, 50)
    assert not policy.pays()
    mixed = Policy(8, known(COSTS["steep"], 0.5), mixed=True)
    assert not mixed.refusal(200, 50)
    assert not mixed.pays()
    assert not Policy(8, known(COSTS["steep"])).refusal(200, 50)
    assert not Policy(8, known(COSTS["steep"], 0.5), auto=False).refusal(200, 50)


def test_a_draft_is_not_loaded_by_the_size_of_its_file() -> None:
    """What batches cost is measured while the text is plain; then a guess is enough."""
    found = Costs()
    found.guess = 0.4
    policy = Policy(2, found)
    policy.saw_plain(4, [UNIT] * 4)
    for _ in range(2):
        assert policy.pays()
        assert policy.size_to_measure(8) == 3
        policy.saw_measurement(3, 2.37 * UNIT)
    assert not policy.pays()
    assert policy.hopeless
    assert policy.size_to_measure(8) == 0


def test_one_quick_batch_does_not_make_all_steps_of_a_text_wide() -> None:
    found = Costs()
    policy = Policy(3, found, width=2)
    found.tried, found.accepted = 50.0, 48.0
    policy.saw_plain(4, [UNIT] * 4)
    for cost in (1.0, 1.8, 1.8):
        assert "not known yet" in policy.refusal(200, 0)
        assert policy.size_to_measure(4) == 2
        policy.saw_measurement(2, cost * UNIT)
    assert found.verify(2) == 1.8
    assert not policy.refusal(200, 0)


def test_one_slow_batch_gives_nothing_up() -> None:
    policy = Policy(3, Costs())
    policy.saw_plain(4, [UNIT] * 4)
    policy.saw_measurement(4, 7.0 * UNIT)
    assert not policy.hopeless
    policy.saw_measurement(4, 1.5 * UNIT)
    assert not policy.hopeless
    assert policy.count(100, 0) > 0


def test_batches_whose_bits_were_not_compared_are_not_used() -> None:
    found = known({4: 1.2, 8: 1.3}, 0.01)
    found.tried, found.accepted = 50.0, 48.0
    policy = Policy(7, found, checks=True)
    policy.saw_plain(4, [UNIT] * 4)
    assert policy.count(100, 0) == 0
    assert policy.size_to_measure(4) == 4
    found.checked = 4
    assert policy.count(100, 0) == 0
    assert policy.rest() == 8  # until as many plain steps can be compared
    assert policy.size_to_measure(8) == 8
    found.checked = 8
    assert policy.count(100, 0) == 7


@pytest.mark.parametrize(
    ("batches", "draft", "right", "reason"),
    [
        ({2: 1.75, 4: 2.0, 8: 2.6, 16: 3.8}, 0.7, None, "no draft pays"),
        ({2: 1.75, 4: 2.0, 8: 2.6, 16: 3.8}, 0.1, None, "costs 1.75 plain steps"),
        ({2: 1.75, 4: 2.0, 8: 2.6, 16: 3.8}, 0.1, 0.9, ""),
        ({2: 1.2, 4: 1.3, 8: 1.5, 16: 1.8}, 0.05, None, ""),  # even if two of five are accepted
        ({2: 1.2, 4: 1.3, 8: 1.5, 16: 1.8}, 0.05, 0.1, "costs 1.20 plain steps"),
        ({}, 0.05, None, "not known yet"),
    ],
)
def test_whether_to_draft_in_a_text_of_several_rows_a_step(
    batches: dict[int, float], draft: float, right: float | None, reason: str
) -> None:
    found = known(batches, draft, draft / 20)
    if right is not None:
        found.tried, found.accepted = 50.0, 50 * right
    said = Policy(8, found, width=2).refusal(200, 50)
    assert reason in said if reason else not said


def test_a_short_text_behind_a_long_prompt_is_not_drafted() -> None:
    policy = Policy(8, known({2: 1.2, 4: 1.3, 8: 1.5, 16: 1.8}, 0.05, 0.02), width=2)
    assert not policy.refusal(500, 100)
    assert policy.refusal(500, 5000)
    assert policy.refusal(10, 100)


def test_the_plain_token_behind_a_draft_counts_as_lost() -> None:
    """Where the graph is made anew behind each draft, there are fewer looks."""

    def looks(more: float) -> int:
        true, policy = known(COSTS["middle"], 0.05), Policy(8, known(COSTS["middle"], 0.05))
        drafted, after, tokens = 0, False, 0
        while tokens < 2000:
            if count := policy.count(500, 0):
                policy.saw(count, 0, UNIT * true.draft(count), UNIT * true.verify(count + 1))
                drafted, tokens, after = drafted + 1, tokens + 1, True
                continue
            rest = max(policy.rest(), 1)
            policy.saw_plain(rest, [UNIT * (1 + more * after), *[UNIT] * 7][:rest])
            tokens, after = tokens + rest, False
        return drafted

    assert 0 < looks(0.9) < 0.8 * looks(0.0)


def test_a_text_that_becomes_easier_is_noticed() -> None:
    true = known({2: 1.2, 4: 1.5, 8: 2.0}, 0.05)
    policy = Policy(7, known({2: 1.2, 4: 1.5, 8: 2.0}, 0.05))
    rounds(policy, 0.0, true, 300)
    assert policy.count(100, 0) <= 2
    assert rounds(policy, 0.95, true, 1500) > 1.8


def test_a_draft_that_proposes_nothing_is_paid_for() -> None:
    """One that is never sure enough ends: what asking took counts as lost."""
    policy, spent, made = Policy(8, known(COSTS["middle"], 0.5, 0.01)), 0.0, 0
    while made < 2000:
        if policy.count(500, 0):
            policy.saw(0, 0, 0.5, 1.0)
            spent, made = spent + 0.5, made + 1
        else:
            rest = max(policy.rest(), 1)
            policy.saw_plain(rest, [1.0] * min(rest, 8))
            made += rest
    assert 0 < spent < 0.04 * made


def test_costs_between_the_measured_sizes() -> None:
    found = known({4: 2.5, 8: 4.0}, 0.5)
    assert [found.verify(size) for size in (1, 2, 3, 4, 6, 8, 16)] == pytest.approx(
        [1, 1.5, 2, 2.5, 3.25, 4, 8]
    )
    assert found.draft(3) == 1.5
    found.saw_batch(4, 1e3)  # the machine slept
    assert found.verify(4) == 2.5


def test_what_is_known_is_remembered(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "known.json")
    found = Costs(path)
    found.saw_batch(4, 2.5)
    found.saw_draft(2, 0.5)
    found.saw_round(3, 2)
    found.saw_round(4, 1, free=True)
    found.checked = 4
    found.save()
    again = Costs(path)
    assert again.document() == found.document()
    assert again.verify(4) == 2.5
    os.utime(path, (0, 0))
    assert Costs(path).sizes == {1: 1.0}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"batches": {"4": [0.1]}}', '{"batches": {"4": ["x"]}}', "[" * 9999]
)
def test_a_damaged_memory_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(text)
    assert Costs(str(tmp_path / "k.json")).sizes == {1: 1.0}


def test_what_drafting_has_to_beat() -> None:
    found = known({2: 1.1, 3: 1.2}, 0.05)
    even = break_even(found, 2)
    assert even is not None
    assert sum(even**place for place in range(3)) == pytest.approx(1.3, abs=1e-6)
    assert break_even(found, 0) is None
    assert break_even(known({3: 3.0}, 0.05), 2) is None


def test_statistics() -> None:
    seen = Statistics()
    for drafted, accepted in ((3, 3), (3, 1), (0, 0), (2, 0)):
        seen.count_round(drafted, 0.5, 1.0)
        seen.count_outcome(drafted, accepted, accepted + 1)
    found = seen.document()
    assert found["rounds"] == 4
    assert found["plain_rounds"] == 1
    assert (found["drafted"], found["accepted"], found["emitted"]) == (8, 4, 8)
    assert found["acceptance_by_place"] == [2 / 3, 1 / 2, 1.0]
    assert found["tokens_per_round"] == 2.0


def tensors(**types: str) -> Any:
    """Return tensors of some types."""
    return [
        SimpleNamespace(name=name, shape=(8, 8), type=SimpleNamespace(name=kind))
        for name, kind in types.items()
    ]


@pytest.mark.parametrize(
    ("types", "asked", "rows", "width"),
    [
        ({"a": "Q8_0", "b": "Q4_0"}, 1, 63, 1),
        ({"a": "Q8_0", "b": "Q6_K"}, 1, 7, 1),
        ({"a": "Q4_K", "b": "Q6_K"}, 1, 3, 1),
        ({"a": "Q4_K", "b": "Q6_K"}, 4, 4, 4),
        ({"a": "Q4_K", "b": "Q6_K"}, 3, 3, 3),
        ({"a": "Q4_K"}, 8, 3, 3),
        ({"a": "BF16"}, 1, 63, 2),
        ({"a": "BF16"}, 4, 63, 4),
        ({"a": "F16", "b": "Q4_K"}, 1, 3, 2),
    ],
)
def test_profile(types: dict[str, str], asked: int, rows: int, width: int) -> None:
    found = exactness.exact_rows(tensors(**types), LoadSettings(), "m.gguf", asked)
    assert (found.rows, found.width) == (rows, width)


def test_a_table_that_is_only_looked_up_does_not_count() -> None:
    head = [
        *tensors(a="Q8_0"),
        SimpleNamespace(name="token_embd.weight", shape=(8, 8), type=SimpleNamespace(name="F16")),
    ]
    assert exactness.exact_rows(head, LoadSettings(), "").width == 2
    head += tensors(**{"output.weight": "Q8_0"})
    assert exactness.exact_rows(head, LoadSettings(), "").width == 1


def test_profile_of_weights_left_as_they_are() -> None:
    assert exactness.exact_rows(tensors(a="Q4_K"), LoadSettings(repack=False), "").rows == 7


@pytest.mark.parametrize(
    ("load", "kind", "what"),
    [(LoadSettings(), "IQ2_XS", "weights in IQ2_XS"), (LoadSettings(gpu_layers=1), "Q8_0", "GPUs")],
)
def test_what_is_not_known_to_be_exact(load: LoadSettings, kind: str, what: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{what}.*exact=False"):
        exactness.exact_rows(tensors(a=kind), load, "m.gguf")


def test_exact_context() -> None:
    found = exactness.exact_context(ContextSettings(kv_type="f16", flash_attention="auto"))
    assert (found.kv_type, found.flash_attention) == ("bf16", "on")
    for threads, alone, kind in ((1, True, "f16"), (1, False, "bf16"), (2, True, "bf16")):
        found = exactness.exact_context(ContextSettings(threads=threads), alone=alone)
        assert found.kv_type == kind
    for wrong in (ContextSettings(kv_type="q4_0"), ContextSettings(flash_attention="off")):
        with pytest.raises(UsageError, match="add exact=False"):
            exactness.exact_context(wrong)
    assert exactness.exact_context(ContextSettings(kv_type="q8_0")).kv_type == "q8_0"


@pytest.mark.parametrize(
    "given",
    [
        {"draft_max": 3},
        {"draft_match": True},
        {"draft_auto": False},
        {"exact": False},
        {"draft_p_min": 0.5, "draft_lookup": True},
        {"draft_lookup": True, "sx_learn": True},
        {"sx_seed_prompt": True},
    ],
)
def test_settings_that_do_nothing(given: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="does nothing without"):
        prepare_settings(settings_of(GenerateSettings, given))


@pytest.mark.parametrize("value", [-1, 63])
def test_range_of_the_draft(value: int) -> None:
    with pytest.raises(UsageError, match="not in the range 0 to 62"):
        DraftSettings(draft_lookup=True, draft_max=value)
