"""Writing a tokenizer.json undoes reading it, and the library loads what is written."""

from __future__ import annotations

import json
import random
import struct
from math import inf, nextafter
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
from made_files import Made
from support import FIXTURES, SHARED, reference, shared_tokenizer

from mtkit.base.binary import Source
from mtkit.formats import hf
from mtkit.formats.contract import WriteOptions, Written
from mtkit.formats.hf.numbers import read_float, spell_floats

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.spec import TokenizerSpec

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
