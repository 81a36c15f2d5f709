"""A real browser for tests of pages: the Chromium of the system, driven by playwright.

``chromium()`` starts one, or skips as ``reference`` does where either is missing; the fixture of
that name keeps it for a module. ``watched(browser)`` gives a page of a profile of its own; whatever
its console complains of, exceptions, refusals of a content policy and requests to other hosts
included, fails the test when the page is closed. ``barriers(page)`` asks axe,
``Thread(page)`` counts its processor time.
"""

from __future__ import annotations

import gc
import os
import shutil
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from support import absent, reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_HERE = {"", "127.0.0.1", "localhost", "::1"}
_PATIENCE = 60_000
"""Milliseconds that a page may take, on a machine that does other things, too."""
_FLAGS = ("--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window; while it runs, the thread has an event loop."""
    playwright = reference("playwright.sync_api")
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        absent("Chromium is not installed", "MTKIT_REQUIRE_REFERENCE")
    root = ["--no-sandbox"] * (hasattr(os, "geteuid") and os.geteuid() == 0)
    playwright.expect.set_options(timeout=_PATIENCE)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=[*_FLAGS, *root])
        try:
            yield browser
        finally:
            browser.close()
            del browser
    del driver
    with warnings.catch_warnings():  # playwright leaves the pipes of its driver open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def watched(browser: Browser, **context: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open a page; give it and the list of complaints, which has to be empty in the end.

    Args:
        browser: Where.
        context: What playwright's ``new_context`` takes: ``color_scheme``, ``viewport`` …
    """
    profile = browser.new_context(**context)
    page = profile.new_page()
    complaints: list[str] = []
    page.on(
        "console",
        lambda said: (
            complaints.append(f"{said.type}: {said.text}")
            if said.type in {"error", "warning", "assert"}
            else None
        ),
    )
    page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
    page.on(
        "request",
        lambda asked: (
            complaints.append(f"request: {asked.url}")
            if (urlsplit(asked.url).hostname or "") not in _HERE
            else None
        ),
    )
    try:
        yield page, complaints
        assert not complaints, "\n".join(complaints)
    finally:
        profile.close()


class Thread:
    """Processor time of a page's main thread: of seconds on the wall others take their part."""

    def __init__(self, page: Page) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        rows = self.session.send("Performance.getMetrics")["metrics"]
        return float({row["name"]: row["value"] for row in rows}["TaskDuration"])


def barriers(page: Page) -> list[str]:
    """Return what axe calls serious or critical in a page as it is, or skip where axe is not."""
    package = find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        pytest.skip("axe is not installed: pip install axe-playwright-python")
    page.evaluate(Path(package.origin).with_name("axe.min.js").read_text("utf-8"))
    violations = page.evaluate("""async () => {
        const {violations} = await axe.run({resultTypes: ["violations"]});
        return violations.filter(({impact}) => impact === "serious" || impact === "critical")
            .map(({id, nodes: [{html, failureSummary}]}) => `${id}: ${html} ${failureSummary}`);
    }""")
    return list(violations)
