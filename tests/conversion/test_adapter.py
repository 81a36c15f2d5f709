"""LoRA adapters of PEFT as GGUF: the bytes are the reference's; no plain LoRA is refused."""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import LAYERS, linear_layers, write_adapter
from hf_models import _maker, cases, folder
from model_folders import write_folder, write_weights

from mtkit.architectures import architectures, describe_config
from mtkit.architectures.metadata import keys_of
from mtkit.architectures.tensor_match import every_match
from mtkit.checkpoints import adapter_folder
from mtkit.checkpoints.adapter_folder import WEIGHTS
from mtkit.checkpoints.folder_files import tensors_of
from mtkit.checkpoints.safetensors import NewWeight, file_chunks
from mtkit.conversion.adapter import convert_adapter
from mtkit.conversion.adapter_merge import merge_into_folder
from mtkit.errors import FormatError, LossError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.values import BF16, encode_values
from mtkit.inspection.adapter import inspect_adapter

GOLDEN = {
    ("llama-spm", "f32"): "502cd2b74bf73a6d6654911e5dd4fbacd442c807fe2ab213f5871b18bfe1e1eb",
    ("llama-spm", "q8_0"): "85d1de127fe38078c68302213dd8f30dcd2dac7b444e4cda9fb4e5e07d788aa3",
    ("llama-spm", "bf16"): "3a80826e8e7aa83f712c62f979a0d72a6b516136650707beb14e077631ad69c6",
    ("qwen3", "f16"): "75bda772a6ca5878688746957d2ab136f069c7b5426b8d41af6ac9989daefbd0",
    ("mixtral", "f32"): "c34c8af37df7a316b6828c0cd908d8f76ae47e81dcf195e4d3d55441cd8625c6",
    ("phi3", "f32"): "4b76c1514af13922b988d96a7c6a953c3f6d791419f9c8600c5161b0b2b4055e",
    ("falcon", "f32"): "40c72d1b84aa905a5675a144ed312f09f48bcd96975b8a577a7b57662d2d571e",
}
"""Case and type -> SHA-256 of what convert_lora_to_gguf.py of llama.cpp writes (--outtype)."""
TARGETS = {
    "mixtral": ("q_proj", "k_proj", "w1", "w2", "w3", "gate"),
    "phi3": ("qkv_proj", "gate_up_proj", "o_proj"),
    "falcon": ("query_key_value", "dense"),
}
SAVED = "base_model.model.model.norm.weight"


def stored_adapter(path: Path, name: str) -> Path:
    """Return an adapter of a shared model whose bytes are the same everywhere."""
    base = folder(name)
    made = write_adapter(path, None, linear_layers(base, TARGETS.get(name, LAYERS)))
    weights = made / adapter_folder.WEIGHTS
    shapes = {
        half.weight.name: ["F32", list(half.weight.shape)]
        for pair in adapter_folder.read(str(made)).pairs.values()
        for half in (pair.a, pair.b)
    }
    _maker("make_models.py").write_safetensors(weights, name, shapes)
    return made


@pytest.mark.parametrize(("name", "kind"), GOLDEN)
def test_bytes_are_the_references(name: str, kind: str, tmp_path: Path) -> None:
    adapter = stored_adapter(tmp_path / "adapter", name)
    made = convert_adapter(adapter, tmp_path / "a.gguf", base=folder(name), kind=kind).path
    with open(made, "rb") as file:
        assert hashlib.sha256(file.read()).hexdigest() == GOLDEN[name, kind]


def test_what_moves_rows_moves_those_of_b() -> None:
    """Of every matrix of the table: B and A turned first are the turned B A."""
    checked = set()
    random = np.random.default_rng(7)
    for case in cases().values():
        fields = case["files"]["config.json"]
        classes = fields.get("architectures") or fields["text_config"]["architectures"]
        if classes[0] not in architectures():
            continue
        architecture, config = describe_config(fields, "config.json")
        keys = keys_of(architecture.name, architecture.keys, config)
        metadata = {key.name: key.value for key in keys}
        dims = architecture.sizes(metadata, config.count("vocab_size"))
        for match in every_match(architecture, dims):
            change, shapes = match.row.change, match.gguf_shapes
            if not change.moves_rows or any(len(shape) != 2 for shape in match.folder_shapes):
                continue
            ((rows, columns),) = match.folder_shapes
            b, a = random.normal(size=(rows, 3)), random.normal(size=(3, columns))
            whole = change.forward([b @ a], shapes, match.dims)
            parts = change.forward([b], [(shape[0], 3) for shape in shapes], match.dims)
            for one, part in zip(whole, parts, strict=True):
                np.testing.assert_allclose(part @ a, one, rtol=1e-12, atol=1e-12)
            checked.add(type(change).__name__)
    assert checked == {
        "Permuted", "GroupedQkv", "GroupedQkvz", "Halved", "InTurns", "Split", "SplitHeads",
        "Twice",
    }  # fmt: skip


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a model of the test's own."""
    return write_folder(tmp_path / "base")


def adapter_of(base: Path, **options: Any) -> Path:
    layers = linear_layers(base, options.pop("wanted", ("q_proj", "down_proj")))
    return write_adapter(base.parent / options.pop("name", "adapter"), base, layers, **options)


def test_names_and_scale(base: Path) -> None:
    made = convert_adapter(adapter_of(base)).path
    assert made == str(base.parent / "adapter" / "adapter-F32.gguf")
    file = open_gguf(made)
    assert dict(file.metadata.items()) == {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "general.name": "Adapter",
        "adapter.lora.alpha": 8.0,
        "general.quantization_version": 2,
    }
    assert [(one.name, one.shape) for one in file.tensors[-4:]] == [
        ("blk.0.ffn_down.weight.lora_a", (128, 4)),
        ("blk.0.ffn_down.weight.lora_b", (4, 64)),
        ("blk.1.ffn_down.weight.lora_a", (128, 4)),
        ("blk.1.ffn_down.weight.lora_b", (4, 64)),
    ]


def test_rank_stabilized(base: Path) -> None:
    """Llama.cpp divides by the rank, rsLoRA by its root."""
    made = convert_adapter(adapter_of(base, config={"use_rslora": True}, rank=16)).path
    assert open_gguf(made).metadata["adapter.lora.alpha"] == 8 * 4


def test_a_base_model_without_its_head(base: Path) -> None:
    """What was trained on AutoModel has names without the part in front."""
    layers = {
        name.removeprefix("model."): shape
        for name, shape in linear_layers(base, ("q_proj",)).items()
    }
    made = convert_adapter(write_adapter(base.parent / "adapter", base, layers)).path
    assert "blk.1.attn_q.weight.lora_a" in open_gguf(made).names


def test_where_the_base_model_is(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, else what the adapter says: a folder, or a name in the hub's local cache."""
    adapter = adapter_of(base, config={"base_model_name_or_path": "some/model"})
    target = base.parent / "a.gguf"
    monkeypatch.setenv("HF_HUB_CACHE", str(base.parent / "hub"))
    with pytest.raises(UsageError, match="its base model 'some/model' is neither a folder nor in"):
        convert_adapter(adapter, target)
    with pytest.raises(UsageError, match="other/one: is neither a folder nor in"):
        convert_adapter(adapter, target, base="other/one")
    assert not target.exists()
    snapshot = base.parent / "hub" / "models--some--model" / "snapshots" / ("0" * 40)
    snapshot.parent.mkdir(parents=True)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text("0" * 40)
    base.rename(snapshot)
    assert convert_adapter(adapter, target).path == str(target)
    with pytest.raises(UsageError, match="already exists"):
        convert_adapter(adapter, target)
    convert_adapter(adapter, target, force=True)
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA", "lora_alpha": 1}')
    with pytest.raises(UsageError, match="does not say what its base model is"):
        convert_adapter(adapter, target, force=True)


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"peft_type": "IA3"}, "peft_type: is 'IA3', mtkit converts LORA"),
    ({"modules_to_save": ["lm_head"]}, "modules_to_save: asks for whole layers"),
    ({"use_dora": True}, "use_dora: asks for DoRA"),
    ({"bias": "all"}, "bias: asks for biases"),
    ({"alpha_pattern": {r"(a+)+": 2}}, "alpha_pattern: '(a+)+' is a pattern that mtkit"),
    ({"alpha_pattern": {r".*.*.*": 2}}, "alpha_pattern: '.*.*.*' is a pattern that mtkit"),
    ({"trainable_token_indices": [1]}, "trainable_token_indices: asks for single embeddings"),
    ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights: is 'pissa_niter_4', which"),
    ({"init_lora_weights": 3}, "init_lora_weights: is '3', which"),
    ({"alora_invocation_tokens": [1, 2]}, "alora_invocation_tokens: asks for an adapter that"),
]


@pytest.mark.parametrize(("config", "what"), OTHERS)
def test_no_plain_lora(config: dict[str, Any], what: str, base: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        convert_adapter(adapter_of(base, config=config))
    assert what in str(caught.value)


def with_tensors(base: Path, change: dict[str, tuple[int, ...] | None]) -> Path:
    """Return an adapter whose tensors are others."""
    adapter = adapter_of(base)
    shapes: dict[str, tuple[int, ...]] = {
        half.weight.name: half.weight.shape
        for pair in adapter_folder.read(str(adapter)).pairs.values()
        for half in (pair.a, pair.b)
    }
    for name, shape in change.items():
        if shape is None:
            del shapes[name]
        else:
            shapes[name] = shape
    write_weights(adapter / adapter_folder.WEIGHTS, shapes, "F32")
    return adapter


Q = "base_model.model.model.layers.0.self_attn.q_proj"
TENSORS: list[tuple[dict[str, tuple[int, ...] | None], type[MtkitError], str]] = [
    ({SAVED: (63,)}, FormatError, "'model.norm.weight': has the shape [63], the base model [64]"),
    ({f"{Q}.weight": (64, 64)}, UnsupportedError, f"has '{Q}.weight', which is no part of plain"),
    ({f"{Q}.lora_magnitude_vector": (64,)}, UnsupportedError, "is no part of plain LoRA"),
    (
        {
            "base_model.model.model.embed_tokens.lora_embedding_A": (4, 7999),
            "base_model.model.model.embed_tokens.lora_embedding_B": (64, 4),
        },
        FormatError,
        "adds a matrix of [7999, 64], but the base model has [8000, 64]",
    ),
    ({f"{Q}.lora_B.weight": None}, FormatError, "has no lora_B of 'model.layers.0.self_attn.q_p"),
    ({f"{Q}.lora_B.weight": (64, 5)}, FormatError, "the shapes [4, 64] and [64, 5] are no pair"),
    (
        {f"{Q}.lora_B.weight": (32, 4)},
        FormatError,
        "adds a matrix of [32, 64], but the base model has",
    ),
    (
        {f"{Q}x.lora_A.weight": (4, 64), f"{Q}x.lora_B.weight": (64, 4)},
        FormatError,
        "LlamaForCausalLM has no tensor 'model.layers.0.self_attn.q_projx.weight'; check that this",
    ),
    (
        {
            f"{Q.replace('.0.', '.7.')}.lora_A.weight": (4, 64),
            f"{Q.replace('.0.', '.7.')}.lora_B.weight": (64, 4),
        },
        FormatError,
        "has no tensor 'model.layers.7.self_attn.q_proj.weight'",
    ),
]


@pytest.mark.parametrize(("change", "kind", "what"), TENSORS)
def test_tensors_that_do_not_fit(
    change: dict[str, tuple[int, ...] | None], kind: type[MtkitError], what: str, base: Path
) -> None:
    adapter = with_tensors(base, change)
    with pytest.raises(kind) as caught:
        convert_adapter(adapter)
    assert what in str(caught.value)
    assert str(caught.value).startswith(str(adapter / adapter_folder.WEIGHTS))
    assert not list(adapter.glob("*.gguf*"))


def test_the_embedding(base: Path) -> None:
    """llama.cpp looks up rows of A; PEFT has a column for each token."""
    name = "base_model.model.model.embed_tokens.lora_embedding_"
    adapter = with_tensors(base, {f"{name}A": (4, 8000), f"{name}B": (64, 4)})
    stored = {one.weight.name: one.floats() for one in tensors_of(str(adapter / WEIGHTS))}
    file = open_gguf(convert_adapter(adapter).path)
    a, b = (file.names[f"token_embd.weight.lora_{half}"] for half in "ab")
    assert (a.shape, b.shape) == ((4, 8000), (4, 64))
    values = np.frombuffer(file.tensor_data(a), "<f4").reshape(8000, 4)
    np.testing.assert_array_equal(values, stored[f"{name}A"].T)


def test_norms_are_written_and_said(base: Path) -> None:
    """As convert_lora_to_gguf.py does; llama.cpp passes over them. Gemma stores them less 1."""
    made = convert_adapter(with_tensors(base, {SAVED: (64,)}))
    assert open_gguf(made.path).names["output_norm.weight"].type.name == "F32"
    assert any("llama.cpp passes over norms" in note for note in made.model.notes)
    gemma = write_folder(base.parent / "gemma", "GemmaForCausalLM", optional=())
    adapter = adapter_of(gemma, wanted=("up_proj",), config={"modules_to_save": ["norm"]}, name="g")
    with pytest.raises(FormatError, match="has no tensor of 'norm'"):
        convert_adapter(adapter)
    halves = {one.weight.name: one.weight.shape for one in tensors_of(str(adapter / WEIGHTS))}
    write_weights(adapter / WEIGHTS, {**halves, SAVED: (64,)}, "F32")
    stored = {one.weight.name: one.floats() for one in tensors_of(str(adapter / WEIGHTS))}
    file = open_gguf(convert_adapter(adapter).path)
    norm = np.frombuffer(file.tensor_data(file.names["output_norm.weight"]), "<f4")
    np.testing.assert_array_equal(norm, stored[SAVED] + 1)


@pytest.mark.parametrize("root", [False, True])
def test_layers_with_a_scale_of_their_own(base: Path, root: bool) -> None:
    """It is in their B: alpha / rank times B A is what PEFT adds to each."""
    config = {"alpha_pattern": {"down_proj": 5, "^model.layers.1.self_attn.q_proj": 3},
              "use_rslora": root}  # fmt: skip
    adapter = adapter_of(base, config=config)
    halves = {one.weight.name: one for one in tensors_of(str(adapter / WEIGHTS))}
    plain = adapter_of(base, name="plain", wanted=("q_proj",), rank=2)
    halves |= {  # of rank 2, where the others have 4
        one.weight.name: one for one in tensors_of(str(plain / WEIGHTS))
        if "layers.0" in one.weight.name
    }  # fmt: skip
    write_weights(adapter / WEIGHTS, {n: one.weight.shape for n, one in halves.items()}, "F32")
    made = convert_adapter(adapter)
    assert "3 layers with a scale of their own" in made.model.notes[0] or root
    file = open_gguf(made.path)
    values = {
        tensor.name: np.frombuffer(file.tensor_data(tensor), "<f4").reshape(tensor.shape[::-1])
        for tensor in file.tensors
    }
    for layer, pair in adapter_folder.read(str(adapter)).pairs.items():
        alpha = 5 if "down_proj" in layer else 3 if "layers.1.self" in layer else 8
        rank = len(pair.a.floats())
        scale = alpha / (rank**0.5 if root else rank)
        number = layer.split(".")[2]
        name = f"blk.{number}.{'ffn_down' if 'down' in layer else 'attn_q'}.weight"
        added = values[f"{name}.lora_b"] @ values[f"{name}.lora_a"]
        added = added * (file.metadata["adapter.lora.alpha"] / rank)
        right = scale * pair.b.floats() @ pair.a.floats()
        if "attn_q" in name:  # llama.cpp turns by other pairs of rows
            added, right = np.sort(added, axis=0), np.sort(right, axis=0)
        np.testing.assert_allclose(added, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "value", "what"), [
    ("f16", 1e5, "too large for F16"), ("q8_0", 1e8, "too large"),
    ("f32", float("nan"), r"not a number \(NaN\)"), ("bf16", float("-inf"), "1 value is infinite"),
])  # fmt: skip
def test_values_that_a_type_does_not_hold(base: Path, kind: str, value: float, what: str) -> None:
    adapter = adapter_of(base, rank=32)
    path = adapter / WEIGHTS
    data = bytearray(path.read_bytes())
    data[-4:] = np.float32(value).tobytes()
    path.write_bytes(data)
    with pytest.raises(LossError, match=what) as caught:
        convert_adapter(adapter, kind=kind)
    assert 'allow_loss=["values"]' in str(caught.value)
    assert not list(adapter.glob("*.gguf*"))
    made = convert_adapter(adapter, kind=kind, allow_loss=("values",))
    assert [loss.code for loss in made.losses] == ["values"]


def as_mlx(adapter: Path, base: Path, scale: float, **config: Any) -> Path:
    """Write an adapter of PEFT as mlx-lm does: both matrices transposed, the scale as it is."""
    weights = []
    for stored in tensors_of(str(adapter / WEIGHTS)):
        name = (
            stored.weight.name.removeprefix(adapter_folder.PREFIX).removesuffix(".weight").lower()
        )
        data = np.ascontiguousarray(stored.floats().T).tobytes()
        shape = stored.weight.shape[::-1]
        weights.append(NewWeight(name, "F32", shape, len(data), partial(iter, (data,))))
    target = adapter.with_name("mlx")
    target.mkdir()
    (target / "adapters.safetensors").write_bytes(b"".join(file_chunks(weights)))
    document = {
        "fine_tune_type": "lora", "model": str(base), "num_layers": 2, "iters": 5,
        "lora_parameters": {"rank": 4, "scale": scale, "dropout": 0.0}, **config,
    }  # fmt: skip
    (target / adapter_folder.CONFIG).write_text(json.dumps(document))
    return target


def test_an_adapter_of_mlx(base: Path) -> None:
    adapter = adapter_of(base)  # alpha 8, rank 4
    mlx = as_mlx(adapter, base, 2.0)
    left, right = (open_gguf(convert_adapter(folder).path) for folder in (adapter, mlx))
    assert left.metadata["adapter.lora.alpha"] == right.metadata["adapter.lora.alpha"] == 8
    assert list(left.names) == list(right.names)
    for name, tensor in left.names.items():
        assert left.tensor_data(tensor) == right.tensor_data(right.names[name]), name
    report = inspect_adapter(str(mlx))
    assert (report.kind, report.alpha, report.refused) == ("MLX lora", 2.0, None)
    assert report.notes == ()
    merged = [
        b"".join(
            chunk
            for file in merge_into_folder(str(base), [str(folder)]).files
            for chunk in file.chunks
        )
        for folder in (adapter, mlx)
    ]
    assert merged[0] == merged[1]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"fine_tune_type": "dora"}, "is 'dora' of MLX"),
        ({"fine_tune_type": "full"}, "is 'full' of MLX"),
        ({"lora_parameters": {"rank": 4}}, "lora_parameters.scale: is not a number"),
    ],
)
def test_other_adapters_of_mlx(base: Path, config: dict[str, Any], what: str) -> None:
    mlx = as_mlx(adapter_of(base), base, 2.0, **config)
    with pytest.raises(MtkitError, match=what):
        convert_adapter(mlx)


PATTERNS = [
    r"layers\.\d+\.mlp\.down_proj", r".*layers\.1\..*proj", "^model.layers.0.self_attn.q_proj",
    r"(q|k)_proj", "proj", r"model\.layers\.[01]\.self_attn\..*",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_alpha_are_those_of_peft(base: Path, pattern: str) -> None:
    adapter = adapter_of(base, config={"alpha_pattern": {pattern: 3, "up_proj": 5}})
    for name, pair in adapter_folder.read(str(adapter)).pairs.items():
        layer = name.removesuffix(".weight")
        fits = (key for key in (pattern, "up_proj") if re.match(rf"(.*\.)?({key})$", layer))
        assert pair.alpha == {pattern: 3, "up_proj": 5}.get(next(fits, ""), 8), name


def trained_rows(base: Path, numbers: Any, count: int, columns: int = 64) -> Path:
    adapter = adapter_of(base, config={"trainable_token_indices": numbers})
    halves = {one.weight.name: one.weight.shape for one in tensors_of(str(adapter / WEIGHTS))}
    name = f"{adapter_folder.PREFIX}model.embed_tokens.token_adapter.trainable_tokens_delta"
    write_weights(adapter / WEIGHTS, {**halves, name: (count, columns)}, "F32")
    return adapter


@pytest.mark.parametrize("numbers", [[7, 3], {"embed_tokens": [7, 3]}])
def test_single_rows_that_were_trained_are_merged(base: Path, numbers: Any, tmp_path: Path) -> None:
    adapter = trained_rows(base, numbers, 2)
    with pytest.raises(UnsupportedError, match="single embeddings"):
        convert_adapter(adapter)
    merge = merge_into_folder(str(base), [str(adapter)])
    data = next(b"".join(file.chunks) for file in merge.files if file.name == "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(data)
    name = "model.embed_tokens.weight"
    new = {one.weight.name: one for one in tensors_of(str(tmp_path / "model.safetensors"))}
    old = {one.weight.name: one for one in tensors_of(str(base / "model.safetensors"))}
    rows = next(one for one in tensors_of(str(adapter / WEIGHTS)) if "delta" in one.weight.name)
    wanted = old[name].floats()
    wanted[[7, 3]] = rows.floats()
    assert new[name].weight.type == "BF16"
    assert bytes(new[name].data) == bytes(memoryview(encode_values(wanted, BF16)))


@pytest.mark.parametrize(
    ("numbers", "count", "columns", "what"),
    [
        ([7], 2, 64, "does not say which rows"), ([3, 3], 2, 64, "does not say which rows"),
        ({"lm_head": [3, 4]}, 2, 64, "does not say which rows"),
        ({"embed_tokens": [3], "lm_head": [3]}, 1, 64, "lm_head"),
        ([3], 1, 32, "row 3 of"), ([10**6], 1, 64, "row 1000000 of"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(
    base: Path, numbers: Any, count: int, columns: int, what: str
) -> None:
    adapter = trained_rows(base, numbers, count, columns)
    with pytest.raises(MtkitError, match=what):
        merge_into_folder(str(base), [str(adapter)])


def test_what_an_adapter_says(base: Path) -> None:
    adapter = adapter_of(base, config={"zebra_rate": 1})
    report = inspect_adapter(str(adapter))
    assert (report.kind, report.ranks, report.alpha, report.base) == ("LoRA", (4,), 8, str(base))
    assert report.modules == {"q_proj": 2, "down_proj": 2}
    assert report.refused is None
    assert "zebra_rate" in report.notes[0]
    assert convert_adapter(adapter).model.notes == report.notes
    edited = {**json.loads((adapter / adapter_folder.CONFIG).read_text()), "use_dora": True}
    (adapter / adapter_folder.CONFIG).write_text(json.dumps(edited))
    report = inspect_adapter(str(adapter))
    assert report.kind == "DoRA"
    assert "asks for DoRA" in str(report.refused)


def test_the_output_of_a_tied_model(tmp_path: Path) -> None:
    base = write_folder(tmp_path / "base", config={"tie_word_embeddings": True})
    with pytest.raises(UnsupportedError, match="adapts the output, which is the embedding"):
        convert_adapter(adapter_of(base, wanted=("lm_head",)))


def test_weights_that_torch_saved(base: Path) -> None:
    adapter = adapter_of(base)
    weights = adapter / adapter_folder.WEIGHTS
    specs = {t.weight.name: [t.weight.type, list(t.weight.shape)] for t in tensors_of(str(weights))}
    writer = _maker("reference/folders.py")
    writer.write_safetensors(weights, "a", specs)
    plain = Path(convert_adapter(adapter, adapter / "plain.gguf").path).read_bytes()
    weights.unlink()
    writer.write_bin(adapter / "adapter_model.bin", "a", specs)
    saved = convert_adapter(adapter, adapter / "saved.gguf")
    assert Path(saved.path).read_bytes() == plain


def test_files_that_are_missing_or_damaged(base: Path) -> None:
    adapter = adapter_of(base)
    config, weights = adapter / adapter_folder.CONFIG, adapter / adapter_folder.WEIGHTS
    assert adapter_folder.sniff(str(adapter))
    assert not adapter_folder.sniff(str(base))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-5])
    with pytest.raises(FormatError, match=r"adapter_model\.safetensors"):
        convert_adapter(adapter)
    weights.rename(adapter / "adapter_model.bin")
    with pytest.raises(FormatError, match=r"adapter_model\.bin"):
        convert_adapter(adapter)
    (adapter / "adapter_model.bin").unlink()
    with pytest.raises(UsageError, match=r"has no adapter_model\.safetensors"):
        convert_adapter(adapter)
    weights.write_bytes(whole)
    for alpha in (0, None, "8", True, 1e39):
        config.write_text(json.dumps({"peft_type": "LORA", "lora_alpha": alpha}))
        with pytest.raises(FormatError, match="lora_alpha: is not a number other than 0"):
            convert_adapter(adapter)
    config.write_text("[]")
    with pytest.raises(FormatError, match="is not a JSON object"):
        convert_adapter(adapter)
    config.unlink()
    with pytest.raises(UsageError):
        convert_adapter(adapter)
