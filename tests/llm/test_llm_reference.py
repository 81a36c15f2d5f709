"""Perplexity and logits agree with plain forward passes in numpy; encoder-decoder models."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from llm_models import own, tiny
from support import Run, reference

from mtkit.errors import ResourceError, UnsupportedError

TEXT = """To copy a file, use the command cp. It takes the name of the file and the place where the
copy is to be written; with the option -r it copies folders, too. The command prints nothing when
all went well. If the file already exists, it is replaced without a question unless -i is given.
"""


def computed(path: Path, text: str, tmp_path: Path, mtkit: Run, **context: Any) -> Any:
    (tmp_path / "text").write_text(text)
    options = [part for name, value in context.items() for part in (f"--{name}", value)]
    done = mtkit("perplexity", "text", "-m", path, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("own/model/mtkit-docs-target-bf16.gguf", 1e-3),
        ("own/model/mtkit-docs-target-q8_0.gguf", 1e-2),
        ("own/model/mtkit-docs-target-q4_0.gguf", 1e-2),
    ],
)
def test_perplexity(name: str, tolerance: float, tmp_path: Path, mtkit: Run) -> None:
    """BF16 is widened to F32 first: the shipped model's F32 form is what numpy computes with."""
    reference("llama_cpp")
    from reference_llama import Llama

    from mtkit.llama import Model

    path = own(name)
    expected = Llama.of_gguf(path)
    if "bf16" in name:
        path = as_f32(path, tmp_path)
    with Model(str(path)) as model:
        ids = model.tokenize(TEXT, add_special=False)
    losses = expected.losses(ids).tolist()
    made = computed(path, TEXT, tmp_path, mtkit, ctx=256, stride=128)
    assert made["tokens"] == len(losses)
    assert made["perplexity"] == pytest.approx(math.exp(sum(losses) / len(losses)), rel=tolerance)


def as_f32(path: Path, folder: Path) -> Path:
    """Write a GGUF again with every tensor as F32."""
    import gguf
    import numpy as np

    from mtkit.gguf import open_gguf
    from mtkit.gguf.types import TENSOR_TYPES
    from mtkit.gguf.writer import Key, NewTensor, write_gguf

    file = open_gguf(path)
    keys = [Key(name, file.metadata.type_name(name), value)
            for name, value in file.metadata.items()]  # fmt: skip
    tensors = []
    for tensor in gguf.GGUFReader(str(path)).tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        shape = tuple(int(n) for n in tensor.shape)
        tensors.append(NewTensor(tensor.name, shape, TENSOR_TYPES[0], data.tobytes()))
    write_gguf(str(folder / "f32.gguf"), keys, tensors)
    return folder / "f32.gguf"


def test_windows_count_every_token_once(tmp_path: Path, mtkit: Run) -> None:
    reference("llama_cpp")
    from reference_llama import Llama

    from mtkit.llama import Model

    path = tiny()  # begins with BOS
    with Model(str(path)) as model:
        ids = model.tokenize(TEXT, add_special=False)
    llama = Llama.of_gguf(path)
    size, stride = 63, 20
    expected: list[float] = []
    begin = counted = 0
    while counted < len(ids):
        window = [1, *ids[begin : begin + size]]
        expected += llama.losses(window).tolist()[counted - begin :]
        counted = min(begin + size, len(ids))
        begin += stride
    assert len(expected) == len(ids)
    made = computed(path, TEXT, tmp_path, mtkit, ctx=size + 1, stride=stride, batch=16)
    assert made["tokens"] == len(ids)
    assert made["loss"] == pytest.approx(sum(expected) / len(expected), rel=2e-4)
    assert made["windows"] == -(-(len(ids) - size) // stride) + 1


def test_perplexity_of_bad_texts(tmp_path: Path, mtkit: Run) -> None:
    reference("llama_cpp")
    (tmp_path / "text").write_text("")
    assert mtkit("perplexity", "text", "-m", tiny("qwen2"), "--stride", 1).returncode == 2
    (tmp_path / "text").write_text("some words")
    assert mtkit("perplexity", "text", "-m", tiny(), "--stride", 0).returncode == 2
    assert mtkit("perplexity", "text", "-m", tiny(), "--ctx", 1, "--stride", 1).returncode == 2
    assert (
        mtkit("perplexity", "text", "-m", tiny("qwen2"), "--ctx", 1, "--stride", 1).returncode == 2
    )
    assert mtkit("perplexity", "nowhere", "-m", tiny()).returncode == 2
    plain = mtkit("perplexity", "text", "-m", tiny(), "--stride", 9).stdout.decode().split("\t")
    assert len(plain) == 5


def test_logits(tmp_path: Path, mtkit: Run) -> None:
    import numpy as np

    reference("llama_cpp")
    from reference_llama import Llama

    path = tiny()
    done = mtkit("logits", "Hello there", "-m", path, "--all", "--json", "--top", 3, "-o", "l.npy")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    rows = np.load(tmp_path / "l.npy")
    llama = Llama.of_gguf(path)
    expected = llama.logits(made["ids"])
    assert rows.shape == expected.shape
    assert np.abs(rows - expected).max() < 0.05
    for row, found in zip(rows, made["rows"], strict=True):
        best = [token["id"] for token in found["tokens"]]
        assert best == np.argsort(-row)[:3].tolist()
        chance = np.exp(row - row.max())
        chance /= chance.sum()
        assert found["tokens"][0]["probability"] == pytest.approx(chance.max(), rel=1e-4)
    last = mtkit("logits", "Hello there", "-m", path, "--top", 2).stdout.decode().splitlines()
    assert [line.split("\t")[2] for line in last] == [
        str(token["id"]) for token in made["rows"][-1]["tokens"][:2]
    ]
    assert mtkit("logits", "x", "-m", path, "-o", "l.npy").returncode == 2  # it exists


def test_logits_go_to_files_alone(tmp_path: Path, mtkit: Run) -> None:
    import numpy as np

    os.mkfifo(tmp_path / "pipe")
    done = mtkit("logits", "x", "-m", tiny(), "-o", "pipe", "--force")
    assert done.returncode == 2, done.stderr
    assert b"a folder or a device" in done.stderr
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "l.npy").write_bytes(b"")
    (tmp_path / "link.npy").symlink_to("l.npy")
    done = mtkit("logits", "x", "-m", tiny(), "-o", "link.npy", "--force")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "link.npy").is_symlink()
    assert np.load(tmp_path / "l.npy").shape == (1, 1024)


def test_the_perplexity_of_several_texts_counts_every_token_alike(
    tmp_path: Path, mtkit: Run
) -> None:
    for name, text in (("one", b"Once upon a time there was a dog. " * 9), ("two", b"abc " * 40)):
        (tmp_path / name).write_bytes(text)
    windows = ["-m", tiny(), "--ctx", 32]
    rows = mtkit("perplexity", "one", "two", *windows).stdout.decode().splitlines()
    *each, total = (row.split("\t") for row in rows)
    assert [row[-1] for row in (*each, total)] == ["one", "two", "total"]
    tokens = [int(row[3]) for row in each]
    losses = [float(row[2]) for row in each]
    assert int(total[3]) == sum(tokens)
    mean = sum(n * loss for n, loss in zip(tokens, losses, strict=True)) / sum(tokens)
    assert float(total[0]) == pytest.approx(math.exp(mean), rel=1e-9)
    twice = mtkit("perplexity", "one", "one", *windows).stdout.decode().splitlines()[-1]
    # The same losses twice: the same mean, and its error as of twice as many tokens.
    count, error = int(each[0][3]), float(each[0][1])
    wanted = error * math.sqrt((count - 1) / (2 * count - 1))
    assert float(twice.split("\t")[1]) == pytest.approx(wanted, rel=1e-6)


@pytest.fixture(autouse=True)
def _library() -> None:
    reference("llama_cpp")


def test_prompts_longer_than_a_batch() -> None:
    """The encoder takes a prompt whole; llama.cpp ends the process when it does not fit."""
    from mtkit.api.generation import generate
    from mtkit.llama import Context, ContextSettings, Model

    path = tiny("t5")
    made = generate("word " * 400, model=path, n_predict=3, n_batch=64, n_ubatch=64)
    assert len(made.prompt_ids) > 400
    assert made.context.n_ubatch >= len(made.prompt_ids)
    with Model(str(path)) as model:
        settings = ContextSettings(n_ctx=256, n_batch=32, flash_attention="auto")
        with (
            Context(model, settings) as context,
            pytest.raises(ResourceError, match="the encoder takes 1 to 32"),
        ):
            context.encode([5] * 33)


def test_no_session_and_no_chat() -> None:
    from mtkit.api.generation import generate

    with pytest.raises(UnsupportedError, match="encoder-decoder"):
        generate("x", model=tiny("t5"), n_predict=2, save_session="session")


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "q5_1", "iq4_nl"])
def test_keys_and_values_are_kept_whole(kind: str) -> None:
    """llama.cpp writes beyond its memory where they are quantized."""
    from mtkit.api.generation import generate

    with pytest.raises(UnsupportedError, match=f"nothing in {kind}; use kv_type f16, bf16 or f32"):
        generate("x", model=tiny("t5"), n_predict=2, kv_type=kind)
    for whole in ("f16", "bf16", "f32"):
        assert generate("x", model=tiny("t5"), n_predict=2, kv_type=whole).ids
