"""Small GGUF vocabularies, made of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers
from mtkit.formats import gguf
from mtkit.gguf.writer import Key, gguf_bytes
from mtkit.spec import TokenType
from mtkit.unicode.utf8 import BYTE_OF_LETTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.spec import TokenizerSpec

WORDS = {
    "gpt2": [*(letter.encode() for letter in sorted(BYTE_OF_LETTER)), b"he", b"<|a|>", b"<|b|>"],
    "llama": [
        *(b"<unk>", b"<s>", b"</s>"),
        *(b"<0x%02X>" % byte for byte in range(256)),
        *(b"\xe2\x96\x81", b"h", b"e", b"he", b"\xe2\x96\x81he", b"<|a|>", b"<|b|>"),
    ],
    "t5": [
        *(b"<pad>", b"</s>", b"<unk>", b"\xe2\x96\x81", b"h", b"e", b"\xe2\x96\x81he", b","),
        *(b"<|a|>", b"<|b|>"),
    ],
    "bert": [
        *(b"[PAD]", b"[CLS]", b"[SEP]", b"[UNK]", b"[MASK]"),
        *(b"\xe2\x96\x81%d" % number for number in range(100)),
        *(b"\xe2\x96\x81he", b"he", b"\xe2\x96\x81,", b"[A]", b"[B]"),
    ],
}
"""Model -> texts. As in GPT-2's vocabulary id 11 of the first is a comma."""
CONTROL = {b"<|a|>", b"<|b|>", b"<s>", b"</s>", b"<pad>", b"[A]", b"[B]"}


def small_gguf(
    model: str,
    numbers: Mapping[str, int] | None = None,
    flags: Mapping[str, bool] | None = None,
    words_of: str = "",
    architecture: str = "llama",
    **texts: str,
) -> bytes:
    """Return a vocabulary of a model with further keys behind ``tokenizer.ggml.``.

    Args:
        model: ``tokenizer.ggml.model``.
        numbers: Name of a key -> its number.
        flags: Name of a key -> its flag.
        architecture: ``general.architecture``.
        words_of: The model whose texts it has, where that is another one.
        texts: Name of a key -> its text.
    """
    kind = words_of or model
    words = WORDS[kind]
    types = [TokenType.CONTROL if word in CONTROL else TokenType.NORMAL for word in words]
    if kind in ("llama", "t5"):
        types[words.index(b"<unk>")] = TokenType.UNKNOWN
    if kind == "llama":
        types[3:259] = [TokenType.BYTE] * 256
    keys = [
        Key("general.architecture", "string", architecture),
        Key("tokenizer.ggml.model", "string", model),
        Key("tokenizer.ggml.tokens", "string[]", words),
        Key("tokenizer.ggml.token_type", "i32[]", [int(kind) for kind in types]),
    ]
    if model in ("llama", "t5"):
        scores = [-float(number) for number in range(len(words))]
        keys.append(Key("tokenizer.ggml.scores", "f32[]", Numbers.of("f", scores)))
    if model in ("gpt2", "gemma4", "whitespace"):
        keys.append(Key("tokenizer.ggml.merges", "string[]", [b"h e"]))
    keys += [Key(f"tokenizer.ggml.{name}", "string", text) for name, text in texts.items()]
    keys += [Key(f"tokenizer.ggml.{name}", "u32", n) for name, n in (numbers or {}).items()]
    keys += [Key(f"tokenizer.ggml.{name}", "bool", flag) for name, flag in (flags or {}).items()]
    return gguf_bytes(keys)


def spec_of(data: bytes) -> TokenizerSpec:
    """Read a GGUF that lies in memory."""
    return gguf.read(Source("small.gguf", data), {}).spec
