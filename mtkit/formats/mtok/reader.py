"""Reading a .mtok: the specification in its extension, or the base as MNN's loader takes it."""

from __future__ import annotations

from mtkit.base.binary import Reader
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Reading
from mtkit.formats.mnn_header import read_header
from mtkit.formats.mtok.columns import BaseColumns, Fetcher
from mtkit.formats.mtok.extension import MUST_KNOW, find, looks_cut, verify
from mtkit.formats.mtok.read_base import read_parts, spec_of
from mtkit.formats.mtok.read_components import read_normalizer, read_pre_tokenizer
from mtkit.formats.mtok.read_model import read_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Buffer
    from mtkit.formats.mtok.extension import Extension
    from mtkit.spec import TokenizerSpec

SPEC = "SPEC"
COLUMN_TAGS = ("VOCB", "TYPE", "SCOR", "MERG", "UNLS", "CMAP", "C")
"""Beginnings of the tags of columns (mtok_columns)."""


def read_file(data: Buffer) -> Reading:
    """Read a whole file.

    Raises:
        FormatError: It is damaged.
        UnsupportedError: It needs a newer mtkit.
    """
    extension = find(data)
    if extension is None:
        view = memoryview(data).cast("B")
        parts = read_parts(data)
        if looks_cut(view[parts.end :]):
            raise FormatError(
                "ends before its foot",
                field="extension",
                offset=len(view),
                hint="the file is cut; --as mnn reads the base alone",
            )
        return Reading(spec_of(parts))
    verify(data, extension)
    return Reading(read_spec(data, extension))


def read_spec(data: Buffer, extension: Extension) -> TokenizerSpec:
    """Decode the specification that an extension holds."""
    import json

    from mtkit.spec import TokenizerSpec
    from mtkit.spec.codec import decode

    for tag, flags in extension.flags.items():
        if flags & MUST_KNOW and not tag.startswith((SPEC, *COLUMN_TAGS)):
            raise UnsupportedError(
                f"section {tag} is not known", hint="a newer mtkit wrote the file"
            )
    content = extension.sections.get(SPEC)
    if content is None:
        raise FormatError("is missing", field=f"extension section {SPEC}")
    try:
        document = json.loads(bytes(content).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise FormatError("is not JSON", field=f"extension section {SPEC}") from None
    base = memoryview(data).cast("B")[: extension.base_length]
    columns: list[BaseColumns] = []

    def base_columns() -> BaseColumns:
        if not columns:
            columns.append(read_base_columns(base))
        return columns[0]

    spec = decode(document, TokenizerSpec, fetch=Fetcher(extension.sections, base_columns).fetch)
    assert isinstance(spec, TokenizerSpec)
    return spec


def read_base_columns(base: Buffer) -> BaseColumns:
    """Read the columns of a base, and nothing of what it means."""
    reader = Reader(base, offset=read_header(base).end)
    read_normalizer(reader)
    read_pre_tokenizer(reader)
    return read_columns(reader)
