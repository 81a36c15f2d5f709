r"""Text from a file made safe to print: one line, nothing that a terminal obeys.

Control characters become ``\n``, ``\t``, ``\x1b``, invisible and direction-changing characters
``\u202e``, and bytes that are not valid UTF-8 (which travel through ``str`` as surrogate escapes)
``\xNN``. C1 controls are written ``\u0085``, so that ``\x85`` is always a byte. A backslash stays
as it is, as people write patterns and templates: ``--json`` has what cannot be mistaken.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN = 80
_NAMED = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}

# Format characters that change what stands around them or cannot be seen. Listed rather than asked
# of unicodedata, so that the same file prints the same with every Python.
_INVISIBLE = (
    (0x80, 0x9F), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F),
    (0x890, 0x891), (0x8E2, 0x8E2), (0x180E, 0x180E), (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD),
    (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE0001),
    (0xE0020, 0xE007F),
)  # fmt: skip


def _entries() -> Iterator[tuple[int, str]]:
    for code in (*range(0x20), 0x7F):
        yield code, _NAMED.get(code, f"\\x{code:02x}")
    for first, last in _INVISIBLE:
        for code in range(first, last + 1):
            yield code, f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    for code in range(0xD800, 0xE000):  # DC80..DCFF stand for the bytes 80..FF
        is_byte = 0xDC80 <= code <= 0xDCFF
        yield code, f"\\x{code - 0xDC00:02x}" if is_byte else f"\\u{code:04x}"


@cache
def _escapes() -> dict[int, str]:
    return dict(_entries())


def json_visible(line: str) -> str:
    """Return a line of JSON, the same value, with nothing in it that a terminal obeys."""
    if line.isprintable():
        return line
    return "".join(
        character if code not in _escapes() or code < 0x20 else json_escape(code)
        for character, code in zip(line, map(ord, line), strict=True)
    )


def json_escape(code: int) -> str:
    """Return a character as JSON writes it by number, in two parts beyond U+FFFF."""
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def visible(raw: bytes) -> str:
    """Return the text of a token on one line: ``·hello``, ``⏎``, bytes that are no text as xNN."""
    text = raw.decode("utf-8", "surrogateescape").replace("\n", "⏎")
    return printable(text).replace(" ", "·")


def printable(text: str | bytes) -> str:
    """Return text on one line, with escapes for what cannot be seen."""
    text = as_text(text)
    return text if text.isprintable() else text.translate(_escapes())


def shown(name: str) -> str:
    """Return a name for a message: one line, not too long."""
    text = printable(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def quoted(name: str) -> str:
    """Return a name as ``shown`` does, in quotation marks."""
    return f"'{shown(name)}'"


def either(names: Sequence[str]) -> str:
    """Return names, at least one, as the choices of a question: "a, b or c"."""
    return " or ".join([", ".join(names[:-1])] * (len(names) > 1) + [names[-1]])


def as_text(text: str | bytes) -> str:
    """Return bytes as text in which each byte that is not valid UTF-8 is a surrogate escape."""
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


def byte_escapes(text: str) -> str:
    r"""Return text with only the bytes that are not valid UTF-8 written, as ``\xNN`` (for JSON)."""
    return (
        text
        if is_utf8(text)
        else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def is_utf8(text: str | bytes) -> bool:
    """Whether bytes are UTF-8, or a text has no surrogate, that is, no byte that is not UTF-8."""
    try:
        text.encode("utf-8") if isinstance(text, str) else text.decode("utf-8")
    except UnicodeError:
        return False
    return True
