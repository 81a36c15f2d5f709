"""``check`` of a model folder: every rule has a folder that breaks it, sound ones break none."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adapters import linear_layers, write_adapter
from model_folders import write_folder, write_weights
from support import FIXTURES, shared

from mtkit.checkpoints import model_folder
from mtkit.checkpoints.folder_files import INDEX, MODEL_CONFIG, WEIGHTS
from mtkit.checks import Report, check, folder, special_ids, tokenizer_rules
from mtkit.conversion.model import convert_model, prepare_gguf
from mtkit.errors import MtkitError

SECOND = "model-00002-of-00002.safetensors"
HEAD = "lm_head.weight"
NORM = "model.norm.weight"


def codes(report: Report) -> list[str]:
    return sorted({one.rule.code for one in report.findings})


def edited(path: Path, **fields: object) -> Path:
    """Change fields of config.json; None takes one away."""
    config = {**json.loads((path / MODEL_CONFIG).read_text()), **fields}
    kept = {name: value for name, value in config.items() if value is not None}
    (path / MODEL_CONFIG).write_text(json.dumps(kept))
    return path


def without(path: Path, name: str) -> Path:
    (path / name).unlink()
    return path


def added(path: Path, name: str, data: bytes = b"") -> Path:
    (path / name).write_bytes(data)
    return path


def pickled(path: Path) -> Path:
    write_folder(path)
    (path / WEIGHTS).rename(path / "model.pth")
    return path


def in_two_forms(path: Path) -> Path:
    """Shards with their index, and a model.safetensors of other values."""
    write_folder(path, files=2)
    return write_folder(path, kind="F16")


def prefixed(names: dict[str, tuple[int, ...]]) -> None:
    for name in list(names):
        names[f"_orig_mod.{name}"] = names.pop(name)


def seeing(names: dict[str, tuple[int, ...]]) -> None:
    for name in list(names):
        names[f"language_model.{name}"] = names.pop(name)
    names["vision_tower.patch_conv.weight"] = (4, 3, 2, 2)


def adapter(path: Path, **config: object) -> Path:
    base = write_folder(path.parent / "base")
    return write_adapter(path, base, linear_layers(base, ("q_proj",)), config=config)


def twice(path: Path) -> Path:
    """Two files, no index, and a tensor in both."""
    write_folder(path, files=2)
    write_weights(path / SECOND, {"model.norm.weight": (64,), HEAD: (8000, 64)})
    return without(path, INDEX)


def retyped(path: Path) -> Path:
    """A norm in a type of eight bits, which its header says."""
    write_folder(path)
    data = bytearray((path / WEIGHTS).read_bytes())
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header[NORM].update(dtype="F8_E8M0", shape=[128])
    text = json.dumps(header, separators=(",", ":")).encode().ljust(size)
    (path / WEIGHTS).write_bytes(data[:8] + text[:size] + data[8 + size :])
    return path


BROKEN: list[tuple[str, Callable[[Path], Path]]] = [
    ("folder-config", lambda path: added(write_folder(path), MODEL_CONFIG, b"[1]")),
    ("folder-config", lambda path: without(write_folder(path), MODEL_CONFIG)),
    ("folder-weights", lambda path: without(write_folder(path), WEIGHTS)),
    ("folder-pickle", pickled),
    ("folder-form",
     lambda path: added(without(write_folder(path), WEIGHTS), "tf_model.h5", b"HDF")),
    ("folder-form", lambda path: (
        write_folder(path) / WEIGHTS).rename(path / "pytorch_model.safetensors").parent),
    ("folder-two-weights", in_two_forms),
    ("folder-prefix", lambda path: write_folder(path, change=prefixed)),
    ("folder-text-part", lambda path: edited(
        write_folder(path, change=seeing), vision_config={"hidden_size": 4})),
    ("folder-remainder", lambda path: edited(write_folder(path), zebra_factor=2)),
    ("folder-remainder", lambda path: added(write_folder(path), "zebra.dat")),
    ("folder-remainder", lambda path: edited(write_folder(path), tie_word_embeddings=True)),
    ("adapter-kind", lambda path: adapter(path, use_dora=True)),
    ("adapter-file", lambda path: without(adapter(path), "adapter_model.safetensors")),
    ("adapter-base", lambda path: adapter(path, base_model_name_or_path="some/model")),
    ("adapter-field", lambda path: adapter(path, zebra_rate=1)),
    ("folder-quantized",
     lambda path: edited(write_folder(path), quantization={"group_size": 32, "bits": 4})),
    ("folder-quantized",
     lambda path: edited(write_folder(path), quantization_config={"quant_method": "gptq"})),
    ("folder-quantized-parts", lambda path: edited(
        write_folder(path, change=lambda names: names.update({"a.qweight": (8, 8)})),
        quantization_config={"quant_method": "gptq", "bits": 4})),
    ("folder-unused",
     lambda path: added(write_folder(path), "consolidated.safetensors", b"\2\0\0\0\0\0\0\0{}")),
    ("folder-architecture", lambda path: edited(write_folder(path), architectures=["NoSuchLM"])),
    ("folder-architecture", lambda path: edited(write_folder(path), architectures=None)),
    ("folder-field", lambda path: edited(write_folder(path), rms_norm_eps="small")),
    ("folder-field", lambda path: edited(write_folder(path), num_hidden_layers=None)),
    ("folder-field", lambda path: edited(write_folder(path), num_hidden_layers=4_000_000)),
    ("folder-tensor-missing",
     lambda path: write_folder(path, change=lambda found: found.pop(NORM))),
    ("folder-tensor-missing", lambda path: edited(write_folder(path), num_hidden_layers=3)),
    ("folder-tensor-shape",
     lambda path: write_folder(path, change=lambda found: found.update({NORM: (65,)}))),
    ("folder-tensor-shape", lambda path: edited(write_folder(path), vocab_size=8001)),
    ("folder-tensor-unknown",
     lambda path: write_folder(path, change=lambda found: found.update(other=(3,)))),
    ("folder-tensor-unknown", lambda path: edited(write_folder(path), num_hidden_layers=1)),
    ("folder-tokenizer", lambda path: write_folder(path, tokenizer="")),
    ("folder-vocabulary",
     lambda path: write_folder(path, config={"vocab_size": 7999})),
    ("folder-support",
     lambda path: edited(write_folder(path, "OlmoeForCausalLM"), clip_qkv=8)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "made"), BROKEN)
def test_a_broken_rule_is_found_and_no_other(
    tmp_path: Path, code: str, made: Callable[[Path], Path]
) -> None:
    path = made(tmp_path / "model")
    report = check(str(path))
    assert codes(report) == [code]
    severities = {one.rule.severity for one in report.findings}
    assert severities <= {"error", "warning", "note"}
    if severities == {"note"} and code != "folder-weights":
        return
    with pytest.raises(MtkitError):
        prepare_gguf(str(path))


def test_rules_of_several_files(tmp_path: Path) -> None:
    twofold = twice(tmp_path / "twice")
    assert "folder-tensor-twice" in codes(check(str(twofold)))
    path = without(write_folder(tmp_path / "shard", files=2), INDEX)
    assert codes(check(str(path))) == []
    report = check(str(without(path, SECOND)))
    assert codes(report) == ["folder-shard", "folder-tensor-missing"]
    assert report.exit_code == 3
    assert "folder-type" in codes(check(str(retyped(tmp_path / "type"))))


def test_every_rule_is_tried() -> None:
    rules = {rule.code for rule in (*folder.FOLDER_RULES, *model_folder.RULES)}
    several = {"folder-tensor-twice", "folder-shard", "folder-type"}
    assert rules == {code for code, _ in BROKEN} | several


@pytest.mark.parametrize("files", [1, 3])
def test_a_sound_folder_breaks_no_rule(tmp_path: Path, files: int) -> None:
    path = write_folder(tmp_path / "model", files=files, tokenizer="bbpe-8k")
    report = check(str(path))
    assert (report.findings, report.exit_code, report.kind) == ((), 0, "folder")
    assert [part for part, _ in report.skipped] == ["tensor data"]


def test_all_faults_are_told(tmp_path: Path) -> None:
    """A missing file, a damaged one, an index that lies, config.json and a tokenizer."""
    path = write_folder(tmp_path / "model", files=3)
    without(path, "model-00002-of-00003.safetensors")
    third = path / "model-00003-of-00003.safetensors"
    third.write_bytes(third.read_bytes()[:-5])
    index = json.loads((path / INDEX).read_text())
    index["weight_map"]["invented"] = "model-00001-of-00003.safetensors"
    (path / INDEX).write_text(json.dumps(index))
    edited(path, rms_norm_eps="small", rope_theta="wide", vocab_size=100)
    found = check(str(path))
    assert found.exit_code == 3
    assert {"index-file", "safetensors-end", "index-tensor", "folder-field", "folder-tensor-shape",
            "folder-vocabulary"} <= set(codes(found))  # fmt: skip
    fields = [one.field for one in found.findings if one.rule is folder.FIELD]
    assert fields == ["rope_theta", "rms_norm_eps"]
    missing = [one.field for one in found.findings if one.rule is folder.MISSING]
    assert not missing  # they are told of with their files


def test_damage_of_the_tokenizer_is_that_of_its_file(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", tokenizer="bbpe-8k")
    (path / "tokenizer.json").write_text("{")
    report = check(str(path))
    assert [(one.rule.code, one.source) for one in report.findings] == [
        ("tokenizer", str(path / "tokenizer.json"))
    ]


def test_nothing_is_passed_over(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", tokenizer="bbpe-8k")
    for name in ("README.md", "model.gguf", "training_args.bin"):
        (path / name).write_bytes(b"")
    (path / "onnx").mkdir()
    said = dict(check(str(path)).skipped)
    assert said["other files"] == "README.md, onnx"
    assert said["GGUF files"].endswith(": model.gguf")
    assert said["pickles"].endswith(": training_args.bin")


def test_a_folder_without_weights_or_with_gguf_alone_is_as_before(tmp_path: Path) -> None:
    tokenizer = FIXTURES / "bbpe-8k"
    assert check(str(tokenizer)).kind == "hf"
    made = tmp_path / "ggufs"
    made.mkdir()
    (made / MODEL_CONFIG).write_text("{}")
    shutil.copy(tokenizer / "vocab.gguf", made)
    assert check(str(made)).kind == "gguf"


@pytest.fixture(scope="module")
def hf_models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    path = shared("hf-models/make_models.py").parent
    sys.path.insert(0, str(path))
    try:
        import make_models
    finally:
        sys.path.remove(str(path))
    return tmp_path_factory.mktemp("hf"), make_models


REMAINDERS = {
    "mistral": {
        "config.json: sliding_window 64 is not kept: llama.cpp's llama models see the whole text"
    },
    "mpt": {"config.json: expansion_ratio 2 is not kept: llama.cpp runs mpt models with 4"},
}
"""What llama.cpp does not compute, of the folders whose conversion is otherwise complete."""


def test_published_shapes_and_their_files_break_no_rule(hf_models: tuple[Path, Any]) -> None:
    """Of each architecture: the folder, and the GGUF that llama.cpp's converter makes as well."""
    from mtkit.architectures import architectures

    folder_of_all, make_models = hf_models
    known, tried = architectures(), 0
    for name, case in make_models.cases().items():
        if case["files"][MODEL_CONFIG]["architectures"][0] not in known:
            continue
        make_models.write_case(folder_of_all, name, case)
        path = folder_of_all / name
        # Their small tokenizers are no model's own: some classes of transformers read them anew,
        # and the ids of config.json are those of another vocabulary.
        aside = (folder.NO_TOKENIZER, *tokenizer_rules.CLASS_RULES, *special_ids.RULES)
        found = [one for one in check(str(path)).findings if one.rule not in aside]
        assert {one.what for one in found} == REMAINDERS.get(name, set())
        target = path / "made.gguf"
        convert_model(path, target, allow_loss=("ids", "ids-possible"))
        report = check(str(target))
        assert not [one for one in report.findings if one.rule.code.startswith("model-")], name
        assert "required tensors" not in dict(report.skipped), name
        shutil.rmtree(path)
        tried += 1
    assert tried > 2
