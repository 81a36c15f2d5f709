"""What has to be freed: ``close`` does it, and so does the end of a ``with``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    C = TypeVar("C", bound="Closing")


class Closing:
    """A resource; close it, or use it in ``with``."""

    def close(self) -> None:
        """Free it; once is enough, twice does no harm."""
        raise NotImplementedError

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
