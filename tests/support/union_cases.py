"""A case for every member of the closed unions: a specification and its live reference.

Everything is made here: components drawn for ``tokenizers``, models trained by ``sentencepiece``,
ranks for ``tiktoken``, vocabularies for llama.cpp. Each ``Case`` is what mtkit reads from the file
and what the reference answers.
"""

from __future__ import annotations

import base64
import ctypes
import io
import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pipeline_cases as cases
from llama import Llama
from pipeline_cases import draw_model, draw_post_processor
from support import reference

from mtkit.base.binary import Source
from mtkit.formats import gguf, hf, spm, tiktoken
from mtkit.gguf.writer import Key, gguf_bytes
from mtkit.unicode.utf8 import BYTE_LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mtkit.spec import TokenizerSpec

NASTY = [
    "", " ", "  a  b ", "Hello, World!", "don't it's", "na\u00efve e\u0301", "\u65e5\u672c\u8a9e a",
    "\U0001f468\u200d\U0001f469 x", "1234567 89", "\x01\x7f\u200b", "a\n\n\tb\r\n",
    "\u0130\u00df\ufb01",
    "\u0e01\u0e33 \u0915\u094d\u0937", "a.b-c_d|e", "\u2581ab\u2581", "abab aab",
    "\u00a0\u3000x\u2028",
    "ABC abc \uff21", "\ud55c\uad6d \u1112\u1161\u11ab", "ACGT<dna>ACGTACGT</dna> ab",
    "h\u00e9llo \u05d0\u05d1 xyz",
]  # fmt: skip


class Case(NamedTuple):
    """A specification and what its reference says.

    Attributes:
        encode: Text to ids, and offsets where the reference has them.
        decode: Ids to text.
    """

    spec: TokenizerSpec
    encode: Callable[[str], tuple[list[int], list[tuple[int, int]] | None]]
    texts: list[str]
    options: dict[str, Any]
    decode: Callable[[list[int]], str] | None = None


def of_library(tokenizer: Any, texts: list[str]) -> Case:
    """Read a tokenizer of ``tokenizers`` back as ours."""

    def encode(text: str) -> tuple[list[int], list[tuple[int, int]]]:
        found = tokenizer.encode(text)
        return found.ids, found.offsets

    def decode(ids: list[int]) -> str:
        found: str = tokenizer.decode(ids, skip_special_tokens=False)
        return found

    spec = hf.read(Source("tokenizer.json", tokenizer.to_str().encode()), {}).spec
    return Case(spec, encode, texts, {}, decode)


HEAD = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[X]", "[Y]"]


def _word_level(words: set[str]) -> Any:
    tokenizers = reference("tokenizers")
    pieces = dict.fromkeys([*HEAD, *sorted(words)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
    return tokenizers.Tokenizer(model)


def _texts(rng: random.Random) -> list[str]:
    return [*NASTY, *(cases.text(rng) for _ in range(8))]


def normalizer(kind: str, seed: int) -> Case:
    """Each character of a normalized text is a token of its own."""
    rng = random.Random(seed)
    drawn = cases.draw_normalizer(rng, kind)
    texts = _texts(rng)
    tokenizer = _word_level({c for text in texts for c in text + drawn.normalize_str(text)})
    tokenizer.normalizer = drawn
    tokenizer.pre_tokenizer = reference("tokenizers").pre_tokenizers.FixedLength(1)
    return of_library(tokenizer, texts)


def pre_tokenizer(kind: str, seed: int) -> Case:
    """Each word that the pre-tokenizer makes is a token of its own."""
    rng = random.Random(seed)
    drawn = cases.draw_pre_tokenizer(rng, kind)
    texts = _texts(rng)
    made = {word for text in texts for word, _ in drawn.pre_tokenize_str(text)}
    tokenizer = _word_level(made | set(texts))
    tokenizer.pre_tokenizer = drawn
    return of_library(tokenizer, texts)


def post_processor(kind: str, seed: int) -> Case:
    """Each three characters are a token, and special ones around them."""
    rng = random.Random(seed)
    texts = _texts(rng)
    cut = reference("tokenizers").pre_tokenizers.FixedLength(3)
    tokenizer = _word_level({word for text in texts for word, _ in cut.pre_tokenize_str(text)})
    tokenizer.pre_tokenizer = cut
    tokenizer.post_processor = draw_post_processor(rng, kind)
    return of_library(tokenizer, texts)


SPELLINGS = ["a", "b", "##c", "\u2581d", "<0xC3>", "<0xA9>", "<0xFF>", "\u0120e", "f</w>", "<pad>",
             "|", " ", "\u00e9", "'s", ".", "aa", "_x", " n't", "A", "\u2581"]  # fmt: skip


def decoder(kind: str, seed: int) -> Case:
    """Tokens that every decoder does something to, for decoding only."""
    tokenizer = _word_level(set(SPELLINGS))
    tokenizer.decoder = cases.draw_decoder(random.Random(seed), kind)
    return of_library(tokenizer, [])


def model(kind: str, seed: int) -> Case:
    """A model of the library over a drawn vocabulary, on texts made of its pieces."""
    rng = random.Random(seed)
    drawn = draw_model(rng)
    while type(drawn).__name__ != kind:
        drawn = draw_model(rng)
    tokenizers = reference("tokenizers")
    tokenizer = tokenizers.Tokenizer(drawn)
    if seed % 2:
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    pieces = sorted(tokenizer.get_vocab())
    made = ["".join(rng.choices(pieces, k=rng.randint(1, 6))) for _ in range(30)]
    return of_library(tokenizer, [*NASTY, *made])


def trained(kind: str, seed: int) -> Case:
    """A model trained by sentencepiece."""
    library = reference("sentencepiece")
    rng = random.Random(seed)
    words = [
        "Hello", "hello", "world", "a", "ab", "abab", "don't", "1234", "日本語", "naïve", "x.y",
    ]  # fmt: skip
    file = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(rng.choices(words, k=9)) for _ in range(200)]),
        model_writer=file,
        model_type=kind,
        vocab_size=330,
        hard_vocab_limit=False,
        byte_fallback=seed % 2 == 0,
        user_defined_symbols=["<sep>", "ab"],
        num_threads=1,
        minloglevel=2,
    )
    processor = library.SentencePieceProcessor(model_proto=file.getvalue())
    spec = spm.read(Source("tokenizer.model", file.getvalue()), {}).spec
    texts = [*NASTY, "<sep>ab <sep> ", *(cases.text(rng) for _ in range(12))]
    return Case(spec, lambda text: (processor.encode(text), None), texts, {}, processor.decode)


def ranks(seed: int) -> Case:
    """Random ranks, to ``tiktoken`` as they are and to us as a file."""
    rng = random.Random(seed)
    pieces = [bytes([value]) for value in rng.sample(range(256), 256)]
    while len(pieces) < 400:
        piece = rng.choice([b"a", b"b", b" ", b"\xc3", *pieces[256:]]) + rng.choice(pieces)
        if piece not in pieces:
            pieces.append(piece)
    pattern = r"\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+|[^\s\p{L}\p{N}]+"
    theirs = reference("tiktoken").Encoding(
        "x",
        pat_str=pattern,
        mergeable_ranks={piece: rank for rank, piece in enumerate(pieces)},
        special_tokens={},
    )
    rows = (base64.b64encode(piece) + b" %d\n" % rank for rank, piece in enumerate(pieces))
    beside = {"pattern.json": json.dumps({"pattern": pattern}).encode()}
    spec = tiktoken.read(Source("x.tiktoken", b"".join(rows), siblings=beside), {}).spec
    texts = [*NASTY, *(cases.text(rng) for _ in range(12))]
    return Case(spec, lambda text: (theirs.encode_ordinary(text), None), texts, {}, theirs.decode)


BYTES = [b"<0x%02X>" % value for value in range(256)]
ALPHABET = [letter.encode() for letter in BYTE_LETTERS]
RUNS = [run + "\ue000".encode() for run in (b"ACGTAC", b"GTAAAA", b"ACGTAA")]
VOCABULARIES: dict[str, tuple[list[bytes], str]] = {
    "rwkv": ([b"<s>", *(b"\\x%02x" % value for value in range(256)), b"ab", b" a", b"abab"], ""),
    "plamo2": (
        [b"<|plamo:unk|>", b"<|plamo:bos|>", b"<|plamo:eos|>", *BYTES, b"a", b"ab", b"b a", b" "],
        "",
    ),
    "hybriddna": ([*ALPHABET, b"ab", b"<dna>", b"</dna>", b"<oov>", *RUNS], "gpt-2"),
    "gpt2": ([*ALPHABET, b"ab", b"12", b"123", b"45", b"456"], "afmoe"),
}
MERGES = {"hybriddna": [b"a b"], "gpt2": [b"a b", b"1 2", b"12 3", b"4 5", b"45 6"]}


def llama_cpp(name: str, path: Path) -> Case:
    """A vocabulary as GGUF, in llama.cpp itself."""
    tokens, pre = VOCABULARIES[name]
    kinds = [6 if token in BYTES else 1 for token in tokens]
    if name in {"rwkv", "plamo2"}:
        kinds[0] = 2
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("tokenizer.ggml.model", "string", name),
        Key("tokenizer.ggml.pre", "string", pre or "default"),
        Key("tokenizer.ggml.tokens", "string[]", tokens),
        Key("tokenizer.ggml.scores", "f32[]", [-float(at % 7) for at in range(len(tokens))]),
        Key("tokenizer.ggml.token_type", "i32[]", kinds),
    ]
    if name in MERGES:
        keys.append(Key("tokenizer.ggml.merges", "string[]", MERGES[name]))
    path.write_bytes(gguf_bytes(keys))
    spec = gguf.read(Source.open(str(path)), {}).spec
    llama = Llama(path)

    def encode(text: str) -> tuple[list[int], None]:
        return llama.encode(text.encode(), add=False, parse=False), None

    def decode(ids: list[int]) -> str:
        buffer = bytearray()
        room = ctypes.create_string_buffer(64)
        for token_id in ids:
            size = llama.api.llama_token_to_piece(llama.vocab, token_id, room, 64, 0, True)
            buffer += room.raw[:size]
        return buffer.decode("utf-8", "replace")

    options = {"add_special_tokens": False, "parse_special": False}
    return Case(spec, encode, [*NASTY, "1234 12 123456 4567"], options, decode)
