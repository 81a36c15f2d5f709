"""Whole models: what a folder becomes, and what is refused before anything is written."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_folders import write_folder, write_weights
from support import Run

from mtkit.checkpoints import folder_files
from mtkit.checkpoints.folder_files import MODEL_CONFIG, tensors_of
from mtkit.conversion.folder_writer import convert_to_folder
from mtkit.conversion.model import convert_model, plan_gguf
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.values import F32
from mtkit.gguf.writer import Key, NewTensor, gguf_chunks
from mtkit.llm.header import ModelHeader

LOSSES = ("ids", "ids-possible")
Change = Callable[[Path], object]


def change_config(folder: Path, **fields: Any) -> None:
    path = folder / MODEL_CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def drop(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink(missing_ok=True) for name in names]


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.pth")


def as_pointer(folder: Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (folder / "model.safetensors").write_text(text)


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def said(**fields: Any) -> Change:
    return lambda folder: change_config(folder, **fields)


REFUSED: dict[str, tuple[type[MtkitError], str, Change]] = {
    "unknown": (
        UnsupportedError,
        r'those of LlamaForCausalLM: .* replace\(LLAMA, classes=\("Qwen3OmniForCausalLM",\)\) to ',
        said(architectures=["Qwen3OmniForCausalLM"]),
    ),
    "unknown, and narrow": (
        UnsupportedError,
        "does not convert; it resembles",
        said(architectures=["NarrowLM"], intermediate_size=64),
    ),
    "unknown, like none": (
        UnsupportedError,
        "does not convert; the nearest that are known: .*Qwen3ForCausalLM",
        said(architectures=["Qwen3OmniForCausalLM"], hidden_size=48),
    ),
    "none named": (FormatError, "architectures", said(architectures=[])),
    "quantized": (UnsupportedError, "gptq", said(quantization_config={"quant_method": "gptq"})),
    "pickle": (UnsupportedError, "is a pickle", as_pickle),
    "pointer": (FormatError, "Git LFS pointer", as_pointer),
    "cut": (FormatError, "data", cut),
    "more layers": (FormatError, "'model.layers.2", said(num_hidden_layers=3)),
    "fewer layers": (FormatError, "'model.layers.1", said(num_hidden_layers=1)),
    "wider": (FormatError, "has the shape", said(hidden_size=128)),
    "more ids": (FormatError, "has the shape", said(vocab_size=9000)),
    "huge": (FormatError, "is 1000000000", said(num_hidden_layers=10**9)),
    "text": (FormatError, "hidden_size", said(hidden_size="64")),
    "odd heads": (FormatError, "even width", said(head_dim=15)),
    "no tokenizer": (UsageError, "without a tokenizer", drop("tokenizer.model", "tokenizer.json")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_written(case: str, tmp_path: Path) -> None:
    kind, what, change = REFUSED[case]
    folder = write_folder(tmp_path / "model")
    change(folder)
    with pytest.raises(kind, match=what) as error:
        convert_model(folder, tmp_path / "x.gguf", allow_loss=LOSSES)
    assert str(folder) in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", files=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(MtkitError, match=r"model-00002-of-00002\.safetensors is missing"):
        convert_model(folder, tmp_path / "x.gguf", allow_loss=LOSSES)


def test_half_a_folder(mtkit: Run, tmp_path: Path) -> None:
    """A tokenizer's often has a config.json; with weights and none it is a damaged model's."""
    for name, code, said in (
        ("model.safetensors", 0, b"has a config.json and no weights; its tokenizer alone"),
        (MODEL_CONFIG, 2, b"has weights but no config.json"),
    ):
        folder = write_folder(tmp_path / name)
        (folder / name).unlink()
        done = mtkit("convert", folder, tmp_path / f"{name}.x.gguf")
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        only = mtkit("convert", folder, tmp_path / f"{name}.gguf", "--vocab-only")
        assert only.returncode == 0, only.stderr
        assert said not in only.stderr
    typed = mtkit("convert", tmp_path / "model.safetensors", tmp_path / "y.gguf", "--type", "q8_0")
    assert typed.returncode == 2
    assert b"--type is for a model folder" in typed.stderr


@pytest.mark.parametrize("name", ["model.safetensors", MODEL_CONFIG, "tokenizer.json"])
def test_a_model_does_not_become_a_file_of_itself(name: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    before = (folder / name).read_bytes()
    with pytest.raises(UsageError, match="is a file of the model itself"):
        convert_model(folder, folder / name, allow_loss=LOSSES, force=True)
    assert (folder / name).read_bytes() == before


def test_types_that_are_none_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    with pytest.raises(UsageError, match="one of auto, f32, f16, bf16, q8_0"):
        convert_model(folder, tmp_path / "x.gguf", kind="Q4_K_M")
    made = convert_model(folder, tmp_path / "x.gguf", allow_loss=LOSSES).path
    with pytest.raises(UsageError, match="one of auto, bf16, f16, f32"):
        convert_to_folder(made, tmp_path / "back", kind="q8_0")


@pytest.mark.parametrize("kind", ["adapter", "imatrix", "mmproj"])
def test_what_is_no_model_says_what_it_is(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    keys = [Key("general.type", "string", kind), Key("general.architecture", "string", "llama")]
    path.write_bytes(b"".join(gguf_chunks(keys, [NewTensor("a", (1,), F32, bytes(4))])))
    with pytest.raises(UsageError, match=r"is an? .*, not a (language )?model"):
        convert_to_folder(path, tmp_path / "back")
    with pytest.raises(UnsupportedError, match=r"is an? .*, not a (language )?model"):
        ModelHeader(str(path))


def test_parts_are_written_at_once(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    done = convert_model(folder, tmp_path / "x.gguf", max_bytes=500_000, allow_loss=LOSSES)
    assert len(done.paths) > 1
    files = list(map(open_gguf, done.paths))
    assert files[0].metadata["split.count"] == len(files)
    whole = open_gguf(convert_model(folder, tmp_path / "w.gguf", allow_loss=LOSSES).path)
    data = {one.name: bytes(file.tensor_data(one)) for file in files for one in file.tensors}
    assert data == {one.name: bytes(whole.tensor_data(one)) for one in whole.tensors}


CARDS = (
    b"---\nlicense: \xff\n---\n", b"---\na: [\n---\n", b"---\n" + b"tags: " + b"[" * 20_000,
    b'---\nname: !!python/object/apply:os.system ["x"]\n---\n',
    b"---\nname: 5\nlicense: [1,2]\nbase_model: {a: 1}\ntags: 7\n---\n", b"---\n- a\n- b\n---\n",
    b"---\n" + b"x: y\n" * 400_000 + b"---\n",
    b"---\na: &a [x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\ntags: [*c,*c]\n---\n", b"no card",
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(CARDS)))
def test_no_card_stops_a_conversion(number: int, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", config={"_name_or_path": 5})
    (folder / folder_files.CARD).write_bytes(CARDS[number])
    assert convert_model(folder, tmp_path / "x.gguf", allow_loss=LOSSES).model is not None


def test_a_card_is_kept(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "A-Model-7B-v2")
    text = "---\nlicense: mit\ntags:\n- a\n- b\nlanguage: en\nbase_model: Org/Base-7B\n---\n# A\n"
    (folder / folder_files.CARD).write_text(text)
    (folder / "generation_config.json").write_text(
        '{"temperature": 0.5, "top_k": "many", "repetition_penalty": 1.25}'
    )
    done = convert_model(folder, tmp_path / "x.gguf", allow_loss=LOSSES)
    found = open_gguf(done.path).metadata
    wanted = {
        "general.name": "A Model 7B v2", "general.license": "mit", "general.tags": ["a", "b"],
        "general.languages": ["en"], "general.base_model.0.name": "Base 7B",
        "general.sampling.temp": 0.5, "general.sampling.penalty_repeat": 1.25,
    }  # fmt: skip
    for key, value in wanted.items():
        assert (list(found[key]) if isinstance(value, list) else found[key]) == value, key
    assert "general.sampling.top_k" not in found
    back = convert_to_folder(done.path, tmp_path / "back", allow_loss=LOSSES)
    settings = json.loads((Path(back.path) / "generation_config.json").read_text())
    assert settings["temperature"] == 0.5
    assert settings["repetition_penalty"] == 1.25
    (effect,) = (loss.effect for loss in back.losses if loss.field == "keys")
    names = {key for key in found if key.startswith("general.")}
    kept = {"architecture", "type", "file_type", "quantization_version", "size_label"}
    assert "general.license" in effect
    assert len(names - {f"general.{name}" for name in kept}) - 2 == 8 + int(effect.split()[-2])


def test_numbers_that_are_none_do_not_get_into_a_config(tmp_path: Path) -> None:
    done = convert_model(write_folder(tmp_path / "model"), tmp_path / "x.gguf", allow_loss=LOSSES)
    path = tmp_path / "x.gguf"
    raw = path.read_bytes()
    key = b"llama.rope.freq_base" + struct.pack("<I", 6)
    at = raw.index(key) + len(key)
    path.write_bytes(raw[:at] + struct.pack("<f", float("nan")) + raw[at + 4 :])
    with pytest.raises(FormatError):
        convert_to_folder(done.path, tmp_path / "back", allow_loss=LOSSES)
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("kind", ["BF16", "F16"])
def test_weights_of_two_types_are_said(kind: str, tmp_path: Path) -> None:
    """The first matrix decides, as in llama.cpp's converter; the others are rounded."""
    other = {"BF16": "F16", "F16": "BF16"}[kind]
    folder = write_folder(tmp_path / "model", files=2, kind=kind)
    assert plan_gguf(str(folder)).narrows == ""
    shard = folder / "model-00002-of-00002.safetensors"
    write_weights(
        shard, {one.weight.name: one.weight.shape for one in tensors_of(str(shard))}, other
    )
    plan = plan_gguf(str(folder))
    assert plan.type == kind.lower()
    assert f"{other} weights become {kind}" in " ".join(plan.notes(()))
