"""Models for the tests of generation: tiny random ones, made on first use and kept."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

from support import CACHE, SHARED, absent, reference, shared

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURES = ("llama", "llama-bpe", "qwen2", "qwen3", "minicpm", "gemma", "gemma2", "gemma3")
OWN = (
    "own/model/mtkit-docs-target-bf16.gguf", "own/model/mtkit-docs-target-q8_0.gguf",
    "own/model/mtkit-docs-target-q4_0.gguf", "own/model/mtkit-docs-draft-bf16.gguf",
    "own/model/mtkit-docs-draft-q8_0.gguf", "own/model/mtkit-docs-draft-q4_0.gguf",
    "models/stories260K/stories260K-f32.gguf",
)  # fmt: skip


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


def parrot(answers: dict[str, str], whole: tuple[str, ...] = ()) -> tuple[Path, Any]:
    """Return a model that says chosen texts, and what made it: ``bias`` chooses one of them.

    Args:
        whole: The texts whose ``</think>`` is one token.
    """
    reference("llama_cpp")
    source = SHARED / "cases" / "agents" / "parrot.py"
    if not source.exists():
        absent("cases/agents/parrot.py is not here", "MTKIT_REQUIRE_SHARED")
    spec = importlib.util.spec_from_file_location("parrot", source)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Parrot(answers, whole)
    digest = hashlib.sha256(repr((answers, whole)).encode()).hexdigest()[:16]
    path = CACHE / "tiny-2" / f"parrot-{digest}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        model.write(str(part))
        part.replace(path)
    return path, model


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


def experts() -> Path:
    """Return the path of a tiny model with four experts in each layer, two of them used."""
    reference("llama_cpp")
    import numpy as np

    from mtkit.gguf import open_gguf
    from mtkit.gguf.writer import Key, NewTensor, write_gguf

    path = CACHE / "tiny-2" / "experts.gguf"
    if path.exists():
        return path
    width, inner, count = 64, 64, 4
    file = open_gguf(tiny(n_embd=width, n_ff=inner))
    keys = [Key(name, file.metadata.type_name(name), v) for name, v in file.metadata.items()]
    keys += [Key("llama.expert_count", "u32", count), Key("llama.expert_used_count", "u32", 2)]
    tensors = []
    chance = np.random.default_rng(0)
    for t in file.tensors:
        name, shape, data = t.name, t.shape, bytes(file.tensor_data(t))
        if ".ffn_" in name and "norm" not in name:
            name = name.replace(".weight", "_exps.weight")
            shape, data = (*shape, count), data * count
        if ".ffn_gate." in t.name:
            gate = chance.standard_normal(width * count).astype(np.float32).tobytes()
            inp = t.name.replace("ffn_gate", "ffn_gate_inp")
            tensors.append(NewTensor(inp, (width, count), t.type, gate))
        tensors.append(NewTensor(name, shape, t.type, data))
    write_gguf(str(path), keys, tensors, force=True)
    return path


def latent() -> Path:
    """Return the path of a tiny model whose attention keeps one latent vector (MLA)."""
    reference("llama_cpp")
    gguf = reference("gguf")
    import numpy as np

    path = CACHE / "tiny-2" / "latent.gguf"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    vocab = maker().spm_vocab(1024)
    width, heads, layers, query, keys, turned, long, short, inner = 64, 4, 2, 32, 32, 16, 48, 24, 96
    w = gguf.GGUFWriter(str(part), "deepseek2")
    w.add_context_length(512)
    w.add_embedding_length(width)
    w.add_block_count(layers)
    w.add_leading_dense_block_count(layers)
    w.add_feed_forward_length(inner)
    w.add_head_count(heads)
    w.add_head_count_kv(1)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_key_length(keys + turned)
    w.add_value_length(keys)
    w.add_key_length_mla(long)
    w.add_value_length_mla(short)
    w.add_q_lora_rank(query)
    w.add_kv_lora_rank(keys)
    w.add_rope_dimension_count(turned)
    w.add_rope_freq_base(10000.0)
    w.add_expert_count(2)
    w.add_expert_used_count(1)
    w.add_expert_shared_count(1)
    w.add_expert_feed_forward_length(32)
    w.add_expert_weights_scale(1.0)
    w.add_vocab_size(1024)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list([token.encode() for token in vocab.tokens])
    w.add_token_types(vocab.types)
    w.add_token_scores(vocab.scores)
    chance = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        one = len(shape) == 1
        values = np.ones(shape) if one else chance.standard_normal(shape) / np.sqrt(shape[-1])
        w.add_tensor(f"{name}.weight", values.astype(np.float32))

    add("token_embd", 1024, width)
    add("output", 1024, width)
    add("output_norm", width)
    for layer in range(layers):
        for name, shape in (
            ("attn_norm", (width,)), ("attn_q_a_norm", (query,)), ("attn_kv_a_norm", (keys,)),
            ("ffn_norm", (width,)), ("attn_q_a", (query, width)),
            ("attn_q_b", (heads * long, query)), ("attn_kv_a_mqa", (keys + turned, width)),
            ("attn_k_b", (heads, keys, long - turned)), ("attn_v_b", (heads, short, keys)),
            ("attn_output", (width, heads * short)), ("ffn_gate", (inner, width)),
            ("ffn_up", (inner, width)), ("ffn_down", (width, inner)),
        ):  # fmt: skip
            add(f"blk.{layer}.{name}", *shape)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    part.replace(path)
    return path
