"""``mtkit merge``: what ``mtkit split`` has cut, as one file again."""

from __future__ import annotations

from mtkit.commands.split import merging as app

__all__ = ["app"]
