"""Photograph the page of ``mtkit serve`` for docs/serve.md: ``python -m tools.page_pictures``.

The answer is prepared, so that a picture shows what the page does and not what a small model says;
the browser is the Chromium of the system, driven by playwright. The pictures are
docs/screens/serve*.png.
"""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests", "support"))

from browser import chromium  # type: ignore[import-not-found]  # noqa: E402
from chat_stub import stubbed, text_answer  # type: ignore[import-not-found]  # noqa: E402

QUESTION = "What is the difference between a list and a tuple?"
ANSWER = """A **list** can be changed after it is made, a **tuple** cannot:

```python
names = ["Ada", "Grace"]
names.append("Alan")  # a list grows
point = (3, 4)  # a tuple stays as it is
```

| | list | tuple |
|---|---|---|
| can change | yes | no |
| key of a `dict` | no | yes |
"""
SHOTS = (("serve", 1080, 720, "light"), ("serve-narrow", 380, 720, "dark"))
"""Name, width, height, colors."""


def main() -> None:
    """Write the pictures."""
    with stubbed() as stub, chromium() as browser:
        for name, width, height, scheme in SHOTS:
            stub.models, stub.answers = ["model-q4_k_m.gguf"], [text_answer(ANSWER)]
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(stub.url)
            page.fill("#text", QUESTION)
            page.keyboard.press("Enter")
            page.locator("article.assistant table").wait_for()
            page.locator("#stop").wait_for(state="hidden")
            if name == "serve":
                question = page.locator("article.user")
                question.get_by_role("button", name="Tokens").click()
                question.locator(".tokens").wait_for()
            page.locator("#text").focus()
            path = os.path.join(ROOT, "docs", "screens", f"{name}.png")
            page.screenshot(path=path)
            sys.stdout.write(f"{path}  {os.path.getsize(path)} bytes\n")
            page.close()


if __name__ == "__main__":
    main()
