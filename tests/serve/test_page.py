"""The page is one file that asks for nothing elsewhere, and whose policy lets nothing else run."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
from html.parser import HTMLParser
from typing import Any

from support import reference

from mtkit.serve import page as page_module
from mtkit.serve.page import PAGE_SCRIPTS

PARTS = os.path.splitext(page_module.__file__)[0]


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.labeled: set[str] = set()
        self.inside = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        self.inside += tag == "label"
        if self.inside or own.get("aria-label"):
            self.labeled.add(own.get("id") or "")

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag == "label"


def page() -> tuple[str, str]:
    reference("starlette")
    from mtkit.serve.app import show_page as answered

    unused: Any = None
    answer = asyncio.run(answered(unused, unused))
    return bytes(answer.body).decode(), answer.headers["content-security-policy"]


def test_it_asks_for_nothing_elsewhere() -> None:
    text, _ = page()
    tags = _Tags(text).tags
    links = [own.get(name) for _, own in tags for name in ("src", "href", "action", "style")]
    assert {link for link in links if link} == {"data:,", "#text"}
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert set(re.findall(r"\w+://[\w./]+", text)) == names
    assert not re.search(r"@import|url\(|\bon\w+=|XMLHttp|WebSocket|sendBeacon|import\(", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)


def test_every_part_of_the_page_is_in_it() -> None:
    there = {f"{name}.js" for name in PAGE_SCRIPTS} | {"page.html", "page.css"}
    assert set(os.listdir(PARTS)) == there


def test_its_policy_names_its_script_and_style() -> None:
    text, policy = page()
    for tag in ("script", "style"):
        (inner,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert policy.startswith("default-src 'none'")


def test_everything_to_fill_in_has_a_name_for_screen_readers() -> None:
    tags = _Tags(page()[0])
    wanted = {
        own.get("id") or "" for tag, own in tags.tags if tag in ("input", "select", "textarea")
    }
    assert len(wanted) == 20
    assert wanted <= tags.labeled
    assert ("html", {"lang": "en"}) in tags.tags
    used = set(re.findall(r'part\("(\w+)"\)', page()[0]))
    assert used <= {own.get("id") for _, own in tags.tags}
