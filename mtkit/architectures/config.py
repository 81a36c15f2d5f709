"""The fields of a model's config.json, checked as they are read."""

from __future__ import annotations

from mtkit.base.escape import quoted, shown
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ROPE_BASE = (
    "global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base",
)  # fmt: skip
_ROPE_BASE_LOCAL = (
    "local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta",
    "rope_local_base_freq",
)  # fmt: skip
_PARTIAL = ("partial_rotary_factor", "rope_pct", "rope_percent", "rotary_pct")
_MOST = (1 << 31) - 1
"""No count of a model reaches it; products of two stay below 2^64."""

MXFP4 = "mxfp4"
"""``quant_method`` of a quantization_config."""
MLX = "by MLX"


class Config:
    """The fields of a config.json.

    Those of a ``text_config``, or what has its place, stand beside the others, as they do in the
    models that have none, and hide those of the same names unless they are null. A field that is
    null counts as missing.

    Attributes:
        fields: Name -> value.
        read: Names of the fields that were asked for, of this object and of those in it; in front
            of the latter stands the name of the object and a dot.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        source: str = "config.json",
        read: set[str] | None = None,
        within: str = "",
    ) -> None:
        self.fields = dict(document)
        self.read: set[str] = set() if read is None else read
        self._within = within
        inner = _text_fields(self.fields)
        self.fields.pop("text_config", None)
        for name, value in inner.items():
            if value is not None or name not in self.fields:
                self.fields[name] = value
        self.source = source

    def with_defaults(self, defaults: Mapping[str, Any]) -> Config:
        """Return the fields with values for those that are missing."""
        fields = self.fields
        missing = {name: value for name, value in defaults.items() if fields.get(name) is None}
        if any(fields.get(name) is not None for name in ROPE_BASE):
            missing.pop("rope_theta", None)  # it stands under another name
        return Config({**fields, **missing}, self.source, self.read, self._within)

    def get(self, *names: str) -> Any:
        """Return the first of the fields that is not missing, unchecked; else None."""
        for name in names:
            value = self.fields.get(name)
            if value is not None:
                self.read.add(self._within + name)
                return value
        return None

    def count(self, *names: str) -> int:
        """Return a whole number above 0."""
        value = self.whole(*names)
        if value is None:
            raise FormatError("is missing", source=self.source, field=names[0])
        if not value:
            raise self.wrong("is 0", *names)
        return value

    def whole(self, *names: str) -> int | None:
        """Return a whole number from 0 on, or None."""
        value = self.get(*names)
        if value is not None and (type(value) is not int or not 0 <= value <= _MOST):
            raise self.wrong(f"is {_text(value)}, not a whole number from 0 on", *names)
        return value

    def number(self, *names: str) -> float | None:
        """Return a finite number, or None."""
        value = self.get(*names)
        if value is None:
            return None
        is_number = type(value) is int or type(value) is float
        if not is_number or not abs(value) < 3e38:
            raise self.wrong(f"is {_text(value)}, not a number", *names)
        return float(value)

    def flag(self, name: str) -> bool | None:
        """Return true or false, or None."""
        value = self.get(name)
        if value is not None and type(value) is not bool:
            raise self.wrong(f"is {_text(value)}, not true or false", name)
        return value

    def text(self, *names: str) -> str | None:
        """Return a text, or None."""
        value = self.get(*names)
        if value is not None and type(value) is not str:
            raise self.wrong(f"is {_text(value)}, not a text", *names)
        return value

    def table(self, name: str) -> Config:
        """Return an object in the config, empty where there is none."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(f"is {_text(value)}, not an object", name)
        return Config(value or {}, self.source, self.read, f"{self._within}{name}.")

    def rope(self, layers: str = "full_attention") -> Config:
        """Return the fields of rotary positions, wherever they stand.

        Fields: rope_type, rope_theta, factor, original_max_position_embeddings …; transformers 5
        has them in ``rope_parameters`` (by kind of layer where kinds differ), transformers 4 in
        ``rope_scaling`` and in fields of the config.

        Source: llama.cpp, conversion/base.py (``TextModel.__init__``).
        """
        table = self.table("rope_parameters" if self.get("rope_parameters") else "rope_scaling")
        if table.get("full_attention", "sliding_attention") is not None:
            return table.table(layers)
        if layers != "full_attention":
            return Config({"rope_theta": self.get(*_ROPE_BASE_LOCAL)}, self.source)
        return table.with_defaults(
            {
                "rope_theta": self.get(*ROPE_BASE),
                "rope_type": table.get("type"),
                "partial_rotary_factor": self.get(*_PARTIAL),
                "original_max_position_embeddings": self.get("original_max_position_embeddings"),
            }
        )

    def kinds_of_layers(self) -> list[str]:
        """Return ``layer_types``, one a layer."""
        kinds, layers = self.get("layer_types"), self.count("num_hidden_layers")
        is_list = isinstance(kinds, list) and len(kinds) == layers
        if is_list and all(isinstance(kind, str) for kind in kinds):
            return list(kinds)
        raise self.wrong(f"is not a list of names for {layers} layers", "layer_types")

    def wrong(self, what: str, *names: str) -> FormatError:
        """Return an error about the first of the fields that is not missing."""
        field = next((name for name in names if self.fields.get(name) is not None), names[0])
        return FormatError(what, source=self.source, field=shown(field))


def _text_fields(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the part that reads and writes text, where it has an object of its own.

    Source: llama.cpp, conversion/base.py (``ModelBase.load_hparams``).
    """
    thinker = document.get("thinker_config")
    places = (
        document.get("language_config"),
        thinker.get("text_config") if isinstance(thinker, dict) else None,
        document.get("text_config"),
    )
    return next((fields for fields in places if isinstance(fields, dict)), {})


def class_of(config: Mapping[str, Any]) -> str:
    """Return the class of transformers that a config.json names, or nothing."""
    inner = config.get("text_config")
    names = config.get("architectures") or (
        inner.get("architectures") if isinstance(inner, dict) else None
    )
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def class_named(config: Mapping[str, Any]) -> str:
    """Return the class of transformers that a config.json names."""
    name = class_of(config)
    if not name:
        raise FormatError("names no architecture", field="architectures")
    return name


def quantization(config: Mapping[str, Any]) -> str:
    """Return the method by which another program quantized the weights, or nothing."""
    settings = config.get("quantization_config")
    if not isinstance(settings, dict):
        return MLX if _is_mlx(config.get("quantization")) else ""
    method = settings.get("quant_method") or settings.get("quant_algo")
    return str(method or (MLX if _is_mlx(settings) else "unnamed"))


def _is_mlx(settings: object) -> bool:
    """Tell the settings of mlx-lm, which names no method."""
    return isinstance(settings, dict) and settings.keys() >= {"group_size", "bits"}


def _text(value: object) -> str:
    return quoted(value) if isinstance(value, str) else shown(repr(value)[:40])
