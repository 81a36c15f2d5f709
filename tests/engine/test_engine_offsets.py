"""Ids, offsets and arrays of the native engine: every column is the pipeline's, without a copy."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pipeline_cases as cases
import pytest
from engine_cases import (
    ALPHABET,
    FILES,
    TEXTS,
    answer,
    fixture,
    random_texts,
)
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED, absent, shared_json_lines, shared_tokenizer

from mtkit import load
from mtkit.base.binary import Source
from mtkit.engine import Engine, load_engine
from mtkit.errors import MtkitError, NoToken, UsageError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline
from mtkit.spec import AddedToken, Padding, TokenizerSpec, Truncation, post_processors, replace
from mtkit.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    texts = [
        *TEXTS,
        *random_texts(21, 60),
        *(cases.text(random.Random(seed)) for seed in range(60)),
    ]
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
            pipeline = cases.pipeline_of(cases.draw_tokenizer(rng))
            engine = load_engine(pipeline.spec)
        except MtkitError:
            continue
        native += isinstance(engine, Engine) and engine.gives_places
        texts = [cases.text(rng) for _ in range(6)]
        texts += ["".join(rng.choices(ALPHABET + cases.letters(rng), k=20)) for _ in range(2)]
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


# Ids as arrays: without a copy, a batch in one call of the core, the same on any threads.


BATCH = [*TEXTS, *random_texts(31, 40)]
SURROGATE = "\ud800"
BUSY_BYTES = 320 << 10  # of a batch that keeps some threads busy


class Counted:
    """The core, with the names of the calls that it got."""

    def __init__(self, core: object) -> None:
        self.core = core
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.calls.append(name)
        found: Callable[..., Any] = getattr(self.core, name)
        return found


def engine_of(name: str) -> Engine:
    engine = load_engine(fixture(name))
    assert isinstance(engine, Engine)
    return engine


def rows(ids: np.ndarray[Any, Any], starts: np.ndarray[Any, Any]) -> list[list[int]]:
    assert (ids.dtype, starts.dtype) == (np.int32, np.int64)
    assert starts[0] == 0
    assert starts[-1] == len(ids)
    return [ids[a:b].tolist() for a, b in pairwise(starts)]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("threads", [0, 1, 2, 7])
def test_a_batch_is_its_texts_on_any_number_of_threads(name: str, threads: int) -> None:
    tokenizer = Tokenizer(fixture(name))
    texts = [text for text in BATCH if isinstance(answer(tokenizer.encode_ids, text), list)]
    assert len(texts) > 30
    size = sum(len(text.encode() if isinstance(text, str) else text) for text in texts)
    times = (BUSY_BYTES // size + 1) if threads > 1 else 1  # less is one thread's
    for options in ({}, {"add_special_tokens": False}, {"parse_special": False}):
        wanted = [tokenizer.encode_ids(text, **options) for text in texts] * times
        assert tokenizer.encode_batch_ids(texts * times, threads=threads, **options) == wanted
        found = tokenizer.encode_batch_arrays(texts * times, threads=threads, **options)
        assert rows(*found) == wanted


def test_a_batch_is_one_call_of_the_core() -> None:
    tokenizer = Tokenizer(fixture(FILES[0]))
    engine = tokenizer.engine
    assert isinstance(engine, Engine)
    engine._native = counted = Counted(engine._native)
    tokenizer.encode_batch_ids(["a"] * 100)
    tokenizer.encode_batch_arrays(["a"] * 100)
    assert counted.calls == ["encode_batch_ids", "encode_batch_arrays"]


def test_what_the_core_hands_over_stands_in_its_row() -> None:
    spec = replace(fixture("spm-bpe/tokenizer.model"), invalid_utf8="loose")
    surrogate = b"\xed\xa0\x80"  # of which the step of a .model makes bytes
    engine, texts = load_engine(spec), ["one", surrogate, "", "two", b"x" + surrogate]
    assert isinstance(engine, Engine)
    wanted = [Pipeline(spec).encode_ids(text) for text in texts]
    assert engine.encode_batch_ids(texts) == wanted
    ids, starts = engine.encode_batch_arrays(texts, threads=2)
    assert [ids[a:b].tolist() for a, b in pairwise(starts)] == wanted
    assert engine.deferred == 4


def test_an_error_of_a_batch_says_of_which_text() -> None:
    tokenizer: Any = Tokenizer(fixture(FILES[0]))
    encoders = (tokenizer.encode_batch_ids, tokenizer.encode_batch_arrays, tokenizer.encode_batch)
    for encode in encoders:
        with pytest.raises(UsageError, match=r"^texts\[1\]: has the lone surrogate U\+D800 at "):
            encode(["fine", SURROGATE, SURROGATE])
        with pytest.raises(UsageError, match=r"^texts\[2\] at offset 1: is not valid UTF-8"):
            encode(["fine", "fine", b"x\xff"])
        for bad in (3, ["a"], None):
            what = rf"^texts\[1\] is {type(bad).__name__}, not str or bytes$"
            with pytest.raises(TypeError, match=what):
                encode(["fine", bad, "fine"])
    with pytest.raises(UsageError, match=r"^pair at offset 0: .*, in texts\[1\]$"):
        tokenizer.encode_batch(["fine", ("fine", b"\xff")])
    for wrong in ((), ("a",), ("a", "b", "c")):
        with pytest.raises(TypeError, match=rf"^texts\[1\] is a tuple of {len(wrong)}, not a pair"):
            tokenizer.encode_batch(["fine", wrong])
    with pytest.raises(TypeError, match=r"^a text is str or bytes, not tuple; encode_batch"):
        tokenizer.encode(("a", "b"))
    spec = fixture("wordpiece/tokenizer.json")
    strict: Any = Tokenizer(replace(spec, model=replace(spec.model, unk=None)))
    with pytest.raises(NoToken, match=r"no unknown token, in texts\[1\]$"):
        strict.encode_batch_ids(["a", "\U0001f9ff"])
    for encode in (tokenizer.encode_batch_ids, tokenizer.encode_batch_arrays):
        with pytest.raises(TypeError, match=r"^texts\[1\] is tuple, not str or bytes$"):
            encode(["fine", ("a", "b")])


def test_a_text_is_looked_for_with_the_options_of_the_batch() -> None:
    """A special token is one where it is recognized, and no text that cannot be encoded."""
    spec = fixture("wordpiece/tokenizer.json")
    added = AddedToken(len(spec.vocabulary.pieces), "\U0001f9ff".encode(), special=True)
    tokens = replace(spec.added_tokens, tokens=(*spec.added_tokens.tokens, added))
    spec = replace(spec, model=replace(spec.model, unk=None), added_tokens=tokens)
    strict: Any = Tokenizer(spec)
    assert len(strict.encode_batch_ids(["a", "\U0001f9ff"])) == 2
    for encode in (strict.encode_batch_ids, strict.encode_batch_arrays, strict.encode_batch):
        with pytest.raises(NoToken, match=r", in texts\[1\]$"):
            encode(["a", "\U0001f9ff", "\U0001f9fe"], parse_special=False)


def test_an_error_that_is_not_of_a_text_names_none() -> None:
    spec = fixture("wordpiece/tokenizer.json")
    tokenizer: Any = Tokenizer(replace(spec, truncation=Truncation(4, strategy="only_second")))
    with pytest.raises(UsageError, match=r"there is one text$"):
        tokenizer.encode_batch(["a a a a a a a a a", b"\xff"], truncation="file")


def test_wrong_arguments_are_named() -> None:
    """By what a caller gave, not by the call of the core that refused it."""
    tokenizer: Any = Tokenizer(fixture(FILES[0]))
    for encode in (tokenizer.encode_batch_ids, tokenizer.encode_batch_arrays):
        for threads in (-1, 10**20, "2", 1.5):
            with pytest.raises(TypeError, match=r"^threads is a number from 0 on"):
                encode(["fine"], threads=threads)
        for text in ("fine", b"fine", bytearray(b"fine"), memoryview(b"fine")):
            with pytest.raises(TypeError, match=r"^is one text, not a list"):
                encode(text)
    for encode in (tokenizer.encode_ids, tokenizer.encode_array):
        with pytest.raises(TypeError, match="parse_special True, False or None"):
            encode("fine", parse_special=2)


@given(st.lists(st.text(max_size=8), max_size=12), st.integers(1, 5))
def test_drawn_batches(texts: list[str], threads: int) -> None:
    tokenizer = DRAWN
    wanted = [tokenizer.encode_ids(text) for text in texts]
    assert tokenizer.encode_batch_ids(texts, threads=threads) == wanted
    assert rows(*tokenizer.encode_batch_arrays(texts, threads=threads)) == wanted


DRAWN = Tokenizer(fixture(FILES[0]))


def test_arrays_are_the_memory_that_the_core_wrote() -> None:
    """Neither the buffer nor numpy copies: a change through one view is seen by the other."""
    tokenizer = Tokenizer(fixture(FILES[0]))
    made = tokenizer.encode_array("Hello, MNN!")
    assert (made.format, made.readonly) == ("i", False)
    assert type(made.obj).__module__ == "mtkit._native"
    array = np.asarray(made)
    array[0] = 1234
    assert made[0] == 1234
    for column in (*tokenizer.encode_offsets("a b"), *tokenizer.encode_batch_arrays(["a", "b"])):
        assert not column.flags.owndata
        assert column.flags.writeable
    del made
    array[1:] = 0  # the array keeps its memory
    assert array[0] == 1234


def test_offsets_that_a_post_processor_trims() -> None:
    spec = replace(
        fixture("bbpe-8k/tokenizer.json"), post_processor=post_processors.ByteLevel(True, True)
    )
    tokenizer = Tokenizer(spec)
    text = "a  few  words " * 3
    wanted = tokenizer.encode(text)
    ids, offsets = tokenizer.encode_offsets(text)
    assert (ids.tolist(), list(map(tuple, offsets.tolist()))) == (wanted.ids, wanted.offsets)
    untrimmed = Tokenizer(replace(spec, post_processor=None)).encode(text).offsets
    assert untrimmed != wanted.offsets


def test_offsets_come_from_one_call_of_the_core() -> None:
    engine = engine_of("bbpe-8k/tokenizer.json")
    engine._native = counted = Counted(engine._native)
    text = "".join(random.Random(5).choices("ab \u00e9\u4e2d\U0001f600", k=500))
    ids, places = engine.encode_offsets(text)
    assert counted.calls == ["encode_offsets"]
    assert len(places) == 2 * len(ids)
    assert engine.deferred == 0


BYTE_LEVEL = ["gpt2", "qwen3", "llama-3", "deepseek-v3", "roberta-base"]
IN_CHUNKS = [
    "bert-base-uncased", "bert-chinese-cased", "llama-2", "mistral-v0.3", "t5-small",
    "xlnet-base-cased", "syn-uni-metaspace",
]  # fmt: skip


@pytest.mark.parametrize("name", BYTE_LEVEL + IN_CHUNKS)
def test_offsets_of_published_models(name: str) -> None:
    """Against the library, before and after it is warm."""
    from tokenizers import Tokenizer as Library

    path = shared_tokenizer(name) / "tokenizer.json"
    tokenizer, library = load(path), Library.from_file(str(path))
    engine = tokenizer.engine
    assert isinstance(engine, Engine)
    rng = random.Random(name)
    letters = (
        "的一是不かなカ한글，。 a bc the e\u0301 é\n<|endoftext|>\U0001f389x7  \u2581ﬁ½Ａ\x01\u00a0"
    )
    texts = ["".join(rng.choices(letters, k=rng.choice([3, 30, 300, 9000]))) for _ in range(40)]
    texts += ["a" * 9000 + "é" + "b c" * 3000, "", "é", "plain words of ASCII alone " * 9]
    for _ in range(2):
        for text in texts:
            wanted = library.encode(text, add_special_tokens=False)
            ids, offsets = tokenizer.encode_offsets(text, add_special_tokens=False)
            assert ids.tolist() == wanted.ids
            assert list(map(tuple, offsets.tolist())) == wanted.offsets
        engine._native.warm()
