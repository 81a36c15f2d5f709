"""MNN's .mtok tokenizer file, with mtkit's extension behind it.

The base of the file is what the MNN runtime reads (mtok_base_read). Behind its last byte, where
that loader stops looking, mtkit keeps the whole specification (mtok_extension): with it the file
means exactly what its source meant, without it what MNN's loader makes of it.
"""

from __future__ import annotations

from mtkit.formats.mnn_header import sniff_kind
from mtkit.formats.mtok_base_read import read_base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.binary import Source
    from mtkit.formats.contract import Reading

NAME = "mtok"
TITLE = "MNN .mtok"

TEXT_KINDS = range(4)


def sniff(source: Source) -> bool:
    """Tell by the magic number and a kind that is none of the text kinds."""
    kind = sniff_kind(source.data)
    return kind is not None and kind not in TEXT_KINDS


def read(source: Source, overrides: Mapping[str, object]) -> Reading:  # noqa: ARG001
    """Read a whole file."""
    return read_as_mnn(source)


def read_as_mnn(source: Source) -> Reading:
    """Read the base alone: what the MNN runtime's loader would make of the file."""
    return read_base(source.data)
