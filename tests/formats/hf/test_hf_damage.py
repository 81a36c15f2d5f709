"""A damaged tokenizer.json gives a FormatError or an UnsupportedError, nothing else."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from support import FIXTURES

from mtkit.base.binary import Source
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.formats import hf
from mtkit.formats import json_fields as strict_json
from mtkit.formats.hf.numbers import read_float
from mtkit.pipeline import Pipeline

TRIALS = int(os.environ.get("MTKIT_FUZZ", "1500"))
FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
COMPONENTS: dict[str, list[dict[str, Any]]] = {
    "normalizer": [
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
         "strip_accents": None, "lowercase": True},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        {"type": "Prepend", "prepend": "x"},
        {"type": "Precompiled", "precompiled_charsmap": "CAAAAAEAAAAAAAAAAA=="},
        {"type": "NFC"},
    ],
    "pre_tokenizer": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True},
        {"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed", "invert": False},
        {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "Digits", "individual_digits": True},
        {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "FixedLength", "length": 3},
    ],
    "post_processor": [
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "a", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"a": {"id": "a", "ids": [0], "tokens": ["a"]}}},
        {"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]},
        {"type": "RobertaProcessing", "sep": ["a", 0], "cls": ["b", 1], "trim_offsets": True,
         "add_prefix_space": True},
    ],
    "decoder": [
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Strip", "content": "_", "start": 1, "stop": 0},
        {"type": "Replace", "pattern": {"String": "a"}, "content": "b"},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}  # fmt: skip
MODELS: list[dict[str, Any]] = [
    {"type": "BPE", "dropout": None, "unk_token": "a", "continuing_subword_prefix": None,
     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
     "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
     "max_input_chars_per_word": 100, "vocab": {"a": 0, "##b": 1}},
    {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 3}},
    {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["a", 0.0], ["b", -1.5]]},
]  # fmt: skip
STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 10**40, 0.5,
    1e300, "", "a", "\ud800", "Regex", "(", "x" * 300, [], [[]], ["a", "b", "c"], {}, {"a": 0},
    {"type": "Sequence"}, {"type": "NFC"}, {"String": "a"}, {"Regex": "(?<"}, [None], {"": None},
]  # fmt: skip


def whole(seeded: random.Random) -> dict[str, Any]:
    """Return a document of a few components."""
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 9, "strategy": "LongestFirst",
                       "stride": 0},
        "padding": {"strategy": {"Fixed": 4}, "direction": "Left", "pad_to_multiple_of": None,
                    "pad_id": 0, "pad_type_id": 0, "pad_token": "a"},
        "added_tokens": [{"id": 7, "content": "<x>", **FLAGS}, {"id": 0, "content": "a", **FLAGS}],
        "model": copy.deepcopy(seeded.choice(MODELS)),
    }  # fmt: skip
    lists = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
    lists |= {"post_processor": "processors", "decoder": "decoders"}
    for stage, made in COMPONENTS.items():
        steps = [copy.deepcopy(seeded.choice(made)) for _ in range(seeded.randint(1, 3))]
        document[stage] = {"type": "Sequence", lists[stage]: steps} if len(steps) > 1 else steps[0]
    return document


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) in a document."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def outcome(data: bytes) -> str:
    """Read and use a file; anything but the two errors goes through."""
    try:
        spec = hf.read(Source("t", data), {}).spec
    except (FormatError, UnsupportedError) as error:
        return type(error).__name__ if "\n" not in str(error) else "several lines"
    try:
        pipeline = Pipeline(spec)
        pipeline.decode(pipeline.encode_ids("ab a <x> b1!"))
    except MtkitError:
        return "unusable"
    return "read"


def test_wrong_values_at_every_key() -> None:
    seeded = random.Random(7)
    found: dict[str, int] = {}
    for _ in range(TRIALS):
        document = whole(seeded)
        for _ in range(seeded.choice((1, 1, 1, 2))):
            container, key = seeded.choice(list(places(document)))
            action = seeded.random()
            if action < 0.2:
                del container[key]
            elif action < 0.3 and isinstance(container, dict):
                container[seeded.choice(["type", "zz", "id"])] = container.pop(key)
            else:
                container[key] = copy.deepcopy(seeded.choice(STRANGE))
        kind = outcome(json.dumps(document).encode())
        found[kind] = found.get(kind, 0) + 1
    assert "several lines" not in found
    assert found["FormatError"] > TRIALS // 5
    assert found["UnsupportedError"] > 0
    assert found["read"] > TRIALS // 10


def test_every_cut_is_a_format_error() -> None:
    data = json.dumps(whole(random.Random(3)), indent=1).encode()
    assert outcome(data) != "FormatError"
    for size in range(len(data)):
        assert outcome(data[:size]) == "FormatError"


def test_flipped_bytes() -> None:
    seeded = random.Random(5)
    for _ in range(TRIALS):
        data = bytearray(json.dumps(whole(seeded)).encode())
        for _ in range(seeded.randint(1, 4)):
            data[seeded.randrange(len(data))] = seeded.randrange(256)
        outcome(bytes(data))


def test_forged_ids_take_no_memory() -> None:
    for number in (2**31, 2**32 - 1, 2**63, 2**64 - 1):
        for document in (
            {"model": {**MODELS[3], "vocab": {"a": number}}},
            {"model": {**MODELS[4], "unk_id": number}},
            {"model": MODELS[3], "added_tokens": [{"id": number, "content": "x", **FLAGS}]},
        ):
            outcome(json.dumps(document).encode())


def test_deep_nesting() -> None:
    for depth in (100, 1000, 100_000):
        for text in (
            '{"normalizer": ' + '{"type": "Sequence", "normalizers": [' * depth,
            '{"model": ' + "[" * depth + "]" * depth + "}",
            '{"x": ' + '{"a":' * depth + "1" + "}" * depth + "}",
        ):
            assert outcome(text.encode()) == "FormatError"


def test_damage_beside(tmp_path: Any) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(whole(random.Random(1))), encoding="utf-8")
    seeded = random.Random(2)
    names = ["tokenizer_config.json", "special_tokens_map.json", "generation_config.json"]
    for _ in range(200):
        name = seeded.choice(names)
        key = seeded.choice(["chat_template", "bos_token", "eos_token_id", "x"])
        value = json.dumps({key: seeded.choice(STRANGE)})
        (tmp_path / name).write_text(value[: seeded.randint(0, 3 * len(value))], encoding="utf-8")
        try:
            hf.read(Source.open(str(file)), {})
            blamed = name
        except FormatError as error:
            blamed = str(error)
        assert name in blamed
        (tmp_path / name).unlink()


def test_a_fixture_with_damage_in_its_middle() -> None:
    data = (FIXTURES / "wordpiece" / "tokenizer.json").read_bytes()
    seeded = random.Random(4)
    for _ in range(30):
        at = seeded.randrange(len(data))
        assert outcome(data[:at]) == "FormatError"
        outcome(data[:at] + bytes([seeded.randrange(256)]) + data[at + 1 :])


def test_a_number_that_is_none_is_shown_with_its_place() -> None:
    for number, what in (
        ("NaN", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("1e999", "the number 1e999 is out of range"),
        ("9" * 5000, "(5000 digits) is out of range"),
    ):
        text = '{"é NaN \\" 1e999": [0.5, "' + "9" * 5000 + '", ' + number + "]}"
        with pytest.raises(FormatError) as caught:
            strict_json.parse_json(text.encode(), parse_float=read_float)
        assert what in caught.value.what
        assert caught.value.offset == len(text[: text.rindex(number)].encode())


def test_a_score_that_no_number_holds() -> None:
    """An integer of some hundred digits is one to Python, and beyond what a score can be."""
    for score in (10**400, -(10**400)):
        model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", score]]}
        data = json.dumps({"version": "1.0", "added_tokens": [], "model": model}).encode()
        with pytest.raises(FormatError, match=r"vocab\[1\].*score out of range"):
            hf.read(Source("tokenizer.json", data), {})
