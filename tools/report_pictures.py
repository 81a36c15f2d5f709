"""Take the pictures of docs/report.md: ``python -m tools.report_pictures``.

Chromium shows reports of files that ship with mtkit; a picture is what stands on its screen.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

from browser import chromium, watched  # type: ignore[import-not-found]  # noqa: E402

from mtkit.base.binary import Source  # noqa: E402
from mtkit.report import report  # noqa: E402

MODEL = "mtkit/data/default-model.gguf"
OPEN = """(wanted) => {
  const table = [...tables].at(-1);
  table.find(wanted);
  table.about.open(table.rows[0]);
}"""
PICTURES = {
    "overview": ("light", "scrollTo(0, 0)", None),
    "sizes": ("dark", "part('sizes').scrollIntoView()", None),
    "token": ("light", "part('tokens').scrollIntoView()", "develop"),
}
"""Name -> colors, where the page is scrolled, and the token that is clicked."""
MOST_BYTES = 150_000


def main() -> None:
    """Take all pictures."""
    os.chdir(ROOT)  # the page says which file it is about
    folder = ROOT / "docs" / "report"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        path = Path(temporary) / "report.html"
        path.write_bytes(report([Source.open(MODEL)], histograms=True))
        for name, (colors, place, token) in PICTURES.items():
            size = {"width": 1200, "height": 760}
            with watched(browser, viewport=size, color_scheme=colors) as (page, _):
                page.goto(path.as_uri())
                page.wait_for_selector("html[data-ready]", state="attached")
                page.evaluate(place)
                if token is not None:
                    page.evaluate(OPEN, token)
                    page.wait_for_selector("dialog .tree")
                    page.evaluate("document.activeElement.blur()")
                picture = page.screenshot()
            assert len(picture) <= MOST_BYTES, f"{name}: {len(picture)} bytes"
            (folder / f"{name}.png").write_bytes(picture)
            print(f"docs/report/{name}.png", len(picture))


if __name__ == "__main__":
    main()
