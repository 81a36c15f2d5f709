"""Commands take a set of files by its first, and do with it what they do with the whole model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import one_line, reference

import mtkit as package
from mtkit.gguf import open_gguf
from mtkit.gguf.shards import open_whole, shard_file_names, split_model

if TYPE_CHECKING:
    from conftest import Run

MODEL = Path(package.__file__).parent / "data" / "default-model.gguf"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the first of three or more files."""
    parts = split_model(open_gguf(MODEL), max_tensors=12)
    assert len(parts) > 2
    paths = shard_file_names(str(tmp_path / "model.gguf"), len(parts))
    for path, part in zip(paths, parts, strict=True):
        Path(path).write_bytes(b"".join(part.chunks()))
    return Path(paths[0])


def test_a_set_is_what_it_was_cut_from(first: Path) -> None:
    whole, model = open_whole(str(first)), open_gguf(str(MODEL))
    assert [*whole.metadata] == [*model.metadata]
    assert [one.name for one in whole.tensors] == [one.name for one in model.tensors]
    for tensor in model.tensors:
        assert whole.tensor_data(whole.names[tensor.name]) == model.tensor_data(tensor)


@pytest.mark.parametrize(
    "line",
    [
        ("edit", "--set", "general.name=renamed", "--rename-tensor", "output_norm.weight=o"),
        ("edit", "--unset", "tokenizer.chat_template"),
        ("trim", "--corpus", __file__, "--coverage", "0.9"),
    ],
)
def test_a_command_does_what_it_does_with_the_whole(
    line: tuple[str, ...], first: Path, mtkit: Run, tmp_path: Path
) -> None:
    command, *options = line
    made = [tmp_path / f"of-{kind}.gguf" for kind in ("set", "whole")]
    for source, target in zip((first, MODEL), made, strict=True):
        done = mtkit(command, source, *options, "-o", target)
        assert (done.returncode, done.stderr) == (0, b"")
    assert made[0].read_bytes() == made[1].read_bytes()


def test_a_set_is_split_and_compared_as_the_whole(first: Path, mtkit: Run, tmp_path: Path) -> None:
    assert mtkit("diff", first, MODEL).returncode == 0
    for source, folder in ((first, "of-set"), (MODEL, "of-whole")):
        done = mtkit("split", source, "--max-tensors", 20, "-o", tmp_path / folder)
        assert done.returncode == 0, done.stderr
    a, b = (sorted((tmp_path / name).iterdir()) for name in ("of-set", "of-whole"))
    assert [one.read_bytes() for one in a] == [one.read_bytes() for one in b]
    assert a[0].name.startswith("model-00001-of-")


def test_a_set_is_quantized_as_the_whole(first: Path, mtkit: Run, tmp_path: Path) -> None:
    reference("llama_cpp")
    made = []
    for number, source in enumerate((first, MODEL)):
        target = tmp_path / f"{number}.gguf"
        done = mtkit("quantize", source, "--type", "Q8_0", "--allow-requantize", "-o", target)
        assert done.returncode == 0, done.stderr
        made.append(target)
    assert mtkit("diff", *made).returncode == 0


def test_an_edited_file_of_a_set_says_where_it_loads(
    first: Path, mtkit: Run, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    same = tmp_path / "new" / first.name
    second = first.name.replace("-00001-", "-00002-")
    done = mtkit("edit", first, "--set", "general.name=x", "-o", same)
    assert done.returncode == 0
    assert f"it loads once {same.with_name(second)} is there, too".encode() in done.stderr
    assert len(open_gguf(str(same)).tensors) == 12
    for other in first.parent.glob("model-0000[2-9]*"):
        shutil.copy(other, same.parent)
    done = mtkit("edit", first, "--set", "general.name=x", "-o", same, "--force")
    assert (done.returncode, done.stderr) == (0, b"")
    odd = tmp_path / "odd.gguf"
    done = mtkit("edit", first.with_name(second), "--set", "a.b=u8:1", "-o", odd)
    assert b"llama.cpp finds it only as NAME-00002-of-" in done.stderr


def test_a_set_by_other_names_is_called_one(first: Path, mtkit: Run, tmp_path: Path) -> None:
    odd, whole = tmp_path / "renamed_1.gguf", tmp_path / "whole.gguf"
    shutil.copy(first, odd)
    for command in (("merge", odd, "-o", whole), ("generate", "a", "-m", odd, "-n", 1)):
        line = one_line(mtkit(*command), 3)
        assert "is file 1 of " in line
        assert "rename it to NAME-00001-of-" in line
    parts = sorted(first.parent.glob("model-0000*"))
    (tmp_path / "cat").mkdir()
    for name in ("joined.gguf", first.name):
        joined = tmp_path / "cat" / name
        joined.write_bytes(b"".join(part.read_bytes() for part in parts))
        line = one_line(mtkit("merge", joined, "-o", whole), 3)
        assert "has another GGUF behind its tensors, as cat puts files one behind the other" in line
        said = mtkit("check", joined).stdout
        assert b"another GGUF, as cat puts files one behind the other" in said
