"""The tokenizer of a whole folder: what the files beside a SentencePiece model add to it."""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from model_folders import write_folder
from support import FIXTURES, reference, shared

import mtkit
from mtkit.checks import check
from mtkit.conversion.model import convert_model
from mtkit.conversion.verification import Comparison
from mtkit.conversion.vocabulary import convert_vocabulary
from mtkit.errors import AnswerNo, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.spec import AddedTokens, replace
from mtkit.tokenizer.comparison import probe_texts, special_token_texts
from mtkit.tokenizer.digest import RULES, digests
from mtkit.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

KEY = "tokenizer.ggml."
SIZE = 8000
"""Tokens of the SentencePiece model."""
ADDED = (("<|a|>", True), ("<|b|>", True), ("zebrafish", False))
CONFIG, SPECIAL, EXTRA = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
CLASS = {"tokenizer_class": "LlamaTokenizer"}


def entry(content: str, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": content, "special": special, **flags}


DECODER = {str(SIZE + at): entry(*token) for at, token in enumerate(ADDED)}
NAMES = [text for text, special in ADDED if special]


def document() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FIXTURES / "spm-bpe/tokenizer.json").read_text())
    value["added_tokens"] += [{"id": int(number), **token} for number, token in DECODER.items()]
    return value


def folder(path: Path, files: dict[str, Any], rows: int = SIZE + 3, **config: Any) -> Path:
    """Write a Llama with a SentencePiece model and other files beside it; None: there is none."""
    write_folder(path, config={"vocab_size": rows, "bos_token_id": 1, "eos_token_id": 2, **config})
    (path / "tokenizer.json").unlink()
    for name, content in files.items():
        (path / name).write_text(json.dumps(content))
    return path


def keys(path: Path, out: Path) -> dict[str, Any]:
    metadata = open_gguf(convert_model(path, out / "m.gguf", force=True).path).metadata
    return {
        name.removeprefix(KEY): list(value)[SIZE:] if name == f"{KEY}tokens" else value
        for name, value in metadata.items()
    }


PLACES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "tokenizer.json": ({"tokenizer.json": document(), CONFIG: CLASS}, [*NAMES, "zebrafish"]),
    "decoder": ({CONFIG: {**CLASS, "added_tokens_decoder": DECODER}}, [*NAMES, "zebrafish"]),
    "added_tokens.json":
        ({EXTRA: {"zebrafish": SIZE + 2, "<|b|>": SIZE + 1, "<|a|>": SIZE}, CONFIG: CLASS},
         [*NAMES, "zebrafish"]),
    "extra list": ({CONFIG: {**CLASS, "extra_special_tokens": NAMES}}, NAMES),
    "extra names":
        ({CONFIG: {**CLASS, "extra_special_tokens": {"a_token": "<|a|>", "b_token": "<|b|>"}}},
         NAMES),
    "additional": ({CONFIG: {**CLASS, "additional_special_tokens": NAMES}}, NAMES),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_added_tokens_of_every_file(place: str, tmp_path: Path) -> None:
    """Ids are transformers', types follow from the flags, and a text is cut at them."""
    files, texts = PLACES[place]
    path = folder(tmp_path / "model", files)
    made = keys(path, tmp_path)
    assert made["tokens"][: len(texts)] == texts
    types = [3 if text in NAMES else 4 for text in texts]
    assert list(made["token_type"])[SIZE:] == [*types, *[5] * (3 - len(texts))]
    ids = mtkit.load(tmp_path / "m.gguf").encode_ids(f"x {''.join(texts)}", parse_special=True)
    numbers = [SIZE + at for at in range(len(texts))]
    assert [number for number in ids if number >= SIZE] == numbers
    transformers = reference("transformers")
    live = transformers.AutoTokenizer.from_pretrained(path)
    assert [live.convert_tokens_to_ids(text) for text in texts] == numbers


@pytest.mark.parametrize(
    ("files", "config", "expected"),
    [
        ({CONFIG: {**CLASS, "eos_token": "<|b|>", "added_tokens_decoder": DECODER}}, {},
         {"eos": SIZE + 1, "bos": 1}),
        ({CONFIG: {**CLASS, "pad_token": {"__type": "AddedToken", **entry("<|a|>", True)},
                   "added_tokens_decoder": DECODER}}, {"pad_token_id": 0}, {"padding": SIZE}),
        ({SPECIAL: {"eos_token": "<|b|>"}, CONFIG: CLASS, "tokenizer.json": document()}, {},
         {"eos": SIZE + 1}),
        ({CONFIG: {**CLASS, "eos_token": None}}, {"eos_token_id": 5}, {"eos": 5}),
        ({CONFIG: {**CLASS, "bos_token": "</s>"}}, {}, {"bos": 2, "eos": 2}),
        ({}, {"sep_token_id": 7, "cls_token_id": 8}, {"seperator": 7, "cls": 8, "unknown": 0}),
    ],
)  # fmt: skip
def test_roles_are_those_of_tokenizer_config_then_config(
    files: dict[str, Any], config: dict[str, Any], expected: dict[str, int], tmp_path: Path
) -> None:
    made = keys(folder(tmp_path / "model", files, **config), tmp_path)
    assert {role: made[f"{role}_token_id"] for role in expected} == expected


@pytest.mark.parametrize("ends", [(False, True), (False, False), (True, True), (True, False)])
def test_what_stands_around_a_text(ends: tuple[bool, bool], tmp_path: Path) -> None:
    flags = dict(zip(("add_bos_token", "add_eos_token"), ends, strict=True))
    made = keys(folder(tmp_path / "model", {CONFIG: {**CLASS, **flags}}), tmp_path)
    assert (made["add_bos_token"], made["add_eos_token"]) == ends


@pytest.mark.parametrize("place", ["tokenizer.json", "decoder", "added_tokens.json"])
def test_a_token_outside_the_model_is_named_with_its_file(place: str, tmp_path: Path) -> None:
    path = folder(tmp_path / "model", PLACES[place][0], rows=SIZE + 2)
    with pytest.raises(UsageError) as caught:
        convert_model(path, tmp_path / "m.gguf")
    name = {"decoder": CONFIG}.get(place, place)
    assert str(caught.value.source).endswith(name)
    assert f"'zebrafish' with the id {SIZE + 2}" in str(caught.value)


def test_what_ends_an_answer_and_templates_that_do_not_parse_are_said(tmp_path: Path) -> None:
    files = {
        CONFIG: {**CLASS, "chat_template": "{% if"},
        "generation_config.json": {"eos_token_id": [2, 300]},
    }
    path = folder(tmp_path / "model", files, rows=SIZE)
    assumptions = convert_model(path, tmp_path / "m.gguf").assumptions
    text = mtkit.load(path).id_to_token(300)
    assert any(f"the id 300 ({text!r}) ends an answer, too, but" in note for note in assumptions)
    assert any("'default' does not parse" in note for note in assumptions)
    path = folder(tmp_path / "sound", {CONFIG: {**CLASS, "chat_template": "{{ 1 }}"}}, rows=SIZE)
    sound = " ".join(convert_model(path, tmp_path / "s.gguf").assumptions)
    assert "does not parse" not in sound
    assert "ends an answer" not in sound


SOFT = {str(SIZE): entry("<soft>", True)}


@pytest.mark.parametrize("role", ["", "pad_token", "eos_token", "chat_template"])
def test_a_token_without_a_row_is_left_out_where_nothing_needs_it(
    role: str, tmp_path: Path
) -> None:
    """Gemma 3's 1B and 270M have one for pictures, many fine-tunes one for padding."""
    settings = {
        CONFIG: {**CLASS, "added_tokens_decoder": SOFT, **({role: "<soft>"} if role else {})}
    }
    path = folder(tmp_path / "model", settings, rows=SIZE)
    findings = {finding.rule.code: finding.what for finding in check(path).findings}
    if role in ("eos_token", "chat_template"):
        assert "'<soft>' with the id 8000" in findings["folder-vocabulary"]
        with pytest.raises(UsageError, match="<soft>"):
            convert_model(path, tmp_path / "m.gguf")
        return
    (loss,) = (
        loss for loss in convert_model(path, tmp_path / "m.gguf").losses if "8000" in loss.effect
    )
    assert loss.code == "ids-special"
    assert loss.effect == findings["folder-remainder"]
    assert {"'<soft>'", CONFIG} <= set(loss.effect.replace(":", "").split())
    back = mtkit.load(tmp_path / "m.gguf")
    assert max(back.encode_ids("a <soft>")) < SIZE == back.vocab_size


@pytest.mark.parametrize("name", ["LlamaTokenizer", "LlamaTokenizerFast"])
@pytest.mark.parametrize("adds", [True, False, None])
def test_a_blank_in_front_is_as_the_class_says(
    adds: bool | None, name: str, tmp_path: Path
) -> None:
    settings = {"tokenizer_class": name, "add_prefix_space": adds, "legacy": False}
    path = folder(tmp_path / "model", {CONFIG: settings}, rows=SIZE)
    whole = mtkit.load(path)
    mtkit.convert(whole, tmp_path / "v.gguf")
    back = mtkit.load(tmp_path / "v.gguf")
    live = reference("transformers").AutoTokenizer.from_pretrained(path)
    for text in ("Hello world", "größer 12"):
        ids = whole.encode_ids(text, add_special_tokens=False)
        assert ids == back.encode_ids(text, add_special_tokens=False)
        assert ids == live(text, add_special_tokens=False).input_ids, text
        assert whole.decode(ids) == back.decode(ids) == text


def test_the_vocabulary_alone_is_that_of_the_model(tmp_path: Path) -> None:
    path = folder(tmp_path / "model", PLACES["tokenizer.json"][0])
    whole = open_gguf(convert_model(path, tmp_path / "m.gguf").path).metadata
    alone = open_gguf(convert_vocabulary(path, tmp_path / "v.gguf").path).metadata
    left, right = (
        {name: list(value) if name.startswith(KEY) and not isinstance(value, (int, str)) else value
         for name, value in metadata.items()
         if name not in ("general.size_label", "general.file_type")}
        for metadata in (whole, alone)
    )  # fmt: skip
    assert left == right


def test_a_folder_is_loaded_with_its_files(tmp_path: Path) -> None:
    """A folder has the added tokens; its SentencePiece model alone is what the library reads."""
    path = folder(tmp_path / "model", PLACES["decoder"][0])
    assert SIZE in mtkit.load(path).encode_ids("<|a|>")
    assert SIZE not in mtkit.load(path / "tokenizer.model").encode_ids("<|a|>")


# XLM-RoBERTa


def xlmr(path: Path, files: dict[str, Any] | None = None) -> Path:
    path.mkdir()
    shutil.copyfile(FIXTURES / "spm-unigram/tokenizer.model", path / "sentencepiece.bpe.model")
    for name, content in (files or {"config.json": {"model_type": "xlm-roberta"}}).items():
        (path / name).write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": {"model_type": "xlm-roberta"}},
        {CONFIG: {"tokenizer_class": "XLMRobertaTokenizer"}},
        {CONFIG: {"tokenizer_class": "XLMRobertaTokenizerFast", "mask_token": "<mask>"}},
        {"config.json": {"model_type": "bert", "tokenizer_class": "XLMRobertaTokenizer"}},
    ],
)
def test_xlm_roberta_has_the_order_of_fairseq(files: dict[str, Any], tmp_path: Path) -> None:
    path = xlmr(tmp_path / "model", files)
    raw = mtkit.load(path / "sentencepiece.bpe.model")
    whole = mtkit.load(path)
    text = "Hello world, größer und kleiner"
    shifted = [0, *(number + 1 for number in raw.encode_ids(text)), 2]
    assert whole.encode_ids(text, add_special_tokens=True) == shifted
    made = mtkit.convert(whole, tmp_path / "v.gguf", allow_loss=["ids-possible"])
    back = mtkit.load(made.path)
    assert back.encode_ids(text, add_special_tokens=True) == shifted
    assert [back.id_to_token(number) for number in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert "gguf-id-unknown" not in [one.rule.code for one in check(made.path).findings]
    live = reference("transformers").AutoTokenizer.from_pretrained(path)
    assert live(text).input_ids == shifted


def test_another_order_of_the_same_file_is_refused(tmp_path: Path) -> None:
    path = xlmr(tmp_path / "model", {CONFIG: {"tokenizer_class": "CamembertTokenizer"}})
    with pytest.raises(UnsupportedError, match="CamembertTokenizer"):
        mtkit.load(path)


@pytest.mark.parametrize("name", ["b-xlmr", "b-xlmr-reranker"])
def test_xlm_roberta_is_the_converters(name: str, tmp_path: Path) -> None:
    """Tokens, scores and types of llama.cpp's converter; and a file in the old order is seen."""
    case = json.loads(lzma.decompress(shared("hf-models/more/cases.json.xz").read_bytes()))[name]
    source = xlmr(tmp_path / "model", {"config.json": case["files"]["config.json"]})
    made = convert_vocabulary(source, tmp_path / "v.gguf", allow_loss=["ids-possible"])
    found = open_gguf(made.path).metadata
    for key in ("tokens", "scores", "token_type"):
        digest = hashlib.sha256(json.dumps(list(found[KEY + key])).encode()).hexdigest()
        assert digest == case["expected"]["f32"]["kv"][KEY + key][1]["sha256"], key
    for key, (_, value) in case["expected"]["f32"]["kv"].items():
        if key.endswith("_token_id") or key == "general.architecture":
            assert found[key] == value, key


# Contradictions


@pytest.mark.parametrize(
    ("files", "config", "is_wrong"),
    [
        ({CONFIG: {**CLASS, "eos_token": "<|b|>", "added_tokens_decoder": DECODER}}, {}, True),
        ({CONFIG: {**CLASS, "eos_token": "</s>"}}, {}, False),
        ({"generation_config.json": {"eos_token_id": [5, 6]}}, {}, True),
        ({"generation_config.json": {"eos_token_id": [2, 6]}}, {}, False),
        ({CONFIG: {**CLASS, "eos_token": "</s>"}}, {"eos_token_id": [2, 7]}, False),
        ({CONFIG: {**CLASS, "bos_token": "</s>"}}, {}, True),
        ({CONFIG: {**CLASS, "pad_token": "</s>"}}, {"pad_token_id": 0}, True),
        ({CONFIG: {**CLASS, "pad_token": "</s>"}}, {}, False),
    ],
)
def test_files_that_contradict_each_other(
    files: dict[str, Any], config: dict[str, Any], is_wrong: bool, tmp_path: Path
) -> None:
    report = check(str(folder(tmp_path / "model", files, **config)))
    assert ("folder-special-ids" in [one.rule.code for one in report.findings]) == is_wrong


# What a loss allows


def test_a_loss_of_ids_excuses_nothing_else(tmp_path: Path) -> None:
    """Allowed ids of ordinary texts hide neither missing ends nor special tokens that are gone."""
    from mtkit.formats.contract import Loss

    source = mtkit.load(FIXTURES / "wordpiece" / "tokenizer.json")
    texts = [*probe_texts(), *special_token_texts(source.spec)]
    codes = ("ids-possible", "ids-special", "decoding")
    losses = tuple(Loss(code, "model", "e") for code in codes)
    allowed = ("ids", "ids-possible", "ids-special")
    first = replace(source.spec.added_tokens.tokens[0], content=b"elsewhere")
    for change, words in (
        ({"post_processor": None}, "with the special tokens around them"),
        ({"added_tokens": AddedTokens((first,))}, "lose their special tokens"),
    ):
        other = Tokenizer(replace(source.spec, **change))
        with pytest.raises(AnswerNo, match=words):
            Comparison(source, other, losses, texts).refuse_unforeseen(allowed)


def test_one_more_blank_is_named_and_no_more(tmp_path: Path) -> None:
    """A tokenizer.json of transformers 5: llama.cpp puts a blank before a text that has one."""
    path = folder(tmp_path / "model", {"tokenizer.json": document(), CONFIG: CLASS})
    (path / "tokenizer.model").unlink()
    value = document() | {"normalizer": None}
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    (path / "tokenizer.json").write_text(json.dumps(value | {"pre_tokenizer": mark}))
    made = convert_model(path, tmp_path / "m.gguf")
    assert "ids-blank" in [loss.code for loss in made.losses]
    left, right = mtkit.load(path), mtkit.load(made.path)
    for text in (" a", "a", "  two", "a b"):
        longer = f" {text}" if text.startswith(" ") else text
        assert right.encode_ids(text) == left.encode_ids(longer)


# Hashes


@pytest.mark.parametrize("name", ["bbpe-8k", "spm-bpe"])
def test_a_tokenizer_and_its_gguf_have_one_hash(name: str, tmp_path: Path) -> None:
    source = mtkit.load(FIXTURES / name / "tokenizer.json")
    made = mtkit.convert(source, tmp_path / "v.gguf", allow_loss=["ids-possible"])
    (left, parts), (right, others) = digests(source), digests(mtkit.load(made.path))
    differ = {part for part in parts if parts[part] != others[part]} - {RULES}
    assert (left == right) == (not differ)
    assert not differ or made.verified[0].equal < made.verified[0].total
    other = digests(mtkit.load(FIXTURES / "wordpiece" / "tokenizer.json"))
    assert other[0] != left
