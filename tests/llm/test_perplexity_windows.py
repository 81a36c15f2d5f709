"""Perplexity, of whole windows as well, and divergence are what plain numpy forward passes give,
quantized weights taken at their worth.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_models import own, tiny
from screens import check_screens
from support import Run, one_line, reference
from whole_windows import SIZE, STORIES, STORY, windows

from mtkit.cli import main
from mtkit.sources.locate import MODEL, shipped

TARGET = "own/model/mtkit-docs-target-{}.gguf"  # does not begin with BOS
TEXT = (
    """\
Options may be given in any order; an option that is given twice takes the last value. If a file
cannot be opened, a message is printed and the exit status is 1. See also the manual page of apt.

Das Programm liest eine Liste von Paketen und schreibt für jedes eine Zeile. Wenn eine Datei nicht
geöffnet werden kann, wird eine Meldung ausgegeben.

for name in sys.argv[1:]:
    with open(name) as file:
        print(len(file.read()))

系统将安装以下软件包。请输入您的密码。
"""
    * 2
)
LEAST = math.exp(-16)
THE = "\u2581the".encode()
EXACT = ["--kv-type", "f32", "--flash-attention", "off", "--threads", "1"]


def by_mtkit(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    capsys.readouterr()
    options = ["--ctx", str(SIZE), *EXACT, "--json"]
    assert main(["perplexity", *map(str, args), *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def log_probabilities(path: Path, cut: list[list[int]]) -> tuple[Any, Any]:
    """Logarithms of all probabilities at the places that count, and the tokens that follow."""
    from reference_llama import Llama

    model, rows, targets = Llama.of_gguf(path), [], []
    for window in cut:
        logits = model.logits(window)[SIZE // 2 : -1].astype(np.float64)
        rows.append(logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))
        targets += window[SIZE // 2 + 1 :]
    return np.concatenate(rows), np.array(targets)


@pytest.mark.parametrize("name", [STORIES, TARGET.format("bf16")])
def test_the_second_halves_count(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference("llama_cpp")
    from reference_llama import as_f32

    path = own(name) if name == STORIES else as_f32(own(name), tmp_path / "f32.gguf")
    text = STORY if name == STORIES else TEXT
    (tmp_path / "text.txt").write_text(text + "\n", encoding="utf-8")
    cut = windows(path, text)
    rows, targets = log_probabilities(path, cut)
    losses = -rows[np.arange(len(targets)), targets]
    assert len(cut) > 2
    for batch in (2048, 2 * SIZE, 20):  # all windows at once, two by two, each in three parts
        found = by_mtkit(capsys, tmp_path / "text.txt", "-m", path, "--batch", batch)
        assert (found["tokens"], found["windows"]) == (len(losses), len(cut))
        assert (found["n_ctx"], found["stride"]) == (SIZE, None)
        assert found["loss"] == pytest.approx(losses.mean(), rel=1e-3)
        assert found["perplexity"] == pytest.approx(math.exp(losses.mean()), rel=2e-3)
        error = found["perplexity"] * losses.std() / math.sqrt(len(losses) - 1)
        assert found["error"] == pytest.approx(error, rel=1e-2)


def test_a_divergence_is_that_of_two_forward_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference("llama_cpp")
    from reference_llama import as_f32

    model = as_f32(own(TARGET.format("q4_0")), tmp_path / "q4_0.gguf")
    base = as_f32(own(TARGET.format("bf16")), tmp_path / "bf16.gguf")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    cut = windows(base, TEXT)
    (rows, targets), (others, _) = (log_probabilities(one, cut) for one in (model, base))
    places = np.arange(len(targets))
    loss, other = -rows[places, targets], -others[places, targets]
    powers = np.exp(others)
    apart = np.where(powers > LEAST, powers * (others - rows), 0).sum(axis=-1)
    change = np.exp(-loss) - np.exp(-other)
    same = (rows.argmax(axis=-1) == others.argmax(axis=-1)).mean()
    count = len(targets)
    found = by_mtkit(capsys, tmp_path / "text.txt", "-m", model, "--against", base)

    def near(value: float, wanted: float) -> bool:
        return bool(value == pytest.approx(wanted, rel=5e-3, abs=1e-5))

    def spread(values: Any) -> float:
        return float(np.std(values)) / math.sqrt(count - 1)

    assert (found["schema"], found["tokens"]) == ("mtkit.divergence/1", count)
    assert (found["windows"], found["n_ctx"]) == (len(cut), SIZE)
    ratio = math.exp(loss.mean() - other.mean())
    covariance = float(np.cov(loss, other, ddof=0)[0, 1]) / (count - 1)
    for name, wanted, error in (
        ("perplexity", math.exp(loss.mean()), math.exp(loss.mean()) * spread(loss)),
        ("base_perplexity", math.exp(other.mean()), math.exp(other.mean()) * spread(other)),
        ("log_ratio", math.log(ratio), spread(loss - other)),
        ("ratio", ratio, ratio * spread(loss - other)),
        ("divergence", apart.mean(), spread(apart)),
        ("change", change.mean(), spread(change)),
        ("change_rms", math.sqrt((change**2).mean()),
         spread(change**2) / 2 / math.sqrt((change**2).mean())),
        ("same_top", same, math.sqrt(same * (1 - same) / (count - 1))),
    ):  # fmt: skip
        assert near(found[name]["value"], wanted), name
        assert near(found[name]["error"], error), name
    assert near(found["correlation"], covariance / spread(loss) / spread(other))
    assert near(found["maximum"], apart.max())
    assert near(found["minimum"], apart.min())
    parts = [0.999, 0.99, 0.95, 0.9, 0.5, 0.1, 0.05, 0.01]
    assert [one["part"] for one in found["quantiles"]] == parts
    for one in found["quantiles"]:
        assert near(one["value"], np.quantile(apart, one["part"])), one
    bins = found["histogram"]
    assert sum(one["count"] for one in bins) == count
    assert [one["to"] for one in bins[:-1]] == [one["from"] for one in bins[1:]]
    middle = bins[len(bins) // 2]
    between = (apart > middle["from"]) & (apart <= middle["to"])
    assert abs(int(between.sum()) - middle["count"]) <= 1


def test_a_model_against_itself(tmp_path: Path, mtkit: Run) -> None:
    reference("llama_cpp")
    (tmp_path / "text.txt").write_text(STORY, encoding="utf-8")
    args = ["perplexity", "text.txt", "-m", own(STORIES), "--against", own(STORIES), "--ctx", SIZE]
    done = mtkit(*args)
    rows = dict(line.split("\t", 1) for line in done.stdout.decode().splitlines())
    assert float(rows["maximum divergence"]) == pytest.approx(0, abs=1e-6)
    assert rows["same top token"] == "1.0\t0.0"
    assert rows["perplexity"] == rows["base perplexity"]
    assert rows["perplexity ratio"].split("\t")[0] == "1.0"
    args[1] = tmp_path / "text.txt"
    shown = check_screens(*args)[80].words
    assert f"against {own(STORIES)}" in shown.replace(" /", "/").replace("against/", "against /")
    assert "same top token 100.000 %" in shown


def test_what_cannot_be_counted(tmp_path: Path, mtkit: Run) -> None:
    reference("llama_cpp")
    (tmp_path / "text.txt").write_text(STORY, encoding="utf-8")
    (tmp_path / "short.txt").write_text("Once upon a time")
    args = ["perplexity", "text.txt", "-m", own(STORIES), "--against"]
    said = one_line(mtkit(*args, tiny("qwen2")), 2)
    assert "has another vocabulary: 1024 tokens" in said or "another vocabulary" in said
    assert "--stride" in one_line(mtkit(*args, own(STORIES), "--stride", 5), 2)
    said = one_line(mtkit("perplexity", "short.txt", "-m", own(STORIES), "--ctx", 32), 2)
    assert "short.txt" in said
    assert "fewer than a window of 32" in said
    said = one_line(mtkit("perplexity", "text.txt", "-m", tiny("t5"), "--ctx", 32), 4)
    assert "it has an encoder" in said
    for size in (1, 2):
        said = one_line(mtkit("perplexity", "text.txt", "-m", own(STORIES), "--ctx", size), 2)
        assert f"a window of {size} has no token to predict" in said


def test_other_tokens_are_another_vocabulary(tmp_path: Path, mtkit: Run) -> None:
    """One of as many is another."""
    reference("llama_cpp")
    data = own(STORIES).read_bytes()
    (tmp_path / "other.gguf").write_bytes(data.replace(THE, THE[:-1] + b"q", 1))
    assert data.count(THE)
    (tmp_path / "text.txt").write_text(STORY, encoding="utf-8")
    args = ["perplexity", "text.txt", "-m", own(STORIES), "--against", "other.gguf"]
    assert "its tokens are not those of" in one_line(mtkit(*args), 2)


OWN_MODEL = "own/model/mtkit-docs-target-{}.gguf"
SHORT_TEXT = """\
The program reads a list of packages from standard input and writes one line for each of them.
Options may be given in any order; an option that is given twice takes the last value. If a file
cannot be opened, a message is printed and the exit status is 1. See also the manual page of apt.

Das Programm liest eine Liste von Paketen und schreibt für jedes eine Zeile. Wenn eine Datei nicht
geöffnet werden kann, wird eine Meldung ausgegeben.

for name in sys.argv[1:]:
    with open(name) as file:
        print(len(file.read()))

系统将安装以下软件包。请输入您的密码。
"""
N_CTX, STRIDE = 64, 24


def by_stride(path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    sizes = ["--ctx", str(N_CTX), "--stride", str(STRIDE), "--batch", "32"]
    args = ["perplexity", str(text), "-m", str(path), *sizes, "--threads", "1", "--json"]
    assert main(args) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def by_numpy(path: Path) -> tuple[float, int]:
    """Perplexity and number of tokens that count: each in the first window that holds it."""
    from reference_llama import Llama

    from mtkit.tokenizer.load import load

    model = Llama.of_gguf(path)
    ids = load(path).encode_ids(SHORT_TEXT, add_special_tokens=False)
    losses: dict[int, float] = {}
    for begin in range(0, len(ids), STRIDE):
        for place, loss in enumerate(model.losses(ids[begin : begin + N_CTX]), begin + 1):
            losses.setdefault(place, float(loss))
    assert sorted(losses) == list(range(1, len(ids)))
    return math.exp(sum(losses.values()) / len(losses)), len(losses)


CASES = {
    "shipped as float32": ("shipped", True, 1e-3),
    "shipped": ("shipped", False, 1e-2),
    "bf16 as float32": ("bf16", True, 1e-3),
    "bf16": ("bf16", False, 1e-2),
    "q8_0": ("q8_0", False, 1e-2),
}
"""Name -> (model, rewritten, relative tolerance); in C narrow weights meet inputs as narrow."""


@pytest.mark.parametrize("case", CASES)
def test_perplexity(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference("llama_cpp")
    from reference_llama import as_f32

    kind, rewritten, tolerance = CASES[case]
    path = Path(shipped(MODEL)) if kind == "shipped" else own(OWN_MODEL.format(kind))
    if rewritten:
        path = as_f32(path, tmp_path / "f32.gguf")
    (tmp_path / "text.txt").write_text(SHORT_TEXT, encoding="utf-8")
    wanted, tokens = by_numpy(path)
    found = by_stride(path, tmp_path / "text.txt", capsys)
    assert found["tokens"] == tokens > 2 * N_CTX
    assert (found["n_ctx"], found["stride"]) == (N_CTX, STRIDE)
    assert found["perplexity"] == pytest.approx(wanted, rel=tolerance)
    assert math.log(found["perplexity"]) == pytest.approx(found["loss"])
    assert wanted < 1000  # a trained model on its own kind of text; 8,192 would be guessing


def test_every_window_begins_with_bos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from reference_llama import Llama

    from mtkit.tokenizer.load import load

    path = own("models/stories260K/stories260K-f32.gguf")
    text = "Once upon a time, there was a little girl named Lily. She had a big, red ball. " * 8
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    model, tokenizer = Llama.of_gguf(path), load(path)
    bos = tokenizer.spec.special_ids.bos
    assert bos is not None
    ids = tokenizer.encode_ids(text, add_special_tokens=False)
    losses: dict[int, float] = {}
    for begin in range(0, len(ids), STRIDE):
        for place, loss in enumerate(model.losses([bos, *ids[begin : begin + N_CTX - 1]]), begin):
            losses.setdefault(place, float(loss))
    assert sorted(losses) == list(range(len(ids)))
    found = by_stride(path, tmp_path / "text.txt", capsys)
    assert found["tokens"] == len(ids) > 2 * N_CTX
    assert found["loss"] == pytest.approx(sum(losses.values()) / len(ids), rel=1e-3)
