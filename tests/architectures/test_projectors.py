"""Projectors of small models are those that llama.cpp's converter makes with ``--mmproj``."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import hf_models
import numpy as np
import pytest
from support import TESTS

from mtkit.architectures.projectors import projectors, recognize_encoders
from mtkit.checkpoints import model_folder
from mtkit.checks.checker import check
from mtkit.conversion.model import convert_model, plan_projector
from mtkit.conversion.remainder import file_notes
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.writer import Key
from mtkit.inspection.kinds import find_content
from mtkit.llm.quantization import kept_kinds

if TYPE_CHECKING:
    from pathlib import Path

_OF_FOLDER = {
    f"general.{name}"
    for name in ("name", "basename", "size_label", "finetune", "version", "author", "organization")
}
"""Keys that follow the name of the folder."""


_POSITIONS = "a.position_embd.weight"
_ROUNDED = ((_POSITIONS, [64, 1500]), *((f"a.blk.{n}.per_dim_scale.weight", [16]) for n in (0, 1)))
"""Sines and logarithms, whose last bit depends on whose function it is."""


def _comparable(tensors: list[list[Any]]) -> list[list[Any]]:
    return sorted(row[:3] if (row[0], row[2]) in _ROUNDED else row for row in tensors)


@cache
def _cases() -> dict[str, dict[str, Any]]:
    data = (TESTS / "data" / "projector_cases.json.xz").read_bytes()
    cases: dict[str, dict[str, Any]] = json.loads(lzma.decompress(data))
    return cases


def _folder(name: str) -> Path:
    return hf_models.written(name, _cases()[name])


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder of Gemma 3 that a test may change."""
    return shutil.copytree(_folder("Gemma3ForConditionalGeneration"), tmp_path / "model")


def _change(path: Path, change: Any) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", sorted(_cases()))
def test_a_projector_is_that_of_the_converter(name: str, tmp_path: Path) -> None:
    expected = _cases()[name]["expected"]
    for kind, golden in expected.items():
        tensors = []
        for tensor in plan_projector(str(_folder(name)), kind.removeprefix("mmproj-")).tensors():
            digest = hashlib.sha256(b"".join(map(bytes, tensor.pieces()))).hexdigest()
            tensors.append([tensor.name, tensor.type.name, list(tensor.shape), digest])
        assert _comparable(tensors) == _comparable(golden["tensors"]), kind
    conversion = convert_model(_folder(name), tmp_path / "p.gguf", mmproj=True)
    keys = hf_models.keys_of(open_gguf(conversion.path))
    wanted = hf_models.keys_as_read(expected["mmproj-auto"]["kv"])
    assert {key: keys[key] for key in keys.keys() - _OF_FOLDER} == {
        key: wanted[key] for key in wanted.keys() - _OF_FOLDER
    }
    assert conversion.model is not None
    assert not [note for note in conversion.model.notes if "effect unknown" in note]


def test_computed_positions_are_sines_and_cosines_of_geometric_steps() -> None:
    plan = plan_projector(str(_folder("Qwen2_5OmniModel")))
    (tensor,) = (t for t in plan.tensors() if t.name == _POSITIONS)
    table = np.frombuffer(b"".join(map(bytes, tensor.pieces())), "<f4").reshape(1500, 64)
    turns = np.arange(1500)[:, None] * 10000.0 ** (-np.arange(32) / 31)[None, :]
    assert np.abs(table - np.concatenate([np.sin(turns), np.cos(turns)], 1)).max() < 2e-4


def test_the_scales_of_gemma_4_are_softplus() -> None:
    plan = plan_projector(str(_folder("Gemma4ForConditionalGeneration")))
    (tensor,) = (t for t in plan.tensors() if t.name == _ROUNDED[1][0])
    scales = np.frombuffer(b"".join(map(bytes, tensor.pieces())), "<f4")
    stored = plan.folder.tensors["model.audio_tower.layers.0.self_attn.per_dim_scale"].floats()
    assert np.allclose(scales, np.log1p(np.exp(stored.reshape(-1))), rtol=1e-6)


def test_every_class_has_a_case() -> None:
    cases = {name.partition("-")[0] for name in _cases()}
    # The same rows as a class that has one.
    twins = {"Qwen3_5MoeForConditionalGeneration", "Qwen4ExpForConditionalGeneration"}
    assert projectors().keys() - twins <= cases


def test_the_file_is_called_as_the_converter_calls_it(copy: Path) -> None:
    assert convert_model(copy, mmproj=True, kind="q8_0").path == str(
        copy / "mmproj-Model-Q8_0.gguf"
    )


def test_the_text_model_says_what_is_left_out_and_how_to_have_it(copy: Path) -> None:
    (note,) = (note for note in file_notes(model_folder.read(str(copy))) if "left out" in note)
    assert note.endswith(
        "mtkit convert FOLDER --mmproj writes them, with the preprocessor's settings"
    )


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"architectures": ["FancyVLForConditionalGeneration"]}, UnsupportedError,
         "'FancyVLForConditionalGeneration' is a class whose projector mtkit does not convert"),
        ({"architectures": ["LlavaForConditionalGeneration"],
          "vision_config": {"model_type": "clip_vision_model"}}, UnsupportedError,
         "an encoder of LLaVA that llama.cpp's converter does not take"),
        ({"vision_config": None}, FormatError, "vision_config: is missing"),
        ({"vision_config.num_hidden_layers": 5}, FormatError, "there is no tensor"),
        ({"vision_config.num_hidden_layers": 3}, FormatError, "has no tensor"),
        ({"vision_config.hidden_size": 32}, FormatError, "has the shape"),
        ({"vision_config.patch_size": 0}, FormatError, "is 0"),
        ({"vision_config.patch_size": "14"}, FormatError, "not a whole number"),
        ({"text_config.hidden_size": 96}, FormatError, "has the shape [64, 64]"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused(
    copy: Path, change: dict[str, Any], kind: type[MtkitError], words: str
) -> None:
    def set_fields(document: dict[str, Any]) -> None:
        for name, value in change.items():
            place, _, field = name.rpartition(".")
            (document[place] if place else document)[field] = value

    _change(copy / "config.json", set_fields)
    with pytest.raises(kind) as error:
        plan_projector(str(copy))
    assert words in str(error.value)


def test_a_folder_without_the_preprocessor_is_refused(copy: Path) -> None:
    (copy / "preprocessor_config.json").unlink()
    with pytest.raises(FormatError, match="preprocessor_config"):
        plan_projector(str(copy))


def test_the_text_part_alone_has_no_projector(copy: Path) -> None:
    shutil.copy(_folder("Qwen2VLForConditionalGeneration") / "model.safetensors", copy)
    with pytest.raises(UsageError, match="has no tensors for pictures"):
        plan_projector(str(copy))


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the projector of Gemma 3."""
    path = tmp_path_factory.mktemp("projector") / "mmproj.gguf"
    convert_model(_folder("Gemma3ForConditionalGeneration"), path, mmproj=True)
    return path


@pytest.mark.parametrize("name", sorted(_cases()))
def test_the_rows_know_every_tensor_of_the_file(name: str) -> None:
    golden = _cases()[name]["expected"]["mmproj-auto"]
    metadata = {key: value for key, (_, value) in golden["kv"].items()}
    shapes = {tensor[0]: tuple(tensor[2][::-1]) for tensor in golden["tensors"]}
    encoders = recognize_encoders(metadata, shapes)
    known = [fault for _, faults in encoders for fault in faults]
    # Layers behind the one whose output LFM2-VL takes.
    assert all("blk.2" in tensor for fault in known for tensor in fault.names)
    assert not known or name.startswith("Lfm2Vl")


@pytest.mark.parametrize(
    ("edit", "code", "words"),
    [
        (("--unset", "clip.vision.patch_size"), "projector-keys", "is missing"),
        (("--set", "clip.projector_type=newest"), "projector-kind", "does not know"),
        (("--set", "clip.vision.projection_dim=96"), "model-tensor-shape", "the metadata says"),
        (("--set", "clip.vision.block_count=5"), "model-tensor-missing", "gemma3 projectors have"),
    ],
)
def test_check_knows_what_clip_cpp_wants(
    gguf: Path, tmp_path: Path, edit: tuple[str, str], code: str, words: str
) -> None:
    draft = Draft.of(open_gguf(gguf))
    key, _, value = edit[1].partition("=")
    if edit[0] == "--unset":
        del draft.keys[key]
    else:
        is_text = key.endswith("type")
        draft.set(Key(key, "string" if is_text else "u32", value if is_text else int(value)))
    path = tmp_path / "edited.gguf"
    path.write_bytes(b"".join(draft.chunks()))
    findings = {(f.rule.code, f.what) for f in check(str(path)).findings}
    assert any(found == code and words in what for found, what in findings), findings


def test_a_sound_projector_has_no_finding(gguf: Path) -> None:
    assert not check(str(gguf)).findings


def test_what_llama_cpp_cannot_run_in_blocks_is_not_quantized(gguf: Path) -> None:
    assert kept_kinds(open_gguf(gguf)) == [
        rf"^{re.escape(name)}$={kind}"
        for name, kind in (
            ("mm.input_projection.weight", "F16"),
            ("v.patch_embd.weight", "F32"),
            ("v.position_embd.weight", "F32"),
        )
    ]


def test_inspect_says_what_it_takes_and_which_width_it_fits(gguf: Path) -> None:
    file = open_gguf(gguf)
    facts = dict(find_content(file.metadata, file.tensors).facts)
    assert "audio projector" not in facts
    assert facts["vision projector"] == "gemma3"
    assert facts["for models with embeddings of"] == 64
