"""The help of a command: each kind of option, at the width of any terminal."""

from __future__ import annotations

import pytest

from mtkit.commands.command import Command, Group
from mtkit.commands.help_page import help_page
from mtkit.commands.options import Option


def run(
    files: list[str],
    what: str = "all",
    name: str | None = None,
    count: int = 8,
    share: float | None = 0.5,
    yes: bool = True,
    quiet: bool = False,
    token: str | None = None,
    secret: str = "",
) -> None:
    """Do something with files; a sentence.

    A second paragraph, long enough that it does not fit into one line of a terminal
    with eighty columns.

    \b
    Examples:
      mtkit run  --a   spaced line that is longer than the terminal is wide: it stays as it is
    """


COMMAND = Command(
    run,
    {
        "files": Option("", "Files.", "FILE|URL..."),
        "what": Option("", "What.", "WHAT"),
        "name": Option("--name -n", "Name."),
        "count": Option("--count", "How many.", "N", low=1, high=9),
        "share": Option("--share", "Share.", low=0, shows_default=False),
        "yes": Option("--yes/--no", "Whether."),
        "quiet": Option("-q --quiet", "Print nothing."),
        "token": Option("--token", "Which.", choices=("one", "two"), variable="MTKIT_WHICH"),
        "secret": Option("--secret", "Unseen.", is_hidden=True),
    },
)
PAGE = """\
Usage: mtkit run [OPTIONS] {FILE|URL...} [WHAT]

  Do something with files; a sentence.

  A second paragraph, long enough that it does not fit into one line of a
  terminal with eighty columns.

  Examples:
    mtkit run  --a   spaced line that is longer than the terminal is wide: it stays as it is

Arguments:
  FILE|URL...  Files.  [required]
  WHAT         What.  [default: all]

Options:
  -n, --name TEXT    Name.
  --count N          How many.  [default: 8; 1<=x<=9]
  --share FLOAT      Share.  [x>=0]
  --yes / --no       Whether.  [default: yes]
  -q, --quiet        Print nothing.
  --token [one|two]  Which.  [env var: MTKIT_WHICH]
  -h, --help         Show this message and exit.
"""


def test_each_kind_of_option_has_its_row() -> None:
    assert help_page(COMMAND, "run", 78) == PAGE


def test_a_group_lists_its_commands() -> None:
    group = Group("Do several things.", {"run": COMMAND, "runs": COMMAND})
    assert help_page(group, "many", 78).endswith(
        "\nCommands:\n"
        "  run   Do something with files; a sentence.\n"
        "  runs  Do something with files; a sentence.\n"
    )


@pytest.mark.parametrize("width", [36, 41, 60])
def test_a_narrow_terminal_gets_narrow_lines(width: int) -> None:
    page = help_page(COMMAND, "run", width)
    lines = [line for line in page.split("\n") if "spaced line" not in line]
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]
    assert page.split() == PAGE.split()
