"""Writing a .mtok: the base for MNN's loader, and behind it the whole specification."""

from __future__ import annotations

from mtkit.base.binary import standard_input
from mtkit.errors import UnsupportedError, UsageError
from mtkit.formats.contract import Written
from mtkit.formats.mtok.columns import Keeper
from mtkit.formats.mtok.extension import MUST_KNOW, append
from mtkit.formats.mtok.reader import SPEC, read_base_columns
from mtkit.formats.mtok.write_base import write_base
from mtkit.spec.codec import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtkit.formats.contract import WriteOptions
    from mtkit.spec import TokenizerSpec

SUFFIX = ".mtok"
_PIECE = 1 << 20


def write_file(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file; with the extension nothing is lost.

    Raises:
        UsageError: A text for seeds cannot be read, or has no words.
        UnsupportedError: A text is too long for the format's fields, or tables are insisted on
            and cannot be made.
    """
    base = write_base(spec)
    if not options.extension:
        return Written({SUFFIX: base.data}, base.losses)
    keeper = Keeper(read_base_columns(base.data))
    content = spec_section(spec, keeper)
    parts = [(SPEC, MUST_KNOW, content)]
    parts += [(tag, MUST_KNOW, column) for tag, column in keeper.sections.items()]
    corpora = [path for choice, path in options.values if choice == "seed_corpus"]
    tables = _tables(spec, dict(options.values).get("tables", ""), corpora)
    parts += [(tag, 0, table) for tag, table in tables.items()]
    data = append(base.data, parts, forbidden_length=base.forbidden_length)
    return Written({SUFFIX: data}, partial=(("mnn", base.losses),))


def _tables(spec: TokenizerSpec, choice: str, corpora: Sequence[str]) -> Mapping[str, bytes]:
    """Return the engine's tables: "no" gives none, "yes" and corpora insist, else if possible."""
    if choice == "no":
        return {}
    from mtkit.engine import stored_tables

    try:
        found = stored_tables(spec, _texts(corpora))
    except (ImportError, UnsupportedError) as error:
        if choice != "yes" and not corpora:
            return {}
        if isinstance(error, UnsupportedError):
            raise
        raise UnsupportedError("tables are made by the native core, which is not here") from None
    if corpora and "SEED" not in found:
        what = "no words of this tokenizer to seed the tables with"
        raise UsageError(what, source=", ".join(corpora))
    return found


def _texts(paths: Sequence[str]) -> Iterator[bytes]:
    """Yield files in pieces that end with a line; what is not UTF-8 counts as U+FFFD."""
    for path in paths:
        is_empty = True
        try:
            with standard_input() if path == "-" else open(path, "rb") as file:
                while block := file.read(_PIECE):
                    block += file.readline(_PIECE)
                    if b"\0" in block:
                        raise UsageError("is not text: it has zero bytes", source=path)
                    is_empty = False
                    yield block.decode(errors="replace").encode()
        except OSError as error:
            problem = error.strerror or str(error)
            raise UsageError(problem, source=path or "--seed-corpus") from None
        if is_empty:
            raise UsageError("is empty: it has no words to seed the tables with", source=path)


def spec_section(spec: TokenizerSpec, keeper: Keeper) -> bytes:
    """Write the canonical JSON of a specification, its long columns kept elsewhere."""
    import json

    document = encode(spec, brief=True, keep=keeper.keep)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
