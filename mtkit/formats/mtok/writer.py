"""Writing a .mtok: the base for MNN's loader, and behind it the whole specification."""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.contract import Written
from mtkit.formats.mtok.columns import Keeper
from mtkit.formats.mtok.extension import MUST_KNOW, append
from mtkit.formats.mtok.reader import SPEC, read_base_columns
from mtkit.formats.mtok.write_base import write_base
from mtkit.spec.codec import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.formats.contract import WriteOptions
    from mtkit.spec import TokenizerSpec

SUFFIX = ".mtok"


def write_file(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file; with the extension nothing is lost.

    Raises:
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
    tables = _tables(spec, dict(options.values).get("tables", ""))
    parts += [(tag, 0, table) for tag, table in tables.items()]
    data = append(base.data, parts, forbidden_length=base.forbidden_length)
    return Written({SUFFIX: data}, partial=(("mnn", base.losses),))


def _tables(spec: TokenizerSpec, choice: str) -> Mapping[str, bytes]:
    """Return the engine's tables: "no" gives none, "yes" insists on them, else if possible."""
    if choice == "no":
        return {}
    from mtkit.engine import stored_tables

    try:
        return stored_tables(spec)
    except (ImportError, UnsupportedError) as error:
        if choice != "yes":
            return {}
        if isinstance(error, UnsupportedError):
            raise
        raise UnsupportedError("tables are made by the native core, which is not here") from None


def spec_section(spec: TokenizerSpec, keeper: Keeper) -> bytes:
    """Write the canonical JSON of a specification, its long columns kept elsewhere."""
    import json

    document = encode(spec, brief=True, keep=keeper.keep)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
