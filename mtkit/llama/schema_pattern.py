"""Regular expressions of JSON schemas: patterns as any dialect reads them, formats as patterns.

A pattern is written in ECMA 262's dialect and checked in the dialect of whoever reads the answer;
llguidance reads Rust's. So what the dialects read differently is spelled out in sets of characters
that all of them agree on, and what has no such form is refused.

The pattern of a format takes those of its texts that no reader refuses: a day that its month has,
seconds below 60, ``T`` and ``Z`` in capitals, host names without what only IDNA gives a meaning.

Source: RFC 3339 (dates, times, durations), RFC 1123 (hosts), RFC 4291 (IPv6), RFC 5321 (mail),
RFC 3986 (URIs), RFC 9562 (UUIDs), RFC 6901 (JSON pointers); OpenAPI's registry of formats;
llguidance, docs/syntax.md; regex-syntax, docs; ECMA 262, 22.2; Python, ``re``.
"""

from __future__ import annotations

import re
import warnings

from mtkit.errors import UnsupportedError, UsageError

_BY_FOUR = "(?:0[48]|[2468][048]|[13579][26])"
_DATE = (
    r"(?:(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|(?:\d\d{_BY_FOUR}|{_BY_FOUR}00)-02-29)"
)
_HOUR = r"(?:[01]\d|2[0-3]):[0-5]\d"
_TIME = rf"{_HOUR}:[0-5]\d(?:\.\d{{1,9}})?(?:Z|[+-]{_HOUR})"
_N = r"\d{1,9}"
_OF_DAY = f"T(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S)"
_DURATION = (
    f"P(?:(?:{_N}Y(?:{_N}M(?:{_N}D)?)?|{_N}M(?:{_N}D)?|{_N}D)(?:{_OF_DAY})?|{_OF_DAY}|{_N}W)"
)
_LABEL = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_H = "[0-9a-fA-F]{1,4}"
_SHORTENED = "|".join(f"(?:{_H}:){{1,{7 - n}}}(?::{_H}){{1,{n}}}" for n in range(1, 7))
_IPV6 = f"(?:(?:{_H}:){{7}}{_H}|(?:{_H}:){{1,7}}:|{_SHORTENED}|:(?::{_H}){{1,7}}|::)"
_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]{0,30}"
_URI = (
    rf"{_SCHEME}:(?://{_LABEL}(?:\.{_LABEL}){{0,9}}(?::\d{{1,4}})?(?:/{_CHARACTER}*)*"
    rf"|{_CHARACTER}+(?:/{_CHARACTER}*)*)(?:\?(?:{_CHARACTER}|[/?])*)?(?:#(?:{_CHARACTER}|[/?])*)?"
)
FORMAT_PATTERNS = {
    name: f"^(?:{pattern})$"
    for name, pattern in {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": _DURATION,
        "email": rf"{_ATOM}(?:\.{_ATOM}){{0,2}}@{_LABEL}(?:\.{_LABEL}){{1,2}}",
        "hostname": rf"{_LABEL}(?:\.{_LABEL}){{0,3}}",
        "ipv4": rf"(?:{_OCTET}\.){{3}}{_OCTET}",
        "ipv6": _IPV6,
        "json-pointer": "(?:/(?:[^~/]|~[01])*)*",
        "uri": _URI,
        "uuid": "-".join(f"[0-9a-fA-F]{{{n}}}" for n in (8, 4, 4, 4, 12)),
    }.items()
}
"""Format to the pattern of its texts."""


_MOST_REPEATS = 100_000
"""Times that a repetition may say."""
_PATTERN_PART = re.compile(
    r"\\(?P<escape>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|\[(?P<not>\^?)(?P<set>(?:\\.|[^\]\\])*)\]"
    r"|(?P<times>\*|\+|\?|\{(?P<low>[0-9]+)(?:,(?P<high>[0-9]*))?\})\??|\(\?:|\(\?|.",
    re.DOTALL,
)
_SET_PART = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|(.)", re.DOTALL)
_ASCII = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0c\r\x20"}
"""What every dialect takes as a digit, a word character, white space."""
_UNICODE = {
    "d": r"\p{Nd}", "w": r"\p{L}\p{N}\p{M}_",
    "s": r"\s\x1c-\x1f\x85\x{180e}\x{feff}",
}  # fmt: skip
"""What any dialect does: the complement is what none takes."""
_NAMED = {"t": 9, "n": 10, "f": 12, "r": 13}
_UNWRITABLE = {*range(0x20), 0x7F} - {8, *_NAMED.values()}
"""Characters that an answer does not write: JSON has only numbers for them."""
_ANY = r"[^\n\r\x{2028}\x{2029}]"


def portable_pattern(pattern: str) -> str:
    """Return a pattern that matches only what the given one does, in any dialect."""
    _compile(pattern)
    parts: list[str] = []
    repeated = True  # a quantifier cannot come first
    for match in _PATTERN_PART.finditer(pattern):
        text, escape, times = match[0], match["escape"], match["times"]
        if times:
            if repeated:
                raise _pattern_error(pattern, f"the quantifier {text}")
            if max(int(match["low"] or 0), int(match["high"] or 0)) > _MOST_REPEATS:
                raise _pattern_error(pattern, f"a repetition above {_MOST_REPEATS}")
            parts.append(times)
            repeated = True
            continue
        repeated = text in ("(", "(?:", "|", "^")
        if match["set"] is not None:
            parts.append(_spell_set(pattern, match["set"], negated=bool(match["not"])))
        elif escape and escape in "dws":
            parts.append(f"[{_ASCII[escape]}]")
        elif escape and escape in "DWS":
            parts.append(f"[^{_UNICODE[escape.lower()]}]")
        elif escape or text not in ("(", "(?:", ")", "|", "^", "$", "."):
            if text == "(?":
                raise _pattern_error(pattern, f"what begins with {pattern[match.start() :][:4]}")
            if text == "{" and re.match(r",\d*\}", pattern[match.end() :]):
                raise _pattern_error(pattern, "a repetition without a least number")
            code = _escaped_code(pattern, escape) if escape else ord(text)
            if code in _UNWRITABLE:
                raise _pattern_error(pattern, f"the control character {code:#04x}")
            parts.append(_spell_code(code))
        else:
            parts.append(_ANY if text == "." else text)
    return "".join(parts)


def _compile(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, ValueError) as error:  # 5,000 digits
        if str(error).startswith("bad escape"):
            raise _pattern_error(pattern, str(error).split()[2]) from None
        raise UsageError(str(error), field=f"pattern {pattern}") from None


def _pattern_error(pattern: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} cannot be enforced", field=f"pattern {pattern}")


def _escaped_code(pattern: str, escaped: str) -> int:
    """Return the character that an escape stands for by itself."""
    if len(escaped) > 1:
        code = int(escaped[1:], 16)
        if 0xD800 <= code < 0xE000:
            raise _pattern_error(pattern, f"\\{escaped}, half a character,")
        return code
    if escaped in _NAMED:
        return _NAMED[escaped]
    if escaped.isalnum():
        raise _pattern_error(pattern, f"\\{escaped}")
    return ord(escaped)


def _spell_code(code: int) -> str:
    return chr(code) if code < 0x7F and chr(code).isalnum() else f"\\x{{{code:x}}}"


def _spell_set(pattern: str, inner: str, *, negated: bool) -> str:
    parts: list[str] = []
    writable = negated
    members = list(_SET_PART.finditer(inner))
    while members:
        kind = members[0][1]
        if kind and kind in "dwsDWS":
            members.pop(0)
            narrow = kind.islower() != negated
            chars = (_ASCII if narrow else _UNICODE)[kind.lower()]
            parts.append(chars if kind.islower() else f"[^{chars}]")
            writable = True
            continue
        low = high = _set_member(pattern, members.pop(0))
        if len(members) > 1 and members[0][0] == "-":
            high = _set_member(pattern, members[1])
            del members[:2]
        parts.append(_spell_code(low) if low == high else f"{_spell_code(low)}-{_spell_code(high)}")
        writable = writable or not set(range(low, high + 1)) <= _UNWRITABLE
    if not parts or not writable:
        raise _pattern_error(pattern, f"the set [{inner}]")
    return f"[{'^' * negated}{''.join(parts)}]"


def _set_member(pattern: str, member: re.Match[str]) -> int:
    return _escaped_code(pattern, member[1]) if member[1] else ord(member[2])
