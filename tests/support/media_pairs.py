"""Small random models that see or hear, with their projectors, and own pictures for them.

Keys and shapes are those that llama.cpp's converter wrote for small folders of these classes; the
values are drawn here, and the vocabulary is that of the model in the package.
"""

from __future__ import annotations

import json
import lzma
import os
import struct
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from support import CACHE, reference

from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.sources.locate import MODEL, shipped

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent.parent / "data"
SEEING = ("gemma3", "qwen2vl", "qwen25vl", "idefics3", "pixtral", "internvl")
HEARING = "qwen2audio"
_SPECIAL = (
    "<fake_token_around_image>", "<global-img>", "<image>", "<end_of_utterance>", "[IMG]",
    "[IMG_BREAK]", "[IMG_END]", "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>", "<|vision_start|>",
    "<|vision_end|>", "<start_of_image>", "<end_of_image>", "<img>", "</img>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)),
)  # fmt: skip
_NAMED = {kind.name: kind for kind in TENSOR_TYPES.values()}
_TYPES = {"F32": np.float32, "F16": np.float16}


@cache
def _headers() -> dict[str, Any]:
    return json.loads(lzma.decompress((DATA / "media_pairs.json.xz").read_bytes()))


def pair(name: str) -> Path:
    """Return the folder of a model (model.gguf) and its projector (mmproj.gguf)."""
    reference("llama_cpp")
    folder = CACHE / "media-1" / name
    if not (folder / "mmproj.gguf").exists():
        part = folder.with_name(f"{name}.{os.getpid()}.part")
        part.mkdir(parents=True)
        random = np.random.default_rng(zlib.crc32(name.encode()))
        own = open_gguf(shipped(MODEL)).metadata
        vocabulary = {key: own[key] for key in own if key.startswith("tokenizer.")}
        tokens = [*vocabulary["tokenizer.ggml.tokens"], *_SPECIAL]
        vocabulary["tokenizer.ggml.tokens"] = tokens
        kinds = [*vocabulary["tokenizer.ggml.token_type"], *[3] * len(_SPECIAL)]
        vocabulary["tokenizer.ggml.token_type"] = kinds
        for kind, more in (("model", vocabulary), ("mmproj", {})):
            header = _headers()[name][kind]
            keys = [
                _key(*row) for row in {**header["keys"], **more}.items() if "vocab" not in row[0]
            ]
            tensors = [_tensor(random, len(tokens), *row) for row in header["tensors"]]
            write_gguf(str(part / f"{kind}.gguf"), keys, tensors)
        with suppress(OSError):  # another process was faster
            part.rename(folder)
    return folder


def _key(name: str, value: Any) -> Key:
    kinds = {bool: "bool", int: "u32", float: "f32", str: "string"}
    if isinstance(value, (list, tuple)) or not isinstance(value, (bool, int, float, str)):
        value = list(value)
        kind = kinds[type(value[0])]
        return Key(name, ("i32" if kind == "u32" else kind) + "[]", value)
    return Key(name, kinds[type(value)], value)


def _tensor(random: Any, n_vocab: int, name: str, kind: str, shape: list[int]) -> NewTensor:
    if name in ("token_embd.weight", "output.weight"):
        shape = [shape[0], n_vocab]
    is_norm = "norm" in name or ".ln" in name or "_ln" in name
    drawn = random.normal(1.0 if is_norm and name.endswith("weight") else 0.0, 0.1, shape[::-1])
    return NewTensor(name, tuple(shape), _NAMED[kind], drawn.astype(_TYPES[kind]).tobytes())


def png(width: int, height: int, pixel: Callable[[int, int], tuple[int, int, int]]) -> bytes:
    """Return a picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(
        b"\0" + bytes(part for x in range(width) for part in pixel(x, y)) for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def wav(samples: int = 4000, rate: int = 16_000) -> bytes:
    """Return a sound."""
    wave = 9000 * np.sin(np.arange(samples) * 0.05) * np.sin(np.arange(samples) * 0.0007)
    data = wave.astype("<i2").tobytes()
    head = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    size = struct.pack("<I", 36 + len(data))
    return b"RIFF" + size + b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data


SLOPE = png(80, 48, lambda x, y: (x * 3, y * 5, 128))
TILES = png(45, 100, lambda x, y: (x * 7 % 256, 255 * ((x // 9 + y // 9) % 2), (x + y) % 256))
