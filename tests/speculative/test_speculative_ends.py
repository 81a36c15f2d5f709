"""What ends a text ends it the same in every group, wherever in a draft it falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafting import PLAIN, Target, own, prompts

from mtkit.errors import FormatError
from mtkit.gguf import open_gguf
from mtkit.gguf.values import EMBEDDING, Rows
from mtkit.speculative import draft_file, semantic_index
from mtkit.speculative.draft_file import prune

GROUPS = ("B", "C", "D", "E", "lookup", "lookup before B")
LENGTH = 24


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is not remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table that D searches."""
    folder = tmp_path_factory.mktemp("table")
    file = open_gguf(own("target", "q8_0"))
    semantic_index.write(Rows(file, file.names[EMBEDDING]), file.name, str(folder))
    return folder


@pytest.fixture(scope="module")
def answer() -> tuple[list[int], list[int]]:
    """A prompt that repeats itself and the tokens behind it."""
    with Target(own("target", "q8_0"), **PLAIN) as plain:
        prompt = plain.runner.model.tokenize(prompts("en", 1)[0])
        prompt += plain.ids(prompt, LENGTH)
        return prompt, plain.ids(prompt, LENGTH)


def drafting(group: str, folder: Path, known: list[int], most: int = 3) -> dict[str, Any]:
    """Return the settings of a group; the draft is the target itself, so that much is accepted."""
    vocabulary = folder / "v.txt"
    vocabulary.write_text("".join(f"{i}\n" for i in known))
    model = {"draft": own("target", "q8_0")}
    static = {**model, "sx_static_vocab": str(vocabulary)}
    table = {
        "sx_quant_embd": str(folder / semantic_index.EMBEDDINGS),
        "sx_scales": str(folder / semantic_index.SCALES),
    }
    more: dict[str, dict[str, Any]] = {
        "B": model,
        "C": static,
        "D": {**static, **table},
        "E": {**static, "sx_seed_prompt": True, "sx_learn": True},
        "lookup": {"draft_lookup": True},
        "lookup before B": {**model, "draft_lookup": True},
    }
    return {"draft_auto": False, "draft_max": most, **more[group]}


def cut_places(target: Target) -> set[int]:
    """Return where drafts are cut from now on: the accepted tokens that were taken."""
    assert target.speculation
    seen, places = target.speculation.statistics, set[int]()
    count = seen.count_outcome

    def outcome(drafted: int, accepted: int, emitted: int) -> None:
        count(drafted, accepted, emitted)
        if drafted and emitted == accepted:
            places.add(accepted)

    seen.count_outcome = outcome  # type: ignore[method-assign]
    return places


@pytest.mark.parametrize(("group", "most"), [*((name, 3) for name in GROUPS), ("B", 1), ("B", 7)])
def test_every_place_of_an_end(
    group: str, most: int, answer: tuple[list[int], list[int]], files: Path
) -> None:
    """An end token and the limit, at every place of accepted drafts, in front and behind."""
    prompt, expected = answer
    known = sorted({*range(64), *expected} - set(sorted(set(expected))[::5]))
    with Target(own("target", "q8_0"), **drafting(group, files, known, most)) as target:
        runner, places = target.runner, cut_places(target)
        real = runner.model.is_eog
        for place in range(LENGTH):
            first = expected.index(expected[place])
            runner.model.is_eog = lambda i, end=expected[place]: i == end  # type: ignore[method-assign]
            assert target.ids(prompt, LENGTH) == expected[: first + 1]
            assert runner.end == "eog"
            runner.model.is_eog = real  # type: ignore[method-assign]
            assert target.ids(prompt, place) == expected[:place]
            assert runner.end == "length"
        assert target.ids(prompt, LENGTH) == expected  # what was cut short left nothing behind
        assert places == set(range(1, most + 1))


@pytest.mark.parametrize("auto", [False, True])
def test_the_end_of_a_text_is_learnt_as_its_middle(
    auto: bool, answer: tuple[list[int], list[int]], files: Path
) -> None:
    """Wherever a text ends: in a draft, behind one, in a plain stretch."""
    prompt, expected = answer
    given = {**drafting("E", files, list(range(64))), "sx_seed_prompt": False, "draft_auto": auto}
    for limit in range(1, LENGTH):
        with Target(own("target", "q8_0"), **given) as target:
            assert target.ids(prompt, limit) == expected[:limit]
            assert target.speculation
            learning = target.speculation.draft.learning
            assert learning or auto  # it is loaded where it may pay
            if learning is None:
                continue
            learning.ready()
            known = learning.vocabulary.ids
            assert known is not None
            assert set(expected[:limit]) <= set(known.tolist())


@pytest.mark.parametrize("group", GROUPS)
def test_a_full_context(group: str, files: Path) -> None:
    """The text ends at the same token, whatever is drafted at its end."""
    model, text, lengths = own("target", "q8_0"), prompts("code", 1)[0], (153, 154, 155, 156)
    for n_ctx in lengths:
        with Target(model, n_ctx=n_ctx, **PLAIN) as plain:
            expected = plain.ids(text, 500)
            assert plain.runner.end == "context"
        given = drafting(group, files, sorted({*range(64), *expected[::2]}))
        with Target(model, n_ctx=n_ctx, **given) as target:
            assert target.ids(text, 500) == expected
            assert target.runner.end == "context"
            assert target.speculation
            assert target.speculation.statistics.accepted


@pytest.mark.parametrize("given", [
    {"draft_lookup": True, "draft_max": 0}, {"draft_lookup": True, "draft_max": 3}, {},
], ids=["plain", "lookup", "B"])  # fmt: skip
def test_a_full_context_in_pairs(given: dict[str, Any]) -> None:
    """Two rows a step leave no cell unused: the text is as long as one that takes one row."""
    model, text = own("target", "bf16"), prompts("code", 1)[0]
    given = given or {"draft": own("draft", "bf16"), "draft_max": 3}
    with Target(model, **PLAIN) as roomy:
        prompt = roomy.runner.model.tokenize(text)
        expected = roomy.ids(prompt, 60)
    for more in range(2, 30):
        with Target(model, n_ctx=len(prompt) + more, draft_auto=False, **given) as target:
            assert target.ids(prompt, 500) == expected[: more + 1]
            assert target.runner.end == "context"
            assert target.ids(prompt, more) == expected[:more]
            assert target.runner.end == "length"


@pytest.mark.parametrize("group", ["C", "D", "E"])
@pytest.mark.parametrize("known", [[5], list(range(8192))])
def test_one_id_and_all_ids(
    group: str, known: list[int], answer: tuple[list[int], list[int]], files: Path
) -> None:
    """With one id the text is the target's; with all of them every draft is the whole model's."""
    prompt, expected = answer
    with Target(own("target", "q8_0"), **drafting(group, files, known)) as target:
        assert target.ids(prompt, LENGTH) == expected
        assert target.speculation
        seen = target.speculation.statistics
        if len(known) == 8192:
            assert seen.acceptance > 0.95
            assert seen.learning is None or seen.learning.added == 0


def test_a_list_of_ids_that_does_not_fit_its_rows(tmp_path: Path) -> None:
    small = tmp_path / "small.gguf"
    prune(own("draft", "q8_0"), list(range(64)), str(small))
    data = small.read_bytes()
    first, last = ((n).to_bytes(8, "little") for n in (0, 63))
    for wrong in ((1).to_bytes(8, "little"), (-1).to_bytes(8, "little", signed=True)):
        at = data.rindex(last, 0, data.index(b"token_embd.weight"))
        assert first in data[:at]
        damaged = tmp_path / "damaged.gguf"
        damaged.write_bytes(data[:at] + wrong + data[at + 8 :])
        with pytest.raises(FormatError, match="does not fit the rows"):
            draft_file.find_draft(open_gguf(str(damaged)), None)
