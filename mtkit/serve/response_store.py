"""What ``/v1/responses`` remembers of its answers, so that a request can go on from one.

It is kept in memory, up to ``MOST_BYTES``; the oldest go first. Each response brings the items of
its whole conversation: their records are those of the responses before, and count for each.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from mtkit.base.record import Record
from mtkit.serve.reply import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MOST_BYTES = 64 << 20
"""Bytes of all responses and items, as JSON."""


class StoredResponse(Record):
    """A response, and the items of its conversation, its own output the last."""

    response: dict[str, Any]
    items: list[Mapping[str, Any]]
    size: int


class ResponseStore:
    """The responses of a server by their ids; used in the event loop alone."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._size = most, 0
        self._stored: OrderedDict[str, StoredResponse] = OrderedDict()

    def add(
        self,
        response: dict[str, Any],
        items: Sequence[Mapping[str, Any]],
        previous: StoredResponse | None,
    ) -> None:
        """Keep a response; ``items`` are those of its request, behind those of ``previous``."""
        own = [*items, *response["output"]]
        size = len(msgspec.json.encode([response, items])) + (previous.size if previous else 0)
        stored = StoredResponse(response, [*(previous.items if previous else ()), *own], size)
        self._stored[response["id"]] = stored
        self._size += size
        while self._size > self._most:
            self._size -= self._stored.popitem(last=False)[1].size

    def previous(self, name: str | None) -> StoredResponse | None:
        """Return the response that a request goes on from; None where it names none.

        Raises:
            Problem: There is no such response.
        """
        if name is None:
            return None
        stored = self._stored.get(name)
        if stored is None:
            field, code = "previous_response_id", "previous_response_not_found"
            what = f"{field}: there is no response {name[:100]!r}, or no longer"
            raise Problem(400, what, field=field, code=code)
        return stored

    def item(self, name: str) -> Mapping[str, Any] | None:
        """Return an item of any conversation by its id."""
        rows = (row for stored in reversed(self._stored.values()) for row in stored.items)
        return next((row for row in rows if row.get("id") == name), None)

    def response(self, name: str) -> dict[str, Any]:
        """Return a response."""
        return self._find(name).response

    def remove(self, name: str) -> None:
        """Forget a response."""
        self._size -= self._find(name).size
        del self._stored[name]

    def _find(self, name: str) -> StoredResponse:
        stored = self._stored.get(name)
        if stored is None:
            raise Problem(404, f"there is no response {name[:100]!r}, or no longer")
        return stored
