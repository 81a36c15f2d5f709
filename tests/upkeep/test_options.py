"""An option has one name, and a name one meaning, in every command."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from support import FIXTURES

from mtkit.cli import COMMANDS
from mtkit.commands import load_command
from mtkit.commands.application import application

typer_main = pytest.importorskip("typer.main")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Run

# Flags that say what is printed (encode, hash) or undone (config), and values elsewhere.
# inspect shows the metadata; to convert_hf_to_gguf's option it is a file.
FLAGS_ONCE = {"--count", "--metadata", "--mmproj", "--tokens", "--tokenizer", "--unset"}

OWN = {
    ("bench", "--tokenizer"),  # -m is a model to measure
    ("edit", "--tokenizer"),  # its FILE is the model
    ("edit", "--chat-template-file"),  # the other tools' --chat-template is a file or a text there
    ("inspect", "--kv-type"),  # a plan has no types of keys and of values
    ("sx bench", "--count"),  # --prompts is a file elsewhere
}
"""Options that have spellings of their own."""


class Option:
    """An option of a command: what is shown, and every spelling that is taken."""

    def __init__(self, command: str, param: Any, also: tuple[str, ...]) -> None:
        self.command = command
        self.is_flag = bool(param.is_flag)
        self.metavar = param.metavar or ""
        self.shown = (*param.opts, *param.secondary_opts)
        self.spellings = {*self.shown, *also}


def options() -> list[Option]:
    return [option for name in COMMANDS for option in _options(name, _command(name))]


def _command(name: str) -> Any:
    return typer_main.get_command(application(load_command(COMMANDS[name][0])))


def _options(name: str, command: Any) -> Iterator[Option]:
    for part, inner in getattr(command, "commands", {}).items():
        yield from _options(f"{name} {part}", inner)
    if not hasattr(command, "commands"):
        also = getattr(command, "also", {})
        for param in command.params:
            if param.param_type_name == "option":
                yield Option(name, param, also.get(param.name, ()))


OPTIONS = options()


def test_a_name_is_a_flag_everywhere_or_nowhere() -> None:
    kinds: dict[str, set[bool]] = defaultdict(set)
    for option in OPTIONS:
        for spelling in option.spellings:
            if spelling.startswith("--"):
                kinds[spelling].add(option.is_flag)
    assert len(kinds) > 150
    assert {name for name, found in kinds.items() if len(found) > 1} == FLAGS_ONCE


def test_what_is_taken_in_one_command_is_taken_in_all_that_have_the_option() -> None:
    """Options of one shown name, and of one kind of value, have the same further spellings."""
    switched_off = re.compile(r"--(no|skip)-")
    known: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(dict)
    for option in OPTIONS:
        longs = [spelling for spelling in option.shown if spelling.startswith("--")]
        longs = longs or [option.shown[0]]
        taken = {spelling for spelling in option.spellings if spelling.startswith("--")}
        taken = {spelling for spelling in taken if not switched_off.match(spelling)}
        if (option.command, longs[0]) not in OWN:
            known[longs[0], option.metavar][option.command] = taken
    wrong = {
        name: taken
        for name, taken in known.items()
        if len({frozenset(one) for one in taken.values()}) > 1
    }
    assert not wrong


@pytest.mark.parametrize(
    ("spellings", "least"),
    [
        ({"--parse-special", "--no-parse-special"}, 9),
        ({"--no-special", "--no-add-special", "--no-bos"}, 6),
        ({"--n-predict", "--tokens"}, 6),
        ({"--chat-template-file"}, 3),
        ({"--split-max-size"}, 2),
        ({"-m", "--model"}, 14),
    ],
)
def test_one_name_for_one_thing(spellings: set[str], least: int) -> None:
    """Each command that takes one of the spellings takes all of them."""
    taken: dict[str, set[str]] = defaultdict(set)
    for option in OPTIONS:
        taken[option.command] |= option.spellings
    having = {name: found for name, found in taken.items() if spellings & found}
    having.pop({"--tokens": "encode", "--no-special": "convert"}.get(max(spellings), ""), None)
    assert len(having) >= least
    for name, found in having.items():
        assert spellings <= found, name


def test_special_tokens_are_parsed_alike_by_every_command(mtkit: Run) -> None:
    tokenizer, text = FIXTURES / "bbpe-8k" / "tokenizer.json", "a<|im_end|>b"
    parsed = mtkit("encode", text, "-t", tokenizer, "--parse-special", "--count").stdout
    plain = mtkit("encode", text, "-t", tokenizer, "--no-parse-special", "--count").stdout
    assert int(parsed) < int(plain)
    for option, number in (("--parse-special", parsed), ("--no-parse-special", plain)):
        counted = mtkit("count", "-p", text, "-t", tokenizer, option).stdout
        assert counted.split()[0] == number.strip()
        rows = mtkit("explain", text, "-t", tokenizer, option).stdout.splitlines()
        assert len(rows) == int(number)
    both = ["--parse-special", "--no-parse-special"]
    for command in ("encode", "count", "explain"):
        assert b"exclude each other" in mtkit(command, tokenizer, *both, stdin=b"x").stderr
