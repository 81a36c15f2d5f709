"""``mtkit imatrix``: what enters each matrix, squared and added up, as in plain numpy."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_models import experts, own, tiny
from screens import check_screens
from support import Run, one_line, reference, shared
from whole_windows import SIZE, STORIES, STORY, squares, windows

from mtkit.cli import main
from mtkit.gguf import open_gguf
from mtkit.llama.importance import read_importance

EXACT = ["--kv-type", "f32", "--flash-attention", "off", "--threads", "1"]


def made(target: Path, *args: object) -> dict[str, tuple[Any, Any]]:
    """Make a matrix; returns its sums and counts."""
    options = ["--ctx", str(SIZE), *EXACT, "--force"]
    assert main(["imatrix", *map(str, args), "-o", str(target), *options]) == 0
    return read_importance(str(target)).entries


@pytest.fixture
def text(tmp_path: Path) -> Path:
    reference("llama_cpp")
    path = tmp_path / "text.txt"
    path.write_text(STORY, encoding="utf-8")
    return path


def test_sums_are_those_of_a_forward_pass(text: Path, tmp_path: Path) -> None:
    path = own(STORIES)
    cut = windows(path, STORY)
    wanted = squares(path, cut)
    for batch in (2048, 2 * SIZE, SIZE // 2):
        found = made(tmp_path / "im.gguf", text, "-m", path, "--batch", batch)
        assert set(found) == {name for name in wanted if name.startswith("blk.")}
        for name, (sums, counts) in found.items():
            assert counts.tolist() == [len(cut) * SIZE]
            assert sums.shape == (1, len(wanted[name]))
            np.testing.assert_allclose(sums[0], wanted[name], rtol=2e-4, atol=1e-5)


def test_the_output_matrix_is_taken_where_it_is_asked_for(text: Path, tmp_path: Path) -> None:
    path = tiny()
    wanted = squares(path, windows(path, STORY))["output.weight"]
    assert "output.weight" not in made(tmp_path / "im.gguf", text, "-m", path)
    found = made(tmp_path / "im.gguf", text, "-m", path, "--process-output")
    np.testing.assert_allclose(found["output.weight"][0][0], wanted, rtol=2e-2)


def test_each_expert_has_its_own(text: Path, tmp_path: Path) -> None:
    """All experts are alike here, so together they see what the one of a dense model sees."""
    found = made(tmp_path / "im.gguf", text, "-m", experts())
    dense = made(tmp_path / "dense.gguf", text, "-m", tiny(n_embd=64, n_ff=64))
    used = 2
    for name in ("ffn_gate", "ffn_up", "ffn_down"):
        sums, counts = found[f"blk.0.{name}_exps.weight"]
        whole, of_whole = dense[f"blk.0.{name}.weight"]
        assert counts.sum() == used * of_whole.sum()
        assert len(counts) == len(sums) == 4
        assert len(set(counts.tolist())) > 1
        np.testing.assert_allclose(sums.sum(axis=0), used * whole[0], rtol=2e-2)
        assert not np.allclose(sums[0], sums[1])
    file = open_gguf(tmp_path / "im.gguf")
    assert file.names["blk.0.ffn_down_exps.weight.in_sum2"].shape == (64, 4)
    assert file.names["blk.0.ffn_down_exps.weight.counts"].shape == (1, 4)


def test_the_file_is_laid_out_as_llama_imatrix_does(text: Path, tmp_path: Path) -> None:
    made(tmp_path / "im.gguf", text, "-m", own(STORIES))
    file = open_gguf(tmp_path / "im.gguf")
    keys = {name: (file.metadata.type_name(name), value) for name, value in file.metadata.items()}
    assert list(keys) == [
        "general.type", "imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"
    ]  # fmt: skip
    assert keys["general.type"] == ("string", "imatrix")
    assert list(keys["imatrix.datasets"][1]) == [str(text)]
    assert keys["imatrix.chunk_count"] == ("u32", len(windows(own(STORIES), STORY)))
    assert keys["imatrix.chunk_size"] == ("u32", SIZE)
    names = [tensor.name for tensor in file.tensors]
    stems = [name.removesuffix(".in_sum2") for name in names[::2]]
    assert stems == sorted(stems)
    assert names[1::2] == [f"{stem}.counts" for stem in stems]


def test_windows_are_chosen_and_matrices_added(text: Path, tmp_path: Path) -> None:
    model = ["-m", own(STORIES), "--batch", SIZE]
    whole = made(tmp_path / "whole.gguf", text, *model)
    first = made(tmp_path / "first.gguf", text, *model, "--chunks", 2)
    rest = made(
        tmp_path / "rest.gguf",
        text,
        *model,
        "--from-chunk",
        2,
        "--in-file",
        tmp_path / "first.gguf",
    )
    other = made(tmp_path / "other.gguf", text, *model, "--from-chunk", 2)
    parts = [f"--in-file={tmp_path / name}.gguf" for name in ("first", "other")]
    both = made(tmp_path / "both.gguf", *parts)
    for name, (sums, counts) in whole.items():
        assert first[name][1][0] == 2 * SIZE
        assert rest[name][1] == both[name][1] == counts == first[name][1] + other[name][1]
        assert (rest[name][0] == sums).all()
        np.testing.assert_allclose(both[name][0], sums, rtol=1e-5)


def test_a_run_that_was_killed_goes_on(text: Path, tmp_path: Path, mtkit: Run) -> None:
    text.write_text(STORY * 40)
    options = ["--ctx", SIZE, "--batch", SIZE, "--threads", 1]
    args = ["imatrix", text, "-m", own(STORIES), *options, "-o"]
    assert mtkit(*args, "whole.gguf").returncode == 0
    whole = (tmp_path / "whole.gguf").read_bytes()
    path = tmp_path / "killed.gguf"
    argv = [sys.executable, "-m", "mtkit", *map(str, args), str(path), "--save-every", "1"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    while not path.exists() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    begun = read_importance(str(path))
    assert 0 < begun.chunks < read_importance(str(tmp_path / "whole.gguf")).chunks
    assert "already exists" in one_line(mtkit(*args, path), 2)
    said = one_line(mtkit(*args, path, "--resume", "--ctx", 32), 2)
    assert "not as now" in said
    assert mtkit(*args, path, "--resume").returncode == 0
    assert path.read_bytes() == whole
    assert mtkit(*args, path, "--resume").returncode == 0  # there is nothing left
    assert path.read_bytes() == whole
    assert not list(tmp_path.glob("*.part"))


def test_what_cannot_be_done(text: Path, tmp_path: Path, mtkit: Run) -> None:
    model, target = ["-m", own(STORIES), "--ctx", SIZE], ["-o", "new.gguf"]
    for args, said, code in (
        (["--from-chunk", 99], "no windows of the text are left", 2),
        (["--in-file", own(STORIES)], "holds no importance matrix", 3),
        (["--ctx", 4096], "fewer than a window of 4096", 2),
    ):
        assert said in one_line(mtkit("imatrix", text, *model, *target, *args), code)
    assert mtkit("imatrix", text, *model, "-o", "other.gguf").returncode == 0
    args = ["--in-file", "other.gguf", "-m", tiny(), *target]
    assert "in this model" in one_line(mtkit("imatrix", text, "--ctx", SIZE, *args), 2)
    assert not (tmp_path / "new.gguf").exists()


def test_quantize_makes_one_on_the_way(text: Path, tmp_path: Path, mtkit: Run) -> None:
    model = shared("own/model/mtkit-docs-draft-bf16.gguf")
    text.write_text("The quick brown fox jumps over the lazy dog. " * 200)
    assert mtkit("imatrix", text, "-m", model, "-o", "im.gguf").returncode == 0
    args = ["quantize", model, "--type", "IQ4_XS", "-o"]
    before = mtkit(*args, "with.gguf", "--imatrix", "im.gguf")
    done = mtkit(*args, "from.gguf", "--imatrix-from", text)
    assert (before.returncode, done.returncode) == (0, 0)
    assert done.stderr == before.stderr
    assert b"14 of 20 tensors fall back" in done.stderr
    files = [open_gguf(tmp_path / f"{name}.gguf") for name in ("with", "from")]
    data = [[bytes(file.tensor_data(tensor)) for tensor in file.tensors] for file in files]
    assert data[0] == data[1]
    entries = len(read_importance(str(tmp_path / "im.gguf")).entries)
    keys = {
        name.removeprefix("quantize.imatrix."): value
        for name, value in open_gguf(tmp_path / "with.gguf").metadata.items()
        if name.startswith("quantize.imatrix.")
    }
    chunks = read_importance(str(tmp_path / "im.gguf")).chunks
    assert keys == {
        "file": "im.gguf", "dataset": str(text)[:127], "entries_count": entries,
        "chunks_count": chunks,
    }  # fmt: skip
    known = open_gguf(tmp_path / "from.gguf").metadata
    assert known["quantize.imatrix.entries_count"] == entries
    assert "quantize.imatrix.file" not in known
    both = ["--imatrix", "im.gguf", "--imatrix-from", text]
    assert "give one of" in one_line(mtkit(*args, "new.gguf", *both), 2)
    text.write_text("too short")
    assert "text.txt" in one_line(mtkit(*args, "new.gguf", "--imatrix-from", text), 2)
    assert not (tmp_path / "new.gguf").exists()


def test_screens_and_json(text: Path, tmp_path: Path, mtkit: Run) -> None:
    args = ["imatrix", text, "-m", own(STORIES), "--ctx", SIZE, "--force", "-o"]
    document = json.loads(mtkit(*args, "im.gguf", "--json").stdout)
    assert document["schema"] == "mtkit.imatrix/1"
    assert document["datasets"] == [str(text)]
    assert (document["chunk_size"], document["matrices"]) == (SIZE, 35)
    shown = check_screens(*args, tmp_path / "im.gguf")[80].words
    assert "35 matrices" in shown
