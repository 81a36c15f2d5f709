"""Decimal fractions as serde_json reads them, and how to spell a number so that it reads it back.

``tokenizers`` uses serde_json without its exact float parser: the digits without the point become
an integer (what does not fit 64 bits is dropped), that becomes a double, and is divided by a power
of ten. Two roundings, so one score in four is one unit in the last place off the number in the
file, and sums of scores decide between equal segmentations.

Source: serde-rs/json 1.0, src/de.rs (``parse_decimal``, ``f64_from_parts``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError

_LARGEST = 308
_POWERS = [float(f"1e{exponent}") for exponent in range(_LARGEST + 1)]


def read_float(text: str) -> float:
    """Return the value of a JSON number with a point or an exponent.

    Raises:
        ValueError: It is out of range.
    """
    whole, _, fraction = text.partition(".")
    if fraction.isdecimal():
        digits = int(whole + fraction)
        places = len(fraction)
        if -(1 << 64) < digits < 1 << 64 and places <= _LARGEST:
            return float(digits) / _POWERS[places]
    return _read_slowly(text)


def _read_slowly(text: str) -> float:
    """Read any number: long ones lose digits, exponents are applied in one or more steps."""
    mantissa, _, power = text.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = exponent = 0
    full = False
    for place, digit in enumerate(whole + fraction):
        if not full and digits * 10 + int(digit) < 1 << 64:
            digits = digits * 10 + int(digit)
            exponent -= place >= len(whole)
        else:
            full = True
            exponent += place < len(whole)
    exponent += max(min(int(power or 0), 1 << 20), -(1 << 20))
    value = float(digits)
    while exponent < -_LARGEST and value:
        value /= _POWERS[_LARGEST]
        exponent += _LARGEST
    if exponent < 0:
        value = value / _POWERS[-exponent] if value else 0.0
    elif value:
        if exponent > _LARGEST or value * _POWERS[exponent] == float("inf"):
            raise ValueError("number out of range")
        value *= _POWERS[exponent]
    return -value if text[0] == "-" else value


def spell_float(value: float) -> str:
    """Return a decimal that is read as this number.

    Preferred are a number that a float32 holds (most scores were one once), then the nearest.
    For one double in a thousand there is no such decimal; the nearest stands for it.
    """
    from math import isfinite, log10

    if not isfinite(value):
        raise UnsupportedError(f"a score is {value}, which JSON cannot hold")
    near = _neighbours(value, 3)
    near.sort(key=lambda number: _float32(number) != number)
    for candidate in near:
        text = repr(candidate)
        if ("." in text or "e" in text) and read_float(text) == value:
            return text
    size = abs(value)
    # Any number of places with digits enough, and no more than fit.
    first = max(0, 15 - int(log10(size))) if size else 0
    for places in range(first, min(first + 6, _LARGEST)):
        digits = int(size * _POWERS[places])
        for number in _neighbours(float(digits), 4):
            digits = int(number)
            if 0 < digits < 1 << 64 and float(digits) / _POWERS[places] == size:
                text = str(digits).rjust(places + 1, "0")
                sign = "-" if value < 0 else ""
                return f"{sign}{text[: len(text) - places]}.{text[len(text) - places :] or '0'}"
    return repr(value)


def _neighbours(value: float, count: int) -> list[float]:
    """Return a number and those next to it, nearest first."""
    from math import inf, nextafter

    found = [value]
    below = above = value
    for _ in range(count):
        below, above = nextafter(below, -inf), nextafter(above, inf)
        found += [number for number in (below, above) if number - number == 0]
    return found


def _float32(value: float) -> float:
    """Round to float32."""
    from struct import error, pack, unpack

    try:
        rounded: float = unpack("f", pack("f", value))[0]
    except (OverflowError, error):
        return value + 1.0
    return rounded


def piece_text(piece: bytes) -> str:
    """Return a piece as text.

    Raises:
        UnsupportedError: It is not UTF-8, as JSON is.
    """
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsupportedError(f"the piece {piece!r} is not UTF-8") from None
