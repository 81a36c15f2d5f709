"""mtkit sx tune: what it expects, what it measures, and the profile that it writes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from drafting import own, prompts
from support import Run, reference

from mtkit.api.generation import generate
from mtkit.base.record import replace
from mtkit.commands.arguments import read_prompts
from mtkit.commands.sx.tune import tune
from mtkit.errors import FormatError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.values import count_rows
from mtkit.settings import (
    ContextSettings,
    DraftSettings,
    GenerateSettings,
    ServedDraftSettings,
)
from mtkit.speculative import setup
from mtkit.speculative.costs import Costs
from mtkit.speculative.tune import (
    Answers,
    Comparison,
    ReadAlong,
    Tuner,
    candidates_of,
    expected_speed,
    split_prompts,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is not remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")


def answers(texts: list[list[int]], **costs: float) -> Answers:
    """Return answers to a prompt of one id each, with costs of batches."""
    found = Answers([[999]] * len(texts), texts, 0.1)
    for name, cost in costs.items():
        found.known.saw_batch(int(name.removeprefix("b")), cost)
    return found


def test_expected_speed_is_that_of_the_rounds() -> None:
    """By hand: three drafted a round, of which the first, all, and none are right."""
    text = [list(range(10))]  # nine tokens behind the first, no repetition
    found = answers(text, b4=2.0)
    right = [True, False, True, True, True, True, False, False, False]
    watched = ReadAlong([right], 0.1, 0.0)
    # Rounds at 0 (one right, two tokens), 2 (three right, four tokens), 6, 7 and 8 (one each).
    spent = 4 * 2.0 + 0.1 * (3 + 3 + 3 + 2 + 1) + (found.known.verify(3) - 2.0)
    spent += found.known.verify(2) - 2.0 + 2.0
    spent += 0.1  # at 6 the draft reads the last token that it drafted at 2
    assert expected_speed(found, watched, 3, 1, lookup=0) == pytest.approx(9 / spent)
    assert expected_speed(found, None, 0, 1, lookup=3) == 1.0


def test_expected_speed_of_a_lookup() -> None:
    """It proposes what came before, and costs nothing where it finds nothing."""
    text = [[1, 2, 3, 4, 5, 6, 7, 8] * 4]
    found = answers(text, b4=1.5, b8=2.0)
    assert expected_speed(found, None, 0, 1, lookup=7) > 1.8
    random = Random(1)
    other = answers([[random.randrange(10**6) for _ in range(40)]], b4=1.5)
    assert expected_speed(other, None, 0, 1, lookup=7) == 1.0
    assert expected_speed(other, None, 0, 4, lookup=3) == pytest.approx(1 / 1.5)


def test_candidates() -> None:
    found = candidates_of(DraftSettings(), ["a/x.gguf"], {64: "v.txt"})
    assert [one.name for one in found if one.drafting.exact] == [
        "lookup", "x", "x, 64 ids", "lookup, x", "lookup, x, 64 ids",
    ]  # fmt: skip
    assert len(found) == 10
    assert all(one.drafting.draft or one.drafting.draft_lookup for one in found)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Return a file that stands for a target; the draft beside it is another one."""
    reference("llama_cpp")
    (tmp_path / "small.gguf").write_bytes(b"GGUF small")
    (tmp_path / "x.gguf").write_bytes(b"GGUF x")
    return str(tmp_path / "x.gguf")


def test_a_profile_is_what_was_written(tmp_path: Path, model: str) -> None:
    known = Costs()
    known.saw_batch(4, 2.0)
    beside = str(tmp_path / "small.gguf")
    drafting = DraftSettings(draft=beside, draft_lookup=True, draft_max=3, draft_width=4)
    path = str(tmp_path / "p.json")
    setup.write_profile(path, drafting, known, {"origin": setup.describe_origin(model, beside, 1)})
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["settings"]["draft"] == "small.gguf"
    found = setup.apply_profile(DraftSettings(draft_profile=path), model, 1)
    assert (found.draft, found.draft_lookup, found.draft_max, found.draft_width) == (
        beside, True, 3, 4,
    )  # fmt: skip
    own_choice = DraftSettings(draft_profile=path, draft_max=2)
    assert setup.apply_profile(own_choice, model, 1).draft_max == 2
    served = setup.apply_profile(ServedDraftSettings(draft_profile=path), model, 1)
    assert (served.draft, served.exact) == (beside, False)
    again = Costs()
    again.take(document["known"])
    assert again.document() == known.document()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a profile"),
        ("[1]", "is not a profile"),
        ('{"schema": "mtkit.draft-profile/1"}', "settings that are not known"),
        ('{"schema": "mtkit.draft-profile/1", "settings": {"seed": 1}}', "are not known"),
        ('{"schema": "mtkit.draft-profile/1", "settings": {"draft": 1}}', "settings.draft: is 1"),
    ],
)
def test_profiles_that_are_none(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=said):
        setup.apply_profile(DraftSettings(draft_profile=str(path)), "m", 1)
    with pytest.raises(UsageError, match="no such file"):
        setup.apply_profile(DraftSettings(draft_profile=str(tmp_path / "none")), "m", 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"processor": "another, 0"}, "made on another processor (another, 0)"),
        ({"threads": 4}, "made for --threads 4"),
        ({"llama.cpp": "1 bytes"}, "made with another llama.cpp"),
        ({"model": "1 bytes"}, "made with another model"),
        ({}, "made with another llama.cpp"),  # of the same libllama, and other kernels
        ({"draft model": "1 bytes"}, "made with another draft model"),
        (None, "does not say what it was made with"),
    ],
)
def test_a_profile_of_something_else_changes_nothing_and_says_so(
    change: dict[str, object] | None, said: str, tmp_path: Path, model: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    lines: list[str] = []
    monkeypatch.setattr("mtkit.base.watch.speakers", [lines.append])
    draft, path = str(tmp_path / "small.gguf"), str(tmp_path / "p.json")
    origin = setup.describe_origin(model, draft, 1)
    about: dict[str, object] = {} if change is None else {"origin": origin | change}
    setup.write_profile(path, DraftSettings(draft=draft, draft_lookup=True), Costs(), about)
    if change == {}:
        monkeypatch.setattr("mtkit.llama.system_info", lambda: "CPU : SSE3 = 1")
    given = GenerateSettings(
        model, ContextSettings(threads=1), drafting=DraftSettings(draft_profile=path)
    )
    assert setup.prepare_settings(given) == replace(given, drafting=DraftSettings())
    assert [said in line for line in lines] == [True]


def test_a_profile_that_drafts_nothing_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "p.json")
    setup.write_profile(path, DraftSettings(), Costs(), {})
    given = GenerateSettings("m", drafting=DraftSettings(draft_profile=path))
    assert setup.prepare_settings(given) == replace(given, drafting=DraftSettings())


def test_prompts_are_held_out_of_each_length() -> None:
    first, second = split_prompts(["e" * 90, "w" * 9, "e" * 80, "w" * 8, "w" * 7])
    assert [len(text) for text in first] == [80, 8]
    assert [len(text) for text in second] == [90, 9, 7]
    assert split_prompts(["one"]) == (["one"], ["one"])


def test_the_time_of_whole_processes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all threads, or of the clock, what is worse; again while it may be noise."""
    runs: list[tuple[str, ...]] = []

    def run(_: object, path: str, *more: str) -> tuple[list[float], str]:
        runs.append(more)
        return ([1.0, 4.0], "a") if not more else ([1.02, 2.0], "a" if path == "x" else "b")

    monkeypatch.setattr(Comparison, "_run", run)
    speed, same = Comparison("m", (), alone=False).speed(["x", "y"], "p")
    assert (round(speed, 3), same) == (0.98, 1)
    assert len(runs) == 12
    assert set(runs) == {(), ("--draft-profile", "p")}


def test_of_a_disturbed_process_the_least_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 1.2, 1.1, 0.8])
    monkeypatch.setattr(Comparison, "_run", lambda *_: ([next(times)], "a"))
    assert Comparison("m", (), alone=True).speed(["x"], "p") == (1.25, 1)
    assert not list(times)


def test_prompts_of_lines(tmp_path: Path) -> None:
    """A line of text has its breaks as \\n, one of JSON as JSON has them."""
    (tmp_path / "p").write_text('print:\\n  x\\n\n\n{"prompt": "a\\nb\\\\n"}\n')
    assert list(read_prompts(str(tmp_path / "p"))) == ["print:\n  x\n", "a\nb\\n"]


def test_what_was_measured_is_measured_again_where_its_file_is_damaged(tmp_path: Path) -> None:
    path, measured = tmp_path / "state.json", [[[1, 2], 0.5]]
    of_one_thread: Any = SimpleNamespace(
        context=SimpleNamespace(
            settings=SimpleNamespace(threads=1),
            model=SimpleNamespace(settings=SimpleNamespace(gpu_layers=0)),
        )
    )

    def remembered(otherwise: object) -> object:
        tuner = Tuner(of_one_thread, GenerateSettings("m"), str(path), 0.0)
        return tuner.remember("answers", lambda: otherwise)

    assert remembered(measured) == measured
    assert remembered("anew") == measured
    whole, rng = path.read_bytes(), Random(1)
    drawn = [whole[: rng.randrange(len(whole))] for _ in range(20)]
    for _ in range(60):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= rng.randrange(1, 256)
        drawn.append(bytes(changed))
    for data in (b"", b"[]", b'{"answers": 5}', b"[" * 100_000, *drawn):
        path.write_bytes(data)
        assert remembered("anew") == "anew"


def test_the_command(mtkit: Run, tmp_path: Path) -> None:
    """It ends in time, goes on from what it knows, and what it says is what generate reads."""
    target, draft, out = own("target", "q4_0"), own("draft", "q8_0"), str(tmp_path / "p.json")
    (tmp_path / "prompts").write_text("\n".join(json.dumps({"prompt": text[:200]})
                                                for text in prompts("code", 2)))  # fmt: skip
    argv = ("sx", "tune", target, draft, "--prompts", str(tmp_path / "prompts"), "-o", out,
            "-n", "24", "--json")  # fmt: skip
    reference("matplotlib")
    done = mtkit(*argv, "--plot", str(tmp_path / "plot.svg"))
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "plot.svg").read_text()
    assert "a batch" in drawn
    assert "lookup" in drawn
    found = json.loads(done.stdout)
    names = {one["name"]: one for one in found["candidates"]}
    assert "lookup" in names
    assert any("q4_0" in name for name in names)
    assert any("4096 ids" in name for name in names)
    for one in found["candidates"]:
        assert one["identical"] in (None, 1)
    assert mtkit(*argv).returncode == 2  # it exists
    again = json.loads(mtkit(*argv, "--force").stdout)
    same = {one["name"]: one["expected"] for one in again["candidates"]}
    assert same == {name: one["expected"] for name, one in names.items()}
    plain = generate("The option", model=target, n_predict=16, threads=1)
    made = generate("The option", model=target, n_predict=16, threads=1, draft_profile=out)
    assert made.ids == plain.ids


def test_a_draft_that_is_cut_is_written_beside_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_one(results: list[Any], *, exact: bool) -> list[Any]:
        name = "mtkit-docs-draft-q8_0, 4096 ids"
        return [
            one for one in results if one.candidate.name == name and one.drafting.exact == exact
        ]

    monkeypatch.setattr("mtkit.speculative.tune.finalists", cut_one)
    monkeypatch.setattr(
        sys.modules[tune.__module__], "_measure", lambda *_, **__: {"code": (2.0, 1)}
    )
    target, out = own("target", "q4_0"), str(tmp_path / "p.json")
    lines = ["", *(text[:200] for text in prompts("code", 2))]
    (tmp_path / "prompts").write_text("".join(json.dumps({"prompt": one}) + "\n" for one in lines))
    tune(target, [own("draft", "q8_0")], prompts=[str(tmp_path / "prompts")], out=out, tokens=16)
    assert count_rows(open_gguf(str(tmp_path / "p-pruned.gguf"))) == 4096
    plain, made = (
        generate("The option", model=target, n_predict=16, threads=1, draft_profile=profile)
        for profile in (None, out)
    )
    assert made.ids == plain.ids


def test_a_profile_of_four_rows_a_step(tmp_path: Path) -> None:
    """The text is that of the target in four rows a step, with the draft beside the profile."""
    target, draft = own("target", "bf16"), str(tmp_path / "d.gguf")
    os.symlink(own("draft", "bf16"), draft)
    drafting = DraftSettings(draft=draft, draft_max=3, draft_width=4)
    about = {"origin": setup.describe_origin(target, draft, 1)}
    setup.write_profile(str(tmp_path / "p.json"), drafting, Costs(), about)
    common: dict[str, Any] = {"model": target, "n_predict": 32, "threads": 1, "draft_auto": False}
    wide = generate("The", draft_lookup=True, draft_max=0, draft_width=4, **common)
    made = generate("The", draft_profile=str(tmp_path / "p.json"), **common)
    assert made.ids == wide.ids
    assert made.drafting
    assert made.drafting.drafted
