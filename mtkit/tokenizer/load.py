"""Load a tokenizer from a file, a folder or a pipe.

A .mtok that carries the engine's tables is used as it lies in memory: nothing is read but the
table of its sections, and the specification is decoded when somebody asks for it. Every other file
is read into a specification by its format.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.errors import FormatError, MtkitError, UsageError
from mtkit.sources.locate import locate
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MTOK_BEGINS = b"430 "
"""First bytes of every .mtok: MNN's magic number as text."""


def load(
    path_or_name: str | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    download: bool = False,
) -> Tokenizer:
    """Load a tokenizer.

    Args:
        path_or_name: A file of any known format, a folder, "-" for standard input, the name of a
            model repository (ORG/NAME) in the hub's local cache; None for the user's default,
            which is the tokenizer that ships with mtkit unless set otherwise.
        overrides: GGUF metadata keys replaced while loading; for a .tiktoken "encoding", the name
            of a published one.
        download: Fetch a repository that the cache lacks.

    Raises:
        UsageError: There is no such file.
        FormatError: The file is damaged or no format knows it.
        UnsupportedError: It needs something that mtkit does not know.
    """
    name = os.fspath(path_or_name) if path_or_name is not None else None
    path = locate(name, download=download)
    return load_source(Source.open(path), overrides=overrides)


def load_source(
    source: Source, *, overrides: Mapping[str, object] | None = None, as_mnn: bool = False
) -> Tokenizer:
    """Load a tokenizer from an open source.

    Args:
        source: The file.
        overrides: GGUF metadata keys replaced while loading.
        as_mnn: Read a .mtok as MNN's loader does, its base alone.

    Raises:
        FormatError: The file is damaged or no format knows it.
        UnsupportedError: It needs something that mtkit does not know.
    """
    if not as_mnn and not overrides:
        mapped = _mapped(source)
        if mapped is not None:
            return mapped
    from mtkit import formats

    try:
        if as_mnn:
            from mtkit.formats import mtok

            if not mtok.sniff(source):
                raise UsageError("is no .mtok file", hint="only those have MNN's reading")
            name, reading = mtok.NAME, mtok.read_as_mnn(source)
        else:
            module, reading = formats.read(source, overrides)
            name = module.NAME
    except MtkitError as error:
        raise error.located(source.name) from None
    return Tokenizer(
        reading.spec, source=source.name, format_name=name, assumptions=reading.assumptions
    )


def _mapped(source: Source) -> Tokenizer | None:
    """Return a tokenizer whose engine uses tables in the file; None where there are none.

    Nothing is read but the table of sections; the specification is decoded when it is asked for.
    """
    if bytes(source.data[:4]) != _MTOK_BEGINS:
        return None
    from mtkit.engine import Engine
    from mtkit.formats import mtok

    sections = mtok.extension_sections(source)
    if "PROG" not in sections:
        return None
    try:
        engine = Engine(sections, lambda: tokenizer.spec)
    except (ImportError, FormatError):  # no native core, or tables of another version
        return None
    tokenizer = Tokenizer(
        lambda: mtok.read(source, {}).spec,
        engine=engine,
        source=source.name,
        format_name=mtok.NAME,
    )
    return tokenizer
