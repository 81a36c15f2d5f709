"""``mtkit inspect`` and ``mtkit dump`` of a GGUF: rows, JSON, terminal, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st
from llama2c_models import checkpoint
from range_server import serving
from screens import check_screens, screen
from support import FIXTURES, reference

from mtkit.base.binary import Source
from mtkit.base.record import replace
from mtkit.base.rules import Finding, Rule
from mtkit.commands.inspect import gguf
from mtkit.commands.inspect.plan import memory_parts, sizes_that_add
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.inspection.gguf import inspect_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

    from mtkit.base.rules import Severity

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
    assert ["quantization", "F32", "4", "34", "136"] in found
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


@pytest.mark.parametrize("severity", ["note", "warning"])
def test_a_note_is_no_warning(
    model: Path, severity: Severity, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    found = Finding(Rule("odd", severity, "gguf.md", "key", "It is odd."), "x.bad", "odd", 3)
    report = replace(inspect_gguf(Source.open(str(model))), findings=(found,))
    monkeypatch.setattr(gguf, "inspect_gguf", lambda _: report)
    asked = {"sections": ("places",), "in_full": False, "pattern": None, "sort": None}
    gguf.show_gguf(Source.open(str(model)), **asked, as_json=False, quiet=False)
    assert ("warning" in capsys.readouterr().err) == (severity == "warning")


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


def test_terminal(model: Path) -> None:
    found = check_screens("inspect", model, "-q")
    assert "\\x1b[31m[bold]evil[/bold]" in found[80].words
    assert "tensors 5 blk.0 × 1: attn_q F16 8 blk.2 × 1: ffn_up F32 2" in found[80].words
    assert found[80].lines[-2].endswith("--metadata, --tensors, --layers, --plan, --all for more")
    whole = check_screens("inspect", model, "-q", "--all")[80]
    assert "metadata  7" in whole.lines
    assert "blk.10.attn_q.weight 8×2 F32 96 64 bytes" in whole.words


def test_a_large_model_fits_a_screen(tmp_path: Path) -> None:
    """48 layers of 12 tensors and a vocabulary of 150,000."""
    path = tmp_path / "large.gguf"
    f32, q8 = TENSOR_TYPES[0], TENSOR_TYPES[8]
    names = ("attn_norm.weight", "attn_q.bias", "attn_k.bias", "attn_v.bias", "ffn_norm.weight")
    matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    tensors = [NewTensor("token_embd.weight", (32, 2), q8, bytes(68))]
    for layer in range(48):
        tensors += [NewTensor(f"blk.{layer}.{name}", (8,), f32, bytes(32)) for name in names]
        tensors += [
            NewTensor(f"blk.{layer}.{name}.weight", (32, 8), q8, bytes(272)) for name in matrices
        ]
    keys = [
        Key("general.architecture", "string", "qwen2"),
        Key("general.name", "string", "A Large Model"),
        Key("qwen2.block_count", "u32", 48),
        Key("qwen2.context_length", "u32", 131072),
        Key("qwen2.attention.head_count", "u32", 4),
        Key("qwen2.embedding_length", "u32", 32),
        Key("tokenizer.ggml.model", "string", "gpt2"),
        Key("tokenizer.ggml.tokens", "string[]", [f"token {i}" for i in range(151936)]),
        Key("tokenizer.ggml.eos_token_id", "u32", 1234),
    ]
    write_gguf(str(path), keys, tensors)
    found = check_screens("inspect", path)
    assert len(found[80].lines) <= 25  # the last is empty
    assert "blk.0–47 × 12: attn_norm F32 8 · attn_q.bias F32 8" in found[80].words
    assert "151,936 tokens · EOS token 1234 1234" in found[80].words
    assert len(screen("inspect", path, "--all").lines) > 500


def test_blocks_that_differ_are_folded_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "kinds.gguf"
    f32, f16 = TENSOR_TYPES[0], TENSOR_TYPES[1]
    tensors = [
        NewTensor(f"blk.{layer}.{'ssm_in' if layer % 2 else 'attn_q'}.weight", (8,), f32, bytes(32))
        for layer in range(8)
    ]
    tensors.append(NewTensor("blk.8.attn_q.weight", (8,), f16, bytes(16)))
    write_gguf(str(path), [Key("general.architecture", "string", "x")], tensors)
    words = screen("inspect", path).words
    assert "blk.0,2,4 … (5) × 1: attn_q F32/F16 8 blk.1,3,5 … (4) × 1: ssm_in F32 8" in words


def test_the_summary_plans_tensors_in_the_order_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages at the ends of a file are given back, so the order counts; as --plan."""
    from mtkit.memory_plan import plan

    names = ["output.weight", "blk.1.x.weight", "blk.0.x.weight", "token_embd.weight"]
    tensors = [NewTensor(name, (8,), TENSOR_TYPES[0], bytes(32)) for name in names]
    path = str(tmp_path / "m.gguf")
    write_gguf(path, [Key("general.architecture", "string", "x")], tensors)
    asked: list[list[str]] = []

    class Stop(Exception):
        pass

    def make_plan(metadata: object, given: tuple[NewTensor, ...], settings: object) -> None:
        asked.append([one.name for one in given])
        raise Stop

    monkeypatch.setattr(plan, "make_plan", make_plan)
    with pytest.raises(Stop):
        memory_parts(inspect_gguf(path), 64)
    assert asked == [names]


def test_a_plan_says_its_verdict_first_and_adds_up() -> None:
    model = FIXTURES.parents[1] / "mtkit" / "data" / "default-model.gguf"
    found = check_screens("inspect", model, "--plan", "--ctx", 4096)
    assert re.match("✓ .*which fits in", found[120].lines[0])
    sizes = re.findall(r"^  (weights|repacked|KV cache|computing|together) +([\d.]+) MB",
                       "\n".join(found[80].lines), re.M)  # fmt: skip
    names = [name for name, _ in sizes if name != "repacked"]  # on some processors
    assert names == ["weights", "KV cache", "computing", "together"]
    *parts, whole = (round(float(text) * 100) for _, text in sizes)
    assert sum(parts) == whole
    assert "0–3 attention 4,096 2.1 MB CPU" in found[80].words
    full = screen("inspect", model, "--plan", "--ctx", 1 << 30)
    assert re.match("✗ .*more than", full.words)
    assert full.code == 0


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=5))
def test_what_is_shown_of_sizes_adds_up(parts: list[int]) -> None:
    from decimal import Decimal

    texts, whole = sizes_that_add(parts)
    numbers = [Decimal(text.split()[0]) for text in texts]
    assert sum(numbers) == Decimal(whole.split()[0])
    assert len({text.split()[1] for text in (*texts, whole)}) == 1


def test_checkpoint_says_what_to_do(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "stories.bin"
    file.write_bytes(checkpoint())
    done = mtkit("inspect", file)
    assert done.returncode == 4
    assert b"mtkit convert" in done.stderr


def test_a_pager_gets_what_a_terminal_does(mtkit: Run, model: Path) -> None:
    """``--color always`` in a pipe; the width is the terminal's, or COLUMNS."""
    env = {"NO_COLOR": "", "COLUMNS": "60"}
    paged = mtkit("--color", "always", "dump", "tensors", model, env=env).stdout.decode()
    assert paged == screen("dump", "tensors", model, columns=60, color=True).text.replace("\r", "")
    assert "\x1b[1mname" in paged
    assert b"\x1b" not in mtkit("dump", "tensors", model, env={"FORCE_COLOR": "1"}).stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bbpe-8k/tokenizer.json", "4950 [中文版最新更新 · 7806 若要使用此指令"),
        ("spm-bpe/tokenizer.model", "special id bos 1 <s> · eos 2 </s> · unk 0 <unk>"),
    ],
)
def test_a_tokenizer_on_a_terminal(name: str, words: str) -> None:
    """Tokens are shown as the text that they stand for."""
    found = check_screens("inspect", FIXTURES / name)
    assert words in found[120].words
    assert len(found[80].lines) <= 24


def test_tables_have_headings_on_a_terminal(model: Path) -> None:
    assert check_screens("dump", "tensors", model)[80].lines[0].startswith("name  ")
    assert check_screens("formats")[60].lines[0] == "name          read  write  what it is"
    found = check_screens("encode", "Hello, 中文 🙂")[80].lines
    assert "3036  ·中    20 e4 b8 ad" in [line.strip() for line in found]
    assert found[-3:-1] == ["9 tokens · 11 characters · 1.2 characters per token",
                            "a character is split: mtkit explain joins it"]  # fmt: skip
    assert (
        screen("encode", "Hello").lines[-2] == "1 token · 5 characters · 5.0 characters per token"
    )


def test_devices_have_headings_on_a_terminal() -> None:
    reference("llama_cpp")
    devices = screen("generate", "--devices", columns=100).lines  # free memory changes
    assert devices[0].split() == ["device", "kind", "what", "it", "is", "free", "memory"]
    assert devices[-2] == "--device NAME chooses one, -ngl N puts N layers on GPUs"


def test_several_files_have_a_row_each(model: Path, mtkit: Run) -> None:
    folder = model.parent / "models"
    folder.mkdir()
    for name in ("b.gguf", "a.gguf", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf"):
        (folder / name).write_bytes(BBPE_VOCABULARY.read_bytes())
    found = rows(mtkit("inspect", folder).stdout)
    assert [os.path.basename(row[0]) for row in found] == [
        "a.gguf",
        "b.gguf",
        "s-00001-of-00002.gguf",
    ]
    assert found[0][1:] == ["gguf", str(BBPE_VOCABULARY.stat().st_size), "mtkit fixture gpt2",
                            "llama", "0", "F32", "8192"]  # fmt: skip
    tokenizer = FIXTURES / "wordpiece"
    found = rows(mtkit("inspect", folder, tokenizer).stdout)
    assert [row[1] for row in found] == ["gguf"] * 3 + ["hf"]
    (folder / "bad.gguf").write_bytes(b"GGUF")
    done = mtkit("inspect", folder, "--json")
    assert done.returncode == 3
    assert b"bad.gguf: version" in done.stderr
    files = json.loads(done.stdout)["files"]
    assert [one["tokens"] for one in files] == [8192, 8192, None, 8192]
    assert "✗ cannot be read" in check_screens("inspect", folder, code=3)[120].text
    for command in ("inspect", "check"):  # a line for each that cannot be read
        done = mtkit(command, folder / "missing.gguf", model, folder / "none.gguf")
        assert done.returncode == 2
        assert [b"missing" in line or b"none" in line for line in done.stderr.splitlines()] == [
            True, True,
        ]  # fmt: skip
    assert mtkit("inspect", folder, "--tensors").returncode == 2
    alone = folder / "alone"
    alone.mkdir()
    (alone / "x.gguf").write_bytes(BBPE_VOCABULARY.read_bytes())
    assert rows(mtkit("inspect", alone).stdout)[0][0] == "header"


def test_several_files_from_everywhere(
    model: Path, mtkit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address, weights of another format, a path from the root beside one that is not."""
    header = b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
    (model.parent / "s.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(24)
    )
    monkeypatch.chdir(model.parent)
    with serving(model) as (address, _):
        found = rows(mtkit("inspect", address, model, "s.safetensors").stdout)
        shown = screen("inspect", address, model, model.name, columns=150).lines
    assert [row[0] for row in found] == [address, str(model), "s.safetensors"]
    assert found[0][1:] == found[1][1:]
    assert found[2][1:] == ["safetensors", str(8 + len(header) + 24), "", "", "6", "", ""]
    assert [line.split()[0] for line in shown[1:4]] == [address, str(model), model.name]
    near = screen("inspect", model, model.with_name("s.safetensors"), columns=150).lines
    assert [line.split()[0] for line in near[1:3]] == [model.name, "s.safetensors"]
