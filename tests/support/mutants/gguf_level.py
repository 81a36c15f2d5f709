"""Changes of a GGUF's keys and values; the file is laid out anew around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gguf_layout import ARRAY, BOOL, CODES, F32, F64, I32, STRING, Layout

from mtkit.base.binary import Source
from mtkit.errors import MtkitError
from mtkit.formats.gguf.metadata import ID_KEYS, KINDS
from mtkit.formats.gguf.pre_tokenizers import NAMES
from mtkit.gguf import open_gguf
from mutants import byte_level
from mutants.json_level import STRINGS

if TYPE_CHECKING:
    from random import Random

    from mtkit.gguf import GgufArray

    Key = tuple[bytes, int, Any]

PREFIX = b"tokenizer.ggml."
KEYS = (b"general.alignment", b"split.count", b"llama.context_length", b"llama.embedding_length",
        *(PREFIX + name.encode() for name in ID_KEYS.values()),
        *(PREFIX + name for name in (b"add_bos_token", b"add_eos_token", b"add_space_prefix",
          b"remove_extra_whitespaces", b"precompiled_charsmap", b"merges", b"scores", b"token_type",
          b"pre", b"model", b"token_type_count", b"eos_token_ids")))  # fmt: skip
NUMBERS = (0, 1, -1, 2, 5, 100, 256, (1 << 31) - 1, (1 << 32) - 1, 1 << 63)
FLOATS = (0.0, -1.5, 1e30, float("nan"), float("inf"), -float("inf"))
TEXTS = (*(text.encode("utf-8", "surrogatepass") for text in STRINGS), b"\xff", b"a b", b" ",
         b"a  b", b"<0xZZ>", b"x\0y", b"\\x", b"[UNK_BYTE_0x", b"##", b"<|endoftext|>")  # fmt: skip


def mutate(rng: Random, data: bytes) -> bytes:
    """Change one key, one value, or what stands around them."""
    try:
        file = open_gguf(Source("a.gguf", data))
    except MtkitError:
        return byte_level.mutate(rng, data)
    keys: list[Key] = [
        (_bytes(key), entry.type.number, _plain(entry.value))
        for key, entry in file.metadata.entries.items()
    ]
    at = rng.randrange(len(keys)) if keys else 0
    match rng.randrange(10):
        case 0 if keys:
            del keys[at]
        case 1 if keys:
            keys.append(rng.choice(keys))
        case 2:
            keys.append((rng.choice(KEYS), *_drawn(rng)))
        case 3 if keys:
            keys[at] = (rng.choice(KEYS), *keys[at][1:])
        case 4 if keys:
            keys[at] = (keys[at][0], *_drawn(rng))
        case 5:
            name = rng.choice(sorted(KINDS)).encode()
            keys = [(PREFIX + b"model", STRING, name), *keys]
            keys = list({key: (key, *rest) for key, *rest in reversed(keys)}.values())[::-1]
        case 6:
            keys = [entry for entry in keys if entry[0] != PREFIX + b"pre"]
            keys.append((PREFIX + b"pre", STRING, rng.choice(sorted(NAMES)).encode()))
        case _ if keys:
            key, kind, value = keys[at]
            keys[at] = (key, *_changed(rng, kind, value))
    layout = Layout()
    # Tensors and their data stand as they were, behind a table of another length.
    tensors = [
        layout.tensor(_bytes(tensor.name), tensor.shape, tensor.type.number, tensor.offset)
        for tensor in file.tensors
    ]
    written = [layout.key(key, kind, value) for key, kind, value in keys]
    return layout.file(written, tensors, bytes(data[file.data_offset :]))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _bytes(value)
    if not hasattr(value, "element"):
        return value
    array: GgufArray = value
    return array.element.number, [_plain(item) for item in array]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _changed(rng: Random, kind: int, value: Any) -> tuple[int, Any]:
    """Return type and value, changed a little."""
    if kind == STRING:
        return kind, rng.choice((rng.choice(TEXTS), value + rng.choice(TEXTS), value[:-1]))
    if kind != ARRAY:
        return kind, _scalar(rng, kind)
    element, items = value
    at = rng.randrange(len(items)) if items else 0
    match rng.randrange(5):
        case 0:
            items = items[:at]
        case 1:
            items = [*items, *items[at : at + 1]]
        case 2 if len(items) > 1:
            items = [*items[1:], items[0]]
        case _ if items:
            items = [*items]
            items[at] = _changed(rng, element, items[at])[1]
    return ARRAY, (element, items)


def _drawn(rng: Random) -> tuple[int, Any]:
    """Return a type and a value of it."""
    kind = rng.choice((*CODES, STRING, STRING, ARRAY, ARRAY))
    if kind == STRING:
        return kind, rng.choice(TEXTS)
    if kind != ARRAY:
        return kind, _scalar(rng, kind)
    element = rng.choice((STRING, I32, F32, BOOL, 4, 0))
    items = [
        rng.choice(TEXTS) if element == STRING else _scalar(rng, element)
        for _ in range(rng.choice((0, 1, 5, 300)))
    ]
    return ARRAY, (element, items)


def _scalar(rng: Random, kind: int) -> float:
    if kind in (F32, F64):
        return rng.choice(FLOATS)
    if kind == BOOL:
        return rng.choice((0, 1, 1, 2))
    code = CODES[kind]
    bits = {"B": 8, "H": 16, "I": 32, "Q": 64}[code.upper()]
    number = rng.choice(NUMBERS) & (1 << bits) - 1
    return number - (1 << bits) if code.islower() and number >> bits - 1 else number
