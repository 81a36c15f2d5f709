"""Perplexity is what a plain numpy forward pass gives, quantized weights taken at their worth."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from llm_models import own
from support import reference

from mtkit.cli import main
from mtkit.sources.locate import MODEL, shipped

OWN_MODEL = "own/model/mtkit-docs-target-{}.gguf"
TEXT = """\
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


def by_mtkit(path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
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
    ids = load(path).encode_ids(TEXT, add_special_tokens=False)
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
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    wanted, tokens = by_numpy(path)
    found = by_mtkit(path, tmp_path / "text.txt", capsys)
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
    found = by_mtkit(path, tmp_path / "text.txt", capsys)
    assert found["tokens"] == len(ids) > 2 * N_CTX
    assert found["loss"] == pytest.approx(sum(losses.values()) / len(ids), rel=1e-3)
