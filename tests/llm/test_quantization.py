"""``mtkit quantize``: llama.cpp's own quantizer, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from importance import importance
from screens import check_screens, screen
from support import Run, one_line, reference, shared

from mtkit.gguf import open_gguf
from mtkit.gguf.types import FILE_TYPES, TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
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
    assert (done.returncode, done.stderr) == (0, b"")
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
    assert screen(*tried, columns=120).lines[-2] == f"✓ {model} can be quantized to Q8_0"


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
