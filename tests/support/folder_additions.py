"""Model and adapter folders with one drawn thing that nothing else has: a field, a file, a token …

Whatever is drawn has a name made of letters that no published file has, so that a text that names
it can mean nothing else. ``tools.folder_additions`` draws as many as it is asked for.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import GENERATION, MODEL_CONFIG, WEIGHTS
from mtkit.checkpoints.folder_files import tensors_of as stored_in
from mtkit.checkpoints.safetensors import NewWeight, file_chunks
from mtkit.conversion.adapter import plan_adapter
from mtkit.conversion.model import plan_gguf, prepare_gguf
from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

JSON_FILES = (MODEL_CONFIG, GENERATION, "tokenizer_config.json", "special_tokens_map.json")
SUFFIXES = ("", ".json", ".bin", ".dat", ".safetensors", ".h5", ".yaml", ".weights", "/")
PLACES = ("", "model.", "model.layers.0.", "model.layers.1.mlp.", "lm_head.", "score.", "visual.")
VALUES: dict[str, tuple[object, ...]] = {
    "hidden_act": ("relu", "mish", "quick_gelu_zz"),
    "sliding_window": (7,),
    "rope_scaling": (
        {"rope_type": "zz-scaled", "factor": 2.0},
        {"rope_type": "yarn"},
        {"type": "su", "factor": 2.0},
        {"rope_type": "linear", "factor": 2.0, "zz_factor": 3},
        {"rope_type": "dynamic", "factor": 2.0},
    ),
    "tie_word_embeddings": (True,),
    "layer_types": (["sliding_attention", "full_attention"],),
    "quantization_config": ({"quant_method": "zz"}, {"group_size": 32, "bits": 4}),
    "is_decoder": (True,),
    "scale_attn_by_inverse_layer_idx": (True,),
}
"""Field -> values that llama.cpp's Llama does not compute."""
MARKS: dict[str, tuple[str, ...]] = {
    str(value): (str(value.get("rope_type") or value.get("type") or "MLX"),)
    for value in VALUES["rope_scaling"] + VALUES["quantization_config"]
    if isinstance(value, dict)
} | {str(VALUES["rope_scaling"][3]): ("zz_factor",), "{'quant_method': 'zz'}": ("zz",)}
"""A value that is an object -> what names it."""
USED = ("sliding_window",)
"""Fields that a Gemma has keys for."""
TOKENS = 8192
"""Tokens of the tokenizer; the embedding has ``ROWS`` rows."""
ROWS = TOKENS + 64
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER_PLACES = (
    "base_model.model.model.NAME.weight", "NAME.lora_A.weight", "base_model.model.NAME.lora_B.bias",
    "base_model.model.model.layers.0.mlp.up_proj.NAME", "base_model.model.model.NAME.norm.weight",
    "base_model.model.model.layers.0.NAME.base_layer.weight", "NAME",
)  # fmt: skip
LETTERS = "bcdfghjkqvwxz"


class Addition(Record):
    """What was drawn.

    Attributes:
        kind: "field", "inner field", "file", "tensor", "value" or "token"; of an adapter "adapter".
        names: Any of them has to be named.
    """

    kind: str
    where: str
    names: tuple[str, ...]


def draw_name(rng: Random) -> str:
    """Return a name of letters that make no word."""
    words = ("".join(rng.choices(LETTERS, k=rng.randint(3, 7))) for _ in range(rng.randint(1, 3)))
    return "_".join(words)


def draw_value(rng: Random) -> Any:
    """Return a value of any type that JSON has, but null."""
    return rng.choice((rng.randint(0, 99), rng.random(), True, False, "text", [], [1, 2], {},
                       {"inner": 1}, ""))  # fmt: skip


def add_something(rng: Random, path: Path) -> Addition:
    """Put a drawn thing into a folder."""
    name = draw_name(rng)
    if (path / ADAPTER).exists():
        return add_to_adapter(rng, path, name)
    kind = rng.choice(("field", "inner field", "file", "tensor", "value", "token"))
    if kind == "field":
        where = rng.choice(JSON_FILES)
        change_json(path / where, **{name: draw_value(rng)})
    elif kind == "inner field":
        where = MODEL_CONFIG
        scaling = {"rope_type": "linear", "factor": 2.0, name: draw_value(rng)}
        change_json(path / where, rope_scaling=scaling)
    elif kind == "token":
        where = add_token(rng, path, name)
    elif kind == "file":
        where = add_file(rng, path, name)
    elif kind == "tensor":
        where = rng.choice(PLACES)
        add_tensor(path / WEIGHTS, f"{where}{name}.weight")
    else:
        is_gemma = "Gemma" in (path / MODEL_CONFIG).read_text(encoding="utf-8")
        where = rng.choice([name for name in VALUES if not (is_gemma and name in USED)])
        value = rng.choice(VALUES[where])
        change_json(path / MODEL_CONFIG, **{where: value})
        named = MARKS.get(str(value), (where,))
        return Addition(kind, where, named)
    return Addition(kind, where, (name,))


def add_file(rng: Random, path: Path, name: str) -> str:
    """Add a file or a folder; return the end of its name."""
    end = rng.choice(SUFFIXES)
    if end == "/":
        (path / name).mkdir()
    else:
        (path / f"{name}{end}").write_bytes(rng.randbytes(rng.randint(0, 64)))
    return end


def add_token(rng: Random, path: Path, name: str) -> str:
    """Add a token to one of the files that name tokens; return which, and how."""
    place = rng.choice(("tokenizer.json", "tokenizer_config.json", "added_tokens.json"))
    number = rng.choice((TOKENS, TOKENS + 1, TOKENS + 40, TOKENS + 100, 5))
    token = {"content": name, "special": rng.random() < 0.5, "lstrip": False, "rstrip": False,
             "single_word": False, "normalized": False}  # fmt: skip
    if rng.random() < 0.25:
        role = rng.choice(("eos_token", "bos_token", "pad_token", "additional_special_tokens",
                           "extra_special_tokens", "mask_token"))  # fmt: skip
        place = rng.choice(("tokenizer_config.json", "special_tokens_map.json"))
        change_json(path / place, **{role: [name] if role.endswith("tokens") else name})
        return f"{place}: {role}"
    if place == "added_tokens.json":
        change_json(path / place, **{name: number})
    elif place == "tokenizer_config.json":
        document = (
            json.loads((path / place).read_text(encoding="utf-8"))
            if (path / place).exists()
            else {}
        )
        tokens = {**document.get("added_tokens_decoder", {}), str(number): token}
        change_json(path / place, added_tokens_decoder=tokens)
    else:
        document = json.loads((path / place).read_text(encoding="utf-8"))
        tokens = [*document["added_tokens"], {"id": number, **token}]
        change_json(path / place, added_tokens=tokens)
    return f"{place}: {number}"


def add_to_adapter(rng: Random, path: Path, name: str) -> Addition:
    """Put a field, a file or a tensor into the folder of an adapter."""
    kind = rng.choice(("field", "file", "tensor"))
    where = kind
    if kind == "field":
        change_json(path / ADAPTER, **{name: draw_value(rng)})
    elif kind == "file":
        where = add_file(rng, path, name)
    else:
        where = rng.choice(ADAPTER_PLACES).replace("NAME", name)
        add_tensor(path / ADAPTER_WEIGHTS, where)
    return Addition("adapter", where, (name,))


def change_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file, which is made where there is none."""
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**document, **fields}), encoding="utf-8")


def add_tensor(path: Path, name: str) -> None:
    """Add a tensor of four numbers to a safetensors file."""
    weights = [
        NewWeight(one.weight.name, one.weight.type, one.weight.shape, one.weight.n_bytes,
                  lambda data=bytes(one.data): iter((data,)))
        for one in stored_in(str(path))
    ]  # fmt: skip
    data = np.arange(4, dtype="<f4").tobytes()
    weights.append(NewWeight(name, "F32", (4,), len(data), lambda: iter((data,))))
    path.write_bytes(b"".join(file_chunks(weights)))


def what_is_said(path: Path) -> str:
    """Return what a conversion says of a folder: its notes, or why it refuses."""
    try:
        if (path / ADAPTER).exists():
            return "\n".join(plan_adapter(str(path)).notes())
        return "\n".join(plan_gguf(str(path)).folder_notes)
    except MtkitError as error:
        return str(error)


def what_is_used(path: Path) -> str:
    """Return the tokens of the GGUF that a folder becomes, and what is said of it."""
    try:
        prepared = prepare_gguf(str(path), allow_loss=("ids", "ids-possible"))
    except MtkitError as error:
        return str(error)
    texts = [str(loss) for loss in prepared.vocabulary.losses]
    tokens = prepared.draft.keys["tokenizer.ggml.tokens"].value
    return "\n".join((*prepared.vocabulary.assumptions, *texts, *map(str, tokens)))


def try_one(rng: Random, base: Path, path: Path) -> tuple[Addition, str]:
    """Copy a folder, put a drawn thing into the copy, and return what is said of it."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(base, path)
    addition = add_something(rng, path)
    text = what_is_said(path)
    if addition.kind == "token" and addition.names[0] not in text:
        text = what_is_used(path)
    return addition, text.replace(str(path), "FOLDER")
