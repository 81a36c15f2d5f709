"""Files that a writer made, as a source, without touching the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtkit.base.binary import Source

if TYPE_CHECKING:
    from mtkit.formats.contract import Written


class Made(Source):
    """Written files as a source."""

    def __init__(self, written: Written) -> None:
        super().__init__("made", written.files["tokenizer.json"])
        self.files = written.files

    def beside(self, name: str) -> bytes | None:
        return self.files.get(name)
