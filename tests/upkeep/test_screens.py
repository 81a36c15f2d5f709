"""The pictures of docs/screens/ show what the commands show now."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import reference

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "screens").glob("*.svg"))
RUN_A_MODEL = {"generate", "chat", "perplexity", "imatrix", "logits"}


@cache
def load_screens() -> ModuleType:
    """Import tools/screens.py; the repository's root may not be on the path."""
    location = importlib.util.spec_from_file_location("drawn", ROOT / "tools" / "screens.py")
    assert location is not None
    module = importlib.util.module_from_spec(location)
    assert location.loader is not None
    location.loader.exec_module(module)
    return module


def test_every_picture_is_there_and_shown() -> None:
    screens = load_screens()
    made = {f"{name}-{columns}.svg" for name in screens.SCREENS for columns in screens.COLUMNS}
    assert {path.name for path in PICTURES} == made
    page = (ROOT / "docs" / "screens.md").read_text(encoding="utf-8")
    assert page == screens.page(), "run: make screens"


def test_every_command_has_a_picture() -> None:
    from mtkit.cli import COMMANDS

    shown = {command[0] for _, commands in load_screens().SCREENS.values() for command in commands}
    assert set(COMMANDS) - shown == {"completion"}  # a script, for no terminal


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_shows_what_the_commands_show(path: Path) -> None:
    name, _, columns = path.stem.rpartition("-")
    if name in RUN_A_MODEL:
        reference("llama_cpp")
    drawn = path.read_text(encoding="utf-8")
    (told,) = re.findall(r"<desc>(.*?)</desc>", drawn, re.S)
    screens = load_screens()
    shown = screens.text(name, int(columns))
    assert screens.settled(unescape(told)) == screens.settled(shown), "run: make screens"
    # What is drawn is what is told, without the title of the window.
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn.partition('-matrix">')[2])
    assert squeezed("".join(texts)) == squeezed(told)
    if name not in {"sx", "hash"}:  # examples are for pasting, hashes stand as sha256sum has them
        shown = re.sub(r"^\$ .*", "", shown, flags=re.M)
        assert max(map(len, shown.splitlines())) <= int(columns)


def squeezed(text: str) -> str:
    return "".join(unescape(text).split())


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_asks_for_nothing_else(path: Path) -> None:
    drawn = path.read_text(encoding="utf-8")
    assert len(drawn) < 40_000
    links = re.findall(r"""https?://[^"' )<]+""", drawn.partition("</desc>")[2])
    assert not links
    assert "@font-face" not in drawn
