r"""Split patterns beyond our own tables, found by Oniguruma, which they were written for.

onigurumacffi binds the engine itself, in the syntax that tokenizers uses. Two stages of it differ:
tokenizers has that of November 2024, onigurumacffi's wheels one of April 2025, both called 6.9.10.
What changed in between and shows on valid UTF-8 is refused: ``\p`` without braces, ``\x`` and
``\u`` at the end of the pattern, bytes above 7F, and a range that begins in ASCII and ends beyond
where brackets are nested. The text is encoded once: a match costs no pass over all of it.

Source: find_iter of the onig crate 6.5.3; kkos/oniguruma, src/ from 94877ac to its end.
"""

from __future__ import annotations

import re
import threading

from mtkit.errors import MissingExtra, ResourceError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIELD = "split pattern"
HINT = 'pip install "mtkit[patterns]"'
VERSION = b"6.9.10"
ESCAPE = re.compile(r"[pP](?!\{)|[xu]\Z|x[89a-fA-F][0-9a-fA-F]|[23][0-7][0-7]|M")
TOKEN = re.compile(r"\\.|\[:\^?\w+:]|\[\^?]?|]|&&", re.DOTALL)
RANGE = re.compile(r"(?<![^\0-\x7f])-(?:[^\0-\x7f]|\\[xuo])")
_compiling = threading.Lock()


class LibraryMatcher:
    """A pattern that Oniguruma has compiled; finds as ``pattern.Matcher`` does."""

    def __init__(self, pattern: str, own: UnsupportedError) -> None:
        """Compile a pattern.

        Args:
            pattern: The expression.
            own: Why it has no tables.

        Raises:
            UnsupportedError: Oniguruma, or its stage that is installed, cannot run it exactly.
        """
        self.why = own.what
        self.ffi, self.lib = _library(own)
        changed = _changed(pattern)
        if changed:
            raise UnsupportedError(f"{changed} differs between stages of Oniguruma", field=FIELD)
        try:
            data = pattern.encode()
        except UnicodeEncodeError:
            raise UnsupportedError("the pattern is no UTF-8", field=FIELD) from None
        made, info = self.ffi.new("regex_t*[1]"), self.ffi.new("OnigErrorInfo[1]")
        with _compiling:  # names and callouts are tables of the process
            code = self.lib.onigcffi_new(made, data, len(data), info)
        if code:
            raise UnsupportedError(f"{own.what}; Oniguruma: {self._said(code, info)}", field=FIELD)
        self.regex = self.ffi.gc(made[0], self.lib.onig_free)

    @property
    def tables(self) -> bytes:
        """Raise why there are none: the core has no Oniguruma."""
        raise UnsupportedError(f"{self.why} by the native core", field=FIELD)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the matches from left to right as (start, end) in characters.

        Raises:
            ResourceError: Oniguruma gives up, as it does in the reference.
            UnsupportedError: A match steps back behind the one before it.
        """
        data = text.encode("utf-8", "surrogatepass")
        length = len(data)
        region = self.ffi.gc(self.lib.onig_region_new(), self.lib.onigcffi_region_free)
        out: list[tuple[int, int]] = []
        place, passed, characters = 0, 0, 0
        behind = -1
        while place <= length:
            code = self.lib.onigcffi_search(self.regex, data, length, place, region, 0)
            if code == self.lib.ONIG_MISMATCH:
                break
            if code < 0:
                raise ResourceError(
                    f"gives up on this text: {self._said(code)}; the reference fails here, too",
                    field=FIELD,
                )
            first, last = region.beg[0], region.end[0]
            if first == last == behind:
                place += 1
                while place < length and data[place] & 0xC0 == 0x80:
                    place += 1
                continue
            if not passed <= first <= last:
                raise UnsupportedError(
                    r"\K in a look-around moves a match behind the one before it", field=FIELD
                )
            characters += len(data[passed:first].decode("utf-8", "surrogatepass"))
            start = characters
            characters += len(data[first:last].decode("utf-8", "surrogatepass"))
            out.append((start, characters))
            place = behind = passed = last
        return out

    def _said(self, code: int, *info: Any) -> str:
        """What Oniguruma says of an error."""
        said = self.ffi.new("OnigUChar[]", self.lib.ONIG_MAX_ERROR_MESSAGE_LEN)
        size = self.lib.onig_error_code_to_str(said, code, *info)
        return bytes(said[0:size]).decode(errors="replace")


def _changed(pattern: str) -> str:
    """Return what of a pattern may mean something else in another stage of Oniguruma, or ""."""
    depth = 0
    nested = False
    for token in TOKEN.finditer(pattern):
        if token[0][0] == "\\":
            escape = ESCAPE.match(pattern, token.start() + 1)
            if escape:
                return f"\\{escape[0]}"
        elif token[0][0] == "[" and token[0][1:2] != ":":
            depth += 1
        elif token[0] == "]":
            depth = max(depth - 1, 0)
        nested |= depth > 1 or (depth == 1 and token[0] == "&&")
    return (
        "a range out of ASCII and a bracket in a bracket"
        if nested and RANGE.search(pattern)
        else ""
    )


def _library(own: UnsupportedError) -> tuple[Any, Any]:
    """Return cffi's two doors to Oniguruma."""
    try:
        from _onigurumacffi import ffi, lib
    except ImportError:
        raise MissingExtra(f"{own.what} without Oniguruma", field=FIELD, hint=HINT) from None
    lib.onigcffi_initialize()
    version = ffi.string(lib.onig_version())
    if version != VERSION:
        raise MissingExtra(
            f"{own.what} by Oniguruma {version.decode()}, only by {VERSION.decode()}",
            field=FIELD,
            hint=HINT,
        )
    return ffi, lib
