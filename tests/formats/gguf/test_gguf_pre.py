"""Names of pre-tokenizers: each splits as llama.cpp does, which one a split gets, what is assumed.

Held on two vocabularies, GPT-2's and one of all byte pairs, where every cut shows in the ids: all
texts in the native engine, a third of them in the pipeline (all with ``MTKIT_FULL=1``).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import gguf_golden as golden
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama import Llama
from support import FIXTURES, golden_inputs, reference, shared, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.formats import gguf, hf
from mtkit.formats.contract import WriteOptions, Written
from mtkit.formats.gguf.pre_tokenizers import NAMES, RULES, splitter
from mtkit.formats.tiktoken import ENCODINGS
from mtkit.gguf import open_gguf
from mtkit.spec import ChatTemplate, TokenizerSpec, TokenType, models, pre_tokenizers, replace
from mtkit.spec.text import Regex

STRIDE = 1 if os.environ.get("MTKIT_FULL") else 3
FOLDER = "gguf-vocab/golden/pre"


def index() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(shared(f"{FOLDER}/index.json").read_bytes())
    return found


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rule_equals_llama_cpp(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.pipeline.pipeline.build", golden.encoder_of_words)
    listed = index()
    files = {
        entry[vocabulary]
        for name, entry in listed.items()
        if name in NAMES and NAMES[name].rule == rule
        for vocabulary in ("gpt-2", "bpe-pairs")
        if entry.get(vocabulary)
    }
    if not files:  # those that need another alphabet are golden/variants
        assert {name for name, pre in NAMES.items() if pre.rule == rule} <= {
            "gemma4",
            "granite-embed-multi-311m",
            "sarvam-moe",
            "whitespace",
        }
    for file in sorted(files):
        header, rows = golden.read_golden(golden.FOLDER / "pre" / file)
        spec = golden.load(header["file"], header["override"])
        assert golden.mismatches(spec, rows[::STRIDE]) == [], file
        assert golden.engine_mismatches(spec, rows) == [], file


def test_names_of_one_file_mean_the_same() -> None:
    listed = index()
    assert len(listed) > 80
    assert {name for name, entry in listed.items() if entry.get("gpt-2")} <= set(NAMES)
    for name, entry in listed.items():
        if not entry.get("gpt-2"):
            continue
        other = golden.read_golden(golden.FOLDER / "pre" / entry["gpt-2"])[0]["override"]
        mine, theirs = NAMES[name], NAMES[other["tokenizer.ggml.pre"]]
        assert splitter(mine.rule) == splitter(theirs.rule), name
        for switch in ("ignore_merges", "add_bos", "byte_alphabet", "escape_whitespaces"):
            assert getattr(mine, switch) == getattr(theirs, switch), (name, switch)


def test_the_table_is_the_published_one() -> None:
    table = json.loads(shared("gguf-vocab/pre_tokenizers.json").read_bytes())
    assert set(table["names"]) == set(NAMES)
    by_patterns: dict[str, set[str]] = {}
    for name, entry in table["names"].items():
        kind, mine = table["types"][entry["type"]], NAMES[name]
        by_patterns.setdefault(json.dumps(kind["regex"]), set()).add(mine.rule)
        assert mine.byte_alphabet is kind["byte_encode"], name
        assert mine.default_bos is ("special_bos_id" not in entry), name
        assert mine.clean_spaces is (entry.get("clean_spaces", "true") == "true"), name
        for switch in ("ignore_merges", "add_bos", "add_sep", "escape_whitespaces"):
            assert getattr(mine, switch) is (entry.get(switch) == "true"), (name, switch)
    assert all(len(rules) == 1 for rules in by_patterns.values())
    assert len(by_patterns) == len(RULES)


O200K = ENCODINGS["o200k_base"]().pattern
LETTERS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
TEXT = st.text(
    st.characters(codec="ascii") | st.sampled_from("\u4f60\u597d\u00e4\u00df\u2026 '/\n")
)


def with_split(split: pre_tokenizers.Split, *, whole: bool) -> TokenizerSpec:
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    assert isinstance(spec.model, models.BPE)
    return replace(
        spec,
        normalizer=None,
        pre_tokenizer=pre_tokenizers.Sequence((split, LETTERS)),
        model=replace(spec.model, ignore_merges=whole),
    )


def pre_of(made: Written) -> str:
    (data,) = made.files.values()
    found: str = open_gguf(Source("made.gguf", data)).metadata["tokenizer.ggml.pre"]
    return found


def listed(made: Written) -> dict[str, str]:
    return {loss.field: loss.code for loss in made.losses}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("behavior", "invert"), [("isolated", False), ("removed", True)])
def test_the_split_of_gpt_4o_is_llama_cpps(
    tmp_path: Path, behavior: Any, invert: bool, whole: bool
) -> None:
    """Published files have it either way; merges make every token, so whole words, too."""
    split = pre_tokenizers.Split(Regex(O200K), behavior, invert)
    spec = with_split(split, whole=whole)
    made = gguf.write(spec, WriteOptions())
    assert pre_of(made) == "gpt-4o"
    assert "ids" not in listed(made).values()
    path = tmp_path / "made.gguf"
    path.write_bytes(next(iter(made.files.values())))
    text = hf.write(spec, WriteOptions()).files["tokenizer.json"].decode()
    library, llama = reference("tokenizers").Tokenizer.from_str(text), Llama(path)

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(TEXT)
    def law(drawn: str) -> None:
        if "<|" not in drawn:
            wanted = library.encode(drawn, add_special_tokens=False).ids
            assert llama.encode(drawn.encode(), add=False, parse=False) == wanted

    law()
    llama.close()


@settings(max_examples=20)
@given(st.sets(st.integers(0, 200), max_size=3), st.booleans())
def test_tokens_that_no_merge_makes_are_a_loss_where_whole_words_count(
    unmade: set[int], whole: bool
) -> None:
    spec = with_split(pre_tokenizers.Split(Regex(O200K)), whole=whole)
    assert isinstance(spec.model, models.BPE)
    pairs = list(spec.model.merges.pairs)
    pieces = list(spec.vocabulary.pieces)
    lost = {pieces[pairs[2 * n]] + pieces[pairs[2 * n + 1]] for n in unmade}
    kept = [
        number
        for n in range(len(pairs) // 2)
        for number in pairs[2 * n : 2 * n + 2]
        if pieces[pairs[2 * n]] + pieces[pairs[2 * n + 1]] not in lost
    ]
    merges = models.Merges(Numbers.of("I", kept), Pieces.of([]))
    made = gguf.write(replace(spec, model=replace(spec.model, merges=merges)), WriteOptions())
    assert (listed(made).get("model.ignore_merges") == "ids") is (whole and bool(lost))
    if whole and lost:
        effect = next(loss.effect for loss in made.losses if loss.field == "model.ignore_merges")
        assert effect.startswith(f"{len(lost)} tokens")


@pytest.mark.parametrize(
    ("name", "encoding", "pre", "unlike"),
    [
        ("kimi-k2", None, "kimi-k2", 11),
        # Words with marks (\\p{M}) in them are cut there by llama.cpp's own code for this rule.
        ("o200k_base", None, "gpt-4o", 18),
        ("o200k_base", "o200k_harmony", "gpt-4o", 18),  # gpt-oss
        ("cl100k_base", None, "glm4", 0),  # Llama 3's rule without its BOS
        ("claude-legacy", None, "gpt-2", 0),  # "trillion" decodes as it does, and few know it
    ],
)
def test_ranks_become_a_merge_list_for_llama_cpp(
    name: str, encoding: str | None, pre: str, unlike: int, tmp_path: Path
) -> None:
    import unicodedata

    overrides = {} if encoding is None else {"encoding": encoding}
    tokenizer = mtkit.load(shared_tokenizer(name) / "tokenizer.tiktoken", overrides=overrides)
    made = gguf.write(tokenizer.spec, WriteOptions())
    assert pre_of(made) == pre
    assert "ids" not in listed(made).values()
    path = tmp_path / "made.gguf"
    path.write_bytes(next(iter(made.files.values())))
    llama, others = Llama(path), []
    spelled = [token.content.decode() for token in tokenizer.spec.added_tokens.tokens]
    for text in golden_inputs():
        if any(token in text for token in spelled):
            continue  # llama.cpp finds some of gpt-oss's whether asked to or not (ids-special)
        ids = tokenizer.encode_ids(text, add_special_tokens=False)
        if llama.encode(text.encode(), add=False, parse=False) != ids:
            others.append(text)
    llama.close()
    assert len(others) == unlike
    assert all(any(unicodedata.category(c)[0] == "M" for c in text) for text in others)


def test_holes_between_ranks_and_special_tokens_are_placeholders() -> None:
    tokenizer = mtkit.load(shared_tokenizer("o200k_base") / "tokenizer.tiktoken")
    (data,) = gguf.write(tokenizer.spec, WriteOptions()).files.values()
    back = gguf.read(Source("made.gguf", data), {}).spec
    special = {token.id for token in tokenizer.spec.added_tokens.tokens}
    known = len([piece for piece in tokenizer.spec.vocabulary.pieces if piece])
    kinds = [back.vocabulary.type_of(number) for number in range(back.vocab_size)]
    assert kinds.count(TokenType.NORMAL) == known
    assert {number for number, kind in enumerate(kinds) if kind == TokenType.CONTROL} == special


BBPE = FIXTURES / "bbpe-8k"


def test_named_templates_are_listed(tmp_path: Path) -> None:
    """As the converter of llama.cpp lists them: the default one has no name."""
    templates = tuple(ChatTemplate(name, f"{name}!") for name in ("tool_use", "default", "rag"))
    spec = replace(mtkit.load(BBPE / "tokenizer.json").spec, chat_templates=templates)
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf.write(spec, WriteOptions()).files[".gguf"])
    metadata = open_gguf(path).metadata
    assert list(metadata["tokenizer.chat_templates"]) == ["rag", "tool_use"]
    assert metadata["tokenizer.chat_template.rag"] == "rag!"
    assert metadata["tokenizer.chat_template"] == "default!"
    assert sorted(mtkit.load(path).spec.chat_templates, key=lambda one: one.name) == sorted(
        templates, key=lambda one: one.name
    )


def test_without_named_templates_there_is_no_list(tmp_path: Path) -> None:
    mtkit.convert(BBPE, tmp_path / "x.gguf")
    assert "tokenizer.chat_templates" not in open_gguf(tmp_path / "x.gguf").metadata


@pytest.mark.parametrize(
    ("said", "name"),
    [("Qwen/Qwen3-0.6B", "Qwen3-0.6B"), ("gpt2", "gpt2"), ("/home/me/model", ""), ("./here/x", ""),
     ("", ""), (3, ""), ("a/b/c", ""), ("x/..", "")],
)  # fmt: skip
def test_the_name_is_the_one_that_the_configuration_says(
    said: object, name: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(BBPE, tmp_path / "folder")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "name_or_path": said}))
    mtkit.convert(folder, tmp_path / "x.gguf")
    assert open_gguf(tmp_path / "x.gguf").metadata["general.name"] == name
    again = mtkit.convert(folder, f"{tmp_path}/again/", to="hf")
    kept = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert kept["name_or_path"] == said, again


def test_a_repository_of_the_cache_gives_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    shutil.copytree(BBPE, tmp_path / "hub" / "models--Own--tiny-v2" / "snapshots" / "0a")
    mtkit.convert("Own/tiny-v2", tmp_path / "x.gguf")
    assert open_gguf(tmp_path / "x.gguf").metadata["general.name"] == "tiny-v2"


def test_what_the_source_does_not_say_is_listed_as_assumed(tmp_path: Path) -> None:
    done = mtkit.convert(BBPE, tmp_path / "x.gguf")
    metadata = open_gguf(tmp_path / "x.gguf").metadata
    pre, architecture = metadata["tokenizer.ggml.pre"], metadata["general.architecture"]
    assert f'pre-tokenizer named "{pre}" (its rules are the same)' in done.assumptions
    assert f'architecture "{architecture}" (the tokenizer names none)' in done.assumptions
    again = mtkit.convert(tmp_path / "x.gguf", tmp_path / "y.gguf")
    assert not [said for said in again.assumptions if "architecture" in said]


@pytest.mark.parametrize(
    ("name", "pre"), [("gpt2", "gpt-2"), ("llama-3", "llama-bpe"), ("qwen3", "qwen2")]
)
def test_the_most_widely_known_name_is_taken(name: str, pre: str, tmp_path: Path) -> None:
    mtkit.convert(shared_tokenizer(name) / "tokenizer.json", tmp_path / "x.gguf",
                  allow_loss=("ids-possible",))  # fmt: skip
    assert open_gguf(tmp_path / "x.gguf").metadata["tokenizer.ggml.pre"] == pre
