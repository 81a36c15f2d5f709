"""The tokenizer of the library: many texts, what an encoding shows, calls by mistake, the default
one, spellings of tokens, two compared.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from support import FIXTURES, TESTS, Run, measured, shared

import mtkit
from mtkit.base.binary import Source
from mtkit.formats import hf, mtok
from mtkit.tokenizer.comparison import LINE_LIMIT_BYTES, compare, corpus_lines

SOURCES = ["bbpe-8k/tokenizer.json", "spm-unigram/tokenizer.model", "wordpiece/vocab.gguf"]
TEXTS = ["Hello, MNN!", "", "caf\u00e9 \u4e2d\u6587", b"bytes", "\U0001f642"]


@pytest.fixture(scope="module", params=SOURCES)
def tokenizer(request: pytest.FixtureRequest) -> mtkit.Tokenizer:
    return mtkit.load(FIXTURES / request.param)


@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_many_texts_get_the_ids_of_each(
    tokenizer: mtkit.Tokenizer, add_special_tokens: bool
) -> None:
    options = {"add_special_tokens": add_special_tokens}
    found = tokenizer.encode_batch_ids(iter(TEXTS), **options)
    assert found == [tokenizer.encode_ids(text, **options) for text in TEXTS]
    assert found == [made.ids for made in tokenizer.encode_batch(TEXTS, **options)]


def test_a_text_that_the_core_hands_over_is_encoded_among_others() -> None:
    tokenizer = mtkit.load(FIXTURES / "spm-bpe/tokenizer.model")
    texts = ["one", b"\xff\xfe", "two"]
    assert tokenizer.encode_batch_ids(texts) == [tokenizer.encode_ids(text) for text in texts]


def test_an_encoding_has_a_length_and_shows_its_tokens(tokenizer: mtkit.Tokenizer) -> None:
    encoding = tokenizer.encode("Hello", add_special_tokens=False)
    assert len(encoding) == len(encoding.ids)
    start, end = encoding.offsets[0]
    assert f"{encoding.ids[0]} {'Hello'[start:end]!r}" in repr(encoding)
    long = repr(tokenizer.encode("Hello " * 1000))
    assert re.match(r"<Encoding of \d+ tokens: .*, …>$", long)
    assert len(long) < 200


def test_an_encoding_shows_characters_whole() -> None:
    tokenizer = mtkit.load(FIXTURES / "bbpe-8k/tokenizer.json")
    text = "a 世界 🙂 <|im_end|>"
    encoding = tokenizer.encode(text)
    assert any(text[start:end] not in token for token, (start, end) in
               zip(encoding.tokens, encoding.offsets, strict=True))  # fmt: skip
    for shown in (encoding, tokenizer.encode_batch([text])[0], tokenizer.encode(text.encode())):
        parts = re.findall(r"((?:\d+ )+)'([^']*)'", repr(shown))
        assert "".join(part for _, part in parts) == text
        assert [int(one) for ids, _ in parts for one in ids.split()] == encoding.ids
    pair = repr(tokenizer.encode("世", "界"))
    assert "'世'" in pair
    assert "'界'" in pair
    # Where bytes are not UTF-8, offsets count what the reference makes of them.
    raw = mtkit.load(FIXTURES / "spm-bpe/tokenizer.model").encode(b"a\xff")
    assert f"{raw.ids[0]} {raw.tokens[0]!r}" in repr(raw)


@pytest.mark.parametrize("name", ["encode_ids", "encode_array", "encode"])
def test_a_list_by_mistake_names_the_call_for_many(tokenizer: mtkit.Tokenizer, name: str) -> None:
    with pytest.raises(TypeError, match="not list; encode_batch_ids"):
        getattr(tokenizer, name)(["a", "b"])
    with pytest.raises(TypeError, match="not NoneType"):
        getattr(tokenizer, name)(None)


@pytest.mark.parametrize("name", ["encode_batch_ids", "encode_batch"])
def test_one_text_by_mistake_names_the_call_for_one(tokenizer: mtkit.Tokenizer, name: str) -> None:
    with pytest.raises(TypeError, match="use encode_ids or encode"):
        getattr(tokenizer, name)("Hello")


def test_a_buffer_is_a_text(tokenizer: mtkit.Tokenizer) -> None:
    expected = tokenizer.encode_ids("Hello")
    assert tokenizer.encode_ids(bytearray(b"Hello")) == expected
    assert tokenizer.encode_ids(memoryview(b"Hello")) == expected


def test_a_path_may_be_text_bytes_or_an_object() -> None:
    path = FIXTURES / "spm-bpe" / "tokenizer.model"
    ids = mtkit.load(path).encode_ids("Hello, MNN!")
    assert mtkit.load(str(path)).encode_ids("Hello, MNN!") == ids
    assert mtkit.load(os.fsencode(path)).encode_ids("Hello, MNN!") == ids


def tool() -> ModuleType:
    """Import the script by its path: the sources must not hide the mtkit that is tested."""
    found = spec_from_file_location("tool", TESTS.parent / "tools" / "default_tokenizer.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


TARGET: str = tool().TARGET


def test_it_can_be_read() -> None:
    source = Source.open(TARGET)
    spec = mtok.read(source, {}).spec
    assert spec.vocab_size == 32768
    assert spec.special_ids.eos is not None
    assert spec.chat_templates


def test_the_script_makes_the_same_bytes() -> None:
    folder = shared("own/tokenizer")
    assert tool().content(str(folder)) == Path(TARGET).read_bytes()
    source = Source.open(str(folder / "tokenizer.json"))
    assert mtok.read(Source.open(TARGET), {}).spec == hf.read(source, {}).spec


NAMES = ["bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model", "wordpiece/vocab.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_a_token_and_its_id_name_each_other(name: str) -> None:
    tokenizer = mtkit.load(FIXTURES / name)
    pieces = [tokenizer.id_to_piece(token_id) for token_id in range(tokenizer.vocab_size)]
    assert len(set(pieces)) == len(pieces) > 1000
    for token_id, piece in enumerate(pieces):
        assert piece is not None
        assert tokenizer.token_to_id(piece) == token_id
    assert tokenizer.id_to_piece(-1) is None
    assert tokenizer.id_to_piece(tokenizer.vocab_size) is None
    assert tokenizer.id_to_token(tokenizer.vocab_size) is None
    assert tokenizer.token_to_id("no such token") is None
    for ask in (tokenizer.id_to_token, tokenizer.token_bytes, tokenizer.token_kind):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            ask("a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [None, 1 << 31, 1.5, [1 << 31], [True], range(1 << 40), {}, object()]
)
def test_what_is_no_text_has_no_ids(wrong: object) -> None:
    tokenizer = mtkit.load(FIXTURES / NAMES[0])
    for ask in (tokenizer.text_to_ids, tokenizer.piece_bytes):
        with pytest.raises(TypeError, match=r"^a text is str or bytes, not "):
            ask(wrong)  # type: ignore[operator]
    assert tokenizer.text_to_ids("\ud800") == []
    assert tokenizer.text_to_ids(memoryview(b"a")) == tokenizer.text_to_ids("a")  # type: ignore[arg-type]
    assert "'a'" in repr(tokenizer.encode(memoryview(b"a")))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["~\0", "a\0b", "~\0/..", "\ud800", "~\ud800", "a/b\0c"])
def test_paths_that_no_system_takes(path: str) -> None:
    calls = (mtkit.load, mtkit.inspect, mtkit.open_gguf, lambda name: mtkit.diff(name, name))
    for call in calls:
        with pytest.raises(mtkit.UsageError):
            call(path)


@pytest.mark.parametrize("name", NAMES[:2])
def test_the_bytes_of_the_tokens_are_those_of_the_text(name: str) -> None:
    tokenizer = mtkit.load(FIXTURES / name)
    text = "Hello, wörld! 你好 \U0001f600 a\tb"
    ids = tokenizer.encode_ids(text, add_special_tokens=False)
    assert b"".join(map(tokenizer.token_bytes, ids)).strip() == text.encode()


def test_a_lone_byte_is_shown_escaped() -> None:
    tokenizer = mtkit.load(FIXTURES / "bbpe-8k/tokenizer.json")
    token_id = tokenizer.token_to_id("Ã")  # the byte alphabet's letter for 0xC3
    assert token_id is not None
    assert tokenizer.token_bytes(token_id) == b"\xc3"


def changed(path: Path, tmp_path: Path, **sections: object) -> mtkit.Tokenizer:
    """Load a tokenizer.json with some sections replaced."""
    table = json.loads(path.read_text("utf-8"))
    table.update(sections)
    copy = tmp_path / "changed.json"
    copy.write_text(json.dumps(table))
    return mtkit.load(copy)


BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
SPM = FIXTURES / "spm-bpe" / "tokenizer.model"
WORDPIECE = FIXTURES / "wordpiece" / "tokenizer.json"


@pytest.mark.parametrize(
    ("stage", "text", "sections"),
    [
        ("normalizer", "Hello A", {"normalizer": {"type": "Lowercase"}}),
        ("pre-tokenizer", "mtkit_tool", {"pre_tokenizer": {"type": "ByteLevel", "use_regex": True,
         "add_prefix_space": False, "trim_offsets": False}}),
        ("added tokens", "a<|im_end|>", {"added_tokens": []}),
    ],
)  # fmt: skip
def test_the_stage_is_named(
    stage: str, text: str, sections: dict[str, object], tmp_path: Path
) -> None:
    left, right = mtkit.load(BBPE), changed(BBPE, tmp_path, **sections)
    assert left.encode_ids(text) != right.encode_ids(text)
    done = compare(left, right, ["same", text])
    assert (done.texts, done.different, done.equal) == (2, 1, False)
    (one,) = done.differences
    assert (one.stage, one.number, one.text) == (stage, 2, text)
    assert one.left[0][: one.first] == one.right[0][: one.first]
    assert one.left[0][one.first :] != one.right[0][one.first :]


def test_post_processor_and_model_are_told_apart(tmp_path: Path) -> None:
    left = mtkit.load(WORDPIECE)
    right = changed(WORDPIECE, tmp_path, post_processor=None)
    assert compare(left, right, ["a"]).differences[0].stage == "post-processor"
    model = json.loads(BBPE.read_text("utf-8"))["model"]
    fewer = changed(BBPE, tmp_path, model={**model, "merges": model["merges"][:100]})
    assert compare(mtkit.load(BBPE), fewer, ["something"]).differences[0].stage == "model"


def test_long_lines_are_cut_and_counted() -> None:
    seen: list[int] = []
    data = b"a\r\n" + b"x" * (LINE_LIMIT_BYTES + 5) + b"\n\nend"
    lines = list(corpus_lines(io.BytesIO(data), seen.append))
    assert [len(line) for line in lines] == [1, LINE_LIMIT_BYTES, 5, 0, 3]
    assert seen[-1] == len(data)


def test_command(mtkit: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\nA snake_case name\n")
    same = mtkit("compare", BBPE, BBPE, "--file", corpus, "--json")
    assert same.returncode == 0
    assert json.loads(same.stdout)["equal"] is True
    other = mtkit("compare", BBPE, BBPE.parent / "vocab.json", "--file", corpus, "--json")
    assert other.returncode == 1
    document = json.loads(other.stdout)
    assert document["equal"] is False
    assert document["texts"] == 2
    assert {"number", "text", "stage", "left", "right"} <= set(document["differences"][0])
    assert mtkit("compare", BBPE, "missing").returncode == 2


def test_what_is_not_shown_is_said(mtkit: Run, tmp_path: Path) -> None:
    mtkit("convert", SPM, "--to", "mtok", "--bos", "-o", tmp_path / "bos.mtok")
    done = mtkit("compare", SPM, tmp_path / "bos.mtok", "-n", "3")
    assert b"200 different (the first 3 shown)" in done.stdout
    assert b"--no-special" in done.stderr
    equal = mtkit("compare", SPM, tmp_path / "bos.mtok", "--no-special")
    assert (equal.returncode, equal.stderr) == (0, b"")


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """Lines of many lengths, and one that is longer than the parts it is compared in."""
    rng = random.Random(5)
    words = ["mtkit", "Hello,", "世界", "naïve", "x" * 30, "😀", "\t", "1234", "don't"]
    lines = [" ".join(rng.choices(words, k=rng.randrange(40))) for _ in range(2000)]
    peaks = []
    for number, times in enumerate((1, 24)):
        corpus = tmp_path / f"corpus{number}.txt"
        corpus.write_text("".join(f"{line}\n" for line in lines) * times + "y" * 1_500_000)
        program = sys.executable, "-m", "mtkit", "compare", BBPE, BBPE, "--file", corpus
        code, _, peak, stdout, stderr = measured(*program)
        assert (code, stderr) == (0, b""), stderr
        assert stdout.startswith(f"{2000 * times + 2} texts, equal".encode())
        peaks.append(peak)
    assert corpus.stat().st_size > 6_000_000
    # Results lie in pages of 2 MB where there are some.
    assert peaks[1] - peaks[0] < 5_000_000, peaks
