"""The pipeline equals the library on generated texts, offsets included."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from random import Random
from select import select
from typing import Any

import pipeline_cases as cases
import pytest
from pipeline_cases import draw_tokenizer
from support import reference, shared

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.errors import UnsupportedError, UsageError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline
from mtkit.pipeline.aligned_text import AlignedText
from mtkit.pipeline.trace import trace, trace_decode
from mtkit.tokenizer.load import load_source


@pytest.fixture(scope="module")
def seed() -> Pipeline:
    path = shared("tokenizers/seed-example/tokenizer.json")
    return Pipeline(hf.read(Source.open(str(path)), {}).spec)


def test_trace_is_the_articles(seed: Pipeline) -> None:
    expected = json.loads(shared("tokenizers/seed-example/trace.json").read_text("utf-8"))
    walked = trace(seed, expected["text"])
    assert walked.ids == expected["ids"] == seed.encode_ids(expected["text"])
    assert walked.tokens == expected["tokens"]
    words = walked.to_json()["words"]
    found = {word["word"]: {key: word[key] for key in ("start", "steps", "ids")} for word in words}
    article = expected["merge_traces"]["article (seed-example/tokenizer.json)"]
    assert json.loads(json.dumps(found)) == article
    assert list(found) == ["Hello", ",", "ĠMNN", "!"]


def test_trace_of_decoding_ends_in_the_text(seed: Pipeline) -> None:
    walked = trace_decode(seed, [9419, 11, 380, 9455, 0])
    assert walked.text == "Hello, MNN!"
    assert walked.tokens == ("Hello", ",", "ĠM", "NN", "!")
    assert [step.name for step in walked.steps] == ["ByteLevel"]


def test_lone_surrogate_is_named(seed: Pipeline) -> None:
    with pytest.raises(UsageError, match=r"U\+D834 at character 2"):
        seed.encode("ab\ud834")


def test_bytes_that_are_no_utf8_are_named(seed: Pipeline) -> None:
    with pytest.raises(UsageError, match="byte FF"):
        seed.encode(b"ab\xff")


# Normalizers and pre-tokenizers equal the library's on generated texts, offsets included.


ROUNDS = 12
TEXTS = 25


@pytest.mark.parametrize("kind", cases.NORMALIZERS)
def test_normalizers(kind: str) -> None:
    rng = random.Random(f"normalizer {kind}")
    compared = 0
    for _ in range(ROUNDS):
        drawn = cases.draw_normalizer(rng, kind)
        tokenizer = cases.every_character(drawn)
        ours = cases.pipeline_of(tokenizer)
        for _ in range(TEXTS):
            text = cases.text(rng)
            expected = cases.answer(offsets, tokenizer, text)
            got = cases.answer(offsets, ours, text)
            assert got == expected, (drawn, text)
            if expected != "fails" and text:
                aligned = AlignedText.of(text)
                ours.normalize(aligned)
                assert aligned.text == drawn.normalize_str(text), (drawn, text)
                compared += 1
    assert compared > ROUNDS * TEXTS / 2


def offsets(tokenizer: Any, text: str) -> Any:
    return tokenizer.encode(text).offsets


@pytest.mark.parametrize("kind", cases.PRE_TOKENIZERS)
def test_pre_tokenizers(kind: str) -> None:
    rng = random.Random(f"pre-tokenizer {kind}")
    for _ in range(ROUNDS):
        drawn = cases.draw_pre_tokenizer(rng, kind)
        ours = cases.pipeline_of(cases.every_character(None, drawn))
        for _ in range(TEXTS):
            text = cases.text(rng)
            expected = cases.answer(drawn.pre_tokenize_str, text) if text else []
            assert cases.answer(words, ours, text) == expected, (drawn, text)


def words(ours: Any, text: str) -> Any:
    return [(word.text, word.offsets(0, len(word))) for word, _ in ours.words(text)]


def test_normalizer_then_pre_tokenizer() -> None:
    rng = random.Random("both")
    for _ in range(60):
        normalizer, pre_tokenizer = cases.draw_normalizer(rng), cases.draw_pre_tokenizer(rng)
        tokenizer = cases.every_character(normalizer, pre_tokenizer)
        ours = cases.pipeline_of(tokenizer)
        for _ in range(10):
            text = cases.text(rng)
            expected = cases.answer(offsets, tokenizer, text)
            got = cases.answer(offsets, ours, text)
            assert got == expected, (normalizer, pre_tokenizer, text)


# Whole tokenizers with generated parts equal the library's: ids, offsets, pairs, decoding.


WHOLE_ROUNDS = 150
WHOLE_TEXTS = 6


def test_encoding_and_decoding() -> None:
    rng = random.Random("encode")
    failed = 0
    for _ in range(WHOLE_ROUNDS):
        tokenizer = draw_tokenizer(rng)
        ours = cases.pipeline_of(tokenizer)
        for _ in range(WHOLE_TEXTS):
            failed += compare_text(rng, tokenizer, ours)
    assert failed < WHOLE_ROUNDS * WHOLE_TEXTS / 20


def compare_text(rng: random.Random, tokenizer: Any, ours: Any) -> bool:
    """Compare one text or pair; tells whether the library failed."""
    text, pair = cases.text(rng), cases.text(rng) if rng.random() < 0.3 else None
    special, encode_special = rng.random() < 0.7, rng.random() < 0.2
    tokenizer.encode_special_tokens = encode_special
    expected = cases.answer(library_columns, tokenizer, text, pair, special)
    got = cases.answer(columns, ours, text, pair, special, not encode_special)
    where = (tokenizer.to_str()[:3000], text, pair, special, encode_special)
    assert got == expected, where
    if expected == "fails":
        return True
    ids = list(expected[0])
    rng.shuffle(ids)
    ids.append(rng.randrange(60))
    for skip in (False, True):
        expected = cases.answer(tokenizer.decode, ids, skip_special_tokens=skip)
        got = cases.answer(ours.decode, ids, skip_special_tokens=skip)
        assert got == expected, (tokenizer.to_str()[:3000], ids, skip)
        assert cases.answer(streamed, ours, ids, skip) == expected, (str(tokenizer.decoder), ids)
    return False


def library_columns(tokenizer: Any, text: str, pair: str | None, special: bool) -> Any:
    encoding = tokenizer.encode(text, pair, add_special_tokens=special)
    return (
        encoding.ids, encoding.offsets, encoding.type_ids, encoding.special_tokens_mask,
        encoding.attention_mask,
    )  # fmt: skip


def columns(ours: Any, text: str, pair: str | None, special: bool, parse_special: bool) -> Any:
    encoded = ours.encode(
        text,
        pair,
        add_special_tokens=special,
        parse_special=parse_special,
        padding="file",
        truncation="file",
    )
    return (
        encoded.ids, encoded.offsets, encoded.type_ids, encoded.special_tokens_mask,
        encoded.attention_mask,
    )  # fmt: skip


def streamed(ours: Any, ids: list[int], skip: bool) -> str:
    stream = ours.decode_stream(skip_special_tokens=skip)
    return "".join([stream.push(token_id) for token_id in ids]) + stream.finish()


def test_batch_padding() -> None:
    tokenizers = reference("tokenizers")
    rng = random.Random("batch")
    for _ in range(20):
        tokenizer = draw_tokenizer(rng)
        tokenizer.enable_padding(
            direction=rng.choice(["left", "right"]),
            pad_id=3,
            pad_type_id=1,
            pad_token="[PAD]",
            pad_to_multiple_of=rng.choice([None, 4]),
        )
        assert tokenizers.__version__
        ours = cases.pipeline_of(tokenizer)
        texts = [cases.text(rng) for _ in range(4)]
        expected = cases.answer(tokenizer.encode_batch, texts)
        got = cases.answer(ours.encode_batch, texts, padding="file", truncation="file")
        if expected != "fails":
            expected = [(one.ids, one.attention_mask, one.type_ids) for one in expected]
            got = [(one.ids, one.attention_mask, one.type_ids) for one in got]
        assert got == expected


# A ``Prepend`` of an empty text is not nothing: it unties the first character from its place.


LETTERS = "<x>Abé 's1"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_as_in_tokenizers(seed: int) -> None:
    """Ids, by the engine and by the pipeline, whatever comes behind it."""
    t: Any = reference("tokenizers")
    random = Random(seed)
    steps = [
        t.pre_tokenizers.Split(t.Regex(random.choice(("[<>]+", r"\p{L}+", "b"))), "isolated")
        for _ in range(random.randrange(3))
    ]
    if random.random() < 0.7:
        steps.append(t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    pieces = dict.fromkeys([*LETTERS, *t.pre_tokenizers.ByteLevel.alphabet()])
    theirs = t.Tokenizer(t.models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    theirs.normalizer = t.normalizers.Prepend("")
    if steps:
        theirs.pre_tokenizer = t.pre_tokenizers.Sequence(steps)
    source = Source("tokenizer.json", theirs.to_str().encode())
    ours, pipeline = load_source(source), Pipeline(hf.read(source, {}).spec)
    compared = 0
    for _ in range(20):
        text = "".join(random.choices(LETTERS, k=random.randrange(1, 6)))
        try:
            wanted = theirs.encode(text).ids
        except BaseException as error:  # noqa: BLE001  a panic: it cannot split behind it
            assert type(error).__name__ == "PanicException"
            continue
        compared += 1
        assert ours.encode_ids(text) == wanted, text
        assert ours.encode(text).ids == wanted, text
        assert pipeline.encode(text).ids == wanted, text
    assert compared or len(steps) > 1


# An added token that is nothing once normalized does what it does in tokenizers. There it is
# found between characters and cuts the text; inside a character of several bytes the library
# panics, and where a text ends in the middle of another token it never ends.


LIBRARY = """
import json, resource, sys
from tokenizers import Tokenizer
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for line in sys.stdin:
    file, text, as_text = json.loads(line)
    tokenizer = Tokenizer.from_str(file)
    tokenizer.encode_special_tokens = as_text
    try:
        found = tokenizer.encode(text)
        answer = [found.ids, found.tokens, found.offsets]
    except BaseException as error:
        answer = type(error).__name__
    print(json.dumps(answer), flush=True)
"""


class Library:
    """The library in a process of its own, which is begun anew where it never ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def encode(self, file: str, text: str, *, as_text: bool) -> Any:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", LIBRARY],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([file, text, as_text]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline() if select([process.stdout], [], [], 10)[0] else ""
        if line:
            return json.loads(line)
        self.end()
        return "never ends"

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def drawn(rng: random.Random) -> str:
    """Draw a tokenizer.json with a token of q's, which its normalizer drops."""
    t = reference("tokenizers")
    vocabulary = {"[UNK]": 0, **{piece: at + 1 for at, piece in enumerate(["a", "b", "ab", " "])}}
    tokenizer = t.Tokenizer(t.models.WordPiece(vocabulary, unk_token="[UNK]"))
    steps = [t.normalizers.Replace("q", "")]
    if rng.random() < 0.3:
        steps.append(t.normalizers.Prepend("b"))
        steps.append(t.normalizers.Replace("bz", ""))
    tokenizer.normalizer = t.normalizers.Sequence(steps)
    contents = [
        "q" if len(steps) == 1 else "z",
        *rng.sample(["ab", "abc", "b ", " a", "é", "cab"], rng.randrange(4)),
    ]
    for content in contents:
        token = t.AddedToken(
            content,
            normalized=content in "qz" or rng.random() < 0.8,
            single_word=rng.random() < 0.2,
            lstrip=rng.random() < 0.25,
            rstrip=rng.random() < 0.25,
            special=rng.random() < 0.3,
        )
        add = tokenizer.add_special_tokens if token.special else tokenizer.add_tokens
        add([token])
    if rng.random() < 0.3:
        tokenizer.pre_tokenizer = t.pre_tokenizers.Whitespace()
    return str(tokenizer.to_str())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_drawn_tokenizers(seed: int) -> None:
    rng = random.Random(seed)
    library = Library()
    answered = failed = endless = 0
    for _ in range(60):
        file = drawn(rng)
        spec = hf.read(Source("tokenizer.json", file.encode()), {}).spec
        engine, pipeline = load_engine(spec), Pipeline(spec)
        for _ in range(12):
            letters = "aabbcq  é" if rng.random() < 0.2 else "abc q "
            text = "".join(rng.choices(letters, k=rng.randrange(8)))
            as_text = rng.random() < 0.2
            try:
                got = pipeline.encode(text, parse_special=not as_text)
            except UnsupportedError as error:
                expected = "never ends" if "never ends" in str(error) else "PanicException"
                failed += expected != "never ends"
                endless += expected == "never ends"
                if expected == "never ends" and endless > 2:
                    continue
                with pytest.raises(UnsupportedError, match="nothing once normalized"):
                    engine.encode_ids(text, parse_special=not as_text)
            else:
                answered += 1
                expected = [got.ids, got.tokens, [list(pair) for pair in got.offsets]]
                assert engine.encode(text, parse_special=not as_text) == got
            assert library.encode(file, text, as_text=as_text) == expected, (file, text, as_text)
    library.end()
    assert answered > 300
    assert failed
    assert endless


@pytest.mark.slow
def test_a_text_is_encoded_though_a_token_vanishes() -> None:
    """Every text of such a tokenizer was an error."""
    t = reference("tokenizers")
    tokenizer = t.Tokenizer(t.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.normalizer = t.normalizers.StripAccents()
    tokenizer.add_tokens([t.AddedToken("\u0301", normalized=True)])
    spec = hf.read(Source("tokenizer.json", tokenizer.to_str().encode()), {}).spec
    assert tokenizer.encode("ab").ids == [1, 2]
    assert load_engine(spec).encode_ids("ab") == [1, 2]
