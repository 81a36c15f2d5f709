"""MNN's .mtok tokenizer file, with mtkit's extension behind it.

The base of the file is what the MNN runtime reads (mtok_base_read, mtok_base_write). Behind its
last byte, where that loader stops looking, mtkit keeps the whole specification (mtok_extension,
mtok_columns): with it the file means exactly what its source meant, without it what MNN's loader
makes of it.
"""

from __future__ import annotations

from mtkit.formats.mnn_header import sniff_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source
    from mtkit.formats.contract import Loss, Reading, WriteOptions, Written
    from mtkit.spec import TokenizerSpec

NAME = "mtok"
TITLE = "MNN .mtok"

TEXT_KINDS = range(4)


def sniff(source: Source) -> bool:
    """Tell by the magic number and a kind that is none of the text kinds."""
    kind = sniff_kind(source.data)
    return kind is not None and kind not in TEXT_KINDS


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a whole file: the extension where there is one, else what MNN makes of the base."""
    from mtkit.formats.mtok.reader import read_file

    return read_file(source.data)


def read_as_mnn(source: Source) -> Reading:
    """Read the base alone: what the MNN runtime's loader would make of the file."""
    from mtkit.formats.mtok.read_base import read_base

    return read_base(source.data)


def extension_sections(source: Source) -> dict[str, memoryview]:
    """Return the sections of the extension, unread and unverified; empty where there is none.

    Costs the same for every file: foot, head and table are all that is read.
    """
    from mtkit.formats.mtok.extension import find

    extension = find(source.data)
    return {} if extension is None else dict(extension.sections)


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file; the choice ``tables`` adds the engine's tables, to be used in place.

    Raises:
        UnsupportedError: Tables are asked for, and the native core is not there or lacks a
            component.
    """
    from mtkit.formats.mtok.writer import write_file

    return write_file(spec, options)


def base_losses(spec: TokenizerSpec) -> tuple[Loss, ...]:
    """Return what the base alone does not hold, for those who read it without the extension."""
    from mtkit.formats.mtok.writer import base_losses as losses

    return losses(spec)


def base_length(source: Source) -> int:
    """Return the length of the base in bytes."""
    from mtkit.formats.mtok.extension import find

    extension = find(source.data)
    return len(source.data) if extension is None else extension.base_length
