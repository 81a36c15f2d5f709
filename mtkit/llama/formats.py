"""The formats of JSON schemas that are enforced, as patterns.

Each takes a part of what its rule takes that no reader refuses: a day that its month has, seconds
below 60, ``T`` and ``Z`` in capitals, names of hosts without what only IDNA gives a meaning.

Source: RFC 3339 (dates, times, durations), RFC 1123 (hosts), RFC 4291 (IPv6), RFC 5321 (mail),
RFC 3986 (URIs), RFC 9562 (UUIDs), RFC 6901 (JSON pointers); OpenAPI's registry of formats.
"""

from __future__ import annotations

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
PATTERNS = {
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
LARGEST_INTEGER = 9223372036854774784
"""Of 64 bits, as a floating-point number holds it: llguidance reads bounds as such."""
BOUNDS = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-LARGEST_INTEGER, LARGEST_INTEGER)}
"""Format to the least and the greatest integer."""
BY_PATTERN = frozenset({
    "base64", "base64url", "cidrv4", "cidrv6", "cuid", "cuid2", "e164", "emoji", "ends_with",
    "guid", "hex", "includes", "ksuid", "lowercase", "nanoid", "starts_with", "ulid", "uppercase",
    "xid",
})  # fmt: skip
"""Formats of zod, which says in the pattern beside them what they are."""
REMARKS = frozenset({"double", "float", "password"})
"""Formats that any value of their type has."""
