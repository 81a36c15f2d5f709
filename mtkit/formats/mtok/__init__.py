"""MNN's .mtok tokenizer file, with mtkit's extension behind it.

The base of the file is what the MNN runtime reads (``layout``, ``model_reader``,
``component_reader`` and the writers). Behind its last byte, where that loader stops, mtkit keeps
the whole specification (``extension``, ``columns``): with it the file is exactly its source,
without it what MNN's loader makes of the base.
"""

from __future__ import annotations

from mtkit.formats.mnn_header import sniff_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source
    from mtkit.formats.contract import OtherReading, Reading, WriteOptions, Written
    from mtkit.spec import TokenizerSpec


NAME = "mtok"
TITLE = "MNN .mtok"

ADDS_SPECIAL_TOKENS = True

TEXT_KINDS = range(4)


def sniff(source: Source) -> bool:
    """Tell by the magic number and a kind that is not one of the text kinds."""
    kind = sniff_kind(source.data)
    return kind is not None and kind not in TEXT_KINDS


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a whole file: the extension if there is one, else the base as MNN reads it."""
    from mtkit.formats.mtok.reader import read_file

    return read_file(source.data)


def engine_tables(source: Source) -> dict[str, memoryview]:
    """Return the engine's tables, unread and unverified; empty where there are none.

    They are the sections that a reader may skip. Only foot, head and table are read, so it costs
    the same for every file.
    """
    from mtkit.formats.mtok.extension import find_extension

    extension = find_extension(source.data)
    return {} if extension is None else extension.optional()


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file, if possible with the engine's tables, which are used in place.

    The option ``tables`` "no" leaves them out, "yes" requires them.
    """
    from mtkit.formats.mtok.writer import write_file

    return write_file(spec, options)


def other_readings() -> dict[str, OtherReading]:
    """Return the reading of MNN, which knows the base alone."""
    from mtkit.formats.contract import OtherReading
    from mtkit.formats.mtok.extension import base_length
    from mtkit.formats.mtok.reader import read_base

    return {
        "mnn": OtherReading(
            "MNN's loader",
            lambda source: read_base(source.data),
            lambda source: base_length(source.data),
        )
    }
