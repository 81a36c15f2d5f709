"""``encode`` of the native engine gives what the pipeline gives, in every column."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from engine_cases import (
    ALPHABET,
    FILES,
    TEXTS,
    answer,
    fixture,
    random_texts,
)
from pipeline_cases import letters, pipeline_of, text
from pipeline_tokenizers import draw_tokenizer
from support import SHARED, absent, shared_json_lines, shared_tokenizer

from mtkit.base.binary import Source
from mtkit.engine import Engine, load_engine
from mtkit.errors import MtkitError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline
from mtkit.spec import Padding, TokenizerSpec, Truncation, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

STAYS_NATIVE = 0.9
"""Part of the texts that the core must not leave to the pipeline, over all generated ones."""


def differences(spec: TokenizerSpec, texts: Sequence[str | bytes], **options: Any) -> list[Any]:
    """Return the texts that engine and pipeline encode differently."""
    engine = load_engine(spec)
    assert isinstance(engine, Engine)
    assert engine.gives_places
    pipeline = Pipeline(spec)
    found = []
    for entry in texts:
        made, wanted = (answer(each.encode, entry, **options) for each in (engine, pipeline))
        if made != wanted:
            found.append((entry, made, wanted))
        packed = answer(engine.encode_offsets, entry, **options)
        if packed != (wanted if isinstance(wanted, tuple) else wanted.packed()):
            found.append((entry, packed, wanted))
    return found


def native_share(spec: TokenizerSpec, texts: Sequence[str | bytes]) -> float:
    """Return which part of the texts the core takes itself, of those that have an answer."""
    engine = load_engine(spec)
    assert isinstance(engine, Engine)
    good = [entry for entry in texts if not isinstance(answer(engine.encode, entry), tuple)]
    answers = engine._native.encode_tokens(list[object](good), None)
    return sum(each is not None for each in answers) / max(len(good), 1)


@pytest.mark.parametrize("name", FILES)
def test_files(name: str) -> None:
    texts = [*TEXTS, *random_texts(21, 60), *(text(random.Random(seed)) for seed in range(60))]
    spec = fixture(name)
    for options in ({}, {"add_special_tokens": False}, {"parse_special": False}):
        assert not differences(spec, texts, **options)
    assert native_share(spec, texts) > STAYS_NATIVE


@pytest.mark.parametrize("name", FILES)
def test_words_seen_before_give_the_same(name: str) -> None:
    texts = random_texts(22, 40)
    engine, pipeline = load_engine(fixture(name)), Pipeline(fixture(name))
    for entry in [*texts, "".join(texts), *texts, " ".join(texts)]:
        assert engine.encode(entry) == pipeline.encode(entry)


def test_a_batch_is_its_texts() -> None:
    spec = replace(
        fixture(FILES[0]),
        padding=Padding(pad_id=7, pad_token="x", direction="left", pad_to_multiple_of=4),
        truncation=Truncation(max_length=6, stride=1),
    )
    engine, pipeline = load_engine(spec), Pipeline(spec)
    batch: list[Any] = [*TEXTS[:-2], ("a pair", "of two texts"), ("", "x"), *random_texts(23, 9)]
    for options in ({}, {"padding": "file"}, {"padding": "file", "truncation": "file"}):
        assert engine.encode_batch(batch, **options) == pipeline.encode_batch(batch, **options)
    assert engine.encode_batch([]) == []
    for bad in ("\ud800", b"\xff"):
        entry = ["fine", ("fine", bad)]
        assert answer(engine.encode_batch, entry) == answer(pipeline.encode_batch, entry)


def test_generated_tokenizers() -> None:
    """Whole tokenizers of the library, most of them native."""
    native = taken = asked = 0
    for seed in range(150):
        rng = random.Random(seed + 7000)
        try:
            pipeline = pipeline_of(draw_tokenizer(rng))
            engine = load_engine(pipeline.spec)
        except MtkitError:
            continue
        native += isinstance(engine, Engine) and engine.gives_places
        texts = [text(rng) for _ in range(6)]
        texts += ["".join(rng.choices(ALPHABET + letters(rng), k=20)) for _ in range(2)]
        for entry in texts:
            special = rng.random() < 0.5
            made = answer(engine.encode, entry, add_special_tokens=special)
            assert made == answer(pipeline.encode, entry, add_special_tokens=special), (seed, entry)
            packed = answer(engine.encode_offsets, entry, add_special_tokens=special)
            assert packed == (made if isinstance(made, tuple) else made.packed()), (seed, entry)
            if isinstance(engine, Engine) and not isinstance(made, tuple):
                asked += 1
                taken += engine._native.encode_tokens([entry], None)[0] is not None
        pair = texts[:2]
        assert answer(engine.encode, *pair) == answer(pipeline.encode, *pair), (seed, pair)
    assert native > 60
    assert taken > STAYS_NATIVE * asked


def stored() -> list[str]:
    """Return the names of the tokenizers with answers of the library."""
    folder = SHARED / "tokenizers" / "golden"
    return sorted(file.name.split(".hf.")[0] for file in folder.glob("*.hf.jsonl.gz"))


def test_stored_offsets_and_pairs() -> None:
    """Every stored answer of the library, by the core itself wherever it has the components."""
    if not stored():
        absent("the shared answers are not here", "MTKIT_REQUIRE_SHARED")
    file = SHARED / "tokenizers" / "golden" / "inputs.json"
    inputs = json.loads(file.read_text(encoding="utf-8"))["inputs"]
    wrong: list[Any] = []
    left: list[str] = []
    taken = asked = 0
    for name in stored():
        spec = hf.read(Source.open(str(shared_tokenizer(name) / "tokenizer.json")), {}).spec
        engine = load_engine(spec)
        if not isinstance(engine, Engine) or not engine.gives_places:
            left.append(name)
            continue
        for line in shared_json_lines(f"tokenizers/golden/{name}.hf.jsonl.gz"):
            if "pair" in line:
                made = engine.encode(*(inputs[i] for i in line["pair"]))
                found: tuple[Any, ...] = made.ids, made.type_ids, made.special_tokens_mask
                wanted: tuple[Any, ...] = line["ids"], line["tid"], line["mask"]
            elif "padtrunc" in line:
                made = engine.encode(inputs[line["padtrunc"]], padding="file", truncation="file")
                found, wanted = (made.ids, made.attention_mask), (line["ids"], line["am"])
            else:
                entry = inputs[line["i"]]
                made = engine.encode(entry, add_special_tokens=False)
                places = [place for offsets in made.offsets for place in offsets]
                found, wanted = (made.ids,), (line["ids"],)
                if "off" in line:
                    found, wanted = (made.ids, places), (line["ids"], line["off"])
                asked += 1
                taken += engine._native.encode_tokens([entry], None)[0] is not None
            if found != wanted:
                wrong.append((name, line, found))
    assert not wrong, (len(wrong), wrong[:3])
    assert not left
    assert taken == asked
