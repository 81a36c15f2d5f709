"""The site has a page for each command with all that its help says; options can be linked."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from mtkit.cli import COMMANDS

ROOT = Path(__file__).parents[2]
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
