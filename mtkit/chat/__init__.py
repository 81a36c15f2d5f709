"""Chat templates, rendered in a sandbox with limits, and read back from what models write."""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.chat.answer_reader import parse_response as parse_response


def __getattr__(name: str) -> object:
    """Import what is public when it is used: a process that renders needs none of it."""
    if name == "parse_response":
        from mtkit.chat.answer_reader import parse_response

        return parse_response
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Chat(ModuleType):
    def __call__(self, *_: object, **__: object) -> object:
        """Raise as ``mtkit.chat`` does before the package is imported."""
        from mtkit.base.idioms import INSTEAD

        raise TypeError(f"the module is not callable; here: {INSTEAD['mtkit']['chat']}")


sys.modules[__name__].__class__ = _Chat
