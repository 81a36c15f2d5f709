"""Decimal fractions as serde_json reads them, and decimals that it reads as a given number.

``tokenizers`` uses serde_json without its exact float parser: the digits without the point become
an integer (what does not fit 64 bits is dropped), that becomes a double, and is divided by a power
of ten. Two roundings, so one score in four is one unit in the last place off the number in the
file, and sums of scores decide between equal segmentations.

Source: serde-rs/json 1.0, src/de.rs (``parse_decimal``, ``f64_from_parts``).
"""

from __future__ import annotations

from math import inf, log10, nextafter, ulp
from struct import Struct

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FLOAT32 = Struct("f")
_LARGEST = 308
_POWERS = [float(f"1e{exponent}") for exponent in range(_LARGEST + 1)]


def read_float(text: str) -> float:
    """Return the value of a JSON number with a point or an exponent."""
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


def spell_floats(values: Iterable[float]) -> tuple[list[str], int]:
    """Return decimals that are read as these numbers, and how many are read as another number.

    Preferred is a number that a float32 holds (most scores were one once), then the nearest. For
    one double in a thousand there is no such decimal, and the nearest takes its place.
    """
    spellings = [(_shortest_spelling(value), value) for value in values]
    texts = [text or repr(value) for text, value in spellings]
    return texts, sum(text is None for text, _ in spellings)


def _shortest_spelling(value: float) -> str | None:
    """Return a decimal that is read as this number, if there is one."""
    if value - value != 0:
        raise UnsupportedError(f"a score is {value}, which JSON cannot hold")
    rounded = _float32(value)
    if rounded == value or abs(rounded - value) > 8 * ulp(value):  # not among the neighbors
        text = repr(value)
        if read_float(text) == value:
            return text
    elif rounded in _neighbors(value, 3) and read_float(repr(rounded)) == value:
        return repr(rounded)
    # Without an exponent, three roundings of a unit in the last place or half of one each move the
    # number that is read to a neighbor at most.
    for candidate in _neighbors(value, 1 if 1e-4 <= abs(value) < 1e16 else 3):
        text = repr(candidate)
        if read_float(text) == value:
            return text
    return _spelling_by_digits(value)


def _spelling_by_digits(value: float) -> str | None:
    """Return a decimal with enough digits, and no more than fit 64 bits."""
    size = abs(value)
    first = max(0, 15 - int(log10(size))) if size else 0
    for places in range(first, min(first + 6, _LARGEST)):
        power = _POWERS[places]
        nearest = float(int(size * power))
        # With few digits a step of one is more than the rounding of the quotient makes up for.
        for number in _neighbors(nearest, 4) if nearest > 1 << 50 else (nearest,):
            digits = int(number)
            if 0 < digits < 1 << 64 and float(digits) / power == size:
                text = str(digits).rjust(places + 1, "0")
                sign = "-" if value < 0 else ""
                return f"{sign}{text[: len(text) - places]}.{text[len(text) - places :] or '0'}"
    return None


def _neighbors(value: float, count: int) -> Iterator[float]:
    """Yield a finite number and those next to it, nearest first."""
    yield value
    below = above = value
    for _ in range(count):
        below, above = nextafter(below, -inf), nextafter(above, inf)
        if below != -inf:
            yield below
        if above != inf:
            yield above


def _float32(value: float) -> float:
    """Round to float32; infinite where it is beyond."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return inf
    return rounded


def piece_text(piece: bytes) -> str:
    """Return a piece as text."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsupportedError(f"the piece {piece!r} is not UTF-8") from None
