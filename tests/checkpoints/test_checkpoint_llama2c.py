"""llama2.c checkpoints: every weight at its place, damage told, nothing half-written."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from llama2c_models import SIZES, VOCAB, checkpoint, vocabulary
from support import Run, reference, shared

from mtkit.base.binary import Source
from mtkit.checkpoints import llama2c
from mtkit.cli import main
from mtkit.conversion.model import convert_checkpoint
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.tokenizer.load import load


def memory(data: bytes) -> Source:
    return Source("model.bin", data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.bin").write_bytes(checkpoint())
    (tmp_path / "tokenizer.bin").write_bytes(vocabulary())
    return tmp_path


@pytest.mark.parametrize("shared_head", [True, False])
def test_tensors_fill_the_file_in_order(shared_head: bool) -> None:
    data = checkpoint(shared=shared_head)
    model = llama2c.read(memory(data))
    assert [
        model.n_embd,
        model.n_ff,
        model.n_layer,
        model.n_head,
        model.n_head_kv,
        model.n_ctx,
    ] == [*SIZES.values()]
    assert model.n_vocab == VOCAB
    names = [tensor.name for tensor in model.tensors]
    assert ("output.weight" in names) is not shared_head
    ordered = b"".join(
        bytes(tensor.data) for tensor in model.tensors if tensor.name != "output.weight"
    )
    assert data[28 : 28 + len(ordered)] == ordered
    rotations = 4 * SIZES["seq"] * (SIZES["dim"] // SIZES["heads"])
    rest = data[28 + len(ordered) + rotations :]
    assert rest == b"".join(bytes(t.data) for t in model.tensors if t.name == "output.weight")


def test_same_tensors_as_the_exported_gguf() -> None:
    model = llama2c.read(Source.open(str(shared("models/stories260K/stories260K.bin"))))
    other = open_gguf(str(shared("models/stories260K/stories260K-f32.gguf")))
    assert {(t.name, t.shape, bytes(t.data)) for t in model.tensors} == {
        (t.name, t.shape, bytes(other.tensor_data(t))) for t in other.tensors
    }
    keys = {key.name: key.value for key in model.gguf_keys()}
    same = [name for name in keys if name in other.metadata]
    assert len(same) >= 9
    for name in same:
        assert other.metadata[name] == pytest.approx(keys[name]), name


def test_sniff_knows_whole_files_only() -> None:
    data = checkpoint()
    assert llama2c.sniff(memory(data))
    for other in (b"", data[:27], data[:-1], data + b"\0", vocabulary(), b"GGUF" + data[4:]):
        assert not llama2c.sniff(memory(other))


def test_damage_is_told() -> None:
    data = checkpoint()
    for length in [*range(32), 1000, len(data) - 4, len(data) - 1]:
        with pytest.raises(FormatError):
            llama2c.read(memory(data[:length]))
    with pytest.raises(FormatError, match="the header says"):
        llama2c.read(memory(data + bytes(4)))
    extremes = (0, -1, 3, 7, 2**31 - 1, -(2**31))
    for place in range(7):
        for number in extremes:
            if place == 5 and number == -VOCAB:
                continue
            changed = bytearray(data)
            struct.pack_into("<i", changed, 4 * place, number)
            with pytest.raises(FormatError):
                llama2c.read(memory(bytes(changed)))
    with pytest.raises(UnsupportedError, match="later version"):
        llama2c.read(memory(struct.pack("<I", 0x616B3432) + data[4:]))


def test_convert_and_read_back(folder: Path) -> None:
    tokenizer = load(folder / "tokenizer.bin")
    done = convert_checkpoint(folder / "model.bin", tokenizer)
    assert done.path == str(folder / "model.gguf")
    assert sorted(path.name for path in folder.iterdir()) == [
        "model.bin", "model.gguf", "tokenizer.bin"
    ]  # fmt: skip
    file = open_gguf(done.path)
    assert file.trailing_bytes == 0
    assert not file.findings
    assert file.metadata["general.name"] == "model"
    assert file.metadata["tokenizer.ggml.eot_token_id"] == 1
    model = llama2c.read(memory(checkpoint()))
    assert [bytes(file.tensor_data(t)) for t in file.tensors] == [
        bytes(t.data) for t in model.tensors
    ]
    assert load(done.path).encode_ids("once a dog") == tokenizer.encode_ids("once a dog")
    with pytest.raises(UsageError, match="already exists"):
        convert_checkpoint(folder / "model.bin", tokenizer)


@pytest.mark.parametrize("shared_head", [True, False])
def test_llama_cpp_loads_it(folder: Path, shared_head: bool) -> None:
    reference("llama_cpp")
    from mtkit.api.generation import generate

    (folder / "model.bin").write_bytes(checkpoint(shared=shared_head))
    done = convert_checkpoint(folder / "model.bin", load(folder / "tokenizer.bin"))
    made = generate("once", model=done.path, n_predict=5, threads=1)
    assert made.ids
    assert made.prompt_ids[0] == 1


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, words, made = (str(folder / name) for name in ("model.bin", "tokenizer.bin", "x.gguf"))
    args = ["convert", model, "--tokenizer", words, "--to", "gguf", "-o", made, "--json"]
    assert main(args) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["output"] == made
    assert "a text ends at BOS, as in llama2.c" in document["assumptions"]
    assert main(["convert", model, "--to", "gguf"]) == 2
    assert "--tokenizer" in capsys.readouterr().err
    assert main(["convert", model, "--tokenizer", words, "--to", "hf"]) == 2
    assert main(["convert", words, "--tokenizer", words, "--to", "gguf"]) == 3
    (folder / "cut.bin").write_bytes(checkpoint()[:-8])
    assert main(["convert", str(folder / "cut.bin"), "--tokenizer", words, "--to", "gguf"]) == 3
    assert "cut.bin" in capsys.readouterr().err
    assert not (folder / "cut.gguf").exists()


def test_options_of_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about, target = folder / "about.json", folder / "x-{ftype}.gguf"
    about.write_text(json.dumps({"general.author": "Ann", "general.name": "Other"}))
    args = ["convert", str(folder / "model.bin"), "--tokenizer", str(folder / "tokenizer.bin")]
    args += ["-o", str(target), "--metadata", str(about), "--type", "f32", "--json"]
    assert main([*args, "--dry-run"]) == 0
    dry = json.loads(capsys.readouterr().out)
    made = folder / "x-f32.gguf"
    assert not made.exists()
    assert main(args) == 0
    assert json.loads(capsys.readouterr().out) == {**dry, "written": True}
    assert dry["output"] == str(made)
    assert dry["sizes"]["total"] == made.stat().st_size
    metadata = open_gguf(made).metadata
    assert (metadata["general.name"], metadata["general.author"]) == ("Other", "Ann")
    assert main([*args, "--dry-run"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*args, "--force", "--model-name", "Mine"]) == 0
    assert open_gguf(made).metadata["general.name"] == "Mine"
    capsys.readouterr()
    for option in (["--type", "q8_0"], ["--split-max-size", "1M"], ["--vocab-only"], ["--verify"]):
        assert main([*args, "--force", *option]) == 2
        assert f"{option[0]} does not go with --tokenizer" in capsys.readouterr().err


def test_from_a_pipe(folder: Path, mtkit: Run) -> None:
    done = mtkit(
        *("convert", "-", "--tokenizer", "tokenizer.bin", "--to", "gguf"),
        stdin=(folder / "model.bin").read_bytes(),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert len(open_gguf(str(folder / "model.gguf")).tensors) == 2 + 9 * SIZES["layers"]


def test_other_tokenizer_is_refused(folder: Path) -> None:
    tokens = vocabulary()
    (folder / "tokenizer.bin").write_bytes(tokens + struct.pack("<fi", 0.0, 2) + b"zz")
    with pytest.raises(UsageError, match="300 ids, but the tokenizer has 301"):
        convert_checkpoint(folder / "model.bin", load(folder / "tokenizer.bin"))
    assert not (folder / "model.gguf").exists()
