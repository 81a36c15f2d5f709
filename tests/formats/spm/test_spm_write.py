"""Writing tokenizer.model: byte for byte where nothing changed, and the library loads the rest.

Damage: every cut and every forged length of a model is a FormatError or a smaller valid model,
and what the library refuses is refused.
"""

from __future__ import annotations

import json
import struct

import pytest
from support import FIXTURES, golden_names, reference, shared, shared_tokenizer

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import hf, llama2c, spm
from mtkit.formats.contract import WriteOptions
from mtkit.formats.spm import writer
from mtkit.formats.spm.message import encode_field, encode_varint
from mtkit.pipeline import Pipeline
from mtkit.spec import SpecialIds, TokenizerSpec, TokenType, Vocabulary, fields, replace
from mtkit.spec import models as spec_models
from mtkit.spec.normalizers import Spaces

OWN = ["spm-bpe", "spm-unigram", "spm-unigram-id"]
TEXTS = ["Hello  world", " é日本🙂\n\t", "\u2581a\u2581", "<s><unk>1234", "", "aaaaaaaaab"]


def read(data: bytes) -> TokenizerSpec:
    return spm.read(Source("tokenizer.model", data), {}).spec


def write(spec: TokenizerSpec) -> bytes:
    return spm.write(spec, WriteOptions()).files[".model"]


def piece(text: bytes, score: float | None = 0.0, kind: int = 1) -> bytes:
    data = encode_field(1, text)
    if score is not None:
        data += b"\x15" + struct.pack("<f", score)
    return encode_field(1, data + (encode_field(3, kind) if kind != 1 else b""))


def tiny() -> bytes:
    pieces = [piece(b"<unk>", 0.0, 2), piece(b"<s>", 0.0, 3), piece(b"a", -1.0), piece(b"b", -2.0)]
    trainer = encode_field(2, encode_field(3, 2) + encode_field(4, 4))
    return b"".join(
        [*pieces, trainer, encode_field(3, encode_field(1, b"identity") + encode_field(3, 1))]
    )


@pytest.mark.parametrize("name", [*golden_names("spm"), *OWN])
def test_bytes_come_back(name: str) -> None:
    folder = FIXTURES / name if name in OWN else shared_tokenizer(name)
    data = (folder / "tokenizer.model").read_bytes()
    written = spm.write(read(data), WriteOptions())
    assert written.files[".model"] == data
    assert written.losses == ()


@pytest.mark.parametrize(
    "data",
    [
        tiny()
        + encode_field(4, encode_field(1, b""))
        + encode_field(77, b"unknown")
        + encode_field(78, 5),
        tiny() + encode_field(5, encode_field(3, 0) + encode_field(5, 0)),
        tiny() + encode_field(4, b"\x0a\xff no message"),
        piece(b"<unk>", None, 2) + piece(b"a", None) + piece(b"b", 1.5),
        piece(b"<unk>", 0.0, 2)
        + encode_field(1, encode_field(1, b"a") + encode_field(3, 1)),  # NORMAL spelled out
        piece(b"<unk>", -0.0, 2) + encode_field(1, encode_field(1, b"a") + encode_field(200, b"x")),
        piece(b"<unk>", 0.0, 2)
        + piece(b"a")
        + encode_field(2, b"")
        + encode_field(3, encode_field(2, b"")),
        piece(b"<unk>", 0.0, 2)
        + piece(b"a")
        + encode_field(2, encode_field(3, 9))
        + encode_field(3, encode_field(4, 0)),
    ],
)
def test_odd_files_come_back(data: bytes) -> None:
    assert write(read(data)) == data


def test_a_changed_specification_is_what_the_library_does() -> None:
    library = reference("sentencepiece")
    spec = read((FIXTURES / "spm-unigram" / "tokenizer.model").read_bytes())
    assert isinstance(spec.normalizer, Spaces)
    for changes in (
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False},
        {"escape_whitespaces": False},
        {"suffix": True},
        {"charsmap": b""},
    ):
        changed = replace(spec, normalizer=replace(spec.normalizer, **changes))
        data = write(changed)
        processor = library.SentencePieceProcessor(model_proto=data)
        pipeline = Pipeline(changed)
        for text in TEXTS:
            assert pipeline.encode_ids(text) == processor.encode(text), (changes, text)
        assert replace(read(data), extras=(), decoder=None) == replace(
            changed, extras=(), decoder=None
        )


def test_from_nothing() -> None:
    pieces = [b"<unk>", b"[B]", b"[E]", "\u2581".encode(), b"a", b"b", b"ab"]
    types = bytes([2, 3, 3, 1, 1, 1, 4])
    vocabulary = Vocabulary(
        Pieces.of(pieces), Numbers("B", types), Numbers.of("f", [0, 0, 0, -1, -2, -3, -4])
    )
    library = reference("sentencepiece")
    for model in (
        spec_models.ScoreBPE(unk=0),
        spec_models.Unigram(unk=0, candidates="used", user_defined="preferred", precision="f32"),
        spec_models.Characters(unk=0),
        spec_models.Words(unk=0),
    ):
        spec = TokenizerSpec(
            vocabulary,
            model,
            normalizer=Spaces(),
            decoder=spm.Subwords(drop_marks="all"),
            added_tokens=spm.AddedTokens(parse_special=False),
            special_ids=SpecialIds(unk=0, bos=1, eos=2),
            invalid_utf8="keep",
        )
        written = spm.write(spec, WriteOptions())
        assert {loss.field for loss in written.losses} <= {"extras"}
        processor = library.SentencePieceProcessor(model_proto=written.files[".model"])
        assert (processor.bos_id(), processor.eos_id(), processor.unk_id()) == (1, 2, 0)
        pipeline = Pipeline(read(written.files[".model"]))
        for text in [*TEXTS, "ab a b", "x yab"]:
            ids = processor.encode(text)
            assert pipeline.encode_ids(text) == ids
            assert pipeline.decode(ids) == processor.decode(ids)


def test_from_llama2c_and_the_loss_law() -> None:
    source = Source.open(str(FIXTURES / "spm-bpe" / "tokenizer.bin"))
    spec = llama2c.read(source, {}).spec
    written = spm.write(spec, WriteOptions())
    processor = reference("sentencepiece").SentencePieceProcessor(
        model_proto=written.files[".model"]
    )
    back = read(written.files[".model"])
    lost = {loss.field.split(".")[0] for loss in written.losses}
    for name in fields(spec):
        assert getattr(spec, name) == getattr(back, name) or name in lost, name
    pipeline = Pipeline(spec)
    for text in ("Hello world", "é日本🙂\n", "1234"):
        assert pipeline.encode_ids(text) == [1, *processor.encode(text)]
    assert back.special_ids == spec.special_ids


@pytest.mark.parametrize("name", ["llama-2", "mistral-v0.3"])
def test_merges_that_stand_for_scores(name: str) -> None:
    """A merge list made from a score model gives a model with the ids of the original."""
    folder = shared_tokenizer(name)
    spec = hf.read(Source.open(str(folder / "tokenizer.json")), {}).spec
    written = spm.write(spec, WriteOptions())
    assert "ids" not in {loss.code for loss in written.losses}
    library = reference("sentencepiece")
    made = library.SentencePieceProcessor(model_proto=written.files[".model"])
    original = library.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    texts = json.loads(shared("tokenizers/golden/inputs.json").read_text("utf-8"))["inputs"]
    assert len(texts) == 531
    for text in texts:
        assert made.encode(text) == original.encode(text), text
    if name == "llama-2":
        pieces = [raw for _, raw in llama2c.spell_tokens(writer.adapt_spec(spec))]
        exported = llama2c.read(Source.open(str(folder / "tokenizer.bin")), {}).spec
        assert pieces == list(exported.vocabulary.pieces)
        assert llama2c.write(spec, WriteOptions()).files


def test_steps_that_are_left_out_are_a_loss_of_ids() -> None:
    codes = {}
    for name in ("t5-small", "xlnet-base-cased"):
        spec = hf.read(Source.open(str(shared_tokenizer(name) / "tokenizer.json")), {}).spec
        losses = spm.write(spec, WriteOptions()).losses
        codes[name] = {loss.code for loss in losses if loss.field == "normalizer"}
    assert codes == {"t5-small": {"ids-possible"}, "xlnet-base-cased": {"ids"}}


@pytest.mark.parametrize("name", ["spm-bpe", "spm-unigram-id"])
def test_own_tokenizer_json(name: str) -> None:
    spec = hf.read(Source.open(str(FIXTURES / name / "tokenizer.json")), {}).spec
    processor = reference("sentencepiece").SentencePieceProcessor(model_proto=write(spec))
    lines = (FIXTURES / name / "cases.jsonl").read_text("utf-8").splitlines()
    for case in map(json.loads, lines):
        assert processor.encode(case["text"]) == case["ids"], case["text"]


def test_merges_that_do_not() -> None:
    pieces = [b"<unk>", b"a", b"b", b"c", b"ab", b"bc", b"abc"]
    for pairs, why in (
        ([1, 2, 2, 3, 4, 3], "nothing merges 'a' and 'bc'"),
        ([1, 2, 4, 3, 2, 3, 1, 5], "again, after others"),
    ):
        merges = spec_models.Merges(Numbers.of("I", pairs), Pieces.of([]))
        model = spec_models.BPE(merges, unk=0)
        spec = TokenizerSpec(Vocabulary(Pieces.of(pieces)), model)
        with pytest.raises(UnsupportedError, match=why):
            write(spec)
    gpt2 = hf.read(Source.open(str(FIXTURES / "bbpe-8k" / "tokenizer.json")), {}).spec
    for module in (spm, llama2c):
        with pytest.raises(UnsupportedError):
            module.write(gpt2, WriteOptions())


def test_what_the_format_cannot_hold() -> None:
    vocabulary = Vocabulary(Pieces.of([b"a"]))
    for model in (spec_models.RankBPE(), spec_models.WordPiece(unk=0), spec_models.Trie()):
        with pytest.raises(UnsupportedError):
            write(TokenizerSpec(vocabulary, model))
    with pytest.raises(UnsupportedError, match="unknown"):
        write(TokenizerSpec(vocabulary, spec_models.Characters()))
    twice = Vocabulary(Pieces.of([b"a", b"b", b"b"]), None, None)
    with pytest.raises(UnsupportedError, match="same"):
        write(TokenizerSpec(twice, spec_models.Characters(unk=0)))


def loads(data: bytes) -> bool:
    """Tell whether the library takes a model."""
    try:
        reference("sentencepiece").SentencePieceProcessor(model_proto=data)
    except RuntimeError:
        return False
    return True


def test_every_truncation() -> None:
    data = tiny()
    whole = 0
    for size in range(1, len(data)):
        try:
            spec = read(data[:size])
        except FormatError:
            assert not loads(data[:size]), size
            continue
        whole += 1
        assert loads(data[:size])
        assert write(spec) == data[:size]
    assert whole == 3  # behind the pieces a and b and behind the trainer
    with pytest.raises(FormatError):
        read(b"")


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_forged_lengths(length: int) -> None:
    forged = encode_varint(length)
    for data in (
        b"\x0a" + forged + tiny()[2:],
        b"\x0a\x20\x0a" + forged + b"abc",
        tiny() + b"\x12" + forged,
        tiny() + b"\x1a" + forged + b"\0",
        tiny() + encode_field(3, b"\x12" + forged),
        tiny()
        + encode_field(3, encode_field(2, struct.pack("<I", length & 0xFFFFFFFF) + b"abcdef")),
        tiny() + encode_field(5, b"\x12" + forged),
    ):
        with pytest.raises(FormatError):
            read(data)


@pytest.mark.parametrize(
    "data",
    [
        piece(b"a"),
        piece(b"<unk>", 0.0, 2) + piece(b"", 0.0),
        piece(b"<unk>", 0.0, 2) + piece(b"<other>", 0.0, 2),
        piece(b"<unk>", 0.0, 2) + piece(b"a") + piece(b"a"),
        piece(b"<unk>", 0.0, 2) + piece(b"<s>", 0.0, 3) + piece(b"<s>", 0.0, 3),
        piece(b"<unk>", 0.0, 2) + piece(b"<0x41>", 0.0, 6),
        piece(b"<unk>", 0.0, 2) + encode_field(2, encode_field(35, 1)),
        piece(b"<unk>", 0.0, 2) + piece(b"a", float("nan")),
        piece(b"<unk>", 0.0, 2) + piece(b"a", float("inf"), 3),
        piece(b"<unk>", 0.0, 2) + piece(b"a\0b"),
        piece(b"<unk>", 0.0, 2) + piece(b"a" * 8000),
        piece(b"<unk>", 0.0, 2) + piece(b"<s>", 0.0, 3),
        piece(b"<unk>", 0.0, 2) + piece(b"a") + encode_field(3, encode_field(2, b"\4\0\0\0abcdef")),
        b"\xff" * 12,
        b"\x0b",
        b"\x00\x01",
        b"",
    ],
)
def test_what_the_library_refuses(data: bytes) -> None:
    if data:
        assert not loads(data)
    with pytest.raises(FormatError):
        read(data)


def test_same_text_in_both_tables() -> None:
    pieces = [piece(b"<unk>", 0.0, 2), piece(b"<s>", 0.0, 3), piece(b"a"), piece(b"<s>", -1.0)]
    data = b"".join(pieces)
    assert loads(data)
    spec = read(data)
    assert spec.vocabulary.type_of(3) is TokenType.NORMAL
    processor = reference("sentencepiece").SentencePieceProcessor(model_proto=data)
    assert Pipeline(spec).encode_ids("a<s>a") == processor.encode("a<s>a")
    assert Pipeline(spec).decode([2, 3, 1, 2]) == processor.decode([2, 3, 1, 2])
    merging = data + encode_field(2, encode_field(3, 2))
    assert not loads(merging)
    with pytest.raises(FormatError):
        read(merging)
