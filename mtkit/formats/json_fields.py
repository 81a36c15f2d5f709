"""JSON as ``tokenizers`` accepts it: strict UTF-8, bounded depth, typed fields, errors with a path.

Of two equal keys the last counts, as in serde_json's maps. ``NaN``, lone surrogates and numbers
beyond a double are damage, as they are there.

Source: huggingface/tokenizers with serde and serde_json 1.0 (recursion limit 128).
"""

from __future__ import annotations

from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from mtkit.base.binary import Buffer

DEPTH_LIMIT = 128
U32 = (1 << 32) - 1
U64 = (1 << 64) - 1
_MOST_DIGITS = 4300
"""Of an integer that Python reads; a double overflows long before."""
REQUIRED: Any = object()


def parse_json(
    data: Buffer, name: str = "", *, parse_float: Callable[[str], float] | None = None
) -> Any:
    """Parse a whole JSON file."""
    import json

    view = memoryview(data)
    try:
        text = str(view, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("is not UTF-8", field=name, offset=error.start) from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=parse_float)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8"))
        ends = error.pos >= len(text.rstrip())
        what = error.msg.removesuffix(" at").removesuffix(" starting")  # the place follows
        raise FormatError(
            f"is not valid JSON: {what} (line {error.lineno}, column {error.colno})",
            field=name,
            offset=at,
            hint="the file is probably truncated" if ends else "",
        ) from None
    except RecursionError:
        raise FormatError(f"nests deeper than {DEPTH_LIMIT} levels", field=name) from None
    except ValueError:
        what, place = _wrong_number(text)
        at = len(text[:place].encode("utf-8"))
        raise FormatError(f"is not valid JSON: {what}", field=name, offset=at) from None
    return value


def _wrong_number(text: str) -> tuple[str, int]:
    """Return what is wrong with the first number that JSON or a double cannot hold, and where."""
    import re

    for match in re.finditer(
        r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?', text
    ):
        token = match[0]
        if token[-1] in "Ny":
            return f"{token} is not a JSON number", match.start()
        if token[0] != '"' and (
            len(token) > _MOST_DIGITS or float(token) in (float("inf"), -float("inf"))
        ):
            digits = token if len(token) <= 40 else f"{token[:20]}… ({len(token)} digits)"
            return f"the number {digits} is out of range", match.start()
    return "a number is out of range", 0


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def check_plain(value: Any, where: str) -> None:
    """Check depth, strings and numbers of a parsed value."""
    level: list[Any] = [value]
    for _ in range(DEPTH_LIMIT):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                deeper.extend(item)
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            elif kind is str:
                if not item.isascii():
                    encode_text(item, where)
            elif kind is float and item - item != 0:
                raise FormatError("holds a number that is out of range", field=where)
        if not deeper:
            return
        level = deeper
    raise FormatError(f"nests deeper than {DEPTH_LIMIT} levels", field=where)


def encode_text(text: str, where: str) -> bytes:
    """Return the UTF-8 form of a JSON string."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError("holds a lone surrogate", field=where) from None


def format_value(value: Any) -> str:
    """Describe a JSON value in a few characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return ascii(value if len(value) <= 40 else value[:40] + "…")
    if isinstance(value, (int, float)):
        return str(value) if isinstance(value, float) or abs(value) <= U64 else "a huge number"
    return "a list" if isinstance(value, list) else "an object"


class Fields:
    """A JSON object whose fields are read by type; ``where`` is its path in the file."""

    __slots__ = ("values", "where")

    def __init__(self, value: Any, where: str) -> None:
        if type(value) is not dict:
            raise FormatError(f"is {format_value(value)}, not an object", field=where)
        self.values: dict[str, Any] = value
        self.where = where

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def path(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.where}.{key}" if self.where else key

    def get(self, key: str, default: Any = REQUIRED) -> Any:
        """Return a field as it is."""
        value = self.values.get(key, default)
        if value is REQUIRED:
            raise FormatError("is missing", field=self.path(key))
        return value

    def wrong(self, key: str, expectation: str) -> FormatError:
        """Return the error of a field with the wrong type or value."""
        what = f"is {format_value(self.values[key])}, not {expectation}"
        return FormatError(what, field=self.path(key))

    def string(self, key: str, default: Any = REQUIRED) -> str:
        """Return a string."""
        value = self.get(key, default)
        if type(value) is not str:
            raise self.wrong(key, "a string")
        return value

    def optional_string(self, key: str) -> str | None:
        """Return a string, or None for null or where it is missing."""
        return None if self.values.get(key) is None else self.string(key)

    def character(self, key: str) -> str:
        """Return a string of one character."""
        value = self.string(key)
        if len(value) != 1:
            raise self.wrong(key, "one character")
        return value

    def boolean(self, key: str, default: Any = REQUIRED) -> bool:
        """Return a truth value."""
        value = self.get(key, default)
        if type(value) is not bool:
            raise self.wrong(key, "true or false")
        return value

    def optional_boolean(self, key: str) -> bool | None:
        """Return a truth value, or None for null or where it is missing."""
        return None if self.values.get(key) is None else self.boolean(key)

    def integer(self, key: str, default: Any = REQUIRED, *, most: int = U32) -> int:
        """Return an integer from 0 to ``most``."""
        value = self.get(key, default)
        if type(value) is not int or not 0 <= value <= most:
            raise self.wrong(key, f"an integer from 0 to {most}")
        return value

    def optional_integer(self, key: str, *, most: int = U64) -> int | None:
        """Return an integer, or None for null or where it is missing."""
        return None if self.values.get(key) is None else self.integer(key, most=most)

    def choice(self, key: str, choices: dict[str, Any], default: Any = REQUIRED) -> Any:
        """Return the value for one of a few names."""
        if default is not REQUIRED and key not in self.values:
            return default
        value = self.string(key)
        if value not in choices:
            raise self.wrong(key, f"one of {', '.join(choices)}")
        return choices[value]

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        value = self.get(key)
        if type(value) is not list:
            raise self.wrong(key, "a list")
        return value

    def object(self, key: str) -> Fields:
        """Return an object."""
        return Fields(self.get(key), self.path(key))
