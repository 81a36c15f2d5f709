"""A small file of every format, with the files beside it, for cutting and forging everywhere."""

from __future__ import annotations

import base64
import json
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from gguf_layout import ARRAY, BOOL, F32, I32, STRING, U32, Layout

from mtkit.base.binary import Source
from mtkit.formats import hf, mtok
from mtkit.formats.contract import WriteOptions
from mtkit.formats.spm.message import encode_field
from mtkit.unicode.utf8 import letters_of_bytes

if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

ALPHABET = [letters_of_bytes(bytes([value])) for value in range(256)]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
              "use_regex": False}  # fmt: skip
SPLIT = {"type": "Split", "pattern": {"Regex": r"'s|\p{L}+| ?\p{N}{1,3}|\s+(?!\S)|\s+|."},
         "behavior": "Isolated", "invert": False}  # fmt: skip
PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
ADDED = [
    {"id": 12, "content": "<x>", **PLAIN, "special": True},
    {"id": 13, "content": "<y>", **PLAIN, "normalized": True, "special": False},
]
DOCUMENTS: dict[str, dict[str, Any]] = {
    "bpe": {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, BYTE_LEVEL]},
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "ignore_merges": True, "merges": [["a", "b"], ["ab", "c"]],
                  "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5, "1": 6}},
    },
    "wordpiece": {
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 2]},
        "model": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {"a": 0, "##b": 1, "b": 2, "bc": 3}},
    },
    "unigram": {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                  "vocab": [["<u>", 0.0], ["a", -1.5], ["b", -2], ["ab", -1], ["\u2581", -3]]},
    },
    "wordlevel": {
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 3}},
    },
}  # fmt: skip


def document(name: str) -> bytes:
    """Return a small tokenizer.json."""
    return json.dumps({"version": "1.0", "added_tokens": ADDED, **DOCUMENTS[name]}).encode()


def spec(name: str) -> TokenizerSpec:
    """Return a small specification."""
    return hf.read(Source("tokenizer.json", document(name)), {}).spec


BYTE_TOKENS = [b"<0x%02X>" % value for value in range(256)]
VOCABULARIES: dict[str, tuple[list[bytes], int]] = {
    "llama": ([b"<unk>", b"a", b"b", b"ab", "\u2581".encode(), *BYTE_TOKENS], 6),
    "gpt2": ([letter.encode() for letter in ALPHABET] + [b"ab"], 1),
    "bert": ([b"[UNK]", b"[CLS]", b"[SEP]", "\u2581a".encode(), b"b", b"##b"], 1),
    "t5": ([b"<unk>", b"a", b"b", b"ab", "\u2581".encode(), b"\n"], 1),
    "rwkv": ([b"<s>", *(b"\\x%02x" % value for value in range(256)), b"ab"], 1),
}
"""Model -> pieces, and the type of those in angle brackets."""


def gguf_file(model: str) -> bytes:
    """Return the vocabulary of a GGUF, laid out by hand."""
    layout = Layout()
    pieces, kind = VOCABULARIES[model]
    kinds = [kind if piece.startswith(b"<0x") else 1 for piece in pieces]
    if model != "gpt2":
        kinds[0] = 2
    scores = [-float(at) for at in range(len(pieces))]
    keys = [
        layout.key(b"general.architecture", STRING, b"llama"),
        layout.key(b"tokenizer.ggml.model", STRING, model.encode()),
        layout.key(b"tokenizer.ggml.pre", STRING, b"default"),
        layout.key(b"tokenizer.ggml.tokens", ARRAY, (STRING, pieces)),
        layout.key(b"tokenizer.ggml.scores", ARRAY, (F32, scores)),
        layout.key(b"tokenizer.ggml.token_type", ARRAY, (I32, kinds)),
        layout.key(b"tokenizer.ggml.bos_token_id", U32, 1),
        layout.key(b"tokenizer.ggml.unknown_token_id", U32, 0),
        layout.key(b"tokenizer.ggml.seperator_token_id", U32, 2),
        layout.key(b"tokenizer.ggml.add_bos_token", BOOL, 1),
        layout.key(b"tokenizer.chat_template", STRING, b"{{ messages[0].content }}"),
    ]
    if model == "gpt2":
        keys.append(layout.key(b"tokenizer.ggml.merges", ARRAY, (STRING, [b"a b"])))
    return layout.file(keys, [layout.tensor(b"t", (4,), 0, 0)], bytes(16))


def _spm() -> bytes:
    """Return a tokenizer.model."""
    pieces = [(b"<unk>", 0.0, 2), (b"<s>", 0.0, 3), (b"</s>", 0.0, 3)]
    pieces += [("\u2581".encode(), -1.0, 1), (b"a", -2.0, 1), (b"aa", -1.5, 1)]
    out = b""
    for text, score, kind in pieces:
        out += encode_field(
            1, encode_field(1, text) + b"\x15" + struct.pack("<f", score) + encode_field(3, kind)
        )
    trainer = encode_field(3, 2) + encode_field(4, len(pieces)) + encode_field(35, 0)
    charsmap = struct.pack("<I", 1024) + bytes(1024) + b"x\0"
    return (
        out
        + encode_field(2, trainer)
        + encode_field(3, encode_field(1, b"x") + encode_field(2, charsmap) + encode_field(3, 1))
    )


def _llama2c() -> bytes:
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % value for value in range(256)]
    tokens += [b" ", b"a", b"aa"]
    return struct.pack("<I", 8) + b"".join(
        struct.pack("<fi", -float(at), len(token)) + token for at, token in enumerate(tokens)
    )


def _ranks() -> bytes:
    pieces = [bytes([value]) for value in range(256)] + [b"ab", b"abc"]
    return b"".join(base64.b64encode(piece) + b" %d\n" % rank for rank, piece in enumerate(pieces))


def _rwkv() -> bytes:
    rows = "".join(f"{at} b'\\x{at - 1:02x}' 1\n" for at in range(1, 257))
    return f"{rows}257 'ab' 2\n".encode()


PLAMO_CONFIG = json.dumps({"bos_token": "<|plamo:bos|>", "unk_token": "<|plamo:unk|>"}).encode()


def _plamo() -> bytes:
    rows: list[list[Any]] = [["<|plamo:unk|>", 0.0, "UNKNOWN"], ["<|plamo:bos|>", 0.0, "CONTROL"]]
    rows += [[byte.decode(), 0.0, "BYTE"] for byte in BYTE_TOKENS]
    rows += [["<|plamo:op|>", 0.0, "NORMAL"], ["a", -1.5, "NORMAL"], ["ab", -2, "NORMAL"]]
    return "".join(f"{json.dumps([*row, 0])}\n" for row in rows).encode()


def _tekken() -> bytes:
    pieces = [bytes([value]) for value in range(256)] + [b"ab"]
    return json.dumps({
        "config": {"pattern": r"\p{L}+|\s+|.", "num_vocab_tokens": 257,
                   "default_vocab_size": 259, "default_num_special_tokens": 2, "version": "v3"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(piece).decode(),
                   "token_str": None} for rank, piece in enumerate(pieces)],
        "special_tokens": [{"rank": 0, "token_str": "<unk>", "is_control": True},
                           {"rank": 1, "token_str": "<s>", "is_control": True}],
    }).encode()  # fmt: skip


def _mnn_text(kind: int) -> bytes:
    words = [base64.b64encode(word).decode() for word in (b"<unk>", b"<s>", b"a", b"ab", b"##c")]
    if kind == 0:
        rows = "".join(f"{word} -1.5 {i + 2 if i < 2 else 1}\n" for i, word in enumerate(words))
        return f"430 0\n1 0 1\n1 1\n5\n{rows}".encode()
    if kind == 1:
        words = [base64.b64encode(bytes([value])).decode() for value in range(256)]
        words.append(base64.b64encode(b"ab").decode())
    if kind == 3:
        return b"430 3\n0 1 0\n2\n3 1\na\nb\nab\na b\n"
    return (
        f"430 {kind}\n0 0 0\n\n{len(words)}\n".encode() + "".join(f"{w}\n" for w in words).encode()
    )


PATTERN = json.dumps({"pattern": r"\p{L}+|\s+|.", "special_tokens": {"<e>": 300}}).encode()
VOCAB = json.dumps({letter: at for at, letter in enumerate([*ALPHABET, "ab", "abc"])}).encode()
MERGES = b"#version: 0.2\na b\nab c\n"


def _mtok(name: str, *, extension: bool) -> bytes:
    options = WriteOptions(extension=extension)
    return mtok.write(spec(name), options).files[".mtok"]


@cache
def sources() -> dict[str, Source]:
    """Return name -> file; the part of the name before a colon is the format."""
    files: dict[str, tuple[str, bytes, dict[str, bytes]]] = {
        "gguf:llama": ("a.gguf", gguf_file("llama"), {}),
        "gguf:gpt2": ("a.gguf", gguf_file("gpt2"), {}),
        "gguf:bert": ("a.gguf", gguf_file("bert"), {}),
        "gguf:t5": ("a.gguf", gguf_file("t5"), {}),
        "gguf:rwkv": ("a.gguf", gguf_file("rwkv"), {}),
        "spm": ("tokenizer.model", _spm(), {}),
        "llama2c": ("tokenizer.bin", _llama2c(), {}),
        "tiktoken": ("a.tiktoken", _ranks(), {"pattern.json": PATTERN}),
        "tekken": ("tekken.json", _tekken(), {}),
        "rwkv": ("rwkv_vocab.txt", _rwkv(), {}),
        "plamo": ("tokenizer.jsonl", _plamo(), {"tokenizer_config.json": PLAMO_CONFIG}),
        "vocab-merges": ("vocab.json", VOCAB, {"vocab.json": VOCAB, "merges.txt": MERGES}),
        "vocab-merges:merges": (
            "merges.txt", MERGES, {"vocab.json": VOCAB, "merges.txt": MERGES},
        ),
        "wordpiece": ("vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nab\n", {}),
    }  # fmt: skip
    for kind in range(4):
        files[f"mnn-text:{kind}"] = ("tokenizer.txt", _mnn_text(kind), {})
    for name in DOCUMENTS:
        files[f"hf:{name}"] = ("tokenizer.json", document(name), {})
        files[f"mtok:{name}"] = ("a.mtok", _mtok(name, extension=True), {})
        files[f"mtok:{name}, bare"] = ("a.mtok", _mtok(name, extension=False), {})
    return {
        name: Source(file, data, siblings=beside) for name, (file, data, beside) in files.items()
    }
