"""``mtkit inspect`` and ``mtkit dump`` of a GGUF: rows, JSON, terminal, exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from llama2c_models import checkpoint
from support import FIXTURES

from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

BBPE_VOCABULARY = FIXTURES / "bbpe-8k" / "vocab.gguf"
ANSI = "\x1b[31m[bold]evil[/bold]\u202e\nline"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    f32, f16 = TENSOR_TYPES[0], TENSOR_TYPES[1]
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("general.name", "string", ANSI),
        Key("llama.block_count", "u32", 2),
        Key("llama.rope.freq_base", "f32", 0.1),
        Key("x.bad", "string", b"caf\xe9"),
        Key("x.long", "u32[]", range(1000)),
        Key("x.words", "string[]", ['a"b', "c\td", "e\\f"]),
    ]
    tensors = [
        NewTensor("token_embd.weight", (4, 3), f32, bytes(48)),
        NewTensor("blk.0.attn_q.weight", (8,), f16, bytes(16)),
        NewTensor("blk.10.attn_q.weight", (8, 2), f32, bytes(64)),
        NewTensor("blk.2.ffn_up.weight", (2,), f32, bytes(8)),
        NewTensor("output.weight", (4,), f32, bytes(16)),
    ]
    write_gguf(str(path), keys, tensors)
    return path


def rows(stdout: bytes) -> list[list[str]]:
    text = stdout.decode()
    assert text.endswith("\n")
    return [line.split("\t") for line in text[:-1].split("\n")]


def test_rows_in_a_pipe(mtkit: Run, model: Path) -> None:
    done = mtkit("inspect", model)
    assert done.returncode == 0
    found = rows(done.stdout)
    assert ["header", "version", "3"] in found
    assert ["header", "byte_order", "little"] in found
    assert ["model", "parameters", "42"] in found
    assert ["quantisation", "F32", "4", "34", "136"] in found
    assert ["hyperparameter", "n_layer", "2"] in found
    assert ["hyperparameter", "rope_freq_base_train", "0.1"] in found
    assert ["metadata", "x.long", "u32[]", "1000: 0 1 2 3 4 5 …"] in found
    assert ["metadata", "x.words", "string[]", '["a\\"b", "c\\td", "e\\\\f"]'] in found
    assert ["metadata", "x.bad", "string", "caf\\xe9"] in found
    shown = "\\x1b[31m[bold]evil[/bold]\\u202e\\nline"
    assert ["metadata", "general.name", "string", shown] in found
    assert ["tensor", "blk.10.attn_q.weight", "8x2", "F32", "96", "64"] in found
    assert ["place", "attention", "80"] in found
    assert done.stderr.decode() == (
        f"mtkit: {model}: warning: x.bad at offset 217: a string that is not UTF-8\n"
    )
    assert mtkit("inspect", model, "-q").stderr == b""


def test_layers_go_by_number(mtkit: Run, model: Path) -> None:
    found = rows(mtkit("inspect", model, "--layers").stdout)
    assert [row[1] for row in found] == ["input", "blk.0", "blk.2", "blk.10", "output"]
    assert found[1] == ["layer", "blk.0", "repeating", "1", "8", "16"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--filter", "attn"], ["blk.0.attn_q.weight", "blk.10.attn_q.weight"]),
        (["--filter", "blk.?.*"], ["blk.0.attn_q.weight", "blk.2.ffn_up.weight"]),
        (["--filter", "blk", "--sort", "bytes"],
         ["blk.10.attn_q.weight", "blk.0.attn_q.weight", "blk.2.ffn_up.weight"]),
        (["--filter", "blk", "--sort", "name"],
         ["blk.0.attn_q.weight", "blk.10.attn_q.weight", "blk.2.ffn_up.weight"]),
        (["--filter", "nothing"], []),
    ],
)  # fmt: skip
def test_filter_and_sort(mtkit: Run, model: Path, options: list[str], names: list[str]) -> None:
    done = mtkit("inspect", model, "--tensors", *options)
    assert done.returncode == 0
    assert [line.split(b"\t")[1].decode() for line in done.stdout.splitlines()] == names
    document = json.loads(mtkit("inspect", model, "--json", *options).stdout)
    assert [tensor["name"] for tensor in document["tensors"]] == names


def test_wrong_use_is_code_2(mtkit: Run, model: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for args in (["inspect", model, "--sort", "colour"], ["dump", "colours", model],
                 ["inspect", tmp_path / "missing.gguf"], ["inspect", empty]):  # fmt: skip
        done = mtkit(*args)
        assert done.returncode == 2, args
        assert done.stderr.startswith(b"mtkit: ")
        assert done.stderr.count(b"\n") == 1


def test_json_has_the_promised_keys(mtkit: Run, model: Path) -> None:
    done = mtkit("inspect", model, "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["schema"] == "mtkit.inspect/1"
    promised = {"version", "byte_order", "alignment", "data_offset", "metadata", "tensors"}
    assert promised <= document.keys()
    assert document["metadata"]["general.name"] == {"type": "string", "value": ANSI}
    assert document["metadata"]["x.long"]["value"] == list(range(1000))
    assert document["tensors"][0]["shape"] == [4, 3]
    assert [item["field"] for item in document["warnings"]] == ["x.bad"]


def test_standard_input(mtkit: Run, model: Path) -> None:
    found = json.loads(mtkit("inspect", "-", "--json", stdin=model.read_bytes()).stdout)
    assert found["path"] == "-"
    assert len(found["tensors"]) == 5


def test_big_endian(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    path.write_bytes(lay.sample(Layout(3, ">")))
    big = json.loads(mtkit("inspect", path, "--json").stdout)
    path.write_bytes(lay.sample(Layout(3)))
    little = json.loads(mtkit("inspect", path, "--json").stdout)
    assert (big.pop("byte_order"), little.pop("byte_order")) == ("big", "little")
    assert big == little
    nested = big["metadata"]["b.nested"]
    assert nested["type"] == "array[]"
    assert nested["value"][2] == {"type": "array[]", "value": [{"type": "i32[]", "value": [-7]}]}


def test_dump_is_whole(mtkit: Run, model: Path) -> None:
    found = rows(mtkit("dump", "metadata", model).stdout)
    assert [row[0] for row in found] == list(open_gguf(model).metadata)
    assert found[5] == ["x.long", "u32[]", str(list(range(1000)))]
    assert found[4] == ["x.bad", "string", "caf\\xe9"]
    tensors = rows(mtkit("dump", "tensors", model).stdout)
    assert tensors[0] == ["token_embd.weight", "4x3", "F32", "0", "48"]
    document = json.loads(mtkit("dump", "metadata", model, "--json", "--filter", "x.bad").stdout)
    assert document == {
        "schema": "mtkit.dump/1",
        "what": "metadata",
        "metadata": {"x.bad": {"type": "string", "value": "caf\\xe9", "bytes": "636166e9"}},
    }


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    path = BBPE_VOCABULARY
    argv = [sys.executable, "-m", "mtkit", "dump", "metadata", path]
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def on_terminal(*args: object, **env: str) -> str:
    """What a terminal of 80 columns is sent."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mtkit", *map(str, args)],
        stdout=slave,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", **env},
    )
    os.close(slave)
    sent = b""
    try:
        while chunk := os.read(master, 65536):
            sent += chunk
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(master)
    assert process.wait() == 0
    return sent.decode()


def test_terminal(model: Path) -> None:
    plain = on_terminal("inspect", model, NO_COLOR="1")
    assert "\x1b" not in plain
    assert "metadata (7)" in plain
    assert "blk.10.attn_q.weight" in plain
    assert "8 × 2" in plain
    assert "\\x1b[31m[bold]evil[/bold]" in plain
    tables = plain[plain.index("metadata (7)") :]
    assert all(len(line.rstrip("\r")) <= 80 for line in tables.split("\n"))
    assert "\x1b[1m" in on_terminal("inspect", model, NO_COLOR="")


def test_narrow_terminal(model: Path) -> None:
    summary = on_terminal("inspect", BBPE_VOCABULARY, COLUMNS="40", NO_COLOR="1")
    assert all(len(line.rstrip("\r")) <= 40 for line in summary.split("\n")[3:])
    usage = on_terminal("dump", "--help", COLUMNS="40").split("Examples")[0]
    assert all(len(line.rstrip("\r")) <= 40 for line in usage.split("\n"))


def test_checkpoint_says_what_to_do(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "stories.bin"
    file.write_bytes(checkpoint())
    done = mtkit("inspect", file)
    assert done.returncode == 4
    assert b"mtkit convert" in done.stderr


def test_color_when_asked_for_in_a_pipe(mtkit: Run, model: Path) -> None:
    asked = mtkit("--color", "always", "dump", "tensors", model, env={"NO_COLOR": ""})
    assert asked.stdout.startswith(b"\x1b[1mtoken_embd.weight\x1b[0m\t4x3\t")
    assert b"\x1b" not in mtkit("dump", "tensors", model).stdout
