"""Chat templates, rendered in a sandbox with limits, and read back from what models write."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.chat.answer_reader import parse_response as parse_response


def __getattr__(name: str) -> object:
    """Import what is public when it is used: a process that renders needs none of it."""
    if name == "parse_response":
        from mtkit.chat.answer_reader import parse_response

        return parse_response
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
