"""``mtkit inspect`` of a model folder: what is in it, and exactly the GGUF that it would become."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_folders import write_folder
from screens import check_screens, screen
from support import Run, one_line

from mtkit.checkpoints.folder_files import WEIGHTS
from mtkit.conversion.folder_report import folder_report
from mtkit.conversion.model import convert_model
from mtkit.inspection.document import gguf_document
from mtkit.inspection.gguf import inspect_gguf

pytestmark = pytest.mark.slow

SECOND = "model-00002-of-00002.safetensors"


@pytest.mark.parametrize(
    ("architecture", "kind", "tokenizer"),
    [
        ("LlamaForCausalLM", "BF16", "spm-bpe"),
        ("MixtralForCausalLM", "F16", "bbpe-8k"),
        ("LlamaForCausalLM", "F32", "bbpe-8k"),
    ],
)
def test_the_gguf_that_is_told_of_is_the_one_that_is_written(
    mtkit: Run, tmp_path: Path, architecture: str, kind: str, tokenizer: str
) -> None:
    path = write_folder(tmp_path / "model", architecture, kind=kind, tokenizer=tokenizer)
    report = folder_report(str(path))
    assert report.gguf is not None
    assert list(report.sizes) == ["f16" if kind == "F32" else kind.lower(), "q8_0"]
    for name, size in report.sizes.items():
        target = tmp_path / f"{name}.gguf"
        convert_model(path, target, kind=name)
        assert target.stat().st_size == size
    made = inspect_gguf(str(tmp_path / f"{next(iter(report.sizes))}.gguf"))
    told, real = (
        {key: value for key, value in gguf_document(one).items() if key != "path"}
        for one in (report.gguf, made)
    )
    assert told == real
    plans = [mtkit("inspect", "--plan", one).stdout for one in (path, made.file.name)]
    assert [row for row in plans[0].splitlines() if not row.startswith(b"limit")] == [
        row for row in plans[1].splitlines() if not row.startswith(b"limit")
    ]
    for section in ("--metadata", "--layers"):
        first, second = (mtkit("inspect", section, one) for one in (path, made.file.name))
        assert first.stdout == second.stdout
        assert (first.returncode, first.stderr) == (0, b"")


def test_rows_and_document(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", files=2)
    done = mtkit("inspect", path)
    assert (done.returncode, done.stderr) == (0, b"")
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert ["header", "class", "LlamaForCausalLM"] in rows
    assert ["type", "BF16", "21", "1098048", "2196096"] in rows
    assert ["model", "architecture", "llama"] in rows
    assert ["hyperparameter", "n_head_kv", "2"] in rows
    assert ["tokenizer", "tokens", "8000"] in rows
    files = [row[1] for row in rows if row[0] == "file"]
    assert files == sorted(files)
    tensors = {row[1]: row[2:] for row in rows if row[0] == "tensor"}
    assert len(tensors) == 21
    name = "model.layers.1.self_attn.k_proj.weight"
    assert tensors[name][:2] == ["32x64", "BF16"]
    assert tensors[name][4:] == ["model-00001-of-00002.safetensors", "blk.1.attn_k.weight"]
    document = json.loads(mtkit("inspect", path, "--json").stdout)
    assert (document["schema"], document["kind"]) == ("mtkit.inspect/1", "folder")
    assert (document["architecture"], document["parameters"]) == ("llama", 1098048)
    assert document["refused"] is None
    assert document["hyperparameters"]["n_layer"] == 2
    assert document["tokenizer"]["tokens"] == 8000
    by_name = {one["name"]: one for one in document["tensors"]}
    assert by_name[name]["gguf"] == ["blk.1.attn_k.weight"]
    only = mtkit("inspect", path, "--tensors", "--filter", "blk.1.attn", "--sort", "name")
    names = [row.split("\t")[1] for row in only.stdout.decode().splitlines()]
    assert names == sorted(names)
    assert len(names) == 5
    assert "cannot sort" in one_line(mtkit("inspect", path, "--sort", "size"), 2)


def test_experts_say_which_tensor_they_become(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", "MixtralForCausalLM")
    done = mtkit("inspect", path, "--tensors", "--filter", "layers.0.block_sparse_moe.experts")
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    assert {row[-1] for row in rows if ".w2." in row[1]} == {"blk.0.ffn_down_exps.weight"}
    assert len(rows) == 6


def unknown(path: Path) -> Path:
    write_folder(path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "architectures": ["NoSuchLM"]}))
    return path


def test_what_is_not_converted_is_shown_and_why(mtkit: Run, tmp_path: Path) -> None:
    path = unknown(tmp_path / "model")
    done = mtkit("inspect", path)
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    (refused,) = [row for row in rows if row[0] == "refused"]
    assert "'NoSuchLM' is an architecture that mtkit does not convert" in refused[1]
    assert ["header", "parameters", "1098048"] in rows
    assert ["tokenizer", "tokens", "8000"] in rows
    assert sum(row[0] == "tensor" for row in rows) == 21
    document = json.loads(mtkit("inspect", path, "--json").stdout)
    assert document["refused"]["exit_code"] == 4
    assert "does not convert" in one_line(mtkit("inspect", path, "--plan"), 4)
    assert "does not convert" in one_line(mtkit("inspect", path, "--metadata"), 4)
    assert "is a folder" in one_line(mtkit("inspect", path, "--tensor", "a"), 2)
    shown = check_screens("inspect", path)
    assert "NoSuchLM · 1.1 M parameters · layers 2 · embedding 64 · heads 4" in shown[120].words
    assert "✗ architectures: 'NoSuchLM' is an architecture" in shown[80].words


def test_screens(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", files=2)
    shown = check_screens("inspect", path)[80]
    assert len(shown.lines) < 30
    for words in (
        "architecture llama (LlamaForCausalLM) · 1.1 M parameters · layers 2 · embedding 64",
        "tokenizer llama / default · 8,000 tokens",
        "weights BF16 100% (21 tensors)",
        "files 2 · all present",
        "as GGUF BF16 2.4 MB · Q8_0 1.3 MB",
        "blk.0–1 × 9: attn_norm F32 64",
        "fits in",
    ):
        assert words in shown.words, words
    table = check_screens("inspect", path, "--tensors", "--filter", "blk.0")
    assert "model.layers.0.self_attn.q_proj.weight 64×64 BF16 8.2 kB" in table[120].words
    assert "blk.0.attn_q.weight" in table[80].words
    assert "tensors 21" in check_screens("inspect", path, "--all")[80].words
    (path / SECOND).unlink()
    cut = check_screens("inspect", path)[80].words
    assert "files 2 · 1 missing · " + SECOND in cut
    assert "! 1 finding" in cut
    assert "parameters in the files that are there" in cut


def test_a_folder_is_a_row_beside_files(mtkit: Run, tmp_path: Path) -> None:
    good, bad = write_folder(tmp_path / "good"), unknown(tmp_path / "bad")
    weights = good / WEIGHTS
    rows = [
        line.split("\t")
        for line in mtkit("inspect", good, bad, weights).stdout.decode().split("\n")
    ]
    size = str(weights.stat().st_size)
    assert rows[0] == [str(good), "folder", size, "Good", "llama", "1098048", "BF16", "8000"]
    assert rows[1][3:5] == ["", "NoSuchLM"]
    assert rows[2][1] == "safetensors"
    assert "folder" in screen("inspect", good, bad, columns=150).words


def test_tensors_of_safetensors(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model") / WEIGHTS
    done = mtkit("inspect", path, "--tensors", "--filter", "*norm*", "--sort", "bytes")
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    assert {row[0] for row in rows} == {"tensor"}
    assert len(rows) == 5
    shown = check_screens("inspect", path, "--tensors")
    assert shown[80].words.startswith("tensors 21 name shape type")


def test_the_tokenizer_is_shown_by_its_own_name(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model")
    done = mtkit("inspect", path / "tokenizer.json")
    assert done.stdout.startswith(b"format\thf\n")


def test_rows_of_the_embedding_without_a_token_are_noted(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", tokenizer="bbpe-8k", config={"vocab_size": 8256})
    said = "config.json has a vocab_size of 8256: 64 ids have no token"
    assert f"note\t{said}\n".encode() in mtkit("inspect", path).stdout
    assert json.loads(mtkit("inspect", path, "--json").stdout)["notes"] == [said]
    sound = write_folder(tmp_path / "sound", tokenizer="bbpe-8k")
    assert json.loads(mtkit("inspect", sound, "--json").stdout)["notes"] == []
