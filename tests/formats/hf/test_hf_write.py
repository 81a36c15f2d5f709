"""Writing a tokenizer.json undoes reading it, and the library loads what is written."""

from __future__ import annotations

import json
import random
import struct
from math import inf, nextafter
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from made_files import Made
from support import FIXTURES, SHARED, absent, reference, shared_json_lines, shared_tokenizer

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.errors import UnsupportedError
from mtkit.formats import hf
from mtkit.formats.contract import WriteOptions, Written
from mtkit.formats.hf.numbers import read_float, spell_floats
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, TokenType, fields

OWN = ["bbpe-8k", "spm-bpe", "spm-unigram-id", "wordpiece"]


def read(path: Path) -> TokenizerSpec:
    return hf.read(Source.open(str(path)), {}).spec


def written(spec: TokenizerSpec) -> Written:
    made = hf.write(spec, WriteOptions())
    assert made.losses == ()
    return made


def shared_names() -> list[str]:
    folder = SHARED / "tokenizers" / "tokenizers"
    found = folder.glob("*/tokenizer.json*") if folder.is_dir() else []
    return sorted(file.parent.name for file in found)


def check_round_trip(file: Path) -> None:
    spec = read(file)
    made = written(spec)
    assert hf.read(Made(made), {}).spec == spec
    document = json.loads(made.files["tokenizer.json"], parse_float=read_float)
    assert document == json.loads(file.read_bytes(), parse_float=read_float)
    for name in ("tokenizer_config.json", "generation_config.json"):
        beside = file.parent / name
        if beside.exists():
            given = json.loads(beside.read_bytes())
            again = json.loads(made.files[name])
            assert {key: again[key] for key in given} == given
    library = reference("tokenizers").Tokenizer
    text = made.files["tokenizer.json"].decode()
    assert library.from_str(text).to_str() == library.from_file(str(file)).to_str()


@pytest.mark.parametrize("kind", OWN)
def test_the_fixtures_come_back_whole(kind: str) -> None:
    check_round_trip(FIXTURES / kind / "tokenizer.json")


def test_all_shared_files_come_back_whole() -> None:
    names = shared_names()
    if not names:
        shared_tokenizer("gpt2")
    assert len(names) >= 50
    for name in names:
        check_round_trip(shared_tokenizer(name) / "tokenizer.json")


def test_what_the_library_ignores_comes_back(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        "note": {"by": "hand"},
        "model": {
            "vocab": {"a": 0, "b": 4, "ab": 2},
            "merges": ["a b"],
            "unk_token": "nowhere",
            "dropout": 0.0,
            "end_of_word_suffix": "",
            "fuse_unk": None,
            "more": [1],
        },
        "normalizer": {"type": "any", "strip_left": True, "strip_right": False},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "str_rep": "_"},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False},
        "padding": {
            "strategy": {"Fixed": 3},
            "direction": "Left",
            "pad_to_multiple_of": 8,
            "pad_id": 0,
            "pad_type_id": 1,
            "pad_token": "a",
        },
        "truncation": {"max_length": 9, "strategy": "OnlySecond", "stride": 1},
    }
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    config = {"bos_token": {"content": "a", "lstrip": True}, "model_max_length": 5, "x": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [4], "top_k": 5}')
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "b"}')
    spec = read(file)
    made = written(spec)
    assert hf.read(Made(made), {}).spec == spec
    again = json.loads(made.files["tokenizer.json"])
    assert {key: again[key] for key in document} == document
    assert json.loads(made.files["special_tokens_map.json"]) == {"eos_token": "b"}
    assert json.loads(made.files["generation_config.json"]) == {"eos_token_id": [4], "top_k": 5}
    assert json.loads(made.files["tokenizer_config.json"])["bos_token"] == config["bos_token"]


def test_decimals_are_read_as_the_library_reads_them() -> None:
    """The library's JSON reader rounds twice; ties between segmentations depend on it."""
    seeded = random.Random(1)
    forms = ["%.17g", "%.3f", "%.25f", "%e", "%.20g", "%d.0", "%.1fe-5", "%.3fE+3"]
    texts = [
        seeded.choice(forms) % (-seeded.random() * 10 ** seeded.randint(-12, 12))
        for _ in range(2000)
    ]
    texts = [text for text in texts if "." in text or "e" in text]
    texts += ["1e-320", "5e-324", "123456789012345678901234567890.5", "18446744073709551616.5"]
    texts += ["1e308", "-0.0", "1.7976931348623157e308", "1e-400", "1844674407370955161.6"]
    vocab = ", ".join(f'["t{place}", {text}]' for place, text in enumerate(texts))
    document = f'{{"model": {{"type": "Unigram", "unk_id": 0, "vocab": [{vocab}]}}}}'
    library = json.loads(reference("tokenizers").Tokenizer.from_str(document).to_str())
    assert [score for _, score in library["model"]["vocab"]] == [read_float(t) for t in texts]
    numbers = [read_float(text) for text in texts]
    assert [read_float(text) for text in spell_floats(numbers)[0]] == numbers


def test_nearly_every_float32_can_be_spelled() -> None:
    seeded = random.Random(2)
    values = [struct.unpack("f", struct.pack("f", -seeded.random() * 20))[0] for _ in range(5000)]
    assert spell_floats(values)[1] < 20


def test_only_the_next_number_is_tried_for_a_decimal() -> None:
    """What lies two units off is never read as a number that stands without an exponent."""
    seeded = random.Random(3)
    found = 0
    for _ in range(20_000):
        value = -seeded.random() * 10.0 ** seeded.randint(-3, 15)
        for step in (-3, -2, 2, 3):
            other = value
            for _ in range(abs(step)):
                other = nextafter(other, inf * step)
            found += read_float(repr(other)) == value
    assert not found


def test_a_large_vocabulary_is_written_in_a_moment() -> None:
    """A tenth of the largest vocabularies: CPU seconds, with room for a slow machine."""
    seeded = random.Random(4)
    values = [struct.unpack("f", struct.pack("f", -seeded.random() * 20))[0] for _ in range(25_000)]
    before = process_time()
    texts, lost = spell_floats(values)
    assert process_time() - before < 1
    assert lost == sum(read_float(text) != value for text, value in zip(texts, values, strict=True))


NASTY = [
    "",
    " ",
    "   lead and trail   ",
    "a  b   c\n\n d\t\te\r\nf",
    "Hello, MNN! it's they'LL 12345 x²½",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22",
    "e\u0301 \u00e9 \u1e9b\u0323 \ufb01 \u212b",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\u0000\u0001\u007f\u0085\u00ad\u200b\ufeff\ufffd",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<0x41> \u2581\u2581x\u2581",
]
EXACT = [
    "bbpe-8k/vocab.gguf",
    "bbpe-8k/vocab.json",
    "spm-bpe/tokenizer.model",
    "spm-bpe/tokenizer.bin",
    "spm-bpe/vocab.gguf",
    "spm-unigram-id/tokenizer.model",
    "wordpiece/vocab.txt",
]
MAPPED = ["spm-unigram/tokenizer.model", "spm-unigram/vocab.gguf", "spm-unigram-id/vocab.gguf"]


def read_any(path: Path) -> TokenizerSpec:
    return formats.read(Source.open(str(path)))[1].spec


def write(spec: TokenizerSpec) -> tuple[Written, Any, TokenizerSpec]:
    """Write; returns the files, the library's tokenizer and what reading gives back."""
    made = hf.write(spec, WriteOptions())
    text = made.files["tokenizer.json"].decode()
    library = reference("tokenizers").Tokenizer.from_str(text)
    return made, library, hf.read(Made(made), {}).spec


def texts_of(kind: str) -> list[str]:
    lines = (FIXTURES / kind / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines] + NASTY


def spelled(spec: TokenizerSpec) -> set[str]:
    """Return the texts that the library takes for tokens and the reference does not."""
    found = {token.content.decode("utf-8", "replace") for token in spec.added_tokens.tokens}
    kinds = {TokenType.CONTROL, TokenType.UNKNOWN, TokenType.BYTE, TokenType.USER_DEFINED}
    for number, piece in enumerate(spec.vocabulary.pieces):
        if spec.vocabulary.type_of(number) in kinds:
            found.add(piece.decode("utf-8", "replace"))
    return found | {"\u2581"}


def check_law(spec: TokenizerSpec, made: Written, again: TokenizerSpec) -> None:
    listed = {loss.field.split(".")[0] for loss in made.losses}
    changed = {name for name in fields(spec) if getattr(spec, name) != getattr(again, name)}
    assert changed - {"name"} <= listed


@pytest.mark.parametrize("name", EXACT)
def test_ids_stay(name: str) -> None:
    spec = read_any(FIXTURES / name)
    made, library, again = write(spec)
    check_law(spec, made, again)
    special, pipeline, mine = spelled(spec), Pipeline(spec), Pipeline(again)
    compared = 0
    for text in texts_of(name.split("/", maxsplit=1)[0]):
        wanted = library.encode(text, add_special_tokens=False).ids
        assert mine.encode_ids(text, add_special_tokens=False) == wanted
        if not any(token in text for token in special):
            assert pipeline.encode_ids(text, add_special_tokens=False) == wanted, text
            compared += 1
    assert compared > 140


@pytest.mark.parametrize("name", MAPPED)
def test_character_maps_are_the_only_difference(name: str) -> None:
    spec = read_any(FIXTURES / name)
    made, library, again = write(spec)
    check_law(spec, made, again)
    special, pipeline, mine = spelled(spec), Pipeline(spec), Pipeline(again)
    differing = []
    for text in texts_of(name.split("/", maxsplit=1)[0]):
        wanted = library.encode(text, add_special_tokens=False).ids
        assert mine.encode_ids(text, add_special_tokens=False) == wanted
        found = pipeline.encode_ids(text, add_special_tokens=False)
        if found != wanted and not any(token in text for token in special):
            differing.append(text)
    assert len(differing) <= 4
    assert not any(text.isascii() for text in differing)


@pytest.mark.parametrize("kind", ["spm-bpe", "spm-unigram-id"])
def test_the_library_agrees_with_sentencepiece(kind: str) -> None:
    path = FIXTURES / kind / "tokenizer.model"
    processor = reference("sentencepiece").SentencePieceProcessor(model_file=str(path))
    spec = read_any(path)
    _, library, _ = write(spec)
    special = spelled(spec)
    for text in texts_of(kind):
        if not any(token in text for token in special) and "\0" not in text:
            assert library.encode(text, add_special_tokens=False).ids == processor.encode(text)


def test_decoding_gives_the_text_back() -> None:
    for name in ("spm-bpe/tokenizer.model", "spm-unigram-id/tokenizer.model", "bbpe-8k/vocab.gguf"):
        spec = read_any(FIXTURES / name)
        _, library, _ = write(spec)
        special = spelled(spec)
        for text in texts_of(name.split("/")[0]):
            if not any(token in text for token in special) and "\0" not in text:
                ids = library.encode(text, add_special_tokens=False).ids
                assert library.decode(ids) == text


SHARED_EXACT = ["llama-2/tokenizer.model", "llama-2/tokenizer.bin", "mistral-v0.3/tokenizer.model"]
SHARED_EXACT += ["cl100k_base/tokenizer.tiktoken", "claude-legacy/tokenizer.tiktoken"]
SHARED_EXACT += ["syn-sp-bpe-opts/tokenizer.model", "tekken-240718/tekken.json"]


@pytest.mark.parametrize("name", SHARED_EXACT)
def test_shared_files_keep_their_ids(name: str) -> None:
    """Ids stored for the source's own reference are those of the tokenizer.json made from it."""
    folder, file = name.split("/")
    spec = read_any(shared_tokenizer(folder) / file)
    _, library, _ = write(spec)
    kind = {"tokenizer.model": "spm", "tokenizer.bin": "llama2c", "tekken.json": "tekken"}
    answers = shared_json_lines(f"tokenizers/golden/{folder}.{kind.get(file, 'tiktoken')}.jsonl.gz")
    inputs = SHARED / "tokenizers" / "golden" / "inputs.json"
    texts = json.loads(inputs.read_text(encoding="utf-8"))["inputs"]
    special = spelled(spec)
    compared = 0
    for answer in answers:
        text = texts[answer["i"]]
        if "ids" in answer and not any(token in text for token in special):
            wanted = answer["ids"][1:] if file == "tokenizer.bin" else answer["ids"]
            assert library.encode(text, add_special_tokens=False).ids == wanted, text
            compared += 1
    assert compared > 480


def test_merges_from_scores_are_the_published_ones() -> None:
    """The tokenizer.json that was published with llama-2 has the same merges in the same order."""
    if not SHARED.is_dir():
        absent("the shared tokenizers are not here", "MTKIT_REQUIRE_SHARED")
    folder = shared_tokenizer("llama-2")
    published: Any = read_any(folder / "tokenizer.json").model
    _, _, again = write(read_any(folder / "tokenizer.model"))
    made: Any = again.model
    assert made.merges == published.merges


def test_what_cannot_be_said_is_refused() -> None:
    for name in ("rwkv-world/rwkv_vocab_v20230424.txt",):
        folder, file = name.split("/")
        with pytest.raises(UnsupportedError, match="does not support greedy longest match"):
            hf.write(read_any(shared_tokenizer(folder) / file), WriteOptions())
