"""A plain line means to mtkit's own reader what it means to typer's, in every command."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from typer.main import get_command

from mtkit.cli import COMMANDS
from mtkit.commands import load_command
from mtkit.commands.application import application
from mtkit.commands.command import Command
from mtkit.commands.options import REQUIRED, SHARED

ODD_WORDS = ["", "-", "a=b", "\udcff", "--jso", "-tx", "-ft", "--", "--help", "-x", "-1"]
VALUES = ["a text", "two", "8", "8k", "0", "0.5", "nan", "1e400", " 7", "1_0", "٣", "f16", "auto"]


def every_command() -> dict[str, Command]:
    """Return the commands by their names, those of groups among them."""
    commands = {}
    for name, (module, _) in COMMANDS.items():
        command = load_command(module)
        if isinstance(command, Command):
            commands[name] = command
        else:
            commands |= {f"{name} {part}": inner for part, inner in command.commands.items()}
    return commands


EVERY = every_command()


def read_by_typer(command: Command, args: Sequence[str]) -> tuple[dict[str, Any], set[str]]:
    """Return what typer calls the command with: its values, and which the line gives."""
    frame, calls = _frame(command)
    calls.clear()
    frame([*args], prog_name="mtkit", standalone_mode=False)
    (call,) = calls
    return call


@cache
def _frame(command: Command) -> tuple[Any, list[Any]]:
    calls: list[Any] = []
    twin = Command(command.run, command.options, command.settings)
    twin.call = lambda *call: calls.append(call)  # type: ignore[method-assign]
    # typer makes click's command anew for each line otherwise
    return get_command(application(twin)), calls


def read_plain(command: Command, args: Sequence[str]) -> tuple[dict[str, Any], set[str]] | None:
    """Return what a plain line calls the command with, its defaults filled in."""
    values = command.parse_plain(args)
    if values is None:
        return None
    defaults = {
        parameter.name: float(parameter.default)
        if parameter.annotation == "float"
        else parameter.default
        for parameter in command.parameters()
    }
    return {**defaults, **values}, {*values}


def same(first: Any, second: Any) -> bool:
    """Whether two readings are one; NaN is itself."""
    return repr(sorted(first[0].items())) == repr(sorted(second[0].items())) and (
        first[1] == second[1]
    )


def draw_line(command: Command, chance: Random) -> list[str]:
    """Draw a line: most of its words as they should be, some not."""
    options = [one for one in command.parameters() if one.option.names]
    line = []
    for _ in range(chance.randrange(6)):
        if options and chance.random() < 0.7:
            option = chance.choice(options)
            line.append(chance.choice([name for name, _ in option.spellings()]))
            if option.is_flag or chance.random() < 0.05:
                continue
            if option.option.choices and chance.random() < 0.8:
                line.append(chance.choice(option.option.choices))
                continue
        words = ODD_WORDS if chance.random() < 0.05 else VALUES
        line.append(chance.choice(words))
    for one in command.parameters():  # else hardly a line would have them
        if one.default is REQUIRED and chance.random() < 0.9:
            line += [*one.option.names.split()[:1], chance.choice(VALUES)]
    return line


@pytest.mark.parametrize("name", EVERY)
def test_both_readings_of_plain_lines_are_one(name: str) -> None:
    chance = Random(name)
    command = EVERY[name]
    plain = 0
    for _ in range(60):
        line = draw_line(command, chance)
        reading = read_plain(command, line)
        if reading is not None:
            plain += 1
            assert same(reading, read_by_typer(command, line)), line
    assert plain > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_both_readings_of_many_plain_lines_are_one(name: str) -> None:
    chance = Random(name + "slow")
    command = EVERY[name]
    for _ in range(500):
        line = draw_line(command, chance)
        reading = read_plain(command, line)
        if reading is not None:
            assert same(reading, read_by_typer(command, line)), line


@pytest.mark.parametrize("name", EVERY)
def test_every_spelling_of_the_table_is_one_of_typer_s(name: str) -> None:
    command = EVERY[name]
    parameters = command.parameters()
    required = [
        word
        for one in parameters
        if one.default is REQUIRED
        for word in [*one.option.names.split()[:1], "8"]
    ]
    for parameter in parameters:
        for spelling, _ in parameter.spellings():
            values = [*parameter.option.choices[:1], "8"][:1]
            value = [] if parameter.is_flag else values * parameter.words
            line = [*required, spelling, *value]
            reading = read_plain(command, line)
            if reading is None:  # 8 is out of its range
                value = ["1"] * parameter.words
                reading = read_plain(command, [*required, spelling, *value])
                line = [*required, spelling, *value]
            assert reading is not None, line
            assert parameter.name in reading[1]
            assert same(reading, read_by_typer(command, line)), line


@pytest.mark.parametrize(
    "line",
    [
        "encode --help",
        "encode -h",
        "encode two texts",
        "encode --ids=1",
        "encode -tx text",
        "encode -t",
        "encode -t -x",
        "encode -- -t",
        "encode --jso text",
        "encode text --truncate eight",
        "hash",
        "convert-endian a.gguf",
        "compare a b -n -1",
        "sx tune a --seconds -1",
        "corpus",
        "corpus --help",
        "sx bench",
    ],
)
def test_all_else_is_typer_s(line: str) -> None:
    name, *args = line.split()
    assert load_command(COMMANDS[name][0]).plain_call(args) is None


def test_a_variable_of_the_environment_is_typer_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTKIT_NO_HISTORY", "1")
    assert EVERY["chat"].plain_call([]) is None
    assert EVERY["chat"].plain_call(["--no-history"]) is not None
    monkeypatch.delenv("MTKIT_NO_HISTORY")
    assert EVERY["chat"].plain_call([]) is not None


@pytest.mark.parametrize("name", EVERY)
def test_every_row_is_an_option_of_its_command(name: str) -> None:
    command = EVERY[name]
    names = {parameter.name for parameter in command.parameters()}
    if not name.startswith("corpus "):  # its commands share a table
        assert {*command.options} <= names


def test_an_option_of_several_commands_is_declared_once() -> None:
    """Rows of one parameter that say the same are one object."""
    rows = [
        *SHARED.items(),
        *(row for command in EVERY.values() for row in command.options.items()),
    ]
    first: dict[Any, Any] = {}
    for row in rows:
        assert first.setdefault(row, row[1]) is row[1], row[0]
