"""Models for the tests of generation: tiny random ones, made on first use and kept."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from support import CACHE, SHARED, absent, reference, shared

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURES = ("llama", "llama-bpe", "qwen2", "qwen3", "minicpm", "gemma", "gemma2", "gemma3")
OWN = (
    "own/model/mtkit-docs-target-bf16.gguf",
    "own/model/mtkit-docs-target-q8_0.gguf",
    "own/model/mtkit-docs-target-q4_0.gguf",
    "own/model/mtkit-docs-draft-bf16.gguf",
    "own/model/mtkit-docs-draft-q8_0.gguf",
    "own/model/mtkit-docs-draft-q4_0.gguf",
    "models/stories260K/stories260K-f32.gguf",
)


def maker() -> Any:
    """Return the module that makes tiny models."""
    path = SHARED / "scripts" / "tiny_models.py"
    if not path.exists():
        absent("scripts/tiny_models.py is not here", "MTKIT_REQUIRE_SHARED")
    reference("gguf")
    spec = importlib.util.spec_from_file_location("tiny_models", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["tiny_models"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def tiny(arch: str = "llama", **options: Any) -> Path:
    """Return the path of a tiny model; options as for ``make`` of tiny_models.py."""
    reference("llama_cpp")
    name = "-".join([arch, *(f"{key}={value}" for key, value in sorted(options.items()))])
    path = CACHE / "tiny-2" / f"{name}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        maker().make(str(part), arch, **options)
        part.replace(path)
    return path


def chatting() -> Path:
    """Return the path of a tiny model with a chat template."""
    reference("llama_cpp")
    path = CACHE / "tiny-2" / "chat.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        module = maker()
        module.make(str(part), "llama", chat_template=module.CHATML)
        part.replace(path)
    return path


def reciting(text: str = "Hello world, you read me.") -> Path:
    """Return the path of a model that says one text and ends."""
    reference("llama_cpp")
    path = CACHE / "tiny-2" / f"recite-{text.encode().hex()}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        module = maker()
        vocab = module.spm_vocab(1024)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        module.make(str(part), "llama", vocab=vocab, recite=[1, *module.encode_spm(vocab, text)])
        part.replace(path)
    return path


def own(name: str) -> Path:
    """Return the path of a shared trained model."""
    reference("llama_cpp")
    return shared(name)
