"""The benchmark: groups that write the same, what is counted, and what their runs say together."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from llm_models import tiny
from support import Run as Command
from support import reference, shared

from mtkit.base import plotting
from mtkit.errors import MissingExtra
from mtkit.llm.runner import logprob, open_model
from mtkit.settings import DraftSettings, GenerateSettings
from mtkit.settings.declaration import settings_of
from mtkit.speculative.bench import Run, add_counts, groups_of, mean_log_likelihood, summarize
from mtkit.speculative.drafts import Script
from mtkit.speculative.rounds import Statistics


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made here is not kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")


def made(group: str, prompt: int, seconds: float, ids: list[int], **given: Any) -> Run:
    """Return a run."""
    values = {
        "source": "en", "temperature": 0.0, "wall_seconds": 2 * seconds, "log_likelihood": None,
        "drafting": None, **given,
    }  # fmt: skip
    return Run(prompt=prompt, group=group, seconds=seconds, ids=ids, **values)


def test_sums_medians_and_ratios() -> None:
    runs = []
    for prompt, (plain, drafted) in enumerate([(1.0, 0.5), (1.0, 2.0), (4.0, 1.0)]):
        runs += [made("A", prompt, plain, [1, 2, 3]), made("B", prompt, drafted, [1, 2, prompt])]
    rows = {row["group"]: row for row in summarize(runs, None, {1, 3})}
    found: dict[str, Any] = rows["B"]
    assert found["tokens_per_second"] == 9 / 3.5
    assert found["speed"] == pytest.approx(6 / 3.5)
    assert found["median_speed"] == 2.0
    assert found["median_tokens_per_second"] == median([6, 1.5, 3])
    assert found["wall_seconds"] == 7
    assert found["identical"] == 0
    assert rows["A"]["identical"] == 3
    assert found["outside"] == 5 / 9  # id 2 in each, 0 and 2 once


def test_counts_of_several_texts_are_those_of_one() -> None:
    """Whatever is counted text by text comes to what is counted at once."""
    random, whole, documents = Random(4), Statistics(), []
    for _ in range(5):
        one = Statistics()
        for _ in range(random.randrange(9)):
            drafted = random.randrange(5)
            accepted = random.randrange(drafted + 1)
            for seen in (one, whole):
                seen.count_round(drafted, 0.5, 1.0)
                seen.count_outcome(drafted, accepted, accepted + 1)
        documents.append(one.document())
    assert add_counts(documents) == whole.document()
    grown = [{"dynamic_vocabulary": {"largest": n, "added": n}} for n in (2, 5, 3)]
    assert add_counts(grown) == {"dynamic_vocabulary": {"largest": 5, "added": 10}}


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9, 1.0])
def test_a_script_is_right_at_its_rate(rate: float) -> None:
    script = Script(rate)
    script.ids = list(range(2000))
    right = sum(script.token(place) == place for place in range(2000))
    assert abs(right / 2000 - rate) < 0.04


def test_groups_follow_from_what_there_is() -> None:
    assert list(groups_of(DraftSettings())) == ["A", "lookup"]
    draft = DraftSettings(draft="d.gguf")
    assert list(groups_of(draft)) == ["A", "lookup", "B"]
    static = DraftSettings(draft="d.gguf", sx_static_vocab="v.txt")
    assert list(groups_of(static)) == ["A", "lookup", "B", "C", "E"]
    whole = DraftSettings(draft="d.gguf", sx_static_vocab="v.txt", sx_quant_embd="q", sx_scales="s")
    assert list(groups_of(whole)) == ["A", "lookup", "B", "C", "D", "D+", "E"]


def test_the_command(mtkit: Command, tmp_path: Path) -> None:
    reference("llama_cpp")
    target, draft = (
        str(shared(f"own/model/mtkit-docs-{part}-bf16.gguf")) for part in ("target", "draft")
    )
    (tmp_path / "v.txt").write_text("\n".join(map(str, range(1024))))
    prompts = str(shared("own/prompts/zh.jsonl"))
    (tmp_path / "lines.txt").write_text("The option\n\nList all files\n")
    reference("matplotlib")
    ran = mtkit(
        "sx", "bench", target, prompts, str(tmp_path / "lines.txt"), "--draft", draft,
        "--sx-static-vocab", str(tmp_path / "v.txt"), "--prompts", "2", "-n", "16",
        "--acceptance", "1", "--no-draft-auto", "--draft-max", "3", "--json",
        "--plot", str(tmp_path / "plot"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["calibration"][0]["ratio"] == 1
    greedy = [row for row in found["results"] if not row["temperature"]]
    for source in ("zh", "lines", "all"):
        names = [row["group"] for row in greedy if row["source"] == source]
        assert names == ["A", "A2", "lookup", "B", "C", "D", "D+", "E", "@1", "B@1", "C@1"]
    for row in greedy:
        if row["group"] != "A2":  # a single row is added in another order
            assert row["identical"] == row["prompts"], row
        if "@" in row["group"]:
            assert row["drafting"]["acceptance"] > 0.9
        assert 0 <= row["outside"] <= 1
    drawn = [row for row in found["results"] if row["temperature"]]
    assert all(row["log_likelihood"] < 0 for row in drawn)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "plot.svg").read_bytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--groups", "A,C"), "there is no group 'C'"),
        (("--acceptance", "1.5"), "--acceptance: is 1.5, not in the range 0 to 1"),
        (("--temp", "hot"), "'hot' is not a list of numbers"),
        (("--sx-static-vocab", "v.txt"), "does nothing without --draft"),
    ],
)
def test_what_it_cannot_measure(given: tuple[str, ...], said: str, mtkit: Command) -> None:
    reference("llama_cpp")
    target = str(shared("own/model/mtkit-docs-target-q8_0.gguf"))
    ran = mtkit("sx", "bench", target, str(shared("own/prompts/en.jsonl")), *given)
    assert ran.returncode == 2
    assert said.encode() in ran.stderr


def test_likelihoods_of_texts_longer_than_a_batch() -> None:
    """Rows of logits come a batch at a time: the mean is that of single steps."""
    ids = [1 + at * 7 % 250 for at in range(200)]
    given = {"model": str(tiny("llama")), "n_ctx": 256, "n_batch": 64, "threads": 1}
    settings = settings_of(GenerateSettings, given)
    with open_model(settings) as runner:
        context = runner.open_context()
        found = mean_log_likelihood(context, ids[:3], ids[3:])
        context.clear()
        context.decode(ids[:3])
        total = 0.0
        for token_id in ids[3:]:
            total += logprob(context.logits(), token_id)
            context.step(token_id)
        assert found == pytest.approx(total / 197, abs=1e-3)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"mtkit\[bench\]"):
        plotting.require()
