"""Greedy text with a draft is the text without one, and what ends a text ends it the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drafting import PLAIN, Target, own, prompts
from llm_models import ARCHITECTURES, reciting, tiny
from support import Run

from mtkit.api.generation import generate
from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.settings import GenerateSettings
from mtkit.speculative import exactness, setup
from mtkit.speculative.costs import Costs
from mtkit.speculative.setup import prepare_settings


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is not remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")


@pytest.mark.parametrize("kind", ["q8_0", "bf16", "q4_0"])
def test_the_trained_pair(kind: str) -> None:
    texts = [text for name in ("en", "zh", "de", "code") for text in prompts(name, 3)]
    model, draft = own("target", kind), own("draft", kind)
    with Target(model, **PLAIN) as plain:
        expected = [plain.ids(text, 64) for text in texts]
    drafts: list[dict[str, Any]] = [
        {"draft": draft, "draft_auto": False, "draft_max": 3},
        {"draft": draft, "draft_auto": False, "draft_max": 8, "draft_p_min": 0.3},
        {"draft": model, "draft_auto": False, "draft_max": 5},
        {"draft": draft, "draft_lookup": True, "draft_auto": False, "draft_max": 4},
        {"draft_lookup": True, "draft_auto": False},
    ]
    for given in drafts:
        with Target(model, **given) as bench:
            assert [bench.ids(text, 64) for text in texts] == expected, given
            assert bench.speculation
            seen = bench.speculation.statistics
            assert seen.emitted + len(texts) >= sum(map(len, expected))
            assert seen.drafted > 0
            if given.get("draft") == model:  # but where a text ended inside a proposal
                assert seen.acceptance > 0.95


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tiny_architectures_beyond_512_cells(arch: str) -> None:
    path = str(tiny(arch))
    prompt = [1 + at * 7 % 250 for at in range(500)]
    with Target(path, **PLAIN) as plain:
        expected = [plain.ids(prompt[:length], 60) for length in (1, 40, 250, 500)]
    for given in ({"draft": path, "draft_max": 4}, {"draft_lookup": True, "draft_max": 6}):
        with Target(path, draft_auto=False, **given) as bench:
            found = [bench.ids(prompt[:length], 60) for length in (1, 40, 250, 500)]
            assert found == expected


def costing(monkeypatch: pytest.MonkeyPatch, two_rows: float) -> None:
    """Let a step of two rows cost so many plain ones, and a draft next to nothing."""
    found = Costs()
    for size in (2, 3, 4, 5, 8, 9):
        for _ in range(3):
            found.saw_batch(size, two_rows)
    found.checked = 9
    monkeypatch.setattr(setup, "open_costs", lambda *_: found)


@pytest.mark.parametrize("kind", ["bf16", "q8_0"])
def test_a_text_that_is_not_drafted_is_that_of_plain_decoding(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With float weights, too: not a single step is computed in two rows."""
    model, draft = own("target", kind), own("draft", kind)
    texts = [text for name in ("en", "zh", "code") for text in prompts(name, 2)]
    common: dict[str, Any] = {"model": model, "n_predict": 48, "threads": 1}
    plain = [generate(text, **common).ids for text in texts]
    costing(monkeypatch, 30.0)
    for given in ({"draft": draft}, {"draft_lookup": True, "draft_max": 1}):
        for text, expected in zip(texts, plain, strict=True):
            found = generate(text, **given, **common)
            assert found.ids == expected
            assert found.drafting
            assert found.drafting.drafted == 0
            assert found.drafting.document()["declined_texts"] == 1
            assert "no draft pays" in found.drafting.reason
    forced = generate(texts[0], draft=draft, draft_auto=False, **common)
    assert forced.drafting
    assert forced.drafting.drafted > 0
    assert forced.drafting.declined == 0


def test_random_choices_that_are_not_drafted_are_those_of_plain_decoding() -> None:
    """Same seed, same text: with penalties, which remember, too."""
    model, draft = own("target", "q8_0"), own("draft", "q8_0")
    for more in ({}, {"repeat_penalty": 1.2, "xtc": 0.3}):
        common: dict[str, Any] = {
            "model": model, "temperature": 0.8, "seed": 7, "n_predict": 60, "threads": 1, **more,
        }  # fmt: skip
        plain = generate("The option", **common)
        found = generate("The option", draft=draft, draft_max=0, **common)
        assert found.ids == plain.ids


@pytest.mark.parametrize("declined", [True, False])
def test_what_goes_on_from_a_text_is_decoded_like_it(
    declined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With float weights the decision holds as long as tokens of the first text are kept."""
    model = own("target", "bf16")
    said = ["", "too dear"]
    with Target(model, draft=model, draft_max=4) as bench:
        speculation = bench.speculation
        assert speculation
        policy = speculation.policy
        text = bench.runner.model.tokenize(prompts("en", 1)[0])
        for turn in range(3):
            answer = said[declined if turn == 0 else not declined]
            monkeypatch.setattr(policy, "refusal", lambda *_, answer=answer: answer)
            text = [*text, *bench.ids(text, 12), *bench.runner.model.tokenize(" and")]
            assert speculation.statistics.declined == (turn + 1) * declined
        bench.ids([5, *text], 12)  # nothing is kept: it is decided anew
        assert speculation.statistics.declined == 3 * declined + (not declined)


def test_same_seed_same_text() -> None:
    """With draft_match, random choices are those of plain decoding."""
    model, draft = own("target", "q8_0"), own("draft", "q8_0")
    common: dict[str, Any] = {"model": model, "temperature": 0.8, "seed": 7, "n_predict": 60}
    plain = generate("The option", threads=1, **common)
    found = generate(
        "The option", threads=1, draft=draft, draft_match=True, draft_auto=False, **common
    )
    assert found.ids == plain.ids
    assert found.drafting
    assert 0 < found.drafting.acceptance < 1
    other = generate("The option", threads=1, draft=draft, draft_auto=False, **common)
    assert other.ids != plain.ids  # another draw from the same distribution
    again = generate("The option", threads=1, draft=draft, draft_auto=False, **common)
    assert again.ids == other.ids


def test_a_seed_that_nobody_named() -> None:
    """XTC draws in the draft's chain, too: it needs the seed that the sampler took."""
    found = generate(
        "The", model=own("target", "q8_0"), draft=own("draft", "q8_0"), draft_auto=False,
        temperature=0.9, xtc=0.5, n_predict=60, ignore_eos=True,
    )  # fmt: skip
    assert len(found.ids) == 60


def test_penalties_and_a_grammar() -> None:
    model = own("target", "q8_0")
    for given in ({"repeat_penalty": 1.3}, {"grammar": 'root ::= "a" [a-z ]+ "."'}):
        common: dict[str, Any] = {"model": model, "n_predict": 40, "threads": 1, **given}
        plain = generate("The option", **common)
        found = generate("The option", draft=model, draft_auto=False, **common)
        assert found.ids == plain.ids
        assert found.drafting
        assert found.drafting.accepted


def test_logprobs() -> None:
    model = own("target", "q8_0")
    common: dict[str, Any] = {"model": model, "n_predict": 20, "threads": 1, "logprobs": True}
    plain = generate("The option", **common)
    found = generate("The option", draft=model, draft_auto=False, **common)
    assert found.logprobs == plain.logprobs


def test_a_self_check_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """F32 weights without pairs: a single row is added in another order."""
    profile = exactness.ExactRows(16, 1)
    monkeypatch.setattr(exactness, "exact_rows", lambda *_: profile)
    always: dict[str, Any] = {"model": str(tiny()), "draft_lookup": True, "draft_auto": False}
    with pytest.raises(UnsupportedError, match=r"on this machine.*exact=False"):
        generate("The", threads=1, n_predict=2, **always)
    found = generate("The", exact=False, n_predict=2, **always)
    assert len(found.ids) == 2


def test_bits_that_differ_in_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text goes on plainly, and is that of plain decoding; the next one does not try."""
    profile = exactness.ExactRows(16, 1)
    monkeypatch.setattr(exactness, "exact_rows", lambda *_: profile)
    common: dict[str, Any] = {"model": str(tiny()), "threads": 1, "n_predict": 60}
    plain = generate([1, 5, 6] * 9, **common)
    for measured in (True, False):
        found = generate([1, 5, 6] * 9, draft=str(tiny()), **common)
        assert found.ids == plain.ids
        assert found.drafting
        assert found.drafting.drafted == 0
        assert "other bits" in found.drafting.reason
        assert (found.drafting.measure_seconds > 0) == measured


def test_bits_are_compared_with_those_of_the_same_places() -> None:
    """Drafts, plain stretches and new texts between: no batch is held against other steps."""
    model = own("target", "q8_0")
    texts = [text for name in ("en", "zh", "code") for text in prompts(name, 3)]
    for given in ({"draft_lookup": True}, {"draft": own("draft", "q8_0"), "draft_lookup": True}):
        with Target(model, **given) as bench:
            assert bench.speculation
            known = bench.speculation.policy.costs
            for text in texts:  # without its costs, a batch of 8 is measured over and over
                batches: Any = known.document()["batches"]
                batches.pop("8", None)
                checked = min(known.checked, 4)
                known.take({**known.document(), "batches": batches, "checked": checked})
                bench.ids(text, 64)
                assert known.checked > 0


@pytest.mark.parametrize("kind", ["q8_0", "bf16"])
def test_what_is_found_while_text_is_written_is_remembered(kind: str) -> None:
    """The first text measures and loads, if at all; a pair that cannot pay is not loaded again."""
    model, draft = own("target", kind), own("draft", kind)
    common: dict[str, Any] = {"model": model, "threads": 1, "n_predict": 64}
    plain = generate("The option", **common)
    first = generate("The option", draft=draft, **common)
    assert first.drafting
    assert first.drafting.measure_seconds > 0
    if kind == "q8_0" or first.drafting.declined:
        assert first.ids == plain.ids
    spent = first.drafting
    rest = first.timings.generation - spent.draft_seconds - spent.verify_seconds
    assert rest - spent.load_seconds - spent.measure_seconds < 0.2 * first.timings.generation + 0.1
    if "no draft pays" in first.drafting.reason:
        again = generate("The option", draft=draft, **common)
        assert again.drafting
        assert (again.drafting.measure_seconds, again.drafting.load_seconds) == (0, 0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("sizes", [(1024, 2048), (2048, 1024)])
def test_a_draft_padded_to_another_size(sizes: tuple[int, int], temperature: float) -> None:
    target, draft = (str(tiny(n_vocab=size, wtype="Q8_0", seed=size)) for size in sizes)
    common: dict[str, Any] = {"n_predict": 30, "threads": 1, "temperature": temperature, "seed": 3}
    found = generate([1, 5, 6], model=target, draft=draft, draft_auto=False, **common)
    assert len(found.ids) == 30
    if sizes[0] < sizes[1]:  # the other draft does not know what was chosen
        assert found.drafting
        assert found.drafting.drafted > 30
    if not temperature:
        assert found.ids == generate([1, 5, 6], model=target, **common).ids


def test_a_session_in_another_type(tmp_path: Path) -> None:
    saved = str(tmp_path / "s")
    common: dict[str, Any] = {"threads": 1, "n_predict": 4}
    model, draft = own("target", "q8_0"), own("draft", "q8_0")
    generate("The", model=model, save_session=saved, **common)
    plain = generate(" option", model=model, load_session=saved, **common)
    found = generate(" option", model=model, draft=draft, load_session=saved, **common)
    assert found.ids == plain.ids
    common["threads"] = 2
    with pytest.raises(UsageError, match=r"keys and values in F16.*exact=False"):
        generate(" option", model=model, draft=draft, load_session=saved, **common)
    found = generate(" option", model=model, draft=draft, load_session=saved, exact=False, **common)
    assert len(found.ids) == len(plain.ids)


@pytest.mark.parametrize(("arch", "what"), [("mamba", "recurrent"), ("t5", "encoder")])
def test_memory_that_cannot_be_cut(arch: str, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        generate("The", model=str(tiny(arch)), draft_lookup=True, n_predict=2)
    if arch == "mamba":
        target = str(tiny("llama-bpe"))
        common: dict[str, Any] = {"draft": str(tiny(arch)), "exact": False, "n_predict": 2}
        with pytest.raises(UnsupportedError, match=what):
            generate("The", model=target, draft_auto=False, **common)


@pytest.mark.parametrize("kind", ["bf16", "q8_0"])
def test_a_batch_of_one_token(kind: str) -> None:
    with pytest.raises(UsageError, match="no room for what is drafted"):
        generate("The", model=own("target", kind), draft_lookup=True, n_batch=1, n_predict=2)
    model = own("target", kind)
    common: dict[str, Any] = {"model": model, "n_predict": 40, "threads": 1, "draft_auto": False}
    plain = generate("The option", draft_lookup=True, draft_max=0, **common)
    assert generate("The option", draft_lookup=True, n_batch=2, **common).ids == plain.ids


def test_the_command(mtkit: Run) -> None:
    model = str(reciting())
    plain = mtkit("generate", "Hello", "-m", model, "-q")
    drafted = mtkit("generate", "Hello", "-m", model, "--draft-lookup", "--draft", model)
    assert drafted.returncode == 0
    assert drafted.stdout == plain.stdout
    assert b"drafting" in drafted.stderr
    found = json.loads(
        mtkit("generate", "Hello", "-m", model, "--draft", model, "--json", "-q").stdout
    )
    assert found["drafting"]["rounds"] > 0
    assert found["context"]["kv_type"] == "bf16"
    wrong = mtkit("generate", "Hello", "-m", model, "--draft-max", "3")
    assert wrong.returncode == 2
    assert b"does nothing without" in wrong.stderr


def test_a_conversation(mtkit: Run) -> None:
    model, draft = own("target", "q8_0"), own("draft", "q8_0")
    ask = ("chat", "How do I list files?", "-m", model, "-n", "30", "--threads", "1", "--json")
    plain = mtkit(*ask)
    found = mtkit(*ask, "--draft", draft)
    assert found.returncode == 0
    assert json.loads(found.stdout)["ids"] == json.loads(plain.stdout)["ids"]


def test_prepared_changes_nothing_without_a_draft() -> None:
    settings = GenerateSettings()
    assert prepare_settings(settings) == settings
    given = replace(settings, drafting=replace(settings.drafting, draft_lookup=True, exact=False))
    assert prepare_settings(given) == replace(given, context=replace(given.context, swa_full=True))
