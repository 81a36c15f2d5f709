"""The page at ``/``: one file, whose script and style alone may run."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.requests import Request

    from mtkit.serve.served import Served


async def page(_: Request, __: Served) -> Response:
    """Return the page."""
    text, policy = _page()
    headers = {"content-security-policy": policy, "cache-control": "no-cache"}
    return Response(text, headers=headers, media_type="text/html")


@cache
def _page() -> tuple[str, str]:
    """Return the page, and the policy that names its parts by their hashes."""
    text = files("mtkit.serve").joinpath("page.html").read_text(encoding="utf-8")

    def hashed(tag: str) -> str:
        inner = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        sums = (hashlib.sha256(part.encode()).digest() for part in inner)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in sums)

    policy = (
        f"default-src 'none'; script-src {hashed('script')}; style-src {hashed('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return text, policy
