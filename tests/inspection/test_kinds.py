"""Every kind of GGUF is called what it is, with what matters of it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from screens import check_screens
from support import VOCABULARIES, Run, reference, shared

from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.inspection.gguf import inspect_gguf
from mtkit.inspection.kinds import TITLES

F32 = TENSOR_TYPES[0]


def key(name: str, value: Any) -> Key:
    kinds = {str: "string", int: "u32", float: "f32", bool: "bool"}
    if isinstance(value, list):
        return Key(name, f"{kinds[type(value[0])]}[]", value)
    return Key(name, kinds[type(value)], value)


def tensor(name: str, *shape: int) -> NewTensor:
    size = 1
    for axis in shape:
        size *= axis
    return NewTensor(name, shape, F32, struct.pack(f"<{size}f", *[0.5] * size))


BASE = {"general.base_model.count": 1, "general.base_model.0.repo_url": "https://a.b/org/base"}
LORA = [
    part
    for block in range(2)
    for name in ("attn_q", "ffn_up")
    for part in (
        tensor(f"blk.{block}.{name}.weight.lora_a", 8, 4),
        tensor(f"blk.{block}.{name}.weight.lora_b", 4, 8),
    )
]
VISION = {
    "clip.has_vision_encoder": True, "clip.projector_type": "gemma3",
    "clip.vision.projection_dim": 2560, "clip.vision.image_size": 896,
    "clip.vision.patch_size": 14, "clip.vision.block_count": 27,
}  # fmt: skip
KINDS: list[tuple[str, dict[str, Any], list[NewTensor], dict[str, Any]]] = [
    (
        "lora",
        {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
         "adapter.lora.alpha": 16.0, **BASE},
        LORA,
        {"base": "https://a.b/org/base", "type": "lora", "rank": 4, "alpha": 16.0, "scale": 4.0,
         "tensors": 4, "targets": ["attn_q", "ffn_up"]},
    ),
    ("lora", {"general.architecture": "llama"}, LORA,
     {"rank": 4, "tensors": 4, "targets": ["attn_q", "ffn_up"]}),
    (
        "imatrix",
        {"general.type": "imatrix", "imatrix.datasets": ["wiki.txt", "code.txt"],
         "imatrix.chunk_count": 100, "imatrix.chunk_size": 512},
        [tensor("blk.0.attn_q.weight.in_sum2", 8), tensor("blk.0.attn_q.weight.counts", 1)],
        {"datasets": ["wiki.txt", "code.txt"], "chunks": 100, "tokens in a chunk": 512,
         "tokens": 51200, "entries": 1},
    ),
    (
        "mmproj",
        {"general.type": "mmproj", "general.architecture": "clip", **VISION},
        [tensor("v.patch_embd.weight", 8)],
        {"vision projector": "gemma3", "vision image size": 896, "vision patch size": 14,
         "vision layers": 27, "vision projection": 2560, "for models with embeddings of": 2560},
    ),
    (
        "mmproj",
        {"general.architecture": "clip", "clip.has_audio_encoder": True,
         "clip.audio.projector_type": "qwen2a", "clip.audio.num_mel_bins": 128},
        [tensor("a.conv1d.1.weight", 8)],
        {"audio projector": "qwen2a", "audio mel bins": 128},
    ),
    (
        "control-vector",
        {"general.architecture": "controlvector", "controlvector.model_hint": "llama",
         "controlvector.layer_count": 2},
        [tensor("direction.1", 8), tensor("direction.2", 8)],
        {"base": "llama", "layers": 2, "directions": 2, "embedding": 8},
    ),
    (
        "draft",
        {"general.architecture": "eagle3", "eagle3.target_hidden_size": 64,
         "eagle3.target_layers": [1, 2]},
        [tensor("blk.0.attn_q.weight", 8)],
        {"target hidden size": 64, "target layers": [1, 2]},
    ),
    ("model", {"general.architecture": "llama"}, [tensor("token_embd.weight", 8)], {}),
    ("vocabulary", {"general.architecture": "llama", "tokenizer.ggml.model": "llama"}, [], {}),
    ("unknown", {"a.b": 1}, [tensor("x", 8)], {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "keys", "tensors", "facts"), KINDS)
def test_each_kind_and_its_facts(
    mtkit: Run,
    tmp_path: Path,
    kind: str,
    keys: dict[str, Any],
    tensors: list[NewTensor],
    facts: dict[str, Any],
) -> None:
    path = tmp_path / "file.gguf"
    write_gguf(str(path), [key(name, value) for name, value in keys.items()], tensors)
    found = inspect_gguf(str(path)).content
    assert (found.kind, dict(found.facts)) == (kind, facts)
    document = json.loads(mtkit("inspect", path, "--json").stdout)
    assert document["content"] == {"kind": kind, "facts": facts}
    rows = [row.split("\t") for row in mtkit("inspect", path).stdout.decode().splitlines()]
    count = sum(len(value) if isinstance(value, list) else 1 for value in facts.values())
    assert next(row[1:] for row in rows if row[0] == "content") == ["kind", kind]
    assert sum(row[0] == "content" for row in rows) == 1 + count
    words = check_screens("inspect", path)[80].words
    assert (TITLES[found.kind] in " ".join(words.split())) == (kind != "model")


def test_every_kind_is_tried() -> None:
    assert {kind for kind, *_ in KINDS} == TITLES.keys()


def test_keys_of_other_types_are_left_out(tmp_path: Path) -> None:
    """A hostile adapter is shown for what can be read of it."""
    path = tmp_path / "file.gguf"
    keys = [
        key("general.type", "adapter"),
        key("adapter.lora.alpha", "much"),
        key("general.base_model.count", 4_000_000_000),
        key("general.base_model.0.name", 7),
    ]
    write_gguf(str(path), keys, [tensor("lora_b", 8), NewTensor("a.lora_b", (), F32, bytes(4))])
    assert dict(inspect_gguf(str(path)).content.facts) == {"tensors": 0}


def test_published_vocabularies_are_vocabularies() -> None:
    reference("gguf")
    for name in VOCABULARIES[:4]:
        path = shared(f"gguf-vocab/ggml-vocab-{name}.gguf")
        assert inspect_gguf(str(path)).content.kind == "vocabulary"
