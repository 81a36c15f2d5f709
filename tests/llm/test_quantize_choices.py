"""The options of llama-quantize beside the type, and importance matrices of older llama-imatrix."""

from __future__ import annotations

import struct
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from importance import importance
from support import Run, one_line, reference, shared

from mtkit import quantize
from mtkit.checkpoints import legacy_imatrix
from mtkit.gguf import open_gguf
from mtkit.gguf.shards import open_whole
from mtkit.llama.importance import read_importance
from mtkit.llm.quantize_choices import Choices, parse_layers


@pytest.fixture
def model() -> Path:
    reference("llama_cpp")
    return shared("own/model/mtkit-docs-draft-bf16.gguf")


def types_of(path: Path) -> dict[str, str]:
    return {tensor.name: tensor.type.name for tensor in open_gguf(path).tensors}


def data_of(path: Path) -> dict[str, str]:
    """Return name -> hash: pytest would compare long bytes for minutes to explain a failure."""
    file = open_whole(str(path))
    return {
        tensor.name: sha256(file.tensor_data(tensor)).hexdigest()[:16] for tensor in file.tensors
    }


def legacy_bytes(entries: dict[str, tuple[int, np.ndarray]], tail: bytes = b"") -> bytes:
    data = struct.pack("<i", len(entries))
    for name, (calls, values) in entries.items():
        data += struct.pack("<i", len(name)) + name.encode()
        data += struct.pack("<ii", calls, len(values)) + values.astype("<f4").tobytes()
    return data + tail


def legacy_of(matrix: Path, path: Path, calls: int = 3) -> Path:
    """Write the same weights of columns as a .dat."""
    entries = {
        name: (calls, sums.reshape(-1) / counts[0] * calls)
        for name, (sums, counts) in read_importance(str(matrix)).entries.items()
    }
    path.write_bytes(legacy_bytes(entries, struct.pack("<ii", 5, 9) + b"calib.txt"))
    return path


def test_a_matrix_of_older_llama_imatrix(mtkit: Run, tmp_path: Path, model: Path) -> None:
    """It makes the same file as its GGUF, but for what is said of it."""
    matrix = tmp_path / "imatrix.gguf"
    matrix.write_bytes(importance(model))
    legacy = legacy_of(matrix, tmp_path / "imatrix.dat")
    made = []
    for number, path in enumerate((matrix, legacy)):
        out = tmp_path / f"{number}.gguf"
        done = mtkit("quantize", model, out, "Q4_0", "--imatrix", path)
        assert done.returncode == 0, done.stderr
        made.append(data_of(out))
    assert made[0] == made[1]
    metadata = open_gguf(tmp_path / "1.gguf").metadata
    assert metadata["quantize.imatrix.dataset"] == "calib.txt"
    assert metadata["quantize.imatrix.chunks_count"] == 5
    shown = mtkit("inspect", legacy).stdout.decode()
    assert "content\timatrix\timportance matrix, .dat of older llama-imatrix" in shown
    assert "content\tdataset\tcalib.txt" in shown
    assert mtkit("check", legacy).returncode == 0


CASES = {
    "plain": legacy_bytes({"blk.0.attn_q.weight": (2, np.ones(4))}),
    "no tail": legacy_bytes({"output.weight": (0, np.ones(2)), "blk.0.a.weight": (1, np.ones(1))}),
}


@pytest.mark.parametrize("name", CASES)
def test_damage_is_an_error(name: str, tmp_path: Path) -> None:
    from mtkit.base.binary import Source
    from mtkit.errors import MtkitError

    whole = CASES[name]
    assert legacy_imatrix.sniff(Source("x.dat", whole))
    assert list(legacy_imatrix.read(Source("x.dat", whole)).entries)
    for end in range(8, len(whole) - 1):
        with pytest.raises(MtkitError):
            legacy_imatrix.read(Source("x.dat", whole[:end]))
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        try:
            legacy_imatrix.read(Source("x.dat", bytes(changed)))
        except MtkitError:
            continue


def test_the_head_stays(mtkit: Run, tmp_path: Path, model: Path) -> None:
    names = list(open_gguf(model).names)
    out = tmp_path / "q.gguf"
    done = mtkit("quantize", model, out, "Q8_0", "--leave-output-tensor")
    assert done.returncode == 0, done.stderr
    if "output.weight" in names:
        assert types_of(out)["output.weight"] == types_of(model)["output.weight"]
    else:
        assert b"has no output.weight to leave" in done.stderr
    types = tmp_path / "types.txt"
    types.write_text("attn_q=q5_0\n\nffn_down=q4_1 attn_v=q8_0\n")
    done = mtkit("quantize", model, tmp_path / "t.gguf", "Q4_0", "--tensor-type-file", types)
    assert done.returncode == 0, done.stderr
    found = types_of(tmp_path / "t.gguf")
    assert found["blk.0.attn_q.weight"] == "Q5_0"
    assert found["blk.0.ffn_down.weight"] == "Q4_1"


def test_weights_that_the_matrix_is_for(mtkit: Run, tmp_path: Path, model: Path) -> None:
    matrix = tmp_path / "imatrix.gguf"
    matrix.write_bytes(importance(model))
    made = {}
    for name, options in {
        "all": (),
        "some": ("--include-weights", "attn_q"),
        "others": ("--exclude-weights", "attn_q", "--exclude-weights", "zzz"),
    }.items():
        out = tmp_path / f"{name}.gguf"
        done = mtkit("quantize", model, out, "Q4_0", "--imatrix", matrix, *options)
        assert done.returncode == 0, done.stderr
        assert (b"no tensor's name has 'zzz'" in done.stderr) == (name == "others")
        made[name] = data_of(out)
    assert mtkit("quantize", model, tmp_path / "none.gguf", "Q4_0").returncode == 0
    without = data_of(tmp_path / "none.gguf")
    q, down = "blk.0.attn_q.weight", "blk.0.ffn_down.weight"
    assert made["some"][q] == made["all"][q] != without[q] == made["others"][q]
    assert made["others"][down] == made["all"][down] != without[down] == made["some"][down]
    both = ("--include-weights", "a", "--exclude-weights", "b")
    line = one_line(mtkit("quantize", model, tmp_path / "x", "Q4_0", "--imatrix", matrix, *both), 2)
    assert "exclude each other" in line
    line = one_line(mtkit("quantize", model, tmp_path / "x", "Q4_0", *both[:2]), 2)
    assert "goes with --imatrix" in line


def test_keys_and_layers(mtkit: Run, tmp_path: Path, model: Path) -> None:
    old = open_gguf(model)
    count = old.metadata[f"{old.metadata['general.architecture']}.block_count"]
    out = tmp_path / "q.gguf"
    done = mtkit(
        "quantize", model, out, "Q8_0", "--override-kv", "general.name=str:shorter",
        "--override-kv", "own.number=int:7", "--override-kv", "own.flag=bool:true",
        "--override-kv", "own.part=float:0.5", "--prune-layers", "0",
    )  # fmt: skip
    if count == 1:
        assert "leaves no layer" in one_line(done, 2)
        return
    assert done.returncode == 0, done.stderr
    new = open_gguf(out)
    found = [new.metadata[key] for key in ("general.name", "own.number", "own.flag", "own.part")]
    assert found == ["shorter", 7, True, 0.5]
    assert new.metadata[f"{new.metadata['general.architecture']}.block_count"] == count - 1
    whole = tmp_path / "whole.gguf"
    assert mtkit("quantize", model, whole, "Q8_0").returncode == 0
    assert data_of(out)["blk.0.attn_q.weight"] == data_of(whole)["blk.1.attn_q.weight"]
    assert "is not a layer" in one_line(
        mtkit("quantize", model, tmp_path / "x", "Q8_0", "--prune-layers", "99"), 2
    )
    for text, what in (
        ("a=int:-1", "is no int"),
        ("a=u32:1", "is not KEY=TYPE:VALUE"),
        ("a=bool:yes", "is no bool"),
        (f"a=str:{'x' * 200}", "at most 127 bytes"),
    ):
        line = one_line(mtkit("quantize", model, tmp_path / "x", "Q8_0", "--override-kv", text), 2)
        assert what in line


def test_as_many_files_as_before(mtkit: Run, tmp_path: Path, model: Path) -> None:
    parts = tmp_path / "parts"
    assert mtkit("split", model, "--split-max-tensors", "7", "-o", parts).returncode == 0
    first = min(parts.iterdir())
    count = len(list(parts.iterdir()))
    out, whole = tmp_path / "q.gguf", tmp_path / "whole.gguf"
    done = mtkit("quantize", first, out, "Q8_0", "--keep-split")
    assert done.returncode == 0, done.stderr
    made = sorted(tmp_path.glob("q-*.gguf"))
    assert [path.name for path in made] == [
        f"q-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)
    ]
    assert not out.exists()
    assert mtkit("quantize", first, whole, "Q8_0").returncode == 0
    assert data_of(made[0]) == data_of(whole)
    before = [list(open_gguf(path).names) for path in sorted(parts.iterdir())]
    assert [list(open_gguf(path).names) for path in made] == before
    assert not list(tmp_path.glob("*.part"))
    done = mtkit("quantize", model, tmp_path / "one.gguf", "Q8_0", "--keep-split")
    assert done.returncode == 0
    assert b"is one file, so --keep-split has no effect" in done.stderr


def test_names_of_layers_that_stay() -> None:
    choices = Choices(prune=parse_layers("1,3,1"))
    names = [f"blk.{layer}.attn_q.weight" for layer in range(5)]
    assert [choices.new_name(name) for name in names] == [
        "blk.0.attn_q.weight", None, "blk.1.attn_q.weight", None, "blk.2.attn_q.weight",
    ]  # fmt: skip
    assert choices.new_name("output.weight") == "output.weight"


def test_the_library_takes_a_legacy_matrix(tmp_path: Path, model: Path) -> None:
    matrix = tmp_path / "imatrix.gguf"
    matrix.write_bytes(importance(model))
    legacy = legacy_of(matrix, tmp_path / "old.dat")
    with pytest.warns(UserWarning, match="falls back"):
        quantize(model, tmp_path / "q.gguf", "Q4_0", imatrix=legacy)
    assert (tmp_path / "q.gguf").exists()
