"""The metadata of a model: rows of keys, and the sizes of axes by name.

A row is a key of a GGUF, its type, and the fields of config.json that it comes from. Sizes of axes
are computed from the keys, for a GGUF and for a folder, whose keys are computed first.
"""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.errors import FormatError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from mtkit.architectures.config import Config

    Axes = str

    """Names of axes, slowest first, as in "q embd"; a number stands for itself."""


_MOST_NUMBER = 3e38
TOKENIZER = "tokenizer."
_WHOLE = (TOKENIZER, "diffusion.", "clip.", "vision.")
"""Keys that begin so have no architecture's name in front."""


class KeyRow(Record):
    """A key of a GGUF.

    Attributes:
        name: Behind the architecture's name and a dot; whole where it begins as in ``_WHOLE``.
        type: Empty: a number that the changes of tensors ask for, and no key.
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
    """Return the row of a value computed from the config."""
    return KeyRow(name, kind, value, back)


def unwritten(name: str) -> KeyRow:
    """Return the row of a field that the changes of tensors ask for: a number, or several."""

    def value(config: Config) -> Any:
        numbers = config.get(name)
        if not isinstance(numbers, list):
            return config.number(name)
        if not all(type(n) in (int, float) and abs(n) < _MOST_NUMBER for n in numbers):
            raise config.wrong("is not a list of numbers", name)
        return numbers

    return KeyRow(name, "", value)


def always(name: str, kind: str, value: object) -> KeyRow:
    """Return the row of a value that every model of the architecture has."""
    return KeyRow(name, kind, lambda _: value)


def without_keys(rows: tuple[KeyRow, ...], *names: str) -> tuple[KeyRow, ...]:
    """Return rows but for those of some keys."""
    return tuple(row for row in rows if row.name not in names)


def with_fields(rows: tuple[KeyRow, ...], **fields: str) -> tuple[KeyRow, ...]:
    """Return rows of which some are written to other fields of config.json.

    Args:
        fields: Key, with two underscores for each dot -> the field.
    """
    new = {name.replace("__", "."): field for name, field in fields.items()}
    return tuple(replace(row, back=new[row.name]) if row.name in new else row for row in rows)


def pick_keys(rows: tuple[KeyRow, ...], *names: str) -> tuple[KeyRow, ...]:
    """Return the rows of some keys alone."""
    return tuple(row for row in rows if row.name in names)


def with_keys(rows: tuple[KeyRow, ...], *new: KeyRow) -> tuple[KeyRow, ...]:
    """Return rows with others in place of those of the same keys."""
    return (*without_keys(rows, *(row.name for row in new)), *new)


def keys_of(architecture: str, rows: tuple[KeyRow, ...], config: Config) -> Iterator[Key]:
    """Yield the keys that a config gives; of two rows of one name the later counts."""
    values = {row.name: (row.type, row.value(config)) for row in rows}
    for name, (kind, value) in values.items():
        if value is not None:
            is_whole = name.startswith(_WHOLE)
            # A number of the model may be one of each layer.
            kind = "i32[]" if kind == "u32" and isinstance(value, list) else kind
            yield Key(name if is_whole else f"{architecture}.{name}", kind, value)


def head_dim(config: Config) -> int:
    """Return the width of a head of attention."""
    heads = config.count("num_attention_heads", "n_head", "n_heads")
    return config.whole("head_dim") or config.count("hidden_size", "n_embd", "dim") // heads


def rotary_dim(default: float, *, of_all_heads: bool = False) -> Callable[[Config], int]:
    """Return a function for the number of a head's elements that are rotated.

    Args:
        of_all_heads: Round for all heads together, then divide by their number; else round for one
            head. Each class of llama.cpp's converter does one of the two.
    """

    def value(config: Config) -> int:
        factor = config.rope().number("partial_rotary_factor")
        part = default if factor is None else factor
        if not 0 <= part <= 1:
            raise config.wrong(f"is {part}, not in the range 0 to 1", "partial_rotary_factor")
        width = config.count("hidden_size", "n_embd")
        heads = config.count("num_attention_heads", "n_head")
        return int(part * width) // heads if of_all_heads else int(part * (width // heads))

    return value


def rope_base_unless(usual: float) -> KeyRow:
    """Return the row of the base of rotary positions, which is not written where it is usual."""

    def value(config: Config) -> float | None:
        base = config.rope().number("rope_theta")
        return None if base == usual else base

    return computed("rope.freq_base", "f32", value, "rope_theta")


_MOST_SIZE = 1 << 40


class Dims:
    """Sizes in one layer.

    Attributes:
        keys: Metadata without the architecture's name in front, such as ``embedding_length``;
            ``vocab`` is the number of tokens.
        shapes: Of the tensors that are there, in the folder or in the GGUF, by name; empty while
            they are not known.
    """

    def __init__(
        self,
        keys: Mapping[str, Any],
        own: Mapping[str, Callable[[Dims], int]],
        layer: int = 0,
        shapes: Mapping[str, tuple[int, ...]] = {},
    ) -> None:
        self.keys = keys
        self._own = own
        self.layer = layer
        self.shapes = shapes

    @classmethod
    def of(
        cls,
        architecture: str,
        metadata: Mapping[str, Any],
        vocab: int,
        own: Mapping[str, Callable[[Dims], int]],
    ) -> Dims:
        """Return the sizes that the metadata of a GGUF say, of a file or of one in the making.

        Args:
            metadata: Whole name of a key -> its value.
            own: Name of an axis -> its size, besides the usual ones.
        """
        start = f"{architecture}."
        keys = {
            name.removeprefix(start): _plain_value(value)
            for name, value in metadata.items()
            if name.startswith(start)
            # The tokenizer's arrays are no sizes, and they are long.
            or (name.startswith(TOKENIZER) and not isinstance(value, (GgufArray, list, tuple)))
        }
        return cls({**keys, "vocab": vocab}, own)

    def at(self, layer: int) -> Dims:
        """Return the sizes in another layer."""
        return Dims(self.keys, self._own, layer, self.shapes)

    def among(self, shapes: Mapping[str, tuple[int, ...]]) -> Dims:
        """Return the sizes with the tensors that are there."""
        return Dims(self.keys, self._own, self.layer, shapes)

    def has(self, *names: str) -> bool:
        """Tell whether a tensor of one of the names is there."""
        return any(name in self.shapes for name in names)

    def key(self, name: str, default: int | None = None) -> int:
        """Return the value of a key."""
        value = self.keys.get(name)
        if value is not None and not isinstance(value, (int, str, float)):
            value = value[self.layer] if self.layer < len(value) else None
        if value is None:
            value = default
        if value is None:
            raise FormatError("is missing", field=name)
        if not isinstance(value, int) or not 0 <= value <= _MOST_SIZE:
            raise FormatError(f"is {quoted(str(value))}, not a whole number", field=name)
        return int(value)

    def __getitem__(self, name: str) -> int:
        """Return a size by the name of its axis."""
        if name.isdigit():
            return int(name)
        size = (self._own.get(name) or _DIMS[name])(self)
        if not 0 <= size <= _MOST_SIZE:
            raise FormatError(f"{name} would be {size}", field="config.json")
        return size

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Return the sizes of several axes."""
        return tuple(self[name] for name in axes.split())


def _plain_value(value: Any) -> Any:
    if isinstance(value, GgufArray):
        return list(value.numbers() if value.element.code else value)
    return value


def _heads(dims: Dims) -> int:
    return dims.key("attention.head_count")


def _heads_kv(dims: Dims) -> int:
    return dims.key("attention.head_count_kv", dims["head"])


def _width(dims: Dims) -> int:
    heads = dims["head"]
    if not heads:
        raise FormatError("is 0", field="attention.head_count")
    return dims["embd"] // heads


_DIMS: dict[str, Callable[[Dims], int]] = {
    "embd": lambda dims: dims.key("embedding_length"),
    "ff": lambda dims: dims.key("feed_forward_length"),
    "ff*2": lambda dims: 2 * dims["ff"],
    "vocab": lambda dims: dims.key("vocab"),
    "ctx": lambda dims: dims.key("context_length"),
    "head": _heads,
    "head_kv": _heads_kv,
    "key": lambda dims: dims.key("attention.key_length", _width(dims)),
    "value": lambda dims: dims.key("attention.value_length", _width(dims)),
    "q": lambda dims: dims["head"] * dims["key"],
    "k": lambda dims: dims["head_kv"] * dims["key"],
    "v": lambda dims: dims["head_kv"] * dims["value"],
    "out": lambda dims: dims["head"] * dims["value"],
    "qkv": lambda dims: dims["q"] + dims["k"] + dims["v"],
    "expert": lambda dims: dims.key("expert_count"),
    "ff_exp": lambda dims: dims.key("expert_feed_forward_length", dims.key("feed_forward_length")),
    "ff_shexp": lambda dims: dims.key("expert_shared_feed_forward_length"),
    "rope": lambda dims: dims.key("rope.dimension_count", dims["key"]),
    "rope/2": lambda dims: dims["rope"] // 2,
    "hidden_layers": lambda dims: dims.key("block_count") - dims.key("nextn_predict_layers", 0),
}
"""Name of an axis -> its size; a module of a family adds its own."""
