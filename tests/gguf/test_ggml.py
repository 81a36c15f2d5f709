"""Models in the formats before GGUF, made here, become what llama.cpp's script makes of them."""

from __future__ import annotations

import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.gguf import ggml, open_gguf
from mtkit.sources.locate import MODEL, locate

VERSIONS = [("GGML", 0), ("GGMF", 1), ("GGJT", 1), ("GGJT", 2), ("GGJT", 3)]
MAGICS = {"GGML": b"lmgg", "GGMF": b"fmgg", "GGJT": b"tjgg"}
TOKENS = [b"", b"", b"", *(bytes([n]) for n in range(256)), b" a", b"ab", b" ab", b""]
WIDTH, HIDDEN, HEADS, LAYERS = 32, 64, 4, 2
F32, F16, Q4_0 = 0, 1, 2
NAMES = {
    "attention.wq": (WIDTH, WIDTH), "attention.wk": (WIDTH, WIDTH // 2),
    "attention.wv": (WIDTH, WIDTH // 2), "attention.wo": (WIDTH, WIDTH),
    "feed_forward.w1": (WIDTH, HIDDEN), "feed_forward.w2": (HIDDEN, WIDTH),
    "feed_forward.w3": (WIDTH, HIDDEN), "attention_norm": (WIDTH,), "ffn_norm": (WIDTH,),
}  # fmt: skip


def old_file(kind: str, version: int, number: int = F16) -> bytes:
    """Return a model of two layers; ``number`` is the type of its matrices."""
    out = MAGICS[kind] + (struct.pack("<I", version) if version else b"")
    out += struct.pack("<7I", len(TOKENS), WIDTH, 256, HEADS, LAYERS, WIDTH // HEADS, 1)
    for at, token in enumerate(TOKENS):
        score = struct.pack("<f", -float(at)) if version else b""
        out += struct.pack("<I", len(token)) + token + score
    shapes = {"tok_embeddings": (WIDTH, len(TOKENS)), "norm": (WIDTH,)}
    shapes["output"] = shapes["tok_embeddings"]
    for layer in range(LAYERS):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in NAMES.items()}
    for stem, shape in shapes.items():
        name, own = f"{stem}.weight".encode(), F32 if len(shape) == 1 else number
        out += struct.pack("<3I", len(shape), len(name), own)
        out += struct.pack(f"<{len(shape)}I", *shape) + name
        if kind == "GGJT":
            out += bytes(-len(out) % 32)
        count = int(np.prod(shape))
        values = np.random.default_rng(count).normal(size=count) / 8
        sizes = {F32: "<f4", F16: "<f2"}
        is_plain = own in sizes
        out += values.astype(sizes[own]).tobytes() if is_plain else bytes(count // 32 * 18)
    return out


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_a_model_is_read(kind: str, version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.bin"
    path.write_bytes(old_file(kind, version))
    assert mtkit.convert(path, tmp_path / "new.gguf").assumptions == ggml.ASSUMPTIONS
    file = open_gguf(str(tmp_path / "new.gguf"))
    found = {key: value for key, value in file.metadata.items() if key.startswith("llama.")}
    assert found == {
        "llama.vocab_size": len(TOKENS), "llama.context_length": 2048,
        "llama.embedding_length": WIDTH, "llama.feed_forward_length": HIDDEN,
        "llama.block_count": LAYERS, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS // 2, "llama.rope.dimension_count": 8,
        "llama.attention.layer_norm_rms_epsilon": pytest.approx(5e-6),
    }  # fmt: skip
    tokens, types = (
        list(file.metadata[f"tokenizer.ggml.{name}"]) for name in ("tokens", "token_type")
    )
    assert tokens[:5] == ["<unk>", "<s>", "</s>", "<0x00>", "<0x01>"]
    assert tokens[-4:] == ["\u2581a", "ab", "\u2581ab", ""]
    assert types[:4] == [2, 3, 3, 6]
    assert types[-4:] == [1, 1, 1, 3]
    tensor = file.names["blk.1.attn_k.weight"]
    assert tensor.shape == (WIDTH, WIDTH // 2)
    whole = old_file(kind, version)
    assert whole.count(bytes(file.tensor_data(tensor))) >= 1
    assert len(file.tensors) == 3 + LAYERS * len(NAMES)


def test_it_is_run_and_encodes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "old.bin"
    path.write_bytes(old_file("GGJT", 3))
    assert mtkit.load(path).encode("ab").ids[-1] == TOKENS.index(b" ab")
    assert open_gguf(locate(str(path), MODEL).path).metadata["llama.block_count"] == LAYERS


def test_blocks_that_nothing_reads_are_refused() -> None:
    for kind, version in VERSIONS[:-1]:
        with pytest.raises(UnsupportedError, match=f"is Q4_0 of {kind}"):
            ggml.read(Source("old.bin", old_file(kind, version, Q4_0)))
    assert ggml.read(Source("old.bin", old_file("GGJT", 3, Q4_0))).tensors
    with pytest.raises(UnsupportedError, match="is 9 of GGJT"):
        ggml.read(Source("old.bin", b"tjgg" + struct.pack("<I", 9)))


def test_a_damaged_file_is_an_error() -> None:
    whole = old_file("GGJT", 3)
    for size in range(4, len(whole), 997):
        with pytest.raises(MtkitError):
            ggml.read(Source("old.bin", whole[:size]))
    rng = np.random.default_rng(1)
    for _ in range(200):
        data = bytearray(whole)
        data[int(rng.integers(4, 4000))] ^= 1 << int(rng.integers(8))
        with suppress(MtkitError):
            ggml.read(Source("old.bin", bytes(data)))


def test_numbers_of_blocks_need_no_tokenizers_of_others() -> None:
    """gguf imports mistral_common, which takes longer than loading a model."""
    code = (
        "import sys\n"
        "from mtkit.gguf.values import import_quants\n"
        "assert import_quants().dequantize\n"
        "print(*({'gguf', 'mistral_common', 'yaml'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
