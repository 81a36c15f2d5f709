"""The folder of an adapter is what inspect, check and convert see, whatever lies in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from adapters import linear_layers, write_adapter
from model_folders import write_folder
from support import Run

import mtkit as library


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    base = write_folder(tmp_path / "base", tokenizer="bbpe-8k")
    return write_adapter(tmp_path / "adapter", base, linear_layers(base, ("q_proj", "up_proj")))


def changed(adapter: Path, **fields: object) -> Path:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return adapter


def test_what_an_adapter_is(mtkit: Run, adapter: Path) -> None:
    base = adapter.parent / "base"
    rows = [line.split("\t") for line in mtkit("inspect", adapter).stdout.decode().splitlines()]
    assert ["adapter", "rank", "4"] in rows
    assert ["adapter", "alpha", "8"] in rows
    assert ["adapter", "base", str(base)] in rows
    assert ["module", "up_proj", "2"] in rows
    assert not [row for row in rows if row[0] == "refused"]
    document = json.loads(mtkit("inspect", adapter, "--json").stdout)
    assert document == library.inspect(adapter)
    assert document["refused"] is None
    both = mtkit("inspect", adapter, base).stdout.decode().splitlines()
    assert [line.split("\t")[1] for line in both] == ["adapter", "folder"]
    done = mtkit("check", adapter)
    assert done.returncode == 0
    assert b"\tok\t" in done.stdout


def test_a_gguf_inside_hides_nothing(mtkit: Run, adapter: Path) -> None:
    before = mtkit("inspect", adapter).stdout, mtkit("check", adapter).stdout
    mtkit("convert", adapter)
    assert list(adapter.glob("*.gguf"))
    assert (mtkit("inspect", adapter).stdout, mtkit("check", adapter).stdout) == before


def test_an_adapter_that_is_refused(mtkit: Run, adapter: Path) -> None:
    changed(adapter, use_dora=True)
    assert b"adapter\tkind\tDoRA" in mtkit("inspect", adapter).stdout
    done = mtkit("check", adapter)
    assert (done.returncode, b"adapter-kind\tuse_dora" in done.stdout) == (1, True)
    changed(adapter, use_dora=False, modules_to_save=["lm_head"])
    assert b"modules_to_save" in mtkit("check", adapter).stdout
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    changed(adapter, modules_to_save=None)
    assert b"adapter_model.bin" in mtkit("check", adapter).stdout


def test_quantize_takes_no_gguf_inside_a_model_folder(mtkit: Run, adapter: Path) -> None:
    base = adapter.parent / "base"
    mtkit("convert", base)
    done = mtkit("quantize", base, adapter.parent / "q.gguf", "Q8_0")
    line = f"run: mtkit convert {base} {adapter.parent / 'q.gguf'} --type Q8_0"
    assert done.returncode == 2
    assert line.encode() in done.stderr
    mtkit(*line.split()[2:])
    assert (adapter.parent / "q.gguf").exists()


def test_dense_modules_are_for_a_model(mtkit: Run, adapter: Path) -> None:
    done = mtkit("convert", adapter, "--dense-modules")
    assert done.returncode == 2
    assert b"--dense-modules" in done.stderr
