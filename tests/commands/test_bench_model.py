"""``mtkit bench -m``: the speed of a model."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest
from llm_models import tiny

from mtkit.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*options: str, code: int = 0) -> str:
        line = ["bench", "-m", str(tiny()), "-p", "8,3", "-n", "2,0", "--rounds", "2", *options]
        assert main(line) == code
        out, err = capsys.readouterr()
        return err if code else out

    return run


def test_each_test_with_each_number_of_threads_and_cache(bench: Callable[..., str]) -> None:
    found = json.loads(bench("--threads", "1,2", "--kv-type", "f16,f32", "--json"))
    tests = [(test["test"], test["threads"], test["kv_type"]) for test in found["tests"]]
    assert tests == [
        (test, threads, kind)
        for kind in ("f16", "f32")
        for threads in (1, 2)
        for test in ("pp8", "pp3", "tg2")
    ]
    for test in found["tests"]:
        assert len(test["rates"]) == 2
        assert min(test["rates"]) <= test["mean"] <= max(test["rates"])


def test_forms(bench: Callable[..., str]) -> None:
    lines = bench("--threads", "1", "-o", "md").splitlines()
    assert [line.count("|") for line in lines] == [7] * 5
    rows = list(csv.DictReader(bench("--threads", "1", "-o", "csv").splitlines()))
    assert [row["test"] for row in rows] == ["pp8", "pp3", "tg2"]
    assert [line.split("\t")[0] for line in bench().splitlines()] == ["pp8", "pp3", "tg2"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["-o", "xml"], "md, csv, json"),
        (["--kv-type", "q99"], "q8_0"),
        (["-p", "a"], "commas"),
        (["-p", "0", "-n", "0"], "nothing"),
        (["text.txt"], "-m"),
        (["-t", "4"], "--threads N"),
    ],
)
def test_what_is_wrong(bench: Callable[..., str], options: list[str], names: str) -> None:
    assert names in bench(*options, code=2)
