"""Adapters merged into their base: every way gives W + s B A, and what does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import LAYERS, linear_layers, write_adapter
from hf_models import folder as shared_model
from merged import delta
from merged import merge as reference_merge
from model_folders import write_folder, write_weights
from support import Run, one_line

from mtkit.checkpoints import model_folder
from mtkit.checkpoints.adapter_folder import WEIGHTS
from mtkit.checkpoints.folder_files import MODEL_CONFIG, tensors_of
from mtkit.conversion.adapter import convert_adapter
from mtkit.conversion.adapter_merge import merge_into_folder, merge_into_gguf
from mtkit.conversion.model import convert_model
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.values import BF16, F16, F32, Q8_0, decode_values, encode_values
from mtkit.gguf.writer import Key, NewTensor, write_gguf

MODELS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "llama-spm": (LAYERS, {}),
    "mixtral": (("q_proj", "k_proj", "w1", "w2", "w3", "gate"), {}),
    "phi3": (("qkv_proj", "gate_up_proj", "o_proj"), {}),
    "falcon": (("query_key_value", "dense"), {}),
    "gpt2": (("c_attn", "c_proj", "c_fc"), {"fan_in_fan_out": True}),
}
"""Shared model -> layers that its adapter has, fields of its adapter_config.json."""


def write_merge(path: Path, merge: Any) -> Path:
    for file in merge.files:
        target = path / file.name if file.name else path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(map(bytes, file.chunks)))
    return path


def gguf_values(path: Path | str) -> dict[str, Any]:
    file = open_gguf(str(path))
    return {
        tensor.name: decode_values(
            np.frombuffer(file.tensor_data(tensor), np.uint8), tensor.type.name
        )
        for tensor in file.tensors
    }


def same_values(left: dict[str, Any], right: dict[str, Any], rtol: float = 1e-6) -> None:
    assert list(left) == list(right)
    for name, array in left.items():
        np.testing.assert_allclose(array, right[name], rtol=rtol, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_every_way_gives_one_model(name: str, tmp_path: Path) -> None:
    """From a folder and from a GGUF, with an adapter as folder and as GGUF, to both."""
    layers, config = MODELS[name]
    wide = shared_model(name)
    shapes = linear_layers(wide, layers)
    if config:  # PEFT's pair is that of the layer, not of how its weight is stored
        shapes = {layer: (columns, rows) for layer, (rows, columns) in shapes.items()}
    adapter = write_adapter(tmp_path / "adapter", wide, shapes, config=config)
    right = reference_merge(tmp_path / "right", wide, adapter)
    base = reference_merge(  # in F32, so that nothing hides behind rounding
        tmp_path / "base", wide, write_adapter(tmp_path / "none", wide, {"no.layer": (8, 8)})
    )
    allow = ("ids",)
    expected = gguf_values(
        convert_model(right, tmp_path / "right.gguf", kind="f32", allow_loss=allow).path
    )
    plain = convert_model(base, tmp_path / "base.gguf", kind="f32", allow_loss=allow).path
    lora = convert_adapter(adapter, base=base).path
    for number, (model, added) in enumerate(
        ((str(base), str(adapter)), (str(base), lora), (plain, str(adapter)), (plain, lora))
    ):
        kind = "f32" if model == str(base) else ""
        merge = merge_into_gguf(model, [added], kind, allow)
        made = write_merge(tmp_path / f"{number}.gguf", merge)
        same_values(gguf_values(made), expected)
    for number, added in enumerate((str(adapter), lora)):
        merge = merge_into_folder(str(base), [added])
        made = write_merge(tmp_path / f"folder-{number}", merge)
        found, wanted = (model_folder.read(str(path)).tensors for path in (made, right))
        same_values(
            {one: stored.floats() for one, stored in found.items()},
            {one: stored.floats() for one, stored in wanted.items()},
        )
        assert sorted(path.name for path in made.iterdir()) == sorted(
            path.name for path in right.iterdir()
        )


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "base", files=2)


def adapter_of(base: Path, name: str, wanted: tuple[str, ...], **options: Any) -> Path:
    return write_adapter(base.parent / name, base, linear_layers(base, wanted), **options)


def weights_of(path: Path) -> dict[str, Any]:
    return {name: one.floats() for name, one in model_folder.read(str(path)).tensors.items()}


@pytest.mark.parametrize("kind", ["BF16", "F16", "F32"])
def test_several_adapters_are_summed_and_rounded_once(kind: str, tmp_path: Path) -> None:
    base = write_folder(tmp_path / "base", kind=kind, files=2)
    one = adapter_of(base, "one", ("q_proj", "down_proj"), rank=3)
    two = adapter_of(base, "two", ("down_proj", "k_proj"), rank=9, config={"use_rslora": True})
    made = write_merge(tmp_path / "made", merge_into_folder(str(base), [f"{one}=0.5", f"{two}:-2"]))
    old, new = weights_of(base), weights_of(made)
    assert list(old) == list(new)
    types = {"BF16": BF16, "F16": F16}
    changed = 0
    for name, array in old.items():
        total = array.copy()
        for adapter, scale in ((one, 0.5), (two, -2.0)):
            added = delta(adapter, name)
            if added is not None:
                total += np.float32(scale) * added
        changed += not np.array_equal(total, array)
        if kind in types:
            total = decode_values(encode_values(total, types[kind]), kind).reshape(total.shape)
            # The order of sums in a product moves few values to the neighbor of their type.
            assert np.mean(new[name] == total) > 0.99, name
        np.testing.assert_allclose(new[name], total, rtol=2**-7, atol=1e-6, err_msg=name)
    assert changed == 6
    for path in base.iterdir():
        same = (made / path.name).read_bytes() == path.read_bytes()
        assert same == (path.suffix != ".safetensors")
        assert (made / path.name).stat().st_size == path.stat().st_size


def test_quantized_matrices_become_f16(base: Path, tmp_path: Path) -> None:
    """As in llama-export-lora; other tensors are the same bytes."""
    adapter = adapter_of(base, "adapter", ("q_proj",))
    plain = convert_model(base, tmp_path / "base.gguf", kind="q8_0").path
    merge = merge_into_gguf(plain, [str(adapter)])
    assert merge.notes == ("2 merged tensors of type Q8_0: written as F16",)
    made = write_merge(tmp_path / "made.gguf", merge)
    old, new = open_gguf(plain), open_gguf(str(made))
    assert new.metadata["general.file_type"] == 1
    for tensor in old.tensors:
        other = new.names[tensor.name]
        if "attn_q" in tensor.name:
            assert (tensor.type, other.type) == (Q8_0, F16)
        else:
            assert tensor.type is other.type
            assert bytes(old.tensor_data(tensor)) == bytes(new.tensor_data(other))
    again = merge_into_gguf(plain, [str(adapter)], "q8_0")
    assert not again.notes
    kept = open_gguf(str(write_merge(tmp_path / "kept.gguf", again)))
    assert kept.metadata["general.file_type"] == 7
    assert kept.names["blk.0.attn_q.weight"].type is Q8_0


def test_square_layers_that_are_stored_turned(tmp_path: Path) -> None:
    """Their shape does not tell: ``fan_in_fan_out`` does."""
    base = shared_model("gpt2")
    layers = {name: shape for name, shape in linear_layers(base, ("c_proj",)).items()
              if shape[0] == shape[1]}  # fmt: skip
    assert layers
    pairs = []
    for flips in (True, False):
        adapter = write_adapter(
            tmp_path / str(flips), base, layers, config={"fan_in_fan_out": flips}
        )
        made = write_merge(tmp_path / f"m{flips}", merge_into_folder(str(base), [str(adapter)]))
        pairs.append([weights_of(made)[f"{name}.weight"] for name in layers])
    before = [weights_of(base)[f"{name}.weight"] for name in layers]
    for turned, straight, old in zip(*pairs, before, strict=True):
        np.testing.assert_allclose((turned - old).T, straight - old, rtol=0, atol=1e-5)


def test_an_embedding_of_a_gguf(tmp_path: Path, base: Path) -> None:
    """A has a row for each token there; without an alpha, the scale is 1."""
    plain = convert_model(base, tmp_path / "base.gguf", kind="f32").path
    shape = open_gguf(plain).names["token_embd.weight"].shape
    random = np.random.default_rng(5)
    a = random.normal(size=(shape[1], 3)).astype("<f4")
    b = random.normal(size=(shape[0], 3)).astype("<f4")
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("general.type", "string", "adapter"),
        Key("adapter.type", "string", "lora"),
    ]
    tensors = [
        NewTensor(f"token_embd.weight.lora_{end}", array.shape[::-1], F32, array.tobytes())
        for end, array in (("a", a), ("b", b))
    ]
    write_gguf(str(tmp_path / "lora.gguf"), keys, tensors)
    made = write_merge(tmp_path / "m.gguf", merge_into_gguf(plain, [f"{tmp_path}/lora.gguf=2"]))
    old, new = gguf_values(plain), gguf_values(made)
    added = (new["token_embd.weight"] - old["token_embd.weight"]).reshape(shape[::-1])
    np.testing.assert_allclose(added, 2 * a @ b.T, rtol=1e-4, atol=1e-4)


LAYER = "model.layers.0.self_attn.q_proj"
HEAD = "lm_head.weight"


def richer_adapter(base: Path, name: str, more: dict[str, tuple[int, ...]], **config: Any) -> Path:
    """Return an adapter of one layer with further tensors."""
    adapter = write_adapter(base.parent / name, base, {LAYER: (64, 64)}, config=config)
    saved = {one.weight.name: one.weight.shape for one in tensors_of(str(adapter / WEIGHTS))}
    saved |= {f"base_model.model.{label}": shape for label, shape in more.items()}
    write_weights(adapter / WEIGHTS, saved, "F32")
    return adapter


def stored_in(adapter: Path) -> dict[str, Any]:
    halves = tensors_of(str(adapter / WEIGHTS))
    return {one.weight.name.removeprefix("base_model.model."): one.floats() for one in halves}


@pytest.mark.parametrize("kind", ["F32", "BF16"])
def test_what_peft_trains_besides(kind: str, tmp_path: Path) -> None:
    """DoRA, whole layers, biases: the sums as PEFT's merge_and_unload defines them."""
    optional = ("lm_head.weight", "bias")
    base = write_folder(tmp_path / "base", kind=kind, optional=optional)
    adapter = richer_adapter(
        base, "rich",
        {f"{LAYER}.lora_magnitude_vector": (64,), f"{LAYER}.lora_B.bias": (64,),
         "lm_head.modules_to_save.weight": (8000, 64), "model.norm.weight": (64,),
         "model.layers.1.self_attn.k_proj.base_layer.bias": (32,)},
        use_dora=True, lora_bias=True, bias="all", modules_to_save=["lm_head", "norm"],
    )  # fmt: skip
    old, parts = weights_of(base), stored_in(adapter)
    made = weights_of(write_merge(tmp_path / "made", merge_into_folder(str(base), [str(adapter)])))
    summed = (
        old[f"{LAYER}.weight"]
        + 2 * parts[f"{LAYER}.lora_B.weight"] @ parts[f"{LAYER}.lora_A.weight"]
    )
    lengths = np.linalg.norm(summed, axis=1, keepdims=True)
    right = dict(old) | {
        f"{LAYER}.weight": parts[f"{LAYER}.lora_magnitude_vector"][:, None] / lengths * summed,
        f"{LAYER}.bias": old[f"{LAYER}.bias"] + 2 * parts[f"{LAYER}.lora_B.bias"],
        HEAD: parts["lm_head.modules_to_save.weight"],
        "model.norm.weight": parts["model.norm.weight"],
        "model.layers.1.self_attn.k_proj.bias": parts[
            "model.layers.1.self_attn.k_proj.base_layer.bias"
        ],
    }
    for name, array in right.items():
        rtol = 1e-5 if kind == "F32" else 2**-8
        np.testing.assert_allclose(made[name], array, rtol=rtol, atol=1e-5, err_msg=name)


REFUSED: list[tuple[dict[str, tuple[int, ...]], dict[str, Any], str, str]] = [
    ({HEAD: (8000, 64)}, {}, "=2", f"'{HEAD}': is not a sum, so that it has no scale"),
    ({HEAD: (8001, 64)}, {}, "", r"is \[8001, 64\], but \[8000, 64\] in the base model"),
    ({}, {"modules_to_save": ["lm_head"]}, "", "has no tensor of 'lm_head'"),
    ({}, {"use_dora": True}, "", f"has no lora_magnitude_vector of '{LAYER}.weight'"),
    ({f"{LAYER}.lora_magnitude_vector": (64,)}, {"use_dora": True}, "=2", "it has no scale"),
    ({"x.lora_magnitude_vector": (64,)}, {}, "", "x.lora_magnitude_vector' without a pair"),
    ({f"{LAYER}.lora_B.bias": (64,)}, {"lora_bias": True}, "", "q_proj.bias', which the base"),
    ({f"{LAYER}.lora_zebra": (64,)}, {}, "", "lora_zebra', which is no part of plain LoRA"),
    ({}, {"layer_replication": [[0, 1]]}, "", "asks for layers that stand several times"),
]


@pytest.mark.parametrize(("more", "config", "scale", "what"), REFUSED)
def test_what_cannot_be_merged(
    more: dict[str, tuple[int, ...]], config: dict[str, Any], scale: str, what: str, base: Path
) -> None:
    adapter = richer_adapter(base, "adapter", more, **config)
    with pytest.raises(MtkitError, match=what):
        merge_into_folder(str(base), [f"{adapter}{scale}"])


def test_what_has_an_order_is_merged_alone(base: Path, tmp_path: Path) -> None:
    whole = richer_adapter(base, "whole", {HEAD: (8000, 64)})
    dora = richer_adapter(base, "dora", {f"{LAYER}.lora_magnitude_vector": (64,)}, use_dora=True)
    for pair in ((whole, whole), (whole, dora), (dora, whole)):
        with pytest.raises(UnsupportedError, match="merge one adapter at a time"):
            merge_into_folder(str(base), list(map(str, pair)))
    plain = convert_model(base, tmp_path / "base.gguf", kind="f16").path
    for adapter in (whole, dora):
        with pytest.raises(UnsupportedError, match="mtkit merge BASE_FOLDER --lora ADAPTER -o"):
            merge_into_gguf(plain, [str(adapter)])
    tied = write_folder(tmp_path / "tied", config={"tie_word_embeddings": True})
    with pytest.raises(UnsupportedError, match="one matrix for embedding and head"):
        merge_into_folder(str(tied), [str(whole)])


def test_norms_take_the_place_of_those_of_a_gguf(base: Path, tmp_path: Path) -> None:
    adapter = richer_adapter(base, "norms", {"model.norm.weight": (64,)})
    plain = convert_model(base, tmp_path / "base.gguf", kind="f16").path
    made = open_gguf(str(write_merge(tmp_path / "m.gguf", merge_into_gguf(plain, [str(adapter)]))))
    norm = made.names["output_norm.weight"]
    assert norm.type is F32
    values = np.frombuffer(made.tensor_data(norm), "<f4")
    np.testing.assert_array_equal(values, stored_in(adapter)["model.norm.weight"])


@pytest.mark.parametrize("form", ["folder", "gguf"])
def test_what_does_not_fit_is_named(form: str, base: Path, tmp_path: Path) -> None:
    model = str(base)
    merge: Any = merge_into_folder
    if form == "gguf":
        model = convert_model(base, tmp_path / "base.gguf", kind="f16").path
        merge = merge_into_gguf
    layer = "model.layers.0.self_attn.q_proj"
    bad: list[tuple[dict[str, tuple[int, int]], type[MtkitError], str]] = [
        ({layer.replace("q_proj", "z_proj"): (64, 64)}, MtkitError, "z_proj.weight'"),
        ({layer.replace(".0.", ".9."): (64, 64)}, MtkitError, "layers.9.self_attn.q_proj.weight'"),
        ({layer: (64, 32)}, MtkitError, "adds a matrix of [64, 32], but the base model has"),
    ]
    for number, (layers, kind, what) in enumerate(bad):
        adapter = write_adapter(tmp_path / f"bad-{number}", base, layers)
        with pytest.raises(kind) as caught:
            merge(model, [str(adapter)])
        assert what in str(caught.value)
    with pytest.raises(UsageError, match="is neither a file nor a folder"):
        merge(model, [str(tmp_path / "nothing")])
    with pytest.raises(UsageError, match="so it is no adapter"):
        merge(model, [str(base)])
    other = write_folder(tmp_path / "other", "Qwen2ForCausalLM")
    lora = convert_adapter(adapter_of(other, "others", ("q_proj",))).path
    with pytest.raises(UnsupportedError, match="is an adapter of 'qwen2', but the model is 'llama"):
        merge(model, [lora])
    dora = adapter_of(base, "dora", ("q_proj",), config={"use_dora": True})
    with pytest.raises(MtkitError, match=r"DoRA|lora_magnitude_vector"):
        merge(model, [str(dora)])


@pytest.mark.parametrize("form", ["folder", "gguf"])
def test_values_that_do_not_fit_their_type(form: str, tmp_path: Path) -> None:
    base = write_folder(tmp_path / "base", kind="F16")
    adapter = adapter_of(base, "adapter", ("q_proj",))
    merge: Any = merge_into_folder if form == "folder" else merge_into_gguf
    for scale, what in (("1e6", "is too large for F16 once merged"), ("nan", "not a number")):
        with pytest.raises((FormatError, UsageError), match=what):
            write_merge(tmp_path / "made", merge(str(base), [f"{adapter}={scale}"]))


def test_the_command(base: Path, tmp_path: Path, mtkit: Run) -> None:
    adapter = adapter_of(base, "adapter", ("q_proj",))
    target = tmp_path / "merged"
    done = mtkit("merge", base, "--lora", adapter, "-o", target)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert sorted(Path(row[0]).name for row in rows) == sorted(p.name for p in base.iterdir())
    assert json.loads((target / MODEL_CONFIG).read_text())["num_hidden_layers"] == 2
    whole = tmp_path / "merged.gguf"
    assert mtkit("merge", base, "--lora", f"{adapter}=2", "-o", whole).returncode == 0
    assert whole.exists()
    lora = convert_adapter(adapter).path
    text = one_line(mtkit("merge", whole, lora), 2)
    assert f"{lora}: is a LoRA adapter; to merge it: mtkit merge {whole} --lora {lora}" in text
    assert "is a LoRA adapter" in one_line(mtkit("merge", base, adapter), 2)
    assert "is a whole model, not a shard" in one_line(mtkit("merge", whole, whole), 2)
    assert "no output file" in one_line(mtkit("merge", base, "--lora", lora), 2)
    assert "already exists" in one_line(mtkit("merge", base, "--lora", lora, "-o", whole), 2)
