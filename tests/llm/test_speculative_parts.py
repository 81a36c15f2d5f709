"""Lookup, pace, costs, statistics and the exact profile, each by itself."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.errors import UnsupportedError, UsageError
from mtkit.llm.speculative import exactness
from mtkit.llm.speculative.adaptive import Adaptive
from mtkit.llm.speculative.costs import Costs
from mtkit.llm.speculative.imagined import Imagined
from mtkit.llm.speculative.lookup import Lookup
from mtkit.llm.speculative.opening import prepared
from mtkit.llm.speculative.pace import Steady
from mtkit.llm.speculative.statistics import Statistics
from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings, LoadSettings
from mtkit.settings.declaration import settings_of


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


def test_lookup_is_linear() -> None:
    """Whatever repeats: the states are at most two a token."""
    lookup = Lookup()
    ids = [1] * 20_000 + [1, 2] * 5_000
    assert lookup.propose(ids, 2).ids == [1, 2]
    assert 30_000 < len(lookup._next) <= 2 * 30_000


def rounds(pace: Adaptive, chance: float, true: Costs, wanted: int, behind: int = 0) -> float:
    """Return the speed against plain decoding of so many tokens, accepted with a chance."""
    random, seconds, tokens = Random(1), 0.0, 0
    while tokens < wanted:
        drafted = min(pace.count(wanted - tokens, behind), wanted - tokens - 1)
        if not drafted:
            rest = min(max(pace.rest(), 1), wanted - tokens)
            pace.rested(rest, [true.verify(1)] * min(rest, 3))
            tokens, seconds, behind = tokens + rest, seconds + rest * true.verify(1), behind + rest
            continue
        accepted = 0
        while accepted < drafted and random.random() < chance:
            accepted += 1
        verify, spent = true.verify(drafted + 1), true.draft(drafted)
        spent += behind * true.read_seconds
        behind = 0
        pace.saw(drafted, accepted, spent, verify)
        seconds += verify + spent
        tokens += accepted + 1
    return tokens * true.verify(1) / seconds


STEEP = {1: 1.0, 2: 2.3, 4: 2.9, 5: 4.5, 8: 4.7, 16: 8.2}
MIDDLE = {1: 1.0, 2: 1.6, 4: 1.9, 8: 2.5, 16: 3.7}
FLAT = {1: 1.0, 16: 1.2}


@pytest.mark.parametrize("behind", [0, 300])
@pytest.mark.parametrize("wanted", [64, 4000])
@pytest.mark.parametrize("chance", [0.0, 0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("costs", [STEEP, MIDDLE, FLAT])
@pytest.mark.parametrize("draft", [0.0, 0.1, 0.5])
def test_never_much_slower_than_plain(
    chance: float, costs: dict[int, float], draft: float, wanted: int, behind: int
) -> None:
    """At the least 0.95 of plain decoding, in a short text, too.

    Only a draft that promises much and is wrong costs a short text more: once to read it.
    """
    true = Costs(costs, draft, draft / 4)
    speed = rounds(Adaptive(8, Costs(costs, draft, draft / 4)), chance, true, wanted, behind)
    began_in_vain = draft and behind and costs is not STEEP and chance < 0.6
    assert speed > (0.95 if wanted > 64 or not began_in_vain else 0.6)


@pytest.mark.parametrize(
    ("costs", "chance", "least"), [(FLAT, 0.9, 3.5), (MIDDLE, 0.8, 1.3), (STEEP, 0.98, 1.2)]
)
def test_what_pays_is_drafted(costs: dict[int, float], chance: float, least: float) -> None:
    true = Costs(costs, 0.05, 0.01)
    assert rounds(Adaptive(8, Costs(costs, 0.05, 0.01)), chance, true, 1000, 50) > least


NEARLY_FREE = {1: 1.0, 2: 1.02, 16: 1.2}
PAIRS_CHEAP = {1: 1.0, 2: 1.2, 4: 1.3, 8: 1.5, 16: 1.8}
PAIRS_DEAR = {1: 1.0, 2: 1.75, 4: 2.0, 8: 2.6, 16: 3.8}
NEVER, STEP = "no draft pays", "a step costs {} of a plain one"


@pytest.mark.parametrize(
    ("by_size", "draft", "pairs", "reason"),
    [
        (STEEP, 0.5, False, NEVER),  # not even if nearly all were accepted
        (STEEP, 0.0, False, ""),
        (MIDDLE, 0.1, False, ""),  # a round alone can be plain
        (PAIRS_DEAR, 0.7, True, NEVER),
        (PAIRS_DEAR, 0.1, True, STEP.format("1.75")),
        (PAIRS_DEAR, 0.0, True, STEP.format("1.75")),
        (PAIRS_CHEAP, 0.2, True, STEP.format("1.20")),
        (PAIRS_CHEAP, 0.05, True, ""),  # pays even where two of five are accepted
        (NEARLY_FREE, 0.2, True, ""),  # little can be lost
        (NEARLY_FREE, 0.0, True, ""),
    ],
)
def test_whether_to_draft_in_a_text(
    by_size: dict[int, float], draft: float, pairs: bool, reason: str
) -> None:
    """Before anything was seen; a fixed number drafts whatever it costs."""
    pace = Adaptive(8, Costs(by_size, draft, draft / 20, pairs=pairs))
    found = pace.declined(200, 50)
    assert reason in found if reason else not found
    assert not Steady(3).declined(200, 50)
    assert pace.looks == (pairs and reason != NEVER)
    assert not Steady(3).looks


def test_a_lookup_before_a_model_can_pay_where_the_model_cannot() -> None:
    assert Adaptive(8, Costs(STEEP, 0.5)).declined(200, 0)
    assert not Adaptive(8, Costs(STEEP, 0.5, mixed=True)).declined(200, 0)


def test_a_short_text_behind_a_long_prompt_is_not_drafted() -> None:
    pace = Adaptive(8, Costs(PAIRS_CHEAP, 0.05, 0.02, pairs=True))
    assert not pace.declined(500, 100)
    assert pace.declined(500, 5000)
    assert pace.declined(10, 100)


def test_earlier_texts_decide() -> None:
    """What was rejected, and what a lookup would have been right about."""
    pace = Adaptive(8, Costs(PAIRS_CHEAP, 0.05, 0.0, pairs=True))
    assert not pace.declined(200, 0)
    for _ in range(100):
        pace.saw(4, 0, 0.2, 1.35)
    assert pace.declined(200, 0)
    lookup = Adaptive(8, Costs(PAIRS_DEAR, 0.0, 0.0, pairs=True))
    assert lookup.declined(200, 0)
    for _ in range(100):
        lookup.imagined(lookup.imagines(0, 0), lookup.imagines(0, 0))
    assert not lookup.declined(200, 0)
    for _ in range(300):
        lookup.imagined(0, 0)
    assert lookup.declined(200, 0)


def test_a_draft_that_proposes_nothing_is_paid_for() -> None:
    """One that is never sure enough ends: what asking took counts as lost."""
    pace, spent, rounds_made = Adaptive(8, Costs(MIDDLE, 0.5, 0.01)), 0.0, 0
    pace.declined(500, 0)
    while rounds_made < 2000:
        if pace.count(500, 0):
            pace.saw(0, 0, 0.5, 1.0)
            spent, rounds_made = spent + 0.5, rounds_made + 1
        else:
            rest = max(pace.rest(), 1)
            pace.rested(rest, [1.0] * min(rest, 3))
            rounds_made += rest
    assert 0 < spent < 0.04 * rounds_made


def test_what_long_texts_have_earned_is_not_lost_in_one() -> None:
    true = Costs(MIDDLE, 0.05)
    pace = Adaptive(8, Costs(MIDDLE, 0.05))
    pace.declined(4000, 0)
    assert rounds(pace, 0.95, true, 4000) > 1
    pace.declined(64, 0)
    assert rounds(pace, 0.0, true, 64) > 64 / (64 + 20 + 8)


@pytest.mark.parametrize("late", [1.0, 1.8])
def test_texts_in_pairs_end_where_the_machine_was_taken_for_a_slow_one(late: float) -> None:
    """Costs measured at a busy moment: what is drafted then seems cheap beside a plain token."""
    true = Costs(PAIRS_DEAR, 0.1, 0.02, pairs=True)
    pace, drafted = Adaptive(8, Costs(true.by_size, 0.1, 0.02, pairs=True)), []
    for text in range(60):
        declined = bool(pace.declined(100, 20))
        drafted.append(not declined)
        if declined:
            pace.rested(100, [1.0] * 100)
            for _ in range(10):
                pace.imagined(2, 2 if text < 5 else 1)  # it begins well
            continue
        for _ in range(40):
            count = pace.count(100, 0)
            slow = late if text < 8 else 1.0
            pace.saw(count, count // 2, slow * true.draft(count), slow * true.verify(count + 1))
    assert not any(drafted[-30:])


def test_now_and_then_a_text_is_plain_that_a_text_in_pairs_cannot_be() -> None:
    pace = Adaptive(8, Costs(PAIRS_CHEAP, 0.05, 0.0, pairs=True))
    told = []
    for _ in range(30):
        told.append(pace.declined(200, 0))
        if told[-1]:
            pace.rested(200, [1.0] * 200)
        else:
            pace.saw(4, 4, 0.2, 1.35)
    assert [bool(reason) for reason in told] == [n % 9 == 8 for n in range(30)]
    free = Adaptive(8, Costs(NEARLY_FREE, 0.0, pairs=True))
    assert not any(free.declined(200, 0) for _ in range(30))


@pytest.mark.parametrize(("chance", "drafts"), [(0.2, False), (0.5, False), (0.8, True)])
@pytest.mark.parametrize("draft", [0.02, 0.1])
def test_a_model_is_asked_in_plain_texts_for_little(
    chance: float, drafts: bool, draft: float
) -> None:
    """What it says decides on later texts; the price of asking is bounded."""
    random, costs = Random(3), Costs(PAIRS_DEAR, draft, draft / 4, pairs=True)
    pace, spent, tokens = Adaptive(8, costs), 0.0, 0
    while tokens < 3000 and pace.declined(100, 20):
        done = read = 0
        while done < 100:
            count = pace.imagines(20 + done - read, done)
            spent += bool(count) * (20 + done - read) * costs.read_seconds + costs.draft(count)
            accepted = 0
            while accepted < count and random.random() < chance:
                accepted += 1
            if count:
                read = 20 + done
                pace.imagined(count, accepted)
            done += accepted + 1
        pace.rested(done, ())
        tokens += done
        assert 0 < spent <= 0.03 * tokens + 1
    assert (tokens < 3000) == drafts


def test_a_model_is_asked_for_as_long_as_texts_come() -> None:
    """What may be lost in one text is bounded; what may be learnt of all of them is not."""
    pace = Adaptive(8, Costs(PAIRS_DEAR, 0.1, 0.02, pairs=True))
    asked: list[bool] = []
    for _ in range(2000):
        assert pace.declined(64, 20)
        count = pace.imagines(20, 0)
        asked.append(count > 0)
        if count:
            pace.imagined(count, 0)
        pace.rested(64, [1.0] * 64)
    assert 10 < sum(asked[1000:]) < 500


@pytest.mark.parametrize("seed", range(20))
def test_imagined_rounds_are_those_that_would_have_been(seed: int) -> None:
    """A lookup that reads along with a plain text counts what drafting would have counted."""
    random = Random(seed)
    text = [random.randrange(random.choice((2, 5))) for _ in range(150)]
    most, prompt = random.choice((1, 2, 5)), random.randrange(1, 40)
    told: list[tuple[int, int]] = []
    lookup = Lookup(1)
    lookup.begin(text[:prompt])
    pace: Any = SimpleNamespace(
        imagines=lambda *_: most, imagined=lambda *round_: told.append(round_)
    )
    imagined = Imagined(lookup, pace)
    for end in range(prompt, len(text) + 1):
        imagined.saw(text[:end])
    wanted, again, at = [], Lookup(1), prompt
    while at < len(text):
        proposed = again.propose(text[:at], most).ids
        right = 0
        while right < len(proposed) and text[at + right : at + right + 1] == [proposed[right]]:
            right += 1
        if at + right < len(text):
            wanted.append((len(proposed), right))
        at += right + 1
    assert told == wanted


def test_a_text_that_becomes_easier_is_noticed() -> None:
    true = Costs({1: 1.0, 2: 1.2, 4: 1.5, 8: 2.0}, 0.05)
    pace = Adaptive(7, Costs(true.by_size, 0.05))
    rounds(pace, 0.0, true, 300)
    assert pace.count(100, 0) <= 2
    assert rounds(pace, 0.95, true, 1500) > 1.8


def test_costs_between_the_measured_sizes() -> None:
    costs = Costs({1: 1.0, 4: 2.5, 8: 4.0}, 0.5)
    assert [costs.verify(size) for size in (1, 2, 3, 4, 6, 8, 16)] == pytest.approx(
        [1, 1.5, 2, 2.5, 3.25, 4, 8]
    )
    assert costs.draft(3) == 1.5
    for _ in range(200):
        costs.saw(3, 3.0, 3.0)
    assert costs.verify(4) == pytest.approx(3.0, rel=1e-3)
    assert costs.draft(1) == pytest.approx(1.0, rel=1e-3)
    costs.saw(3, 0.0, 1e9)  # the machine slept
    assert costs.verify(4) < 3.5


def test_the_plain_token_behind_a_draft_counts_as_lost() -> None:
    """Where the graph is made anew behind each draft, there are fewer looks."""

    def looks(more: float) -> int:
        pace, drafted = Adaptive(8, Costs(MIDDLE, 0.05)), 0
        behind_a_draft, tokens = False, 0
        while tokens < 2000:
            true, count = Costs(MIDDLE, 0.05), pace.count(500, 0)
            if count:
                pace.saw(count, 0, true.draft(count), true.verify(count + 1))
                drafted, tokens, behind_a_draft = drafted + 1, tokens + 1, True
                continue
            rest = max(pace.rest(), 1)
            pace.rested(rest, [1.0 + more * behind_a_draft, 1.0, 1.0][:rest])
            tokens, behind_a_draft = tokens + rest, False
        return drafted

    assert 0 < looks(0.9) < 0.8 * looks(0.0)


def test_a_slow_machine_is_slow_for_all_sizes() -> None:
    costs = Costs({1: 1.0, 4: 2.5}, 0.5)
    for _ in range(200):
        costs.saw_plain(3.0, costs.plain)
    assert [costs.verify(size) for size in (1, 4)] == pytest.approx([3.0, 7.5], rel=1e-3)
    late = Costs({1: 10.0, 5: 11.0}, 2.0)  # measured while the machine was busy
    pace = Adaptive(4, late)
    for _ in range(3):
        assert pace.count(100, 0) == 0
        pace.saw(0, 0, 0.0, 1.0)
    assert (late.verify(1), late.verify(5), late.draft(1)) == pytest.approx((1.0, 1.1, 0.2))
    assert pace.count(100, 0) > 0


def test_statistics() -> None:
    seen = Statistics()
    for drafted, accepted in ((3, 3), (3, 1), (0, 0), (2, 0)):
        seen.round(drafted, 0.5, 1.0)
        seen.outcome(drafted, accepted, accepted + 1)
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
    ("types", "rows", "pairs"),
    [
        ({"a": "Q8_0", "b": "Q4_0"}, 63, False),
        ({"a": "Q8_0", "b": "Q6_K"}, 7, False),
        ({"a": "Q4_K", "b": "Q6_K"}, 3, False),
        ({"a": "BF16"}, 63, True),
        ({"a": "F16", "b": "Q4_K"}, 3, True),
    ],
)
def test_profile(types: dict[str, str], rows: int, pairs: bool) -> None:
    found = exactness.profile(tensors(**types), LoadSettings(), "m.gguf")
    assert (found.rows, found.pairs) == (rows, pairs)


def test_a_table_that_is_only_looked_up_does_not_count() -> None:
    head = [
        *tensors(a="Q8_0"),
        SimpleNamespace(name="token_embd.weight", shape=(8, 8), type=SimpleNamespace(name="F16")),
    ]
    assert exactness.profile(head, LoadSettings(), "").pairs
    head += tensors(**{"output.weight": "Q8_0"})
    assert not exactness.profile(head, LoadSettings(), "").pairs


def test_profile_of_weights_left_as_they_are() -> None:
    assert exactness.profile(tensors(a="Q4_K"), LoadSettings(repack=False), "").rows == 7


@pytest.mark.parametrize(
    ("load", "kind", "what"),
    [(LoadSettings(), "IQ2_XS", "weights in IQ2_XS"), (LoadSettings(gpu_layers=1), "Q8_0", "GPUs")],
)
def test_what_is_not_known_to_be_exact(load: LoadSettings, kind: str, what: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{what}.*--no-exact"):
        exactness.profile(tensors(a=kind), load, "m.gguf")


def test_exact_context() -> None:
    found = exactness.exact_context(ContextSettings(kv_type="f16", flash_attention="auto"))
    assert (found.kv_type, found.flash_attention) == ("bf16", "on")
    for wrong in (ContextSettings(kv_type="q4_0"), ContextSettings(flash_attention="off")):
        with pytest.raises(UsageError, match="--no-exact allows that"):
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
        {"draft": "m.gguf", "draft_lookup_min": 3},
        {"draft_lookup": True, "sx_learn": True},
        {"sx_seed_prompt": True},
    ],
)
def test_settings_that_do_nothing(given: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="does nothing without"):
        prepared(settings_of(GenerateSettings, given))


@pytest.mark.parametrize("value", [-1, 63])
def test_range_of_the_draft(value: int) -> None:
    with pytest.raises(UsageError, match="not 0 to 62"):
        DraftSettings(draft_lookup=True, draft_max=value)


def test_what_drafting_has_to_beat() -> None:
    """A weight type that decodes faster raises the acceptance from which on drafting pays."""
    costs = Costs({1: 2.0, 2: 2.2, 3: 2.4}, 0.1)
    plain = costs.break_even(2)
    assert plain is not None
    assert costs.break_even(2, costs.plain) == plain
    faster = costs.break_even(2, 1.5)
    assert faster is not None
    assert faster > plain
    assert costs.break_even(2, 0.8) is None  # three tokens in 2.6: none takes less
