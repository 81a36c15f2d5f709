"""The pictures of docs/screens/ and the site's pages show what the commands show now."""

from __future__ import annotations

import html
import importlib.util
import re
import runpy
from functools import cache
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import reference

from mtkit.cli import COMMANDS

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


@pytest.mark.slow
def test_every_picture_is_there_and_shown() -> None:
    screens = load_screens()
    made = {f"{name}-{columns}.svg" for name in screens.SCREENS for columns in screens.widths(name)}
    assert {path.name for path in PICTURES} == made
    page = (ROOT / "docs" / "screens.md").read_text(encoding="utf-8")
    assert page == screens.page(), "run: make screens"


@pytest.mark.slow
def test_every_command_has_a_picture() -> None:
    from mtkit.cli import COMMANDS

    shown = {command[0] for _, commands in load_screens().SCREENS.values() for command in commands}
    assert set(COMMANDS) - shown == {"completion"}  # a script, for no terminal


@pytest.mark.slow
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
    # Examples are for pasting, hashes stand as sha256sum has them.
    if name not in {"sx", "hash"} and path.stem != "bench-60":
        shown = re.sub(r"^\$ .*", "", shown, flags=re.M)
        assert max(map(len, shown.splitlines())) <= int(columns)


def squeezed(text: str) -> str:
    return "".join(unescape(text).split())


@pytest.mark.slow
@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_asks_for_nothing_else(path: Path) -> None:
    drawn = path.read_text(encoding="utf-8")
    assert len(drawn) < 40_000
    links = re.findall(r"""https?://[^"' )<]+""", drawn.partition("</desc>")[2])
    assert not links
    assert "@font-face" not in drawn


site_commands: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "site_commands.py"))
TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
PAGES = site_commands["pages"](TEXT)
HELP = dict(re.findall(r"^###? mtkit ([a-z -]+)\n\n```text\n(.*?)^```$", TEXT, re.M | re.S))
OWN = [path for path in PAGES if path.startswith("cli/") and path != "cli/topics.md"]
HOSTILE = """\
# Commands

More:
  odd  Do <b>odd</b> things.

## mtkit odd

```text
Usage: mtkit odd [OPTIONS]

  See --level and --no-level, never --nothing & <i>.

  Examples:
    mtkit odd --level 3

Options:
  -l, --level / --no-level  Level of <b>oddness</b>; see
                            --help.
  --help                    Show this.
```
"""


def words(page: str) -> list[str]:
    return re.findall(
        r"[\w-]+", html.unescape(re.sub(r"</?(p|dl|dt|dd|code|a)\b[^>]*>", " ", page))
    )


def test_every_command_has_a_page_and_an_entry() -> None:
    names = {path.removeprefix("cli/").removesuffix(".md").partition("-")[0] for path in OWN}
    assert {name.partition("-")[0] for name in COMMANDS} <= names
    assert len(OWN) == len(HELP) > len(COMMANDS)
    entries = [entry.rpartition(": ")[2] for entry in site_commands["navigation"](TEXT)]
    assert sorted(entries) == sorted(PAGES)
    for name in COMMANDS:
        assert f"](cli/{name}.md)" in PAGES["cli.md"], name


@pytest.mark.parametrize("path", OWN)
def test_a_page_says_what_the_help_says_and_its_links_lead_somewhere(path: str) -> None:
    name = path.removeprefix("cli/").removesuffix(".md")
    (text,) = [block for key, block in HELP.items() if key.replace(" ", "-") == name]
    page = PAGES[path]
    whole = re.sub(r"-\n +", "-", text.removeprefix("Usage: "))
    told = words(html.escape(whole, quote=False))
    missing = [word for word in told if word not in words(page)]
    assert not missing
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert "help" in ids
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    for target in re.findall(r'href="([^"#]+)"', page):
        assert f"cli/{target}" in PAGES


def test_markup_in_a_help_is_text_and_only_addresses_are_linked() -> None:
    page = site_commands["pages"](HOSTILE)["cli/odd.md"]
    assert not re.search(r"<[bi]>", page)
    assert "&lt;b&gt;oddness&lt;/b&gt;" in page
    assert "<code>--nothing</code> &amp; &lt;i&gt;" in page
    assert '<dt id="level">' in page
    assert '<a href="#level"><code>--level</code></a> and <code>--no-level</code>' in page
    assert "```sh\nmtkit odd --level 3\n```" in page
    assert page.count('href="#help"') == 2
