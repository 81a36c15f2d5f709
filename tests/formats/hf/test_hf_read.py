"""A tokenizer.json means what the ``tokenizers`` library makes of it, now and in stored answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import (
    FIXTURES,
    golden_inputs,
    golden_names,
    reference,
    shared_json_lines,
    shared_tokenizer,
)

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.checks.report import survey_findings
from mtkit.checks.tokenizer_rules import VOCABULARY_RULES
from mtkit.engine import load_engine
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import hf, mtok
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    SpecialIds,
    TokenizerSpec,
    TokenType,
    normalizers,
    post_processors,
    pre_tokenizers,
)
from mtkit.spec.models import BPE, Unigram, WordLevel, WordPiece
from mtkit.spec.vocabulary import Spelling

WORDS = {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": 2}, "unk_token": "<unk>"}


def read(document: Any) -> TokenizerSpec:
    return hf.read(Source("t", json.dumps(document).encode()), {}).spec


def flags(content: str, number: int, **changed: bool) -> dict[str, Any]:
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": number, "content": content, **dict.fromkeys(names, False), **changed}


@pytest.mark.parametrize("kind", ["bbpe-8k", "spm-bpe", "spm-unigram-id", "wordpiece"])
def test_the_fixtures_are_recognised_and_read(kind: str) -> None:
    source = Source.open(str(FIXTURES / kind / "tokenizer.json"))
    assert hf.sniff(source)
    spec = hf.read(source, {}).spec
    library = reference("tokenizers").Tokenizer.from_file(source.name)
    assert spec.vocab_size == library.get_vocab_size()
    assert spec.vocabulary.pieces.ids == {
        piece.encode(): number
        for piece, number in library.get_vocab(with_added_tokens=False).items()
    }


def test_other_json_is_not_taken_for_it() -> None:
    for text in (b'{"model": 12, "a": 0}', b'{"vocab": [], "config": {}}', b"[1]", b"", b"{}"):
        assert not hf.sniff(Source("t", text))
    late = b'{"version": "1.0", "x": "' + b" " * 9000 + b'", "model": {"vocab": {}}}'
    assert hf.sniff(Source("t", late))


def test_the_kind_of_an_untyped_model_follows_its_fields() -> None:
    vocab = {"a": 0, "b": 1, "ab": 2}
    pieces = {"vocab": vocab, "unk_token": "a", "continuing_subword_prefix": "##"}
    kinds = {
        BPE: {"vocab": vocab, "merges": ["#version: 0.2", "a b"]},
        WordPiece: {**pieces, "max_input_chars_per_word": 9},
        WordLevel: {"vocab": vocab, "unk_token": "a"},
        Unigram: {"vocab": [["a", 0], ["b", -1.5]], "unk_id": 0},
    }
    for kind, model in kinds.items():
        reference("tokenizers").Tokenizer.from_str(json.dumps({"model": model}))
        assert type(read({"model": model}).model) is kind


def test_holes_and_added_tokens_keep_their_ids() -> None:
    """An added token's id is the model's or the next free one, whatever the file says."""
    model = {**WORDS, "vocab": {"<unk>": 0, "b": 3, "a": 1}}
    added = [
        flags("z", 50),
        flags("b", 9),
        flags("y", 51),
        flags("", 8),
        flags("z", 50, special=True),
    ]
    document = {"version": "1.0", "model": model, "added_tokens": added}
    library = reference("tokenizers").Tokenizer.from_str(json.dumps(document))
    spec = read(document)
    assert spec.vocabulary.type_of(2) is TokenType.ABSENT
    assert {t.content.decode(): t.id for t in spec.added_tokens.tokens} == {
        token.content: number for number, token in library.get_added_tokens_decoder().items()
    }


def test_components_are_found_by_their_fields_as_the_library_does() -> None:
    steps = [
        {"strip_left": True, "strip_right": False},
        {"type": "Bert", "clean_text": True, "handle_chinese_chars": True, "lowercase": False},
        {"prepend": "x"},
        {"type": "anything", "pattern": {"String": "a"}, "content": "b"},
    ]
    post = {"type": "ByteLevel", "sep": ["a", 1], "cls": ["b", 2]}
    document = {
        "model": WORDS,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "_"},
        "post_processor": post,
    }
    # The first step would be enough to show it: the library says "Bert" where its own files
    # say "BertNormalizer", and then refuses the name, so that one is left out here.
    del steps[1]
    reference("tokenizers").Tokenizer.from_str(json.dumps(document))
    spec = read(document)
    assert isinstance(spec.normalizer, normalizers.Sequence)
    assert [type(step).__name__ for step in spec.normalizer.steps] == [
        "Strip",
        "Prepend",
        "Replace",
    ]
    assert spec.pre_tokenizer == pre_tokenizers.CharDelimiterSplit("_")
    assert spec.post_processor == post_processors.Bert(sep=("a", 1), cls=("b", 2))


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("normalizer", {"type": "Rot13"}, "Rot13"),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "Sql"}]}, "Sql"),
        ("post_processor", {"type": "Wrap"}, "Wrap"),
        ("decoder", {"type": "Shout"}, "Shout"),
        ("model", {"type": "Neural", "vocab": {}}, "Neural"),
        ("version", "2.0", "2.0"),
    ],
)
def test_an_unknown_component_is_named(key: str, value: object, name: str) -> None:
    document = {"model": WORDS, key: value}
    with pytest.raises(Exception, match=r"\w"):
        reference("tokenizers").Tokenizer.from_str(json.dumps(document))
    with pytest.raises(UnsupportedError, match=name):
        read(document)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"model": ',
        b'\xef\xbb\xbf{"model": {}}',
        b'{"model": {"type": "WordLevel", "unk_token": "\xff", "vocab": {}}}',
        b'{"model": {"type": "WordLevel", "unk_token": "\\ud800", "vocab": {}}}',
        b'{"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"\\udfff": 0}}}',
        b'{"model": {"type": "Unigram", "vocab": [["a", NaN]]}}',
        b'{"model": {"type": "Unigram", "vocab": [["a", 1e999]]}}',
        b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}}',
        b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}}',
        b'{"normalizer": ' + b"[" * 100_000,
        b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"x": ' + b"9" * 5000 + b"}",
    ],
)
def test_damage_is_a_format_error(text: bytes) -> None:
    with pytest.raises(FormatError):
        hf.read(Source("t", text), {})


def test_the_place_of_damage_is_told_in_bytes() -> None:
    with pytest.raises(FormatError, match="line 2, column 2") as caught:
        hf.read(Source("t", '{"é": 1,\n x}'.encode()), {})
    assert caught.value.offset == 11


def test_what_lies_beside_gives_special_ids_and_templates(tmp_path: Path) -> None:
    document = {"model": WORDS, "added_tokens": [flags("</s>", 3, special=True)]}
    files = {
        "tokenizer.json": document,
        "tokenizer_config.json": {
            "bos_token": {"content": "a", "__type": "AddedToken"},
            "pad_token": None,
            "model_max_length": 10**30,
            "chat_template": [
                {"name": "default", "template": "one"},
                {"name": "rag", "template": "two"},
            ],
        },
        "special_tokens_map.json": {"eos_token": "</s>", "bos_token": "b", "pad_token": "b"},
        "generation_config.json": {"eos_token_id": [3, 1, 3]},
    }
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    (tmp_path / "chat_template.jinja").write_text("three", encoding="utf-8")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool.jinja").write_text("four", encoding="utf-8")
    spec = hf.read(Source.open(str(tmp_path / "tokenizer.json")), {}).spec
    assert spec.special_ids == SpecialIds(bos=1, eos=3, unk=0, pad=2, stop=(1, 3))
    assert [(t.name, t.text) for t in spec.chat_templates] == [
        ("default", "three"),
        ("rag", "two"),
        ("tool", "four"),
    ]


@pytest.mark.parametrize("stronger", [None, "tokenizer_config.json", "chat_template.jinja"])
def test_the_template_of_a_processor_counts_where_there_is_no_other(
    stronger: str | None, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})
    )
    (tmp_path / "chat_template.json").write_text('{"chat_template": "old"}')
    if stronger:
        (tmp_path / stronger).write_text(
            {"chat_template.jinja": "new"}.get(stronger, '{"chat_template": "new"}')
        )
    (template,) = hf.read(Source.open(str(tmp_path / "tokenizer.json")), {}).spec.chat_templates
    assert template.text == ("new" if stronger else "old")


def test_an_unknown_token_outside_the_vocabulary_is_an_error_where_it_is_needed() -> None:
    model = {"type": "BPE", "unk_token": "gone", "vocab": {"a": 0}, "merges": []}
    library = reference("tokenizers").Tokenizer.from_str(json.dumps({"model": model}))
    engine = load_engine(read({"model": model}))
    assert engine.encode_ids("aa") == library.encode("aa").ids == [0, 0]
    with pytest.raises(Exception, match="gone"):
        library.encode("ab")
    with pytest.raises(UnsupportedError, match="no token"):
        engine.encode_ids("ab")


def differences(pipeline: Any, texts: list[str], answers: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Compare each answer; yield what differs as (kind, input, made, wanted)."""
    for answer in answers:
        if "pair" in answer:
            first, second = (texts[i] for i in answer["pair"])
            made = pipeline.encode(first, second)
            found = {"ids": made.ids, "tid": made.type_ids, "mask": made.special_tokens_mask}
            for key, value in found.items():
                if value != answer[key]:
                    yield (f"pair {key}", answer["pair"], value, answer[key])
            continue
        if "padtrunc" in answer:
            made = pipeline.encode(texts[answer["padtrunc"]], padding="file", truncation="file")
            if made.ids != answer["ids"]:
                yield ("padded ids", answer["padtrunc"], made.ids, answer["ids"])
            if made.attention_mask != answer["am"]:
                yield ("padding", answer["padtrunc"], made.attention_mask, answer["am"])
            continue
        number = answer["i"]
        text = texts[number]
        plain = pipeline.encode(text, add_special_tokens=False)
        special = pipeline.encode_ids(text)
        wanted = answer.get("sp", answer["ids"])
        decoded = answer.get("d", text)
        checks = [
            ("ids", plain.ids, answer["ids"]),
            ("ids with special tokens", special, wanted),
            ("decoded", pipeline.decode(wanted, skip_special_tokens=False), decoded),
            ("decoded plain", pipeline.decode(wanted), answer.get("ds", decoded)),
        ]
        if "off" in answer:
            flat = [place for pair in plain.offsets for place in pair]
            checks.append(("offsets", flat, answer["off"]))
        for kind, made, right in checks:
            if made != right:
                yield (kind, number, made, right)


@pytest.mark.parametrize("name", golden_names("hf"))
def test_stored_answers(name: str) -> None:
    answers = shared_json_lines(f"tokenizers/golden/{name}.hf.jsonl.gz")
    source = Source.open(str(shared_tokenizer(name) / "tokenizer.json"))
    spec = hf.read(source, {}).spec
    assert len(answers) >= 500
    assert list(differences(Pipeline(spec), golden_inputs(), answers))[:3] == []
    engine = load_engine(spec)
    if not isinstance(engine, Pipeline):
        assert list(differences(engine, golden_inputs(), answers))[:3] == []


LETTERS = "abcdé"


def document(model: dict[str, Any]) -> bytes:
    """Write a tokenizer.json around a model."""
    names = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    cut = {"type": "WhitespaceSplit"}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": cut, "model": model}
    return json.dumps({**dict.fromkeys(names), **whole}).encode()


def drawn(rng: random.Random) -> dict[str, Any]:
    """Draw a model in which some tokens have the id of another."""
    kind = rng.choice(["BPE", "WordPiece", "WordLevel"])
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 3))) for _ in range(8)]
    prefix = "##" if kind == "WordPiece" else ""
    pieces = dict.fromkeys(["[UNK]", *LETTERS, *words, *(prefix + letter for letter in LETTERS)])
    count = len(pieces) - 3
    vocab = {p: n if n < count else rng.randrange(count) for n, p in enumerate(pieces)}
    if kind == "BPE":
        pairs = [[w[0], w[1]] for w in words if len(w) == 2]
        return {"type": kind, "unk_token": "[UNK]", "vocab": vocab, "merges": pairs}
    more = {"continuing_subword_prefix": prefix, "max_input_chars_per_word": 100}
    model = {"type": kind, "unk_token": "[UNK]", "vocab": vocab}
    return model | more if kind == "WordPiece" else model


def read_bytes(data: bytes) -> TokenizerSpec:
    return hf.read(Source("tokenizer.json", data), {}).spec


@pytest.mark.parametrize("seed", range(40))
def test_either_spelling_is_found(seed: int) -> None:
    rng = random.Random(seed)
    data = document(drawn(rng))
    load = reference("tokenizers").Tokenizer.from_str
    try:
        spec = read_bytes(data)
    except UnsupportedError as error:
        assert "second spelling" in str(error)
        return
    ours, theirs = load_engine(spec), load(data.decode())
    back = hf.write(spec, WriteOptions()).files["tokenizer.json"]
    assert spec.vocabulary.also
    assert read_bytes(back) == spec
    kept = Source("a.mtok", mtok.write(spec, WriteOptions()).files[".mtok"])
    assert mtok.read(kept, {}).spec == spec
    for _ in range(30):
        text = "".join(rng.choices(LETTERS + " ", k=rng.randint(1, 10)))
        expected = theirs.encode(text)
        found = ours.encode(text)
        assert (found.ids, found.offsets) == (expected.ids, expected.offsets)
        assert load(back.decode()).encode(text).ids == found.ids
    for other in spec.vocabulary.also:
        decoded = {load(data.decode()).decode([other.id]) for _ in range(64)}
        assert ours.decode([other.id]) in decoded


def test_what_merges_make_of_a_second_spelling() -> None:
    """The library merges by ids, and looks up what the file spells."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 1, "ca": 2}, "merges": [["c", "a"]]}
    with pytest.raises(UnsupportedError, match=r"merges\[0\].*'ca' is made of a token's second"):
        read_bytes(document(model))


def test_other_formats_and_check_say_what_is_lost() -> None:
    vocab = {letter: min(at, 2) for at, letter in enumerate("abcd")}
    spec = read_bytes(document({"type": "BPE", "vocab": vocab, "merges": []}))
    assert spec.vocabulary.also == (Spelling(b"d", 2),)
    (finding,) = survey_findings(VOCABULARY_RULES, spec.vocabulary)
    assert finding.rule.code == "token-spellings"
    written = formats.get_format("vocab-merges").write(spec, WriteOptions())
    for losses in (written.losses, mtok.write(spec, WriteOptions()).partial[0][1]):
        assert [loss.code for loss in losses if loss.field == "vocabulary.also"] == ["ids"]
