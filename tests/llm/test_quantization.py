"""``mtkit quantize``: llama.cpp's own quantizer, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from importance import importance
from model_folders import write_folder
from screens import check_screens, screen
from support import Run, one_line, reference, shared

from mtkit import quantize
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.types import FILE_TYPES, TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.llm import quantization
from mtkit.llm.quantization import TYPES, file_type

KILLS = int(os.environ.get("MTKIT_KILLS") or 6)
F32 = TENSOR_TYPES[0]
THEIRS = """
import ctypes, llama_cpp, sys
params = llama_cpp.llama_model_quantize_default_params()
params.ftype, params.pure, params.allow_requantize = int(sys.argv[3]), sys.argv[4] == "1", True
for option, kind in (one.split("=") for one in sys.argv[5:8] if one):
    setattr(params, option, int(kind))
overrides = [one.rsplit("=", 1) for one in sys.argv[8:]]
found = (llama_cpp.llama_model_tensor_override * (len(overrides) + 1))()
for entry, (pattern, kind) in zip(found, overrides):
    entry.pattern, entry.type = pattern.encode(), int(kind)
if overrides:
    kind = llama_cpp.llama_model_tensor_override
    params.tt_overrides = ctypes.cast(found, ctypes.POINTER(kind))
source, target = (name.encode() for name in sys.argv[1:3])
sys.exit(llama_cpp.llama_model_quantize(source, target, ctypes.byref(params)))
"""


@pytest.fixture
def model() -> Path:
    reference("llama_cpp")
    return shared("own/model/mtkit-docs-draft-bf16.gguf")


def small_model(columns: dict[str, int]) -> bytes:
    """Return a model that the quantizer takes, with matrices of these widths."""
    keys = [Key("general.architecture", "string", "llama"), Key("llama.block_count", "u32", 1)]
    keys += [Key(f"llama.{name}", "u32", 64) for name in ("context_length", "embedding_length",
             "feed_forward_length", "attention.head_count")]  # fmt: skip
    keys += [Key("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5)]
    rng = np.random.default_rng(1)
    tensors = [
        NewTensor(name, (width, 8), F32, rng.normal(size=(8, width)).astype("<f4").tobytes())
        for name, width in columns.items()
    ]
    return gguf_bytes(keys, tensors)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    reference("llama_cpp")
    path = tmp_path / "small.gguf"
    path.write_bytes(small_model(SMALL))
    return path


def data_of(path: Path) -> dict[str, bytes]:
    file = open_gguf(path)
    return {tensor.name: bytes(file.tensor_data(tensor)) for tensor in file.tensors}


@pytest.mark.parametrize(("kind", "pure"), [("Q4_K_M", False), ("Q4_0", True), ("Q8_0", False)])
def test_the_file_is_llama_cpp_s_own(
    mtkit: Run, tmp_path: Path, model: Path, kind: str, pure: bool
) -> None:
    """Byte for byte what the library gives when it is called by itself."""
    options = ["--pure"] * pure
    done = mtkit("quantize", model, "--type", kind, "-o", "new.gguf", *options)
    assert done.returncode == 0
    assert bool(done.stderr) == (kind == "Q4_K_M")  # rows of 128 are no block of it
    path, before, after = done.stdout.split()
    assert (path, int(before) > 2 * int(after) or kind == "Q8_0") == (b"new.gguf", True)
    argv = [THEIRS, str(model), "theirs.gguf", str(file_type(kind)), str(int(pure))]
    subprocess.run([sys.executable, "-c", *argv], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "new.gguf").read_bytes() == (tmp_path / "theirs.gguf").read_bytes()
    assert open_gguf(tmp_path / "new.gguf").metadata["general.file_type"] == file_type(kind)
    argv = [sys.executable, "-m", "mtkit", "generate", "a", "-m", "new.gguf", "-n", "3", "-q"]
    subprocess.run(argv, check=True, cwd=tmp_path, capture_output=True)


def test_what_is_quantized_already_is_refused(mtkit: Run, tmp_path: Path) -> None:
    model = shared("own/model/mtkit-docs-draft-q8_0.gguf")
    said = one_line(mtkit("quantize", model, "--type", "Q4_0", "-o", "new.gguf"), 2)
    assert "already quantized (Q8_0)" in said
    assert "--allow-requantize" in said
    assert not list(tmp_path.iterdir())
    again = ["--allow-requantize", "--json"]
    done = mtkit("quantize", model, "--type", "Q4_0", "-o", "new.gguf", *again)
    assert b"warning: already quantized (Q8_0)" in done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["requantized"]) == ("mtkit.quantize/1", ["Q8_0"])


def test_a_report_measures_each_tensor(mtkit: Run, tmp_path: Path, model: Path) -> None:
    done = mtkit("quantize", model, "--type", "Q4_0", "-o", "new.gguf", "--report", "--json")
    rows = json.loads(done.stdout)["tensors"]
    changed = {name for name, data in data_of(model).items()
               if data != data_of(tmp_path / "new.gguf")[name]}  # fmt: skip
    assert {row["name"] for row in rows} == changed
    for row in rows:
        assert row["types"][0] == "BF16"
        assert 0 < row["errors"]["rmse"] <= row["errors"]["largest"]
        assert 0.99 < row["errors"]["cosine"] < 1
    check_screens(
        "quantize", model, "--type", "Q4_0", "-o", tmp_path / "new.gguf", "--report", "--force"
    )


def test_a_trial_says_that_it_went_well(mtkit: Run, model: Path) -> None:
    """On a terminal; in a pipe the exit code says it."""
    tried = ["quantize", str(model), "--type", "q8_0", "--dry-run"]
    assert mtkit(*tried).stdout == b""
    assert screen(*tried, columns=120).lines[-2] == (
        f"✓ {model} can be quantized to Q8_0 · 8.51 bits per weight"
    )


def test_an_importance_matrix_counts(mtkit: Run, tmp_path: Path, model: Path) -> None:
    """Columns that matter are nearer to the original with it than without."""
    (tmp_path / "imatrix.gguf").write_bytes(importance(model))
    mtkit("quantize", model, "--type", "Q4_0", "--pure", "-o", "without.gguf")
    options = ["--imatrix", "imatrix.gguf"]
    done = mtkit("quantize", model, "--type", "Q4_0", "--pure", "-o", "with.gguf", *options)
    assert done.stderr == b""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    name = "blk.0.ffn_up.weight"
    width = open_gguf(model).names[name].shape[0]

    def numbers(path: Path) -> np.ndarray:
        raw = np.frombuffer(data_of(path)[name], np.uint8)
        kind = GGMLQuantizationType[open_gguf(path).names[name].type.name]
        return dequantize(raw, kind).reshape(-1, width)

    weights = np.arange(width) ** 2
    original = numbers(model)
    apart = [
        float(((numbers(tmp_path / f"{one}.gguf") - original) ** 2 * weights).sum())
        for one in ("with", "without")
    ]
    assert apart[0] < apart[1]


NUMBERS = {kind.name.lower(): number for number, kind in TENSOR_TYPES.items()}


@pytest.mark.parametrize("number", range(6))
def test_types_of_tensors_are_llama_quantize_s(
    mtkit: Run, tmp_path: Path, model: Path, number: int
) -> None:
    """Options of each kind, drawn: byte for byte what the library gives."""
    rng = random.Random(number)
    kinds = ["q8_0", "q4_0", "q5_1", "iq4_nl", "f16", "bf16", "q4_K"]
    parts = [
        "attn_v",
        r"ffn_(up|down)",
        r"blk\.[02]\.",
        "ATTN_Q",
        "output",
        "token_embd",
        "weight$",
    ]
    chosen = [(rng.choice(parts), rng.choice(kinds)) for _ in range(rng.randrange(4))]
    named = [
        (option, field, rng.choice(kinds) if rng.random() < 0.6 else "")
        for option, field in (
            ("--output-tensor-type", "output_tensor_type"),
            ("--token-embedding-type", "token_embedding_type"),
        )
    ]
    options = [part for pair in chosen for part in ("--tensor-type", "=".join(pair))]
    options += [part for option, _, kind in named if kind for part in (option, kind)]
    kind = rng.choice(["Q4_0", "Q4_K_M", "Q8_0"])
    done = mtkit("quantize", model, "--type", kind, "-o", "new.gguf", *options)
    assert done.returncode == 0, done.stderr
    fields = [f"{field}={NUMBERS[one.lower()]}" if one else "" for _, field, one in named]
    pairs = [f"{pattern.lower()}={NUMBERS[one.lower()]}" for pattern, one in chosen]
    argv = [THEIRS, str(model), "theirs.gguf", str(file_type(kind)), "0", *fields, "", *pairs]
    subprocess.run([sys.executable, "-c", *argv], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "new.gguf").read_bytes() == (tmp_path / "theirs.gguf").read_bytes()


def test_a_pattern_that_names_nothing_is_said(mtkit: Run, model: Path) -> None:
    done = mtkit(
        "quantize", model, "--type", "Q8_0", "-o", "new.gguf", "--tensor-type", "attn_w=q4_0"
    )
    assert done.returncode == 0
    assert b"no tensor's name has 'attn_w'" in done.stderr


def test_a_pattern_of_tensors_that_stay_is_said(mtkit: Run, model: Path) -> None:
    done = mtkit(
        "quantize", model, "--type", "Q8_0", "-o", "new.gguf", "--tensor-type", "_norm=q4_0"
    )
    assert done.returncode == 0
    assert b"has one dimension and stays F32: '_norm'" in done.stderr


@pytest.mark.parametrize(
    ("bent", "said"),
    [
        ("width", "importance matrix of another model"),
        ("counts", "no counts"),
        ("model", "holds no"),
        ("names", "importance matrix of another model: none of its names"),
    ],
)
def test_an_importance_matrix_that_does_not_fit(
    mtkit: Run, tmp_path: Path, model: Path, bent: str, said: str
) -> None:
    data = model.read_bytes() if bent == "model" else importance(model, bent=bent)
    (tmp_path / "imatrix.gguf").write_bytes(data)
    options = ["--imatrix", "imatrix.gguf"]
    done = mtkit("quantize", model, "--type", "Q4_0", "-o", "new.gguf", *options)
    assert said in one_line(done, done.returncode)
    assert done.returncode in (3, 4)
    assert [one.name for one in tmp_path.iterdir()] == ["imatrix.gguf"]


@pytest.mark.parametrize("last", [float("nan"), float("inf"), -1.0])
def test_sums_of_squares_that_are_none(tmp_path: Path, model: Path, last: float) -> None:
    from mtkit.llama.importance import read_importance

    (tmp_path / "imatrix.gguf").write_bytes(importance(model, last=last))
    with pytest.raises(FormatError, match=r"weight\.in_sum2': has a sum of squares below 0"):
        read_importance(str(tmp_path / "imatrix.gguf"))
    name, sums = b"blk.0.attn_q.weight", struct.pack("<3f", 1, last, 1)
    entry = struct.pack("<i", len(name)) + name + struct.pack("<ii", 3, 3) + sums
    (tmp_path / "old.dat").write_bytes(struct.pack("<i", 1) + entry)
    with pytest.raises(FormatError, match="has a sum of squares below 0"):
        read_importance(str(tmp_path / "old.dat"))


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (["--type", "Q4_K_X", "-o", "new.gguf"], "is it Q4_K_", 2),
        (["--type", "nothing", "-o", "new.gguf"], "one of F32", 2),
        (["--type", "Q4_0", "-o", "a", "--tensor-type", "attn_v"], "is not PATTERN=TYPE", 2),
        (["--type", "Q4_0", "-o", "a", "--tensor-type", "a=i32"], "'i32' is not a tensor type", 2),
        (["--type", "Q4_0", "-o", "a", "--output-tensor-type", "q9"], "--output-tensor-type: ", 2),
        (["--type", "Q4_0", "-o", "a", "--tensor-type", "(=q4_0"], "a pattern is none", 2),
        (["--type", "Q4_0"], "no output file; add -o ", 2),
        (["--type", "Q4_0", "-o", "no/such/new.gguf"], "no such folder", 2),
        (["--type", "Q4_0", "-o", "."], "folder", 2),
    ],
)
def test_what_cannot_be_done(
    mtkit: Run, tmp_path: Path, model: Path, args: list[str], said: str, code: int
) -> None:
    assert said in one_line(mtkit("quantize", model, *args), code)
    assert not list(tmp_path.iterdir())


def test_the_model_itself_can_be_the_new_one(mtkit: Run, tmp_path: Path, model: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model.read_bytes())
    args = ["--type", "Q8_0", "--report"]
    assert "already exists" in one_line(mtkit("quantize", path, *args, "-o", path), 2)
    done = mtkit("quantize", path, *args, "-o", path, "--force")
    assert (done.returncode, b"BF16\tQ8_0" in done.stdout) == (0, True)
    assert [one.name for one in tmp_path.iterdir()] == ["model.gguf"]


SMALL = {"blk.0.attn_q.weight": 64, "blk.0.ffn_down.weight": 96, "blk.0.ffn_up.weight": 33}


@pytest.mark.parametrize("kind", ["Q4_K_M", "Q6_K", "IQ4_XS", "Q2_K", "TQ1_0", "Q5_K_S", "Q8_0"])
def test_tensors_that_fall_back_are_said(
    mtkit: Run, tmp_path: Path, small: Path, kind: str
) -> None:
    """In a dry run as in the file; compared with the types that are in it."""
    told = []
    for options in (["--dry-run"], ["-o", "new.gguf"]):
        done = mtkit("quantize", small, "--type", kind, "--json", *options)
        told.append((done.stderr, json.loads(done.stdout)))
    (first, dry), (second, real) = told
    assert first == second
    facts = ("bits_per_weight", "types", "fallbacks")
    assert [dry[name] for name in facts] == [real[name] for name in facts]
    file = open_gguf(tmp_path / "new.gguf")
    weights = sum(tensor.n_elements for tensor in file.tensors)
    size = sum(tensor.n_bytes for tensor in file.tensors)
    assert real["bits_per_weight"] == pytest.approx(8 * size / weights, abs=1e-4)
    rows = {tensor.name: tensor for tensor in file.tensors}
    named = {row["name"]: row for row in real["fallbacks"]}
    blocks = {one.name: one.block for one in TENSOR_TYPES.values()}
    for name, row in named.items():
        assert rows[name].type.name == row["type"]
        assert rows[name].shape[0] % blocks[row["mix"]]
    matrices = {name for name, tensor in rows.items() if len(tensor.shape) > 1}
    assert not any(rows[name].shape[0] % blocks[rows[name].type.name] for name in matrices)
    expected = {name for name in SMALL if SMALL[name] % (32 if kind == "Q8_0" else 256)}
    assert expected <= set(named)
    warning = first.decode()
    assert f"{len(named)} of {len(rows)} tensor" in warning
    for row in named.values():
        assert f"from {row['mix']} to {row['type']}" in warning
    said = one_line(mtkit("quantize", small, kind, "-o", "none.gguf", "--no-fallback"), 4)
    assert f"{len(named)} of {len(rows)} tensor" in said
    assert not (tmp_path / "none.gguf").exists()
    check_screens("quantize", small, "--type", kind, "--dry-run")


def test_without_a_fallback_nothing_is_said(mtkit: Run, model: Path) -> None:
    done = mtkit("quantize", model, "new.gguf", "Q8_0", "--no-fallback")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_mix_for_experts(mtkit: Run, tmp_path: Path, model: Path) -> None:
    done = mtkit("quantize", model, "new.gguf", "MXFP4_MOE")
    assert done.returncode == 0
    assert b"this model has none: its matrices are Q8_0" in done.stderr
    with pytest.warns(UserWarning, match="this model has none"):
        quantize(model, tmp_path / "api.gguf", "MXFP4_MOE")


def test_the_library_warns_and_refuses(tmp_path: Path, small: Path) -> None:
    with pytest.warns(UserWarning, match="fall back to another type"):
        quantize(small, tmp_path / "new.gguf", "Q4_K_M")
    with pytest.raises(UnsupportedError, match="fall back to another type"):
        quantize(small, tmp_path / "other.gguf", "Q4_K_M", fallback=False)
    assert [path.name for path in tmp_path.iterdir() if path != small] == ["new.gguf"]


@pytest.mark.parametrize("buffer", [1, 5000])
def test_rows_in_parts_give_the_same_file(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch, buffer: int
) -> None:
    """A row at a time, and some: as all of a tensor at once, which llama-quantize takes."""
    monkeypatch.setattr(quantization, "BUFFER", buffer)
    with pytest.warns(UserWarning, match="fall back"):
        quantize(small, tmp_path / "new.gguf", "Q4_K_M")
    argv = [THEIRS, str(small), "theirs.gguf", str(file_type("Q4_K_M")), "0"]
    subprocess.run([sys.executable, "-c", *argv], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "new.gguf").read_bytes() == (tmp_path / "theirs.gguf").read_bytes()


@pytest.mark.parametrize("kind", ["IQ2_XXS", "IQ1_S"])
def test_a_dry_run_needs_what_the_quantization_needs(mtkit: Run, tmp_path: Path, kind: str) -> None:
    reference("llama_cpp")
    (tmp_path / "wide.gguf").write_bytes(small_model(dict.fromkeys(SMALL, 256)))
    for options in (["--dry-run"], ["-o", "new.gguf"]):
        said = one_line(mtkit("quantize", "wide.gguf", "--type", kind, *options), 4)
        assert "needs an importance matrix" in said


@pytest.mark.parametrize("kind", ["TQ1_0", "TQ2_0"])
def test_ternary_types_are_those_of_the_converter(mtkit: Run, tmp_path: Path, kind: str) -> None:
    """Embeddings, head and rows that are not whole blocks in F16; bytes as the gguf package has."""
    quants = reference("gguf.quants")
    config = {"hidden_size": 256, "intermediate_size": 320}
    folder = write_folder(tmp_path / "model", config=config)
    for name, more in (("f32.gguf", "f32"), ("new.gguf", kind.lower())):
        args = ["convert", folder, name, "--type", more, "--allow-loss", "ids-possible"]
        assert mtkit(*args).returncode == 0
    plain, new = (open_gguf(tmp_path / name) for name in ("f32.gguf", "new.gguf"))
    for tensor in new.tensors:
        columns = tensor.shape[0]
        is_kept = columns % 256 or tensor.name in ("token_embd.weight", "output.weight")
        expected = "F32" if len(tensor.shape) == 1 else "F16" if is_kept else kind
        assert tensor.type.name == expected, tensor.name
        values = np.frombuffer(plain.tensor_data(tensor.name), "<f4").reshape(-1, columns)
        number = reference("gguf").GGMLQuantizationType[expected]
        assert quants.quantize(values, number).tobytes() == bytes(new.tensor_data(tensor))
    assert {tensor.type.name for tensor in new.tensors} == {"F32", "F16", kind}


def test_names_are_llama_cpp_s() -> None:
    assert set(TYPES.values()) <= set(FILE_TYPES)
    assert file_type("q4_k") == file_type("Q4_K_M") == 15


def test_a_model_that_llama_cpp_refuses(mtkit: Run, tmp_path: Path) -> None:
    reference("llama_cpp")
    data = bytes(64 * 64 * 4)
    odd = gguf_bytes(
        [Key("general.architecture", "string", "none-such")],
        [NewTensor("a.weight", (64, 64), F32, data)],
    )
    (tmp_path / "odd.gguf").write_bytes(odd)
    said = one_line(mtkit("quantize", "odd.gguf", "--type", "Q4_0", "-o", "new.gguf"), 4)
    assert "none-such" in said
    assert [one.name for one in tmp_path.iterdir()] == ["odd.gguf"]


LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from mtkit.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("limit", [100, 500_000])
def test_a_full_disk_leaves_nothing(tmp_path: Path, model: Path, limit: int) -> None:
    args = ["quantize", str(model), "--type", "Q4_0", "-o", "new.gguf"]
    argv = [sys.executable, "-c", LIMITED, str(limit), *args]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=tmp_path)
    assert b"cannot be written" in done.stderr
    assert done.returncode == 5
    assert not list(tmp_path.iterdir())


def test_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path, model: Path) -> None:
    """``MTKIT_KILLS`` says how often; the child ends with its parent."""
    new = tmp_path / "new.gguf"
    argv = [sys.executable, "-m", "mtkit", "quantize", str(model), "--type", "Q4_0",
            "-o", str(new), "--force"]  # fmt: skip
    began = time.monotonic()
    subprocess.run(argv, check=True, capture_output=True)
    took = time.monotonic() - began
    whole = hashlib.sha256(new.read_bytes()).digest()
    rng = random.Random(3)
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.2, 1.1) * took)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        for path in tmp_path.iterdir():
            if path == new:
                assert hashlib.sha256(path.read_bytes()).digest() == whole
            else:
                assert path.name.endswith(".part")
                path.unlink()
    assert killed
