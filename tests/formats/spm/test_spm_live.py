"""Models trained here, in many settings, encode and decode as the sentencepiece library does.

Random small models besides: user-defined, unused, control and byte pieces where trainers never
put them, scores with ties.
"""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterable
from typing import Any

import pytest
from support import FIXTURES, reference

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.formats import spm
from mtkit.formats.contract import WriteOptions
from mtkit.formats.spm.message import encode_field
from mtkit.pipeline import Pipeline

TEXT = (
    "the quick brown fox jumps over lazy dogs 1234 3.14 tokens token tokenize détour café über "
    "naïve straße 日本語 日本 中文 世界 привет мир hello world Hello World code() {x: 1} -> => "
    "<sep> [UD] <ctl> aaa aaaa abab ﬁne ① Å a\u0301"
)
UNITS = [
    *"aabcxyz 09.,!<>[]()\n\t",
    "  ", "\u2581", "é", "e\u0301", "日", "本", "🙂", "👩‍👧", "ﬁ", "Ａ", "①", "\u00a0", "\u3000",
    "\u200b", "\ufeff", "\ufffd", "\0", "\x7f", "İ", "ß", "한", "각", "<sep>", "[UD]", "<ctl>",
    "<s>", "</s>", "<unk>", "<0x41>", "hello", "world", "token", "the ", "日本語", "𝒜", "\r\n",
]  # fmt: skip


def sentences() -> list[str]:
    chance = random.Random(7)
    words = TEXT.split(" ")
    return [" ".join(chance.choices(words, k=chance.randint(3, 14))) for _ in range(600)]


def nasty(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    made = ["".join(chance.choices(UNITS, k=chance.randint(1, 16))) for _ in range(count)]
    return [*made, "", " ", "  a  ", "a" * 300, "ab" * 200, "x" * 50, " " * 40, "🙂" * 30]


SETTINGS: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "unigram-identity": {"model_type": "unigram", "normalization_rule_name": "identity"},
    "unigram-cf": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "unigram-nfkc": {"model_type": "unigram", "normalization_rule_name": "nfkc"},
    "unigram-bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 420},
    "unigram-user": {
        "model_type": "unigram",
        "user_defined_symbols": ["<sep>", "[UD]", "ab", "日本", "  "],
        "control_symbols": ["<ctl>"],
        "unk_surface": "?!",
    },
    "unigram-suffix": {"model_type": "unigram", "treat_whitespace_as_suffix": True},
    "unigram-spaces": {
        "model_type": "unigram",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "allow_whitespace_only_pieces": True,
    },
    "bpe": {"model_type": "bpe"},
    "bpe-bytes": {
        "model_type": "bpe",
        "byte_fallback": True,
        "split_digits": True,
        "normalization_rule_name": "identity",
        "vocab_size": 480,
    },
    "bpe-user": {
        "model_type": "bpe",
        "user_defined_symbols": ["<sep>", "[UD]", "ab", "日本", "a"],
        "control_symbols": ["<ctl>"],
        "remove_extra_whitespaces": False,
    },
    "bpe-prefix": {
        "model_type": "bpe",
        "add_dummy_prefix": False,
        "normalization_rule_name": "nmt_nfkc_cf",
    },
    "bpe-suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True},
    "bpe-ids": {
        "model_type": "bpe",
        "pad_id": 0,
        "unk_id": 3,
        "bos_id": -1,
        "eos_id": 1,
        "pad_piece": "[PAD]",
        "eos_piece": "[END]",
    },
    "char": {"model_type": "char", "vocab_size": 40, "user_defined_symbols": ["<sep>", "ab"]},
    "char-bytes": {"model_type": "char", "byte_fallback": True, "vocab_size": 290},
    "word": {"model_type": "word", "vocab_size": 60},
    "word-bytes": {
        "model_type": "word",
        "byte_fallback": True,
        "vocab_size": 330,
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
    },
    "unigram-phrases": {"model_type": "unigram", "split_by_whitespace": False},
    "unigram-phrases-suffix": {
        "model_type": "unigram",
        "split_by_whitespace": False,
        "treat_whitespace_as_suffix": True,
        "remove_extra_whitespaces": False,
    },
    "unigram-scripts": {
        "model_type": "unigram",
        "split_by_unicode_script": False,
        "split_by_number": False,
        "max_sentencepiece_length": 5,
    },
    "unigram-coverage": {
        "model_type": "unigram",
        "character_coverage": 0.98,
        "required_chars": "xyz",
        "byte_fallback": True,
        "vocab_size": 330,
    },
    "unigram-ids": {
        "model_type": "unigram",
        "unk_id": 2,
        "bos_id": 5,
        "eos_id": -1,
        "pad_id": 0,
        "unk_piece": "<?>",
    },
    "unigram-rules": {"model_type": "unigram", "normalization_rule_tsv": "RULES"},
    "unigram-digits": {"model_type": "unigram", "split_digits": True},
    "word-all": {"model_type": "word", "vocab_size": 90, "use_all_vocab": True},
    "bpe-phrases": {
        "model_type": "bpe",
        "split_by_whitespace": False,
        "allow_whitespace_only_pieces": True,
        "remove_extra_whitespaces": False,
    },
    "bpe-coverage": {"model_type": "bpe", "character_coverage": 0.98, "unk_surface": "?"},
    "char-spaces": {
        "model_type": "char",
        "vocab_size": 60,
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "treat_whitespace_as_suffix": True,
    },
    "word-spaces": {
        "model_type": "word",
        "vocab_size": 90,
        "remove_extra_whitespaces": False,
        "treat_whitespace_as_suffix": True,
        "user_defined_symbols": ["<sep>", "[UD]"],
    },
    "denormalized": {"model_type": "bpe", "denormalization_rule_tsv": "RULES"},
}


def compare(data: bytes, texts: Iterable[str | bytes], chance: random.Random) -> None:
    """Compare ids of texts, decoding of those ids and of random ones, and the way back."""
    library = reference("sentencepiece")
    processor = library.SentencePieceProcessor(model_proto=data)
    spec = spm.read(Source("tokenizer.model", data), {}).spec
    assert spm.write(spec, WriteOptions()).files[".model"] == data
    pipeline, engine = Pipeline(spec), load_engine(spec)
    for role in ("bos", "eos", "pad", "unk"):
        found = getattr(spec.special_ids, role)
        assert (-1 if found is None else found) == getattr(processor, f"{role}_id")()
    for text in texts:
        ids = processor.encode(text)
        encoded = pipeline.encode(text)
        assert encoded.ids == ids, text
        assert engine.encode_ids(text) == ids, text
        if isinstance(text, str):
            assert encoded.tokens == processor.encode_as_pieces(text), text
        assert pipeline.decode(ids) == processor.decode(ids), text
    size = processor.vocab_size()
    for _ in range(150):
        ids = [chance.randrange(min(size, chance.choice([8, 300, size]))) for _ in range(9)]
        assert pipeline.decode(ids) == processor.decode(ids), ids


@pytest.mark.parametrize("name", SETTINGS)
def test_trained(name: str, tmp_path: Any) -> None:
    settings = {"vocab_size": 200, "hard_vocab_limit": False, "self_test_sample_size": 3}
    settings |= SETTINGS[name]
    for setting, value in settings.items():
        if value == "RULES":
            rules = tmp_path / "rules.tsv"
            rules.write_text("0061\t0041 0041\n65E5 672C\t004A\n", "utf-8")
            settings[setting] = str(rules)
    model = io.BytesIO()
    reference("sentencepiece").SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=model,
        minloglevel=2,
        num_threads=1,
        **settings,
    )
    compare(model.getvalue(), nasty(len(name), 350), random.Random(3))


def model_file(
    chance: random.Random, kind: int, byte_fallback: bool, scale: float = 1, words: bool = False
) -> bytes:
    """A random model over a handful of characters; with words: U+2581 only begins pieces."""
    letters = ["a", "b", "é", "\u2581", "日"]
    texts = dict.fromkeys(letters[: chance.randint(3, 5)])
    for _ in range(30):
        text = "".join(chance.choices(letters, k=chance.randint(2, 5)))
        texts[text[0] + text[1:].replace("\u2581", "a") if words else text] = None
    control = "b" if chance.random() < 0.2 else "<s>"
    texts.pop(control, None)
    rows: list[tuple[bytes, float, int]] = [(b"<unk>", 0.0, 2), (control.encode(), 0.0, 3)]
    if byte_fallback:
        rows += [(b"<0x%02X>" % byte, 0.0, 6) for byte in range(256)]
    for text in texts:
        role = chance.choices([1, 4, 5], [8, 1, 2])[0]
        score = chance.choice([-1.0, -2.0, -2.5, chance.uniform(-12, 0)])
        rows.append((text.encode(), score * scale, role))
    data = b""
    for text, score, role in rows:
        data += encode_field(
            1, encode_field(1, text) + b"\x15" + struct.pack("<f", score) + encode_field(3, role)
        )
    trainer = encode_field(3, kind) + encode_field(35, int(byte_fallback))
    flags = [encode_field(n, int(chance.random() < 0.5)) for n in (3, 4)]
    return data + encode_field(2, trainer) + encode_field(3, b"".join(flags))


@pytest.mark.parametrize("seed", range(60))
def test_random_models(seed: int) -> None:
    chance = random.Random(seed)
    data = model_file(chance, 1 + seed % 4, chance.random() < 0.5)
    units = ["a", "b", "é", "日", " ", "\u2581", "x", "🙂", "ab", "aa", "<s>"]
    texts = ["".join(chance.choices(units, k=chance.randint(1, 14))) for _ in range(120)]
    compare(data, texts, chance)


@pytest.mark.parametrize("seed", range(24))
def test_long_texts_of_words_that_come_again(seed: int) -> None:
    """Sums of scores lose digits as they grow, and begin again beyond 100,000."""
    chance = random.Random(seed)
    scale = (1e-3, 1, 40, 300, 5000, 2e5)[seed % 6]
    data = model_file(chance, 1, chance.random() < 0.5, scale, words=seed % 4 != 0)
    processor = reference("sentencepiece").SentencePieceProcessor(model_proto=data)
    spec = spm.read(Source("tokenizer.model", data), {}).spec
    words = ["".join(chance.choices("aabbé日x", k=chance.randint(1, 9))) for _ in range(40)]
    for count in (100, 1000, 3000):
        text = " ".join(chance.choices(words, k=count))
        ids = processor.encode(text)
        assert load_engine(spec).encode_ids(text) == ids
        if count < 3000:
            assert Pipeline(spec).encode_ids(text) == ids


@pytest.mark.parametrize("name", ["spm-bpe", "spm-unigram", "spm-unigram-id"])
def test_bytes_that_are_no_utf8(name: str) -> None:
    data = (FIXTURES / name / "tokenizer.model").read_bytes()
    chance = random.Random(5)
    parts = [b"a", b"the ", "é".encode(), b"\xff", b"\xc3", b"\xe6\x97", b"\xed\xa0\x80", b" "]
    parts += [b"\xf0\x9f\x99", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\x80", "\ufffd".encode()]
    texts = [b"".join(chance.choices(parts, k=chance.randint(1, 9))) for _ in range(300)]
    compare(data, texts, chance)


def test_a_long_text_takes_no_time() -> None:
    """64 KB without a space; quadratic merging would take minutes."""
    for name in ("spm-bpe", "spm-unigram"):
        data = (FIXTURES / name / "tokenizer.model").read_bytes()
        processor = reference("sentencepiece").SentencePieceProcessor(model_proto=data)
        pipeline = Pipeline(spm.read(Source("tokenizer.model", data), {}).spec)
        for text in ("ab" * 8192, "a" * 16384, "日本" * 5000):
            assert pipeline.encode_ids(text) == processor.encode(text)
