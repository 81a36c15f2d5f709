"""Drafts of another vocabulary: what ids mean, and that the text is the target's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from chi_square import TableContext, TableModel, TableSampler, joint, p_value
from llm_models import tiny
from renumbered import renumbered
from support import Run, reference, shared

from mtkit.api.generation import generate
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf
from mtkit.speculative.costs import Costs
from mtkit.speculative.policy import Policy
from mtkit.speculative.rounds import Speculation
from mtkit.speculative.translation import TranslatedDraft, Translation, meaning_of, whole_characters
from mtkit.speculative.verification import Distribution, Proposal
from mtkit.tokenizer.load import load


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made here is not kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")


def own(part: str) -> str:
    """Return the path of a model of the trained pair."""
    reference("llama_cpp")
    return str(shared(f"own/model/mtkit-docs-{part}-q8_0.gguf"))


def prompts(language: str, count: int) -> list[str]:
    """Return held-out texts."""
    lines = shared(f"own/prompts/{language}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def drafts(name: str, folder: Path) -> str:
    """Return a draft of another vocabulary than the trained target."""
    path, random = str(folder / f"{name}.gguf"), Random(1)
    ids = list(range(8192))
    if name == "other ids":
        random.shuffle(ids)
        return renumbered(own("draft"), ids, path)
    if name == "missing ids":
        lone = len(open_gguf(own("draft")).metadata["tokenizer.ggml.tokens"]) - 3
        return renumbered(own("draft"), [*range(3000), *range(lone, lone + 3)], path)
    if name == "another split":
        random.shuffle(ids)
        return renumbered(own("draft"), ids, path, pre="gpt-2")
    if name == "with byte tokens":
        return str(tiny("llama"))
    return str(tiny("llama-bpe"))


KINDS = ("other ids", "missing ids", "another split", "with byte tokens", "without byte tokens")


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_the_targets(kind: str, tmp_path: Path) -> None:
    target, draft = own("target"), drafts(kind, tmp_path)
    accepted = 0
    for text in [*prompts("zh", 1), *prompts("code", 1), "<|im_start|>user\nList 文件<|im_end|>"]:
        common: dict[str, Any] = {"model": target, "n_predict": 48, "threads": 1}
        plain = generate(text, draft_lookup=True, draft_max=0, **common)
        made = generate(text, draft=draft, draft_auto=False, draft_max=4, **common)
        assert made.ids == plain.ids
        assert made.drafting
        assert made.drafting.drafted
        accepted += made.drafting.accepted
    assert accepted > 10 or kind.endswith("byte tokens")  # those are random models


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_beyond_512_cells(kind: str, tmp_path: Path) -> None:
    prompt = "".join(prompts("code", 6) + prompts("zh", 6))
    common: dict[str, Any] = {"model": own("target"), "n_predict": 40, "threads": 1}
    plain = generate(prompt, draft_lookup=True, draft_max=0, **common)
    assert len(plain.prompt_ids) > 512
    made = generate(prompt, draft=drafts(kind, tmp_path), draft_auto=False, draft_max=4, **common)
    assert made.ids == plain.ids
    assert made.drafting
    assert made.drafting.drafted


def test_the_same_tokens_under_other_ids_are_accepted_as_often(tmp_path: Path) -> None:
    """The draft computes the very same, so the proposals are the same."""
    target = own("target")
    other = drafts("other ids", tmp_path)
    for text in prompts("de", 3):
        common: dict[str, Any] = {
            "model": target, "n_predict": 48, "threads": 1, "draft_auto": False, "draft_max": 3,
        }  # fmt: skip
        one = generate(text, draft=own("draft"), **common).drafting
        two = generate(text, draft=other, **common).drafting
        assert one
        assert two
        # What was generated need not be split as a text is; the draft reads its own split.
        assert abs(one.accepted - two.accepted) <= 0.35 * one.accepted + 4


def test_random_choices_with_a_draft_of_another_vocabulary(tmp_path: Path) -> None:
    made = generate(
        "The option", model=own("target"), draft=drafts("other ids", tmp_path), temperature=0.8,
        seed=3, n_predict=60, threads=1, draft_auto=False, ignore_eos=True,
    )  # fmt: skip
    assert len(made.ids) == 60
    assert made.drafting
    assert made.drafting.accepted


@pytest.mark.parametrize("kind", KINDS)
def test_shared_ids_mean_the_same(kind: str, tmp_path: Path) -> None:
    target, draft = load(own("target")), load(drafts(kind, tmp_path))
    found = Translation(target, draft)
    assert len(set(found.shared.values())) == len(found.shared)
    for theirs, ours in found.shared.items():
        if theirs not in (draft.eos_id, draft.bos_id):
            assert meaning_of(draft, theirs) == meaning_of(target, ours)
    # Every text of letters that both have as one token is shared.
    texts = {target.token_bytes(i) for i in range(8192) if target.token_kind(i) == "normal"}
    shared_texts = {draft.token_bytes(i) for i in found.shared}
    for token_id in range(draft.vocab_size):
        if draft.token_kind(token_id) == "normal" and draft.token_bytes(token_id) in texts:
            assert draft.token_bytes(token_id) in shared_texts
    wanted = {"other ids": 8192, "another split": 8192, "missing ids": 3003}
    assert len(found.shared) == wanted.get(kind, len(found.shared))


def test_what_enters_is_the_drafts_own_split(tmp_path: Path) -> None:
    target, draft = load(own("target")), load(str(tiny("llama")))
    found = Translation(target, draft, [1])
    text = "Hello world, 你好 🦄"
    ids = target.encode_ids(text)
    assert found.entering(ids) == [1, *draft.encode_ids(text, add_special_tokens=False)]
    cut = next(n for n in range(1, len(ids)) if whole_characters(target.decode_bytes(ids[:n]))
               < len(target.decode_bytes(ids[:n])))  # fmt: skip
    assert found.entering(ids[:cut]) is None
    assert found.entering([]) == [1]


@pytest.mark.parametrize("seed", range(4))
def test_characters_that_an_end_cuts(seed: int) -> None:
    random = Random(seed)
    text = "".join(random.choices("aé你🙂\x7f", k=40)).encode()
    for end in range(len(text) + 1):
        size = whole_characters(text[:end])
        text[:size].decode()
        assert end - size < 4
        if size < end:
            with pytest.raises(UnicodeDecodeError):
                text[:end].decode()


class Renamed:
    """Draws from a table, under ids of its own, of some tokens alone."""

    free, overlap = False, 0
    learning = None

    def __init__(self, table: TableModel, names: Sequence[int], random: Any) -> None:
        self._table, self._names, self._random = table, names, random

    def begin(self, ids: Sequence[int]) -> None:
        """Nothing is kept."""

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Draw."""
        known = np.array(self._names)
        text, drawn, distributions = list(ids), [], []
        for _ in range(most):
            found = Distribution.of_logits(np.arange(len(known)), self._table.row(text)[known])
            own_id = found.draw(self._random)
            drawn.append(own_id)
            distributions.append(found)
            text.append(int(known[own_id]))
        return Proposal(drawn, distributions)

    def close(self) -> None:
        """Nothing is held."""


class Names:
    """Translates for ``Renamed``, whose text enters as it is."""

    def __init__(self, names: Sequence[int]) -> None:
        self.shared = dict(enumerate(names))

    def entering(self, ids: Sequence[int]) -> list[int]:
        """Return the text."""
        return list(ids)


@pytest.mark.parametrize("names", [[3, 0, 6, 1, 5, 2, 4], [4, 1, 2]])
def test_the_distribution_is_the_targets(names: list[int]) -> None:
    """Chi-square of three tokens' joint, drafted under other ids, all of them or some."""
    prompt, table = [3, 1, 2, 3, 1], TableModel(0)
    expected = joint(table, prompt, 3, 1.0, 0)
    random, seen = np.random.default_rng(5), Counter[tuple[int, ...]]()
    for _ in range(3000):
        context = TableContext(table)
        context.decode(prompt)

        class Runner:
            ids, stop_requested, end = list(prompt), False, ""
            load_seconds = prompt_seconds = 0.0

        runner: Any = Runner()
        runner.context = context
        inner: Any = Renamed(TableModel(77), names, random)
        translation: Any = Names(names)
        draft = TranslatedDraft(inner, translation)
        draft.behind = lambda _: 0  # type: ignore[method-assign]
        sampler: Any = TableSampler(context, 1.0, 0, random)
        chosen = Speculation(draft, Policy(3, Costs(), auto=False), random=random).choose(
            runner, sampler, 3, logprobs=False
        )
        for choice in chosen:
            runner.ids.append(choice.token_id)
            if len(runner.ids) == len(prompt) + 3:
                break
        chosen.close()
        seen[tuple(runner.ids[-3:])] += 1
    assert p_value(seen, expected) > 1e-4


def test_a_static_vocabulary_of_another_model(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("1\n2\n")
    with pytest.raises(UsageError, match="another vocabulary: id 0 is"):
        generate(
            "The", model=own("target"), draft=str(tiny("llama-bpe")), n_predict=2,
            sx_static_vocab=str(tmp_path / "v.txt"),
        )  # fmt: skip


def test_compare_as_draft(mtkit: Run, tmp_path: Path) -> None:
    draft = drafts("missing ids", tmp_path)
    ran = mtkit("compare", draft, own("target"), "--as-draft", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["shared"], found["draft_ids"], found["target_ids"]) == (3003, 3003, 8192)
    assert found["same_id"] == 3000
    assert found["first"]["id"] == 3000
    shown = mtkit("compare", draft, own("target"), "--as-draft").stdout.decode()
    assert "3003" in shown
    same = mtkit("compare", own("draft"), own("target"), "--as-draft", "--json")
    assert json.loads(same.stdout)["first"] is None
    wrong = mtkit("compare", draft, own("target"), "--as-draft", "--input", "x")
    assert wrong.returncode == 2
