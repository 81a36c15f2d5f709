"""Regular expressions of JSON schemas, written as llguidance reads them.

A pattern is written in ECMA 262's dialect and checked in the dialect of whoever reads the answer;
llguidance reads Rust's. So what the dialects read differently is said out in sets of characters
that all of them agree on, and what has no such form is refused.

Source: llguidance, docs/syntax.md; regex-syntax, docs; ECMA 262, 22.2; Python, ``re``.
"""

from __future__ import annotations

import re
import warnings

from mtkit.errors import UnsupportedError, UsageError

MOST_REPEATS = 100_000
"""Of a repetition."""
_TOKEN = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|\[(\^?)((?:\\.|[^\]\\])*)\]"
    r"|(\*|\+|\?|\{(\d+)(?:,(\d*))?\})(\??)|\(\?:|\(\?|.",
    re.DOTALL,
)
_MEMBER = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|(.)", re.DOTALL)
_SAFE = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0c\r\x20"}
_ALL = {
    "d": r"\p{Nd}", "w": r"\p{L}\p{N}\p{M}_",
    "s": r"\s\x1c-\x1f\x85\x{180e}\x{feff}",
}  # fmt: skip
"""What any dialect takes as one, beside ``_SAFE``, what each does."""
_NAMED = {"t": 9, "n": 10, "f": 12, "r": 13}
_UNWRITABLE = {*range(0x20), 0x7F} - {8, *_NAMED.values()}
"""Characters that an answer does not write: JSON has only numbers for them."""
_ANY = r"[^\n\r\x{2028}\x{2029}]"


def portable(pattern: str) -> str:
    """Return a pattern that matches only what the given one does, in any dialect.

    Raises:
        UnsupportedError: It says what llguidance cannot follow, or dialects read differently.
        UsageError: It is none.
    """
    _compile(pattern)
    made: list[str] = []
    repeated = True  # a quantifier cannot come first
    for found in _TOKEN.finditer(pattern):
        text, escaped, inner = found[0], found[1], found[3]
        if found[4]:
            if repeated:
                raise _refused(pattern, f"the quantifier {text}")
            if max(int(found[5] or 0), int(found[6] or 0)) > MOST_REPEATS:
                raise _refused(pattern, f"a repetition above {MOST_REPEATS}")
            made.append(found[4])
            repeated = True
            continue
        repeated = text in ("(", "(?:", "|", "^")
        if inner is not None:
            made.append(_set(pattern, inner, negated=bool(found[2])))
        elif escaped and escaped in "dws":
            made.append(f"[{_SAFE[escaped]}]")
        elif escaped and escaped in "DWS":
            made.append(f"[^{_ALL[escaped.lower()]}]")
        elif escaped or text not in ("(", "(?:", ")", "|", "^", "$", "."):
            if text == "(?":
                raise _refused(pattern, f"what begins with {pattern[found.start() :][:4]}")
            if text == "{" and re.match(r",\d*\}", pattern[found.end() :]):
                raise _refused(pattern, "a repetition without a least number")
            code = _code(pattern, escaped) if escaped else ord(text)
            if code in _UNWRITABLE:
                raise _refused(pattern, f"the control character {code:#04x}")
            made.append(_written(code))
        else:
            made.append(_ANY if text == "." else text)
    return "".join(made)


def _compile(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        if str(error).startswith("bad escape"):
            raise _refused(pattern, str(error).split()[2]) from None
        raise UsageError(str(error), field=f"pattern {pattern}") from None


def _refused(pattern: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} cannot be enforced", field=f"pattern {pattern}")


def _code(pattern: str, escaped: str) -> int:
    """Return the character that an escape stands for by itself."""
    if len(escaped) > 1:
        code = int(escaped[1:], 16)
        if 0xD800 <= code < 0xE000:
            raise _refused(pattern, f"\\{escaped}, half a character,")
        return code
    if escaped in _NAMED:
        return _NAMED[escaped]
    if escaped.isalnum():
        raise _refused(pattern, f"\\{escaped}")
    return ord(escaped)


def _written(code: int) -> str:
    return chr(code) if code < 0x7F and chr(code).isalnum() else f"\\x{{{code:x}}}"


def _set(pattern: str, inner: str, *, negated: bool) -> str:
    parts: list[str] = []
    writable = negated
    members = list(_MEMBER.finditer(inner))
    while members:
        kind = members[0][1]
        if kind and kind in "dwsDWS":
            members.pop(0)
            narrow = kind.islower() != negated
            chars = (_SAFE if narrow else _ALL)[kind.lower()]
            parts.append(chars if kind.islower() else f"[^{chars}]")
            writable = True
            continue
        low = high = _member(pattern, members.pop(0))
        if len(members) > 1 and members[0][0] == "-":
            high = _member(pattern, members[1])
            del members[:2]
        parts.append(_written(low) if low == high else f"{_written(low)}-{_written(high)}")
        writable = writable or not set(range(low, high + 1)) <= _UNWRITABLE
    if not parts or not writable:
        raise _refused(pattern, f"the set [{inner}]")
    return f"[{'^' * negated}{''.join(parts)}]"


def _member(pattern: str, found: re.Match[str]) -> int:
    return _code(pattern, found[1]) if found[1] else ord(found[2])
