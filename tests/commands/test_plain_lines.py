"""A plain line of ``encode`` means to mtkit's own reading what it means to typer's."""

from __future__ import annotations

import inspect
from functools import wraps
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from mtkit.commands import encode
from mtkit.commands.application import application
from mtkit.commands.options import ENCODE_OPTIONS
from mtkit.commands.plain_line import ENCODE_SPELLINGS, parse_plain, plain_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Run

WORDS = [
    *ENCODE_SPELLINGS,
    "a text",
    "two",
    "",
    "-",
    "a=b",
    "\udcff",
    "--ids=1",
    "--jso",
    "-tx",
    "-ft",
    "--",
]
WORDS += ["--truncate", "8", "--messages", "--trace", "--as", "--help", "-x", "-1"]
DEFAULTS = {
    name: parameter.default for name, parameter in inspect.signature(encode.run).parameters.items()
}


def read_by_typer(args: Sequence[str]) -> dict[str, Any]:
    """Return what typer calls ``run`` with."""
    calls: list[dict[str, Any]] = []
    app = application()
    app.command("encode", options=ENCODE_OPTIONS)(
        wraps(encode.run)(lambda **values: calls.append(values))
    )
    app([*args], prog_name="mtkit encode", standalone_mode=False)
    (found,) = calls
    return found


@pytest.mark.slow
def test_both_readings_of_plain_lines_are_one() -> None:
    random = Random(19)
    plain = 0
    for _ in range(4000):
        args = random.choices(WORDS, k=random.randrange(5))
        values = parse_plain(args, ENCODE_SPELLINGS, "text")
        if values is not None:
            plain += 1
            assert {**DEFAULTS, **values} == read_by_typer(args), args
    assert plain > 500


def test_every_option_of_the_table_is_one_of_typer_s() -> None:
    for option, (parameter, kind) in ENCODE_SPELLINGS.items():
        args = [option] if kind is bool else [option, "value"]
        wanted = {bool: True, str: "value", list: ["value"]}[kind]
        assert read_by_typer(args)[parameter] == wanted


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["-h"],
        ["two", "texts"],
        ["--ids=1"],
        ["-tx", "text"],
        ["-t"],
        ["-t", "-x"],
        ["--", "-t"],
        ["--jso", "text"],
        ["text", "--truncate", "8"],
    ],
)
def test_all_else_is_typer_s(args: list[str]) -> None:
    assert plain_line("encode", args) is None
    assert plain_line("decode", ["39"]) is None


def test_every_parameter_is_declared_once() -> None:
    assert set(DEFAULTS) <= set(ENCODE_OPTIONS)


def test_a_plain_line_answers_as_the_same_line_read_by_typer(mtkit: Run) -> None:
    for form in ("--ids", "--tokens", "--count", "--offsets", "--json"):
        plain = mtkit("encode", "Hello, MNN!", form)
        assert plain.stdout
        assert plain.stdout == mtkit("encode", form, "--", "Hello, MNN!").stdout
