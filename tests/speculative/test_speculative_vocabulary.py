"""Static and dynamic vocabularies of a draft: rows, trigger, search, and what they change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llm_models import ARCHITECTURES, tiny
from support import Run, reference, shared

from mtkit.api.generation import generate
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.values import EMBEDDING, HEAD, Rows
from mtkit.llm import frequencies
from mtkit.llm.runner import open_model
from mtkit.settings import ContextSettings, ModelSettings
from mtkit.speculative import draft_file, semantic_index
from mtkit.speculative.draft_file import prune
from mtkit.speculative.verification import Outcome
from mtkit.speculative.vocabulary import (
    DynamicVocabulary,
    Learner,
    StaticVocabulary,
    logit_finishers,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made here is not kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTKIT_TRIAL", "0")


def own(part: str, kind: str = "q8_0") -> str:
    """Return the path of a model of the trained pair."""
    reference("llama_cpp")
    return str(shared(f"own/model/mtkit-docs-{part}-{kind}.gguf"))


def english(size: int) -> list[int]:
    """Return the most frequent ids of English."""
    lines = shared("own/freq/8k/en.txt").read_text("utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if not line.startswith("#")][:size]


def opened(path: str, *, embeddings: bool = False) -> Any:
    """Return a model with an open context."""
    settings = ContextSettings(n_ctx=64, threads=1, embeddings=embeddings, kv_type="bf16")
    runner = open_model(ModelSettings(path, settings), n_ctx=64)
    runner.open_context()
    return runner


# -- cut rows


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "bf16"])
@pytest.mark.parametrize("size", [64, 1024])
def test_logits_of_cut_rows(kind: str, size: int, tmp_path: Path) -> None:
    """To the bit what the whole draft gives them, whether a token enters as id or as embedding."""
    whole, small = own("draft", kind), str(tmp_path / "small.gguf")
    ids = Random(size).sample(range(8192), size)
    prune(whole, ids, small)
    file = open_gguf(whole)
    text = [ids[0], ids[5], ids[2]]
    with opened(whole) as one, opened(small) as other:
        one.context.decode(text)
        wanted = one.context.logits()[ids]
        vocabulary = StaticVocabulary(other.context, ids, Rows(file, file.names[EMBEDDING]))
        vocabulary.feed(text)
        assert (vocabulary.logits() == wanted).all()
        one.context.clear()
        other.context.clear()
        outside = [ids[0], next(i for i in range(8192) if i not in ids), ids[3]]
        one.context.decode(outside)
        vocabulary.feed(outside)
        assert (vocabulary.logits() == one.context.logits()[ids]).all()
        assert vocabulary.ids.tolist() == ids


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_dynamic_logits_of_architectures(arch: str, tmp_path: Path) -> None:
    """Logits that are computed outside are the whole model's, with its scale or cap."""
    whole, small = str(tiny(arch)), str(tmp_path / "small.gguf")
    file = open_gguf(whole)
    embedding = Rows(file, file.names[EMBEDDING])
    head = Rows(file, file.names[HEAD]) if HEAD in file.names else embedding
    ids = list(range(5, 5 + 128))
    prune(whole, ids, small)
    with opened(whole) as one, opened(small, embeddings=True) as other:
        vocabulary = DynamicVocabulary(
            other.context, ids, embedding, head, logit_finishers(file.metadata), cap=100
        )
        assert vocabulary.add([500, 7, 600, 500, 700]) == 3
        text = [6, 200, 9]
        one.context.decode(text)
        vocabulary.feed(text)
        wanted = one.context.logits()[vocabulary.ids]
        np.testing.assert_allclose(vocabulary.logits(), wanted, rtol=0.01, atol=0.01)
        assert vocabulary.ids[-3:].tolist() == [500, 600, 700]


@pytest.mark.parametrize("cap", [0, 1, 5, 100])
def test_the_oldest_ids_leave_first(cap: int, tmp_path: Path) -> None:
    source, pruned = own("draft"), str(tmp_path / "pruned.gguf")
    static, random = english(64), Random(cap)
    prune(source, static, pruned)
    file = open_gguf(source)
    table = Rows(file, file.names[EMBEDDING])
    head = Rows(file, file.names[HEAD]) if HEAD in file.names else table
    runner = opened(pruned, embeddings=True)
    with runner:
        vocabulary = DynamicVocabulary(
            runner.context, static, table, head, logit_finishers(file.metadata), cap
        )
        runner.context.decode([0])
        wanted: list[int] = []
        for _ in range(20):
            new = [random.randrange(8192) for _ in range(random.randrange(9))]
            fresh = [i for i in dict.fromkeys(new) if i not in static and i not in wanted]
            assert vocabulary.add([*new, 1 << 20]) == (len(fresh) if cap else 0)
            wanted = [*wanted, *fresh][-cap:] if cap else []
            assert vocabulary.ids.tolist() == [*static, *wanted]
            assert vocabulary.size == len(wanted)
            logits = head.values(wanted) @ runner.context.hidden() if wanted else np.zeros(0)
            assert np.allclose(vocabulary.logits()[64:], logits, atol=1e-4)


def test_what_cannot_be_pruned(tmp_path: Path) -> None:
    whole, small = own("draft"), str(tmp_path / "small.gguf")
    with pytest.raises(UsageError, match="no ids"):
        prune(whole, [], small)
    with pytest.raises(UsageError, match="no id 8192"):
        prune(whole, [1, 8192], small)
    prune(whole, [1, 2], small)
    with pytest.raises(UsageError, match="already exists"):
        prune(whole, [1, 2], small)
    with pytest.raises(UsageError, match="pruned draft already"):
        prune(small, [1], str(tmp_path / "smaller.gguf"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1\n2\n1\n", "line 3: id 1 stands in line 1 already"),
        ("1\n\n# a note\n99\n", "line 4: there is no id 99"),
        ("1\n-2\n", "line 2: '-2' is not an id"),
        ("1 2\n", "line 1: '1 2' is not an id"),
        ("9" * 400, "there is no id"),
        ("\u0663\n", "is not an id"),
    ],
)
def test_damaged_vocabularies(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(FormatError) as caught:
        frequencies.read_vocabulary(str(path), 50)
    assert what in str(caught.value)


def test_a_vocabulary_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    ids = Random(3).sample(range(1000), 300)
    path.write_text(frequencies.format_vocabulary(ids, "of a test"), "utf-8")
    assert frequencies.read_vocabulary(str(path), 1000) == ids


def test_most_frequent() -> None:
    counts = {5: 9, 3: 7, 8: 7, 1: 2}
    assert frequencies.most_frequent_ids(counts, 3, (), 10) == [5, 3, 8]
    assert frequencies.most_frequent_ids(counts, 3, (0,), 10) == [5, 3, 0]
    assert frequencies.coverage(counts, [5, 3]) == 16 / 25
    with pytest.raises(UsageError, match="2 ids hold less than the 3"):
        frequencies.most_frequent_ids(counts, 2, (0, 1, 2), 10)


# -- the trigger


class Growing(set[int]):
    """A static vocabulary, and the ids that are added to it."""

    def __init__(self, static: set[int]) -> None:
        super().__init__(static)
        self.added: list[int] = []

    @property
    def size(self) -> int:
        """How many were added."""
        return len(self.added)

    def clear(self) -> None:
        """Nothing is there yet."""

    def add(self, ids: Any) -> int:  # type: ignore[override]
        """Add ids."""
        self.added += ids
        return len(ids)


@pytest.mark.parametrize(
    ("drafted", "accepted", "likely", "fires"),
    [
        (0, 0, 9, False),  # nothing was drafted
        (2, 1, 9, False),  # the first was accepted
        (2, 2, 9, False),
        (2, 0, 3, False),  # the static vocabulary has what was wanted
        (2, 0, 9, True),
    ],
)
def test_the_double_condition(drafted: int, accepted: int, likely: int, fires: bool) -> None:
    index: Any = SimpleNamespace(search=lambda token_id: [(token_id + 1, 0.9)])
    known: Any = Growing({1, 2, 3})
    learning = Learner(known, index)
    outcome = Outcome([1] * drafted, accepted, [1] * accepted + [likely], likely)
    learning.saw(outcome)
    assert known.added == ([9, 10] if fires else [])
    assert learning.triggers == fires
    assert learning.first_rejected == (drafted > 0 and accepted == 0)
    assert learning.unknown == (drafted > 0 and likely == 9)
    learning.saw(outcome)  # it fires again, and is not searched for again
    assert known.added == ([9, 10] if fires else [])
    assert learning.triggers == 2 * fires
    assert learning.document()["searches"] == fires


# -- the search


class Table:
    """Rows that are not in a file."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self.count, self.width = values.shape

    def values(self, ids: Any) -> Any:
        """Return rows."""
        return self._values[ids]


@pytest.mark.parametrize("seed", range(6))
def test_search_is_the_cosine_of_the_quantized_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(0, 1, (300, 48)).astype(np.float32)
    values[7] = 0
    values[20:30] = values[20]  # ties
    values[40:60] = values[41] + random.normal(0, 0.2, (20, 48)).astype(np.float32)
    rows, scales = semantic_index.quantize_rows(values)
    assert abs(rows * scales[:, None] - values).max() <= scales.max() / 2 + 1e-6
    table: Any = Table(values)
    for top_k, threshold in ((5, -1.0), (50, 0.5), (3, 0.95), (400, -1.0)):
        index = semantic_index.SemanticIndex(rows, table, top_k=top_k, threshold=threshold)
        for token_id in (0, 20, 41, 299):
            exact = rows.astype(np.float64)
            length = np.sqrt((exact**2).sum(1))
            with np.errstate(invalid="ignore"):
                cosines = exact @ exact[token_id] / (length * length[token_id])
            wanted = sorted(
                (i for i in range(300) if i not in (token_id, 7) and cosines[i] >= threshold),
                key=lambda i: (-cosines[i].astype(np.float32), i),
            )[:top_k]
            assert [i for i, _ in index.search(token_id)] == wanted
        assert index.search(7) == []


@pytest.mark.parametrize("seed", range(8))
def test_the_core_finds_what_numpy_finds(seed: int) -> None:
    """Ids and cosines to the bit, whatever the width, with ties and rows of zeros."""
    native = pytest.importorskip("mtkit._native")
    random = np.random.default_rng(seed)
    width = int(random.choice([1, 7, 64, 100, 1024, 1536]))
    rows = random.integers(-127, 128, (int(random.integers(1, 2500)), width)).astype(np.int8)
    rows[random.random(len(rows)) < 0.1] = 0
    rows[random.random(len(rows)) < 0.2] = rows[0]
    rows[:1] = 127
    lengths = semantic_index.row_lengths(rows)
    for most, least in ((5, -1.0), (50, 0.1), (9999, -1.0), (0, -1.0), (3, 1.5)):
        skip = int(random.integers(len(rows)))
        wanted = rows[skip] if rows[skip].any() else rows[0]
        length = semantic_index.row_lengths(wanted[None])[0]
        given = rows, lengths, wanted, length, skip, most, np.float32(least)
        assert native.nearest_rows(*given) == semantic_index.nearest_rows(*given)
    with pytest.raises(UsageError, match="do not fit"):
        native.nearest_rows(rows, lengths[:-1], rows[0], 1.0, 0, 5, 0.0)


def test_files_of_a_table(tmp_path: Path) -> None:
    path = own("target")
    file = open_gguf(path)
    table = Rows(file, file.names[EMBEDDING])
    about = semantic_index.write(table, path, str(tmp_path))
    rows, scales = tmp_path / "quant_embeddings.bin", tmp_path / "scales.bin"
    assert rows.stat().st_size == 8192 * 256
    assert scales.stat().st_size == 8192 * 4
    assert json.loads((tmp_path / "quant_embeddings.json").read_text()) == about
    found = semantic_index.read(str(rows), str(scales), table)
    values = table.values(slice(0, 8192))
    factors = np.frombuffer(scales.read_bytes(), "<f4")
    assert (abs(found * factors[:, None] - values) <= factors[:, None] * 0.5001).all()
    with pytest.raises(UsageError, match="already exists"):
        semantic_index.write(table, path, str(tmp_path))
    for damaged in (rows, scales):
        kept = damaged.read_bytes()
        damaged.write_bytes(kept[:-1])
        with pytest.raises(FormatError, match=f"has {len(kept) - 1} bytes, not {len(kept)}"):
            semantic_index.read(str(rows), str(scales), table)
        damaged.write_bytes(kept)


# -- what they change: the speed, never the text


def test_groups(tmp_path: Path) -> None:
    """A, B, C, D and E write the same; off its language C accepts less than B, and E wins back."""
    target, draft = own("target"), own("draft")
    (tmp_path / "en.txt").write_text("\n".join(map(str, english(2048))))
    file = open_gguf(target)
    table = Rows(file, file.names[EMBEDDING])
    semantic_index.write(table, target, str(tmp_path))
    static: dict[str, Any] = {"draft": draft, "sx_static_vocab": str(tmp_path / "en.txt")}
    search = {
        "sx_quant_embd": str(tmp_path / "quant_embeddings.bin"),
        "sx_scales": str(tmp_path / "scales.bin"),
    }
    groups: dict[str, dict[str, Any]] = {
        "B": {"draft": draft},
        "C": static,
        "D": {**static, **search},
        "D, all neighbors": {**static, **search, "sx_threshold": -1.0},
        "E": {**static, "sx_seed_prompt": True, "sx_learn": True},
    }
    lines = shared("own/prompts/zh.jsonl").read_text("utf-8").splitlines()
    emitted = dict.fromkeys(groups, 0)
    rounds = dict.fromkeys(groups, 0)
    for line in lines[:24:4]:
        common: dict[str, Any] = {"model": target, "n_predict": 48, "threads": 1}
        plain = generate(json.loads(line)["prompt"], draft_lookup=True, draft_max=0, **common)
        for name, given in groups.items():
            made = generate(
                json.loads(line)["prompt"], draft_auto=False, draft_max=3, **given, **common
            )
            assert made.ids == plain.ids, name
            seen = made.drafting
            assert seen
            emitted[name] += seen.emitted
            rounds[name] += seen.rounds
            if name[0] == "D":
                found: Any = seen.document()["dynamic_vocabulary"]
                assert found["searches"] <= found["triggers"] <= found["first_rejected"]
                assert found["largest"] <= 4096
                assert found["added"] >= found["searches"]
    rate = {name: emitted[name] / rounds[name] for name in groups}
    assert rate["C"] < rate["D"] <= rate["B"] * 1.1
    assert rate["E"] - rate["C"] > 0.5 * (rate["B"] - rate["C"])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_groups_of_architectures(arch: str, tmp_path: Path) -> None:
    """C, D and E write what the target alone writes, behind prompts of ids they do not propose."""
    target, draft = str(tiny(arch)), str(tiny(arch, perturb=0.5))
    file = open_gguf(target)
    table = Rows(file, file.names[EMBEDDING])
    semantic_index.write(table, target, str(tmp_path))
    (tmp_path / "v.txt").write_text("\n".join(map(str, range(5, 5 + 128))))
    static: dict[str, Any] = {"draft": draft, "sx_static_vocab": str(tmp_path / "v.txt")}
    search = {
        "sx_quant_embd": str(tmp_path / "quant_embeddings.bin"),
        "sx_scales": str(tmp_path / "scales.bin"),
        "sx_topk": 8,
        "sx_threshold": 0.1,
    }
    for prompt in ([1], [200, 201, 240, 200], [1 + at * 7 % 250 for at in range(500)]):
        common: dict[str, Any] = {
            "model": target, "n_predict": 40, "threads": 1, "ignore_eos": True,
        }  # fmt: skip
        plain = generate(prompt, draft_lookup=True, draft_max=0, **common)
        for more in ({}, search, {"sx_seed_prompt": True, "sx_learn": True}):
            made = generate(prompt, draft_auto=False, draft_max=3, **static, **more, **common)
            assert made.ids == plain.ids, more
            assert made.drafting
            assert made.drafting.drafted


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("ids", [[5], list(range(8192))])
def test_one_id_and_all_ids(ids: list[int], temperature: float, tmp_path: Path) -> None:
    target, draft = own("target"), own("draft")
    (tmp_path / "v.txt").write_text("\n".join(map(str, ids)))
    common: dict[str, Any] = {
        "model": target, "n_predict": 24, "threads": 1, "temperature": temperature, "seed": 3,
        "draft_auto": False,
    }  # fmt: skip
    made = generate("The", draft=draft, sx_static_vocab=str(tmp_path / "v.txt"), **common)
    whole = generate("The", draft=draft, **common)
    if len(ids) == 8192:
        assert made.ids == whole.ids
        assert made.drafting
        assert whole.drafting
        assert made.drafting.accepted == whole.drafting.accepted
    elif not temperature:
        assert made.ids == whole.ids
    grown = generate(
        "The", draft=draft, sx_static_vocab=str(tmp_path / "v.txt"), sx_learn=True, **common
    )
    assert len(grown.ids) == len(made.ids)


def test_an_empty_vocabulary_and_wrong_combinations(tmp_path: Path) -> None:
    target, draft = own("target"), own("draft")
    (tmp_path / "v.txt").write_text("# nothing\n")
    wrong: list[tuple[dict[str, Any], type[MtkitError], str]] = [
        ({"draft": draft, "sx_static_vocab": str(tmp_path / "v.txt")}, UsageError, "no ids"),
        ({"draft_lookup": True, "sx_static_vocab": "v.txt"}, UsageError, "without draft"),
        ({"draft": draft, "sx_learn": True}, UsageError, "nothing is left to add"),
        ({"draft": draft, "sx_topk": 3}, UsageError, "without sx_quant_embd"),
        ({"draft": draft, "sx_quant_embd": "x"}, UsageError, "without sx_scales"),
    ]
    for given, kind, what in wrong:
        with pytest.raises(kind, match=what):
            generate("The", model=target, n_predict=2, **given)


def test_a_pruned_file_needs_its_source(tmp_path: Path) -> None:
    for part in ("target", "draft"):
        shutil.copy(own(part), tmp_path / f"{part}.gguf")
    small = str(tmp_path / "small.gguf")
    prune(str(tmp_path / "draft.gguf"), english(512), small)
    common: dict[str, Any] = {"model": str(tmp_path / "target.gguf"), "n_predict": 8}
    assert generate("The", draft=small, **common).drafting
    with pytest.raises(UsageError, match="is pruned already"):
        generate("The", draft=small, sx_static_vocab="v.txt", **common)
    with (tmp_path / "draft.gguf").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(UsageError, match=r"another draft\.gguf"):
        generate("The", draft=small, **common)
    (tmp_path / "draft.gguf").unlink()
    with pytest.raises(UsageError, match=r"needs draft\.gguf beside it"):
        generate("The", draft=small, **common)


def test_ids_that_the_target_lacks(tmp_path: Path) -> None:
    target, draft = (str(tiny(n_vocab=size, wtype="Q8_0")) for size in (1024, 2048))
    (tmp_path / "v.txt").write_text("5\n1024\n")
    with pytest.raises(UsageError, match="can propose id 1024, which the model does not have"):
        generate([5], model=target, draft=draft, sx_static_vocab=str(tmp_path / "v.txt"))


def test_a_draft_is_not_pruned_over_itself(tmp_path: Path) -> None:
    draft = tmp_path / "draft.gguf"
    shutil.copy(own("draft"), draft)
    (tmp_path / "link.gguf").symlink_to(draft)
    for name in ("draft.gguf", "link.gguf"):
        with pytest.raises(UsageError, match="is the draft itself"):
            prune(str(draft), english(64), str(tmp_path / name), force=True)
    assert draft.read_bytes() == shared("own/model/mtkit-docs-draft-q8_0.gguf").read_bytes()


def model(file: GgufFile, vocabulary: str) -> str:
    """Return the pruned draft that is loaded for a vocabulary."""
    _, ids = draft_file.find_draft(file, vocabulary)
    return draft_file.model_path(file, ids)


def test_the_cache_of_pruned_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged file is made again, the oldest leave, and what others keep there stays."""
    file = open_gguf(own("draft"))
    folder = tmp_path / "cache" / "mtkit" / "drafts"
    (folder / "folder.gguf").mkdir(parents=True)
    (folder / "other.gguf.1.part").write_bytes(b"")
    made = []
    for size in range(64, 64 * 12, 64):
        (tmp_path / "v.txt").write_text("\n".join(map(str, english(size))))
        made.append(model(file, str(tmp_path / "v.txt")))
    assert not (folder / made[0]).exists()
    assert len([name for name in folder.iterdir() if name.is_file()]) <= 9
    assert (folder / "other.gguf.1.part").exists()
    whole = open_gguf(made[-1]).data.tobytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        (folder / made[-1]).write_bytes(whole[:size])
        assert model(file, str(tmp_path / "v.txt")) == made[-1]
        assert (folder / made[-1]).read_bytes() == whole
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"cache folder cannot be made.*mtkit sx prune"):
        model(file, str(tmp_path / "v.txt"))


@pytest.mark.parametrize(
    "line", ["5", "5 6 7", "a 5", "5 -1", "5 1.5", "\u0665 1", "9" * 5000 + " 1", "5 " + "9" * 5000]
)
def test_damaged_counts(line: str) -> None:
    with pytest.raises(FormatError, match="f: line 2: is not an id and its count"):
        frequencies.parse_counts("f", f"3 4  # a comment\n{line}", 8)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 2, b"nothing to count"),
        ('{"text": "a"}\n', 3, b'prompts: line 1: is not JSON with a text as "prompt"'),
        ('ab\n{"prompt": 5}\n', 3, b"prompts: line 2: is not JSON"),
    ],
)
def test_prompts_that_are_none(
    text: str, code: int, said: bytes, mtkit: Run, tmp_path: Path
) -> None:
    (tmp_path / "prompts").write_text(text)
    done = mtkit(
        "sx", "vocab", "-t", own("target"), "--prompts", str(tmp_path / "prompts"), "-n", "1024",
        "--tokens", "2",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in done.stderr


def test_the_commands(mtkit: Run, tmp_path: Path) -> None:
    reference("matplotlib")
    target, draft = str(tmp_path / "target.gguf"), str(tmp_path / "draft.gguf")
    shutil.copy(own("target"), target)
    shutil.copy(own("draft"), draft)
    (tmp_path / "text.txt").write_text("The option shows the file. " * 9 + "\n")
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "The option"}\nThe file\n')
    done = mtkit(
        "sx", "vocab", str(tmp_path / "text.txt"), "-t", target, "-n", "1024", "-o",
        str(tmp_path / "v.txt"), "--prompts", str(tmp_path / "prompts.jsonl"), "--tokens", "8",
        "--plot", str(tmp_path / "coverage.svg"), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "coverage.svg").read_text()
    assert all(f">{label}</text>" in drawn for label in ("text.txt", "prompts.jsonl", "1,024"))
    found = json.loads(done.stdout)
    assert [covered[-1] for covered in found["coverage"].values()] == [1.0, 1.0]
    ids = frequencies.read_vocabulary(str(tmp_path / "v.txt"), 8192)
    assert len(ids) == 1024
    assert {8189, 8190, 8191} <= set(ids)
    for argv in (
        ("prune", draft, "--vocab", str(tmp_path / "v.txt"), "-o", str(tmp_path / "small.gguf")),
        ("quantize-embeddings", target, "-o", str(tmp_path / "sx")),
    ):
        done = mtkit("sx", *argv)
        assert done.returncode == 0, done.stderr
    done = mtkit(
        "generate", "The", "-m", target, "--draft", str(tmp_path / "small.gguf"), "--sx-quant-embd",
        str(tmp_path / "sx" / "quant_embeddings.bin"), "--sx-scales",
        str(tmp_path / "sx" / "scales.bin"), "-n", "8", "--json", "-q", "--no-draft-auto",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "searches" in json.loads(done.stdout)["drafting"]["dynamic_vocabulary"]
    assert mtkit("sx").returncode == 2


def test_a_table_with_what_is_not_a_number(tmp_path: Path) -> None:
    values = np.ones((4, 8), np.float32)
    values[2, 3] = np.inf
    table: Any = Table(values)
    table.tensor = type("T", (), {"name": "token_embd.weight"})
    with pytest.raises(UnsupportedError, match="not a number"):
        semantic_index.write(table, "m.gguf", str(tmp_path))


def test_counts_of_a_corpus() -> None:
    document = {"schema": "mtkit.frequencies/1", "counts": {"3": 4, "7": 1}}
    assert frequencies.parse_counts("f", json.dumps(document), 8) == {3: 4, 7: 1}
    for content in ("{", "{}", '{"counts": []}', '{"counts": {"8": 1}}', '{"counts": {"1": -1}}'):
        with pytest.raises(FormatError):
            frequencies.parse_counts("f", content, 8)
