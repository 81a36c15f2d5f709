"""The chat page at ``/``: one file with its style and its script, and a policy that allows no more.

The parts are in ``page/``. Answers are rendered by the page itself and not by the server, which has
better things to do: ARCHITECTURE.md has the figures.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

PAGE_SCRIPTS = (
    "dom", "highlight", "formula", "inline", "markdown", "conversation", "store", "settings",
    "stream", "files", "tokens", "chat", "view", "side", "main",
)  # fmt: skip
"""In the order of the page, where they are one script."""


@cache
def page_and_policy() -> tuple[str, str]:
    """Return the page, and the policy that names its parts by their hashes."""
    parts = {
        "style": _page_file("page.css"),
        "script": "\n".join(_page_file(f"{name}.js") for name in PAGE_SCRIPTS),
    }
    first, *rest = _page_file("page.html").split("@")
    text = "".join([first, *(parts.get(part, part) for part in rest)])
    policy = (
        f"default-src 'none'; script-src {_policy_hash(parts['script'])}; "
        f"style-src {_policy_hash(parts['style'])}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return text, policy


def _page_file(name: str) -> str:
    return files("mtkit.serve").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
