"""Whatever of a model folder is not read is named: drawn additions, and each kind by itself."""

from __future__ import annotations

import json
import re
import shutil
from itertools import product
from pathlib import Path
from random import Random

import pytest
from adapters import linear_layers, write_adapter
from folder_additions import ROWS, change_json, try_one, what_is_said, what_is_used
from hf_models import folder as golden_folder
from hf_models import names, own_cases
from model_folders import write_folder

from mtkit.checkpoints.folder_files import INDEX, MODEL_CONFIG, WEIGHTS
from mtkit.checkpoints.tensor_names import PREFIXES, common_prefix
from mtkit.checkpoints.weight_forms import FORMS, loader_of, unread_weights
from mtkit.checkpoints.without_effect import FIELDS, FILES, READ_FIELDS, is_known_field
from mtkit.conversion.model import convert_model, plan_gguf, prepare_gguf
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf

DRAWS = 60


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "model"
    return write_folder(path, tokenizer="bbpe-8k", config={"vocab_size": ROWS})


@pytest.fixture(scope="module")
def adapter(base: Path) -> Path:
    return write_adapter(base.parent / "adapter", base, linear_layers(base, ("q_proj",)))


@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_drawn_addition_is_named(base: Path, adapter: Path, tmp_path: Path, seed: int) -> None:
    source = base if seed % 4 else adapter
    addition, text = try_one(Random(seed), source, tmp_path / "model")
    assert any(name in text for name in addition.names), (addition, text)


TOKENS = [
    ("added_tokens.json", {"zebra": 5}, "added_tokens.json: tokens not in the vocabulary: 'zebra'"),
    ("added_tokens.json", {"<|im_end|>": 5}, "'<|im_end|>' (5 there, 8191 in the vocabulary)"),
    ("special_tokens_map.json", {"extra_special_tokens": ["zebra"]}, "not in the vocabulary"),
    ("special_tokens_map.json", {"sep_token": {"content": "zebra"}}, "vocabulary: 'zebra'"),
    ("tokenizer_config.json", {"extra_special_tokens": {"z_token": "zebra"}}, "has alone: zebra"),
    ("tokenizer_config.json", {"added_tokens_decoder": {"8190": {"content": "<|im_end|>"}}},
     "'<|im_end|>' (8190 there, 8191 in the vocabulary)"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "fields", "what"), TOKENS)
def test_a_token_that_is_only_named(
    file: str, fields: dict[str, object], what: str, base: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(base, tmp_path / "model")
    change_json(path / file, **fields)
    assert what in what_is_used(path)


def test_a_sound_folder_has_no_remainder(base: Path) -> None:
    assert what_is_said(base) == ""


PUBLISHED = [name for name in names() if name not in {"mistral", "mpt", *own_cases()}]
"""Cases as a publisher writes them; our own name sizes twice, so that each class finds its."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_folders_have_no_remainder(name: str) -> None:
    assert plan_gguf(str(golden_folder(name))).folder_notes == ()


def test_the_tables_hold_nothing_twice() -> None:
    patterns = [name for row in FILES for name in row.names]
    assert len(patterns) == len(set(patterns))
    for file, rows in FIELDS.items():
        free = [name for row in rows if row.values is None for name in row.names]
        assert len(free) == len(set(free))
        assert not set(free) & set(READ_FIELDS[file])
    assert is_known_field(MODEL_CONFIG, "attention_dropout", 0.5)
    assert not is_known_field(MODEL_CONFIG, "is_decoder", True)


ROPES = [
    ("LlamaForCausalLM", {"rope_type": "ntk-by-parts", "factor": 2.0}, "ntk-by-parts"),
    ("LlamaForCausalLM", {"rope_type": "yarn"}, "'yarn' without a factor"),
    ("LlamaForCausalLM", {"type": "su"}, "'su' without short_factor"),
    ("LlamaForCausalLM", {"rope_type": "longrope", "factor": 2.0}, "'longrope' without"),
    ("Qwen2ForCausalLM", {"rope_type": "llama3", "factor": 8.0}, "llama.cpp's qwen2 models"),
    ("GemmaForCausalLM", {"rope_type": "linear", "factor": 2.0}, "llama.cpp's gemma models"),
    ("Qwen2ForCausalLM", {"type": "su", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
     "llama.cpp's qwen2 models"),
]  # fmt: skip


@pytest.mark.parametrize("field", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(("architecture", "scaling", "what"), ROPES)
def test_a_kind_of_rope_that_is_not_computed_is_refused(
    tmp_path: Path, architecture: str, scaling: dict[str, object], what: str, field: str
) -> None:
    path = write_folder(tmp_path / "model", architecture, config={field: scaling}, optional=())
    with pytest.raises(UnsupportedError, match=what) as caught:
        plan_gguf(str(path))
    assert caught.value.field == field


@pytest.mark.parametrize("kind", ["linear", "yarn", "llama3", "default", "dynamic"])
def test_a_kind_of_rope_that_is_written_or_without_effect(tmp_path: Path, kind: str) -> None:
    scaling = {"rope_type": kind, "factor": 2.0, "original_max_position_embeddings": 64}
    path = write_folder(tmp_path / "model", config={"rope_scaling": scaling})
    notes = plan_gguf(str(path)).folder_notes
    assert len(notes) == (kind == "dynamic"), notes
    assert all("dynamic" in note for note in notes)


def test_the_base_of_rotary_positions_under_any_name(tmp_path: Path) -> None:
    path = write_folder(
        tmp_path / "model",
        "GPTNeoXForCausalLM",
        config={"rotary_emb_base": 1e6, "rope_theta": None},
    )
    done = convert_model(path, tmp_path / "m.gguf", allow_loss=("ids", "ids-possible"))
    assert open_gguf(done.path).metadata["gptneox.rope.freq_base"] == 1e6


FILES_OF_FORMS = (
    "consolidated.safetensors", "weights.00.safetensors", "pytorch_model.safetensors",
    "tf_model.h5", "flax_model.msgpack", "model.ckpt", "onnx/model.onnx", "weights.npz",
    "weights.pkl", "consolidated.00.pth", "original/consolidated.00.pth", "model.tflite",
    "openvino_model.bin", "rust_model.ot", "model.bin", "weights.bin",
    "diffusion_pytorch_model.bin", "saved_model.pb", "model.mlpackage",
    "diffusion_pytorch_model.safetensors", "adapter_model.safetensors", "model.pdparams",
    "pytorch_model.safetensors.index.json",
)  # fmt: skip
IN_FOLDERS = (
    "global_step10/mp_rank_00_model_states.pt", "pytorch_model_fsdp_0/__0_0.distcp",
    "last/model.safetensors",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "has_config"),
    [*product(FILES_OF_FORMS, (True, False)), *product(IN_FOLDERS, (True,))],
)
def test_a_form_that_is_not_read_is_refused_by_name(
    tmp_path: Path, name: str, has_config: bool
) -> None:
    from mtkit.commands.convert import convert

    path = write_folder(tmp_path / "model", tokenizer="bbpe-8k")
    (path / name).parent.mkdir(exist_ok=True)
    (path / WEIGHTS).rename(path / name)
    if not has_config:
        (path / MODEL_CONFIG).unlink()
    with pytest.raises(UnsupportedError) as caught:
        convert(str(path), to="gguf")
    text = str(caught.value)
    assert name in text
    assert "--vocab-only" in text
    assert "AutoModel." not in text
    assert caught.value.exit_code == 4
    assert not list(path.glob("*.gguf"))


def test_a_damaged_pickle_has_two_ways_out(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", tokenizer="bbpe-8k")
    (path / WEIGHTS).unlink()
    (path / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(200))
    with pytest.raises(FormatError, match=r"download it again.*AutoModelForCausalLM"):
        convert_model(path, tmp_path / "m.gguf")


def test_the_advice_loads_the_whole_model() -> None:
    classes = {
        "LlamaForCausalLM": "AutoModelForCausalLM",
        "GPT2LMHeadModel": "AutoModelForCausalLM",
        "XLMRobertaForSequenceClassification": "AutoModelForSequenceClassification",
        "T5ForConditionalGeneration": "AutoModelForSeq2SeqLM",
        "BertModel": "BertModel",
        "": "AutoModelForCausalLM",
    }
    assert {name: loader_of({"architectures": [name]}) for name in classes} == classes
    for form in FORMS:
        assert "{" not in form.advice.format(loader="X")
    (file,) = unread_weights(".", ["pytorch_model.bin.index.json"])
    assert "AutoModelForCausalLM" in file.advice({})


@pytest.mark.parametrize("prefix", [*PREFIXES, "module._orig_mod.", "model."])
def test_what_wrappers_put_in_front(tmp_path: Path, prefix: str) -> None:
    def put_in_front(shapes: dict[str, tuple[int, ...]]) -> None:
        for name in list(shapes):
            shapes[prefix + name] = shapes.pop(name)

    path = write_folder(tmp_path / "model", change=put_in_front)
    plan = plan_gguf(str(path))
    assert prefix in plan.folder_notes[0]
    assert len(plan.folder_notes) == 1
    assert "output.weight" in {tensor.name for tensor in plan.tensors()}


def test_prefixes_that_are_names() -> None:
    assert common_prefix(["model.embed_tokens.weight", "model.norm.weight"]) == ""
    assert common_prefix(["module.a", "b"]) == ""
    assert common_prefix([]) == ""


def test_two_sets_of_weights(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", files=2)
    write_folder(path)  # the same values in one file
    assert plan_gguf(str(path)).folder.files == (WEIGHTS,)
    write_folder(path, kind="F16")
    with pytest.raises(UsageError) as caught:
        plan_gguf(str(path))
    assert WEIGHTS in str(caught.value)
    assert INDEX in str(caught.value)
    (path / "model-00002-of-00002.safetensors").unlink()
    plan = plan_gguf(str(path))
    assert plan.type == "f16"
    assert any(INDEX in note for note in plan.folder_notes)
    assert any("model-00001-of-00002.safetensors" in note for note in plan.folder_notes)


def test_weights_that_mlx_packed(tmp_path: Path) -> None:
    from mtkit.checkpoints import model_folder

    path = write_folder(tmp_path / "model")
    for settings in (
        {"quantization": {"group_size": 32, "bits": 8}},
        {"quantization_config": {"group_size": 64, "bits": 4, "mode": "affine"}},
    ):
        copy = write_folder(tmp_path / "model")
        change_json(copy / MODEL_CONFIG, **settings)
        with pytest.raises(UnsupportedError, match=r"\(by MLX\)"):
            model_folder.read(str(copy))
    config = json.loads((write_folder(path) / MODEL_CONFIG).read_text())
    config["quantization_config"] = {"quant_method": "awq", "group_size": 32, "bits": 4}
    (path / MODEL_CONFIG).write_text(json.dumps(config))
    with pytest.raises(MtkitError, match="awq"):
        model_folder.read(str(path))


@pytest.mark.parametrize("file", [MODEL_CONFIG, "generation_config.json"])
def test_a_list_of_ends_that_a_gguf_does_not_get(base: Path, tmp_path: Path, file: str) -> None:
    path = shutil.copytree(base, tmp_path / "model")
    (path / "tokenizer_config.json").unlink(missing_ok=True)
    (path / "generation_config.json").unlink(missing_ok=True)
    change_json(path / file, eos_token_id=[8191, 8189])
    prepared = prepare_gguf(str(path))
    has_end = "tokenizer.ggml.eos_token_id" in prepared.draft.keys
    said = any("eos_token_id [8191, 8189]" in text for text in prepared.vocabulary.assumptions)
    assert has_end != said


@pytest.mark.parametrize(
    "name",
    [
        "model.pte",
        "model.mar",
        "model.safetensors.incomplete",
        "model-00001-of-00002.safetensors.part",
        "model.safetensors.zst",
    ],
)
def test_weights_under_further_names(base: Path, tmp_path: Path, name: str) -> None:
    path = shutil.copytree(base, tmp_path / "model")
    (path / WEIGHTS).rename(path / name)
    with pytest.raises(UnsupportedError, match=re.escape(name)):
        plan_gguf(str(path))
