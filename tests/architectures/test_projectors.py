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
_SCALES = "a.blk.{}.per_dim_scale.weight"
_ROUNDED = re.compile(
    r"a\.position_embd\.weight\[64, 1500\]"
    r"|a\.blk\.\d+\.(per_dim_scale|conv_norm)\.\w+\[\d+\]"
)
"""Sines, logarithms and square roots, whose last bit depends on whose function it is."""


def _comparable(tensors: list[list[Any]]) -> list[list[Any]]:
    return sorted(row[:3] if _ROUNDED.fullmatch(f"{row[0]}{row[2]}") else row for row in tensors)


@cache
def _cases() -> dict[str, dict[str, Any]]:
    data = lzma.decompress((TESTS / "data" / "projector_cases.json.xz").read_bytes())
    # Granite Speech: the name that llama.cpp loads, not the one that its converter writes.
    cases: dict[str, dict[str, Any]] = json.loads(data.replace(b"conv_norm_var.", b"conv_norm."))
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


def _tensors(name: str, kind: str) -> list[list[Any]]:
    return _comparable([
        [tensor.name, tensor.type.name, list(tensor.shape),
         hashlib.sha256(b"".join(map(bytes, tensor.pieces()))).hexdigest()]
        for tensor in plan_projector(str(_folder(name)), kind).tensors()
    ])  # fmt: skip


@pytest.mark.parametrize("name", sorted(_cases()))
def test_a_projector_is_that_of_the_converter(name: str, tmp_path: Path) -> None:
    expected = _cases()[name]["expected"]
    for kind, golden in expected.items():
        tensors = _tensors(name, kind.removeprefix("mmproj-"))
        assert tensors == _comparable(golden["tensors"]), kind
    for kind, digest in _cases()[name]["digests"].items():
        text = json.dumps(_tensors(name, kind)).encode()
        assert hashlib.sha256(text).hexdigest() == digest, kind
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
    (tensor,) = (t for t in plan.tensors() if t.name == _SCALES.format(0))
    scales = np.frombuffer(b"".join(map(bytes, tensor.pieces())), "<f4")
    stored = plan.folder.tensors["model.audio_tower.layers.0.self_attn.per_dim_scale"].floats()
    assert np.allclose(scales, np.log1p(np.exp(stored.reshape(-1))), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "folder"),
    [("GraniteSpeechForConditionalGeneration", "encoder"),
     ("Lfm2AudioForConditionalGeneration", "conformer")],
)  # fmt: skip
def test_mean_and_variance_are_folded_into_weight_and_bias(name: str, folder: str) -> None:
    plan = plan_projector(str(_folder(name)))
    values = {
        tensor.name: np.frombuffer(b"".join(map(bytes, tensor.pieces())), "<f4")
        for tensor in plan.tensors()
        if ".1.conv_norm." in tensor.name
    }
    parts = ("weight", "bias", "running_mean", "running_var")
    weight, bias, mean, variance = (
        plan.folder.tensors[f"{folder}.layers.1.conv.batch_norm.{part}"].floats().astype("f8")
        for part in parts
    )
    factor = weight / np.sqrt(variance + 1e-5)
    assert np.allclose(values["a.blk.1.conv_norm.weight"], factor, rtol=1e-6)
    assert np.allclose(values["a.blk.1.conv_norm.bias"], bias - mean * factor, atol=1e-5)


_TEXT = "language_model.model.embed_tokens.weight"


@pytest.mark.parametrize("place", [_TEXT, "model.language_model.embed_tokens.weight"])
def test_pixtral_has_what_ends_a_line_which_the_converter_leaves_out(
    place: str, tmp_path: Path
) -> None:
    case = _cases()["Mistral3ForConditionalGeneration"]
    shards = [*case["shards"], {place: ["BF16", [8200, 64]]}]
    folder = hf_models.written("mistral-embedding" + place[:5], {**case, "shards": shards})
    plan = plan_projector(str(folder), "f32")
    (tensor,) = (t for t in plan.tensors() if t.name == "v.token_embd.img_break")
    added = json.loads((folder / "tokenizer.json").read_bytes())["added_tokens"]
    (number,) = (token["id"] for token in added if token["content"] == "[IMG_BREAK]")
    row = plan.folder.tensors[place].floats()[number]
    assert np.array_equal(np.frombuffer(b"".join(map(bytes, tensor.pieces())), "<f4"), row)
    without = plan_projector(str(_folder("Mistral3ForConditionalGeneration"))).folder_notes
    assert any("llama.cpp does not load the projector" in note for note in without)


def test_every_class_has_a_case() -> None:
    cases = {name.partition("-")[0] for name in _cases()}
    # The same rows as a class that has one.
    twins = {
        "Qwen3_5MoeForConditionalGeneration", "Qwen4ExpForConditionalGeneration",
        "MiniMaxM3VLForConditionalGeneration", "Step3p7ForConditionalGeneration",
    }  # fmt: skip
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
        ({"architectures": ["NemotronH_Nano_VL_V2"]}, UnsupportedError,
         "convert_hf_to_gguf.py --mmproj of llama.cpp does; known are"),
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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LlavaForConditionalGeneration", ("is missing: llama.cpp does not load the file",)),
        ("VoxtralForConditionalGeneration", ("rows; llama.cpp takes 1500",)),
        ("MiniCPMV4_6ForConditionalGeneration", ("rows; llama.cpp takes 4900",)),
        ("Qwen3OmniMoeForConditionalGeneration", ("of width 192 for vision and 64 for audio",)),
        ("Gemma4ForConditionalGeneration", ()),
    ],
)
def test_check_knows_what_clip_cpp_does_not_run(
    name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    path = convert_model(_folder(name), tmp_path / "p.gguf", mmproj=True).path
    findings = [f.what for f in check(path).findings if f.rule.code == "projector-tensors"]
    assert len(findings) == len(words)
    assert all(word in what for word, what in zip(words, findings, strict=True))


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


def test_tables_and_convolutions_of_deepseek_ocr_are_not_quantized(tmp_path: Path) -> None:
    path = convert_model(_folder("DeepseekOCR2ForCausalLM"), tmp_path / "p.gguf", mmproj=True).path
    kept = " ".join(kept_kinds(open_gguf(path))).replace("\\", "")
    for name in (
        "v.sam.neck.2",
        "v.sam.blk.0.attn.pos_h",
        "v.resample_query_768",
        "v.sam.pos_embd",
    ):
        assert f"^{name}.weight$=" in kept
    assert "ffn_up" not in kept


def test_inspect_says_what_it_takes_and_which_width_it_fits(gguf: Path) -> None:
    file = open_gguf(gguf)
    facts = dict(find_content(file.metadata, file.tensors).facts)
    assert "audio projector" not in facts
    assert facts["vision projector"] == "gemma3"
    assert facts["for models with embeddings of"] == 64
