"""vocab.txt and vocab.json + merges.txt: what transformers makes of them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Literal

import pytest
from support import FIXTURES, reference

import mtkit
from mtkit.base.binary import Source
from mtkit.base.packed import Pieces
from mtkit.errors import FormatError, MtkitError
from mtkit.formats import get_format
from mtkit.formats.contract import WriteOptions
from mtkit.spec import AddedToken, AddedTokens, Vocabulary, normalizers, replace

TEXTS = [
    "",
    "Hello, MNN!",
    "  spaces   and\ttabs\n\n",
    "naïve Ångström ÉCOLE",
    "日本語と한국어 中文",
    "don't WON'T I'll",
    "x\u0301\u0323 y\u200dz \x00\x07",
    "[CLS] a [SEP] [MASK] <|endoftext|> b",
    "a" * 120,
    "👩‍🚀🚀",
]


def texts(seed: int) -> list[str]:
    rng = random.Random(seed)
    alphabet = "abcE é1,.' \n\u0301中한😀[]#"
    return TEXTS + ["".join(rng.choices(alphabet, k=rng.randrange(50))) for _ in range(200)]


@pytest.mark.parametrize("lower", [True, False])
def test_vocab_txt_is_bert(lower: bool, tmp_path: Path) -> None:
    transformers = reference("transformers")
    shutil.copy(FIXTURES / "wordpiece" / "vocab.txt", tmp_path)
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    ours = mtkit.load(tmp_path / "vocab.txt")
    for text in texts(1):
        assert ours.encode_ids(text) == theirs(text)["input_ids"], text
        plain = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode_ids(text, add_special_tokens=False) == plain
    pair = ours.encode("one two", "three")
    expected = theirs("one two", "three")
    assert (pair.ids, pair.type_ids) == (expected["input_ids"], expected["token_type_ids"])


def test_vocab_json_and_merges_are_gpt2(tmp_path: Path) -> None:
    transformers = reference("transformers")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(FIXTURES / "bbpe-8k" / name, tmp_path)
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    for name in ("vocab.json", "merges.txt"):
        ours = mtkit.load(tmp_path / name)
        assert ours.format_name == "vocab-merges"
        for text in texts(2):
            ids = theirs(text)["input_ids"]
            assert ours.encode_ids(text) == ids, text
            assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.eos_id == theirs.eos_token_id


@pytest.mark.parametrize(
    ("kind", "fixture"),
    [("wordpiece", "wordpiece/vocab.txt"), ("vocab-merges", "bbpe-8k/vocab.json")],
)
def test_write_undoes_read(kind: str, fixture: str) -> None:
    module = get_format(kind)
    spec = module.read(Source.open(str(FIXTURES / fixture)), {}).spec
    written = module.write(spec, WriteOptions())
    assert not written.losses
    main = next(iter(written.files))
    assert module.read(Source(main, written.files[main], siblings=written.files), {}).spec == spec


def test_tokenizer_json_to_vocab_txt_loses_nothing(tmp_path: Path) -> None:
    done = mtkit.convert(FIXTURES / "wordpiece" / "tokenizer.json", tmp_path, to="wordpiece")
    assert not [loss for loss in done.losses if loss.code.startswith("ids")]
    assert (tmp_path / "vocab.txt").read_bytes() == (
        FIXTURES / "wordpiece" / "vocab.txt"
    ).read_bytes()


@pytest.mark.parametrize("piece", ["\0", "\x1f", "#", "[", "\u4e2d", " a", "a b"])
def test_a_written_vocab_txt_is_known_again(piece: str, tmp_path: Path) -> None:
    """One with a NUL on a line, which transformers reads as a token, was taken for no text."""
    spec = mtkit.load(FIXTURES / "wordpiece" / "vocab.txt").spec
    pieces = [*spec.vocabulary.pieces, piece.encode()]
    spec = replace(spec, vocabulary=Vocabulary(Pieces.of(pieces)))
    files = get_format("wordpiece").write(spec, WriteOptions()).files
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    back = mtkit.load(tmp_path / "vocab.txt").spec
    theirs = reference("transformers").BertTokenizer.from_pretrained(tmp_path)
    assert list(back.vocabulary.pieces) == pieces
    assert theirs.convert_tokens_to_ids(piece) == len(pieces) - 1


@pytest.mark.parametrize("content", ["Qzx", "\u00e9\u00e9x", "\ufb01\ufb01", "\u1e9b\u0323"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("form", ["NFD", "NFKC", None])
def test_a_lost_normalizer_shows_when_added_tokens_are_decoded(
    content: str, normalized: bool, form: Literal["NFD", "NFKC"] | None
) -> None:
    """The library decodes a token that is found in normalized text to that, normalized."""
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    token = AddedToken(spec.vocab_size, content.encode(), normalized=normalized)
    spec = replace(
        spec,
        normalizer=None if form is None else normalizers.UnicodeForm(form),
        added_tokens=AddedTokens((token,)),
    )
    library = reference("tokenizers").Tokenizer.from_str(
        get_format("hf").write(spec, WriteOptions()).files["tokenizer.json"].decode()
    )
    made = get_format("vocab-merges").write(spec, WriteOptions())
    listed = {(loss.code, loss.field) for loss in made.losses}
    plain = replace(spec, normalizer=None)
    without = reference("tokenizers").Tokenizer.from_str(
        get_format("hf").write(plain, WriteOptions()).files["tokenizer.json"].decode()
    )
    lost = library.decode([token.id]) != without.decode([token.id])
    assert (("decoding", "normalizer") in listed) is lost


def test_damage_gives_one_clear_error() -> None:
    vocab = json.dumps({"a": 0, "b": 1, "ab": 2}).encode()
    merges = b"#version: 0.2\na b\n"
    module = get_format("vocab-merges")

    def read(vocab: bytes, merges: bytes) -> None:
        module.read(Source("vocab.json", vocab, siblings={"merges.txt": merges}), {})

    read(vocab, merges)
    for at in range(1, len(vocab) - 1):
        with pytest.raises(MtkitError):
            read(vocab[:at], merges)
    for forged in (2**31, 2**32 - 1, 2**63, 2**64 - 1, -1, 1.5):
        with pytest.raises(FormatError):
            read(vocab.replace(b"2", str(forged).encode()), merges)
    for line in (b"a b c\n", b"x y\n", b"b a\n", b"a\n"):
        with pytest.raises(FormatError):
            read(vocab, merges + line)
    with pytest.raises(FormatError):
        get_format("wordpiece").read(Source("vocab.txt", b"a\nb\n"), {})
    with pytest.raises(FormatError):
        get_format("wordpiece").read(Source("vocab.txt", b"[UNK]\n\xff\n"), {})
