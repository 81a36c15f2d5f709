"""Photograph the page of ``mtkit serve`` for docs/serve.md: ``python -m tools.page_pictures``.

The model is the one that mtkit brings; the browser is the Chromium of the system, driven by
playwright. The pictures are docs/screens/serve*.png.
"""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests", "support"))

from browser import chromium  # type: ignore[import-not-found]  # noqa: E402
from serving_http import server  # type: ignore[import-not-found]  # noqa: E402

from mtkit.sources.locate import MODEL, shipped  # noqa: E402

ASKED = ("What does grep do?", "What is the difference between a list and a tuple?")
SHOTS = (("serve", 880, 620, "light"), ("serve-narrow", 380, 720, "dark"))
"""Name, width, height, colors."""


def main() -> None:
    """Write the pictures."""
    with server(shipped(MODEL), "-np", "2") as started, chromium() as browser:
        for name, width, height, scheme in SHOTS:
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(started.url)
            for turn, text in enumerate(ASKED, 1):
                page.fill("#text", text)
                page.keyboard.press("Enter")
                page.locator("article.assistant").nth(turn - 1).wait_for()
                page.wait_for_selector("#stop", state="hidden")
            for kind in ("user", "assistant"):
                last = page.locator(f"article.{kind}").last
                last.get_by_role("button", name="Tokens").click()
                page.locator(f"article.{kind} .tokens").wait_for()
            page.evaluate("document.querySelector('main').scrollTop = 1e6")
            path = os.path.join(ROOT, "docs", "screens", f"{name}.png")
            page.screenshot(path=path)
            sys.stdout.write(f"{path}  {os.path.getsize(path)} bytes\n")
            page.close()


if __name__ == "__main__":
    main()
