"""Rows of a table of metadata: a key of a GGUF, its type, the fields of config.json it is from."""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.architectures.config import Config


TOKENIZER = "tokenizer."
"""Keys that begin with it have no architecture's name in front."""


class KeyRow(Record):
    """A key of a GGUF.

    Attributes:
        name: Behind the architecture's name and a dot; whole where it begins with ``tokenizer.``.
        type: As ``Key`` has it.
        value: From a config to the key's value; None: the key is not written.
        back: The field of config.json that is written from the key as it is, or what gives several
            fields by the key's value; empty: none is written.
    """

    name: str
    type: str
    value: Callable[[Config], Any]
    back: str | Callable[[Any], dict[str, Any]] = ""

    def fields(self, value: Any) -> dict[str, Any]:
        """Return the fields of config.json that a value of the key gives."""
        if not isinstance(self.back, str):
            return self.back(value)
        return {self.back: value} if self.back else {}


def u32(name: str, *fields: str, written: str = "") -> KeyRow:
    """Return the row of a whole number: the first of the fields that is there."""
    return KeyRow(name, "u32", lambda config: config.whole(*fields), written or fields[0])


def f32(name: str, *fields: str) -> KeyRow:
    """Return the row of a number: the first of the fields that is there."""
    return KeyRow(name, "f32", lambda config: config.number(*fields), fields[0])


def flag(name: str, field: str) -> KeyRow:
    """Return the row of a truth value."""
    return KeyRow(name, "bool", lambda config: config.flag(field), field)


def computed(
    name: str,
    kind: str,
    value: Callable[[Config], Any],
    back: str | Callable[[Any], dict[str, Any]] = "",
) -> KeyRow:
    """Return the row of what is not a field by itself."""
    return KeyRow(name, kind, value, back)


def always(name: str, kind: str, value: object) -> KeyRow:
    """Return the row of what is the same in every model of the architecture."""
    return KeyRow(name, kind, lambda _: value)


def without(rows: tuple[KeyRow, ...], *names: str) -> tuple[KeyRow, ...]:
    """Return rows but for those of the given keys."""
    return tuple(row for row in rows if row.name not in names)


def named(rows: tuple[KeyRow, ...], **fields: str) -> tuple[KeyRow, ...]:
    """Return rows of which some are written to other fields of config.json.

    Args:
        rows: The rows.
        fields: Key, with two underscores for each dot -> the field.
    """
    new = {name.replace("__", "."): field for name, field in fields.items()}
    return tuple(replace(row, back=new[row.name]) if row.name in new else row for row in rows)


def picked(rows: tuple[KeyRow, ...], *names: str) -> tuple[KeyRow, ...]:
    """Return the rows of the given keys alone."""
    return tuple(row for row in rows if row.name in names)


def replaced(rows: tuple[KeyRow, ...], *new: KeyRow) -> tuple[KeyRow, ...]:
    """Return rows with others in place of those of the same keys."""
    return (*without(rows, *(one.name for one in new)), *new)


def keys_of(architecture: str, rows: tuple[KeyRow, ...], config: Config) -> Iterator[Key]:
    """Yield the keys that a config gives; a later row of a name counts.

    Raises:
        FormatError: A field is missing or not what it should be.
        UnsupportedError: It says what llama.cpp has no value for.
    """
    found = {row.name: (row.type, row.value(config)) for row in rows}
    for name, (kind, value) in found.items():
        if value is not None:
            is_whole = name.startswith(TOKENIZER)
            yield Key(name if is_whole else f"{architecture}.{name}", kind, value)


def head_dim(config: Config) -> int:
    """Return the width of a head of attention."""
    heads = config.count("num_attention_heads", "n_head", "n_heads")
    return config.whole("head_dim") or config.count("hidden_size", "n_embd", "dim") // heads


def rotary_dim(default: float, *, of_all_heads: bool = False) -> Callable[[Config], int]:
    """Return what gives the part of a head that is rotated.

    Args:
        default: Part of a head where a config.json does not say it.
        of_all_heads: What is rotated of all heads together is rounded, then divided; else what is
            rotated of one is rounded. Each class of llama.cpp's converter has one of the two.

    Raises:
        FormatError: By what is returned: the part is not from 0 to 1.
    """

    def value(config: Config) -> int:
        said = config.rope().number("partial_rotary_factor")
        part = default if said is None else said
        if not 0 <= part <= 1:
            raise config.wrong(f"is {part}, not in the range 0 to 1", "partial_rotary_factor")
        width = config.count("hidden_size", "n_embd")
        heads = config.count("num_attention_heads", "n_head")
        return int(part * width) // heads if of_all_heads else int(part * (width // heads))

    return value


def rope_base_unless(usual: float) -> KeyRow:
    """Return the row of rotary positions' base for a family whose converter does not write it.

    llama.cpp takes 10000 where there is none.
    """

    def value(config: Config) -> float | None:
        base = config.rope().number("rope_theta")
        return None if base == usual else base

    return computed("rope.freq_base", "f32", value, "rope_theta")
