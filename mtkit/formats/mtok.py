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

    from mtkit.binary import Source
    from mtkit.formats.contract import Reading, WriteOptions, Written
    from mtkit.spec import TokenizerSpec

NAME = "mtok"
TITLE = "MNN .mtok"

TEXT_KINDS = range(4)


def sniff(source: Source) -> bool:
    """Tell by the magic number and a kind that is none of the text kinds."""
    kind = sniff_kind(source.data)
    return kind is not None and kind not in TEXT_KINDS


def read(source: Source, overrides: Mapping[str, object]) -> Reading:  # noqa: ARG001
    """Read a whole file: the extension where there is one, else what MNN makes of the base."""
    from mtkit.formats.mtok_read import read_file

    return read_file(source.data)


def read_as_mnn(source: Source) -> Reading:
    """Read the base alone: what the MNN runtime's loader would make of the file."""
    from mtkit.formats.mtok_base_read import read_base

    return read_base(source.data)


def extension_sections(source: Source) -> dict[str, memoryview]:
    """Return the sections of the extension, unread and unverified; empty where there is none.

    Costs the same for every file: foot, head and table are all that is read.
    """
    from mtkit.formats.mtok_extension import find

    extension = find(source.data)
    return {} if extension is None else dict(extension.sections)


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file."""
    return write_with(spec, options, {})


def write_with(
    spec: TokenizerSpec, options: WriteOptions, sections: Mapping[str, bytes]
) -> Written:
    """Write a file with further sections (tag -> content) that a reader may skip."""
    from mtkit.formats.mtok_write import write_file

    return write_file(spec, options, sections)
