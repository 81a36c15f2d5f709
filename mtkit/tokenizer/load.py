"""Load a tokenizer from a file, a folder or a pipe.

A file that carries the engine's tables is used as it lies in memory: nothing is read but the place
of the tables, and the specification is decoded when somebody asks for it. Every other file is read
into a specification by its format.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.sources.locate import locate
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.spec import TokenizerSpec

MOST_CACHE = (1 << 63) - 1


def load(
    path_or_name: str | bytes | os.PathLike[str] | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    reader: str | None = None,
    download: bool = False,
    cache_bytes: int | None = None,
    verify_tables: bool = False,
) -> Tokenizer:
    """Load a tokenizer.

    Args:
        path_or_name: A file in any known format, a folder, "-" for standard input, a model
            repository (ORG/NAME) in the local HuggingFace cache, or a published encoding in
            tiktoken's cache; None: the user's default, which is the tokenizer that ships with
            mtkit unless configured otherwise.
        overrides: GGUF metadata keys to replace while loading; for a .tiktoken, "encoding" is the
            name of a published encoding.
        reader: Read the files as another program does: "transformers" for a folder with a
            tokenizer.json, "mnn" for a .mtok.
        download: Download the repository if it is not in the cache.
        cache_bytes: Maximum size of a cache in bytes; None: about 8 MB; 0: no cache. Concurrent
            calls use separate caches; unused ones are kept, up to 32 MB or four times this size,
            whichever is larger.
        verify_tables: Check a .mtok's engine tables against its specification; loading then takes
            as long as without tables.

    Raises:
        UsageError: The file or the reader does not exist, or ``cache_bytes`` is negative or 2**63
            or more.
        FormatError: The file is damaged, its format is unknown, or its tables
            contradict its specification.
        UnsupportedError: The tokenizer has a part that mtkit does not support.
    """
    name = os.fsdecode(path_or_name) if path_or_name is not None else None
    if cache_bytes is not None and not isinstance(cache_bytes, int):
        raise TypeError(f"cache_bytes is a number of bytes, not {type(cache_bytes).__name__}")
    if cache_bytes is not None and not 0 <= cache_bytes <= MOST_CACHE:
        where = "below 0" if cache_bytes < 0 else "more than memory can be"
        raise UsageError(f"is {cache_bytes}, {where}", field="cache_bytes")
    file = locate(name, download=download)
    tokenizer = load_source(
        Source.open(file.path, guard=True),
        overrides=overrides or file.overrides,
        reader=reader,
        cache_bytes=cache_bytes,
        verify_tables=verify_tables,
    )
    return in_its_folder(tokenizer) if file.is_folder and reader is None else tokenizer


def in_its_folder(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer as the whole folder describes it, not the file alone."""
    if tokenizer.format_name != "spm":  # other formats read the files beside them
        return tokenizer
    from mtkit.tokenizer.folder import with_neighbors

    return with_neighbors(tokenizer)


def load_source(
    source: Source,
    *,
    overrides: Mapping[str, object] | None = None,
    reader: str | None = None,
    cache_bytes: int | None = None,
    verify_tables: bool = False,
) -> Tokenizer:
    """Load a tokenizer from an open source."""
    try:
        return _load_source(source, overrides, reader, cache_bytes, verify_tables)
    finally:
        source.require_whole()


def _load_source(
    source: Source,
    overrides: Mapping[str, object] | None,
    reader: str | None,
    cache_bytes: int | None,
    verify_tables: bool,
) -> Tokenizer:
    unusable = ""
    if reader is None and not overrides:
        tokenizer, unusable = mapped(source, cache_bytes)
        if tokenizer is not None:
            if verify_tables:
                error = tables_fault(source, tokenizer.spec)
                if error is not None:
                    raise error.located(source.name)
            return tokenizer
    from mtkit import formats

    try:
        if reader is None:
            module, reading = formats.read(source, overrides)
        else:
            module, reading = formats.read_as(source, reader)
    except MtkitError as error:
        raise error.located(source.name) from None
    return Tokenizer(
        reading.spec,
        cache_bytes=cache_bytes,
        source=source.name,
        format_name=module.NAME,
        assumptions=reading.assumptions,
        warnings=(unusable,) if unusable else (),
    )


def tables_fault(source: Source, spec: TokenizerSpec) -> FormatError | None:
    """Return what is wrong with the engine's tables in a file, which are used as they lie there.

    Whoever made it may have written others with it than those of its specification, by which
    conversions, traces and tokens with their spellings go. Both are compared byte by byte: a text
    that is known to nobody else could be the only one with other ids.
    """
    from mtkit.engine import stored_tables
    from mtkit.formats import engine_tables

    stored = engine_tables(source)
    try:
        if stored is None or stored[1] == stored_tables(spec):
            return None
    except ImportError:  # nothing uses them without the native core
        return None
    except UnsupportedError:  # there can be none
        pass
    return FormatError(
        "do not match the file's specification",
        field="engine tables",
        hint="mtkit convert FILE --to mtok writes new ones; the file may have been made to deceive",
    )


def mapped(source: Source, cache_bytes: int | None = None) -> tuple[Tokenizer | None, str]:
    """Return a tokenizer whose engine uses tables in the file, or why those cannot be used.

    Nothing is read but the place of the tables; the specification is decoded when it is asked for.
    """
    from mtkit.formats import engine_tables

    stored = engine_tables(source)
    if stored is None:
        return None, ""
    from mtkit.engine import Engine

    module, tables = stored
    try:
        engine = Engine(tables, lambda: tokenizer.spec, cache_bytes)
    except ImportError:  # there is no native core
        return None, ""
    except FormatError as error:  # as a rule tables of another version
        return None, (
            f"its engine tables cannot be used ({error.field} {error.what}), so loading takes "
            "longer; mtkit convert writes new ones"
        )

    def read_spec() -> TokenizerSpec:
        try:
            return module.read(source, {}).spec
        finally:
            source.require_whole()

    tokenizer = Tokenizer(
        read_spec,
        engine=engine,
        cache_bytes=cache_bytes,
        source=source.name,
        format_name=module.NAME,
    )
    return tokenizer, ""
