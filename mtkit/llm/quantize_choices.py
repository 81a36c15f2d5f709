"""Choices of a quantization beside its type, as llama-quantize takes them.

Source: tools/quantize/quantize.cpp and llama-quant.cpp of llama.cpp (``remap_layer``: the layers
that stay are counted anew).
"""

from __future__ import annotations

import re

from mtkit.base.record import Record
from mtkit.errors import UsageError
from mtkit.gguf.shards import parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.gguf import GgufFile


_LAYER = re.compile(r"blk\.([0-9]{1,9})\.")
_MOST_BYTES = 127
"""Of the name of a key and of a text in llama.cpp's structure."""
_MOST_LAYER = 1 << 16
_KINDS = {"int": 0, "float": 1, "bool": 2, "str": 3}
"""TYPE of ``--override-kv`` -> number of llama_model_kv_override_type."""


class Choices(Record):
    """What is chosen beside the type.

    Attributes:
        leave_output: Do not quantize output.weight.
        include: Parts of names of tensors that the importance matrix is used for; empty: all.
        exclude: Parts of names of tensors that it is not used for.
        prune: Layers that are left out.
        overrides: Each KEY=TYPE:VALUE of the new metadata.
        keep_split: Write as many files as the model has.
    """

    leave_output: bool = False
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    prune: Sequence[int] = ()
    overrides: Sequence[str] = ()
    keep_split: bool = False

    def job(self) -> dict[str, object]:
        """Return what the child process is told."""
        return {
            "leave_output": self.leave_output,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "prune": list(self.prune),
            "overrides": [_parse_override(text) for text in self.overrides],
        }

    def new_name(self, name: str) -> str | None:
        """Return the name of a tensor once layers are left out; None: it is in one of them."""
        match = _LAYER.match(name)
        if match is None or not self.prune:
            return name
        layer = int(match[1])
        if layer in self.prune:
            return None
        number = layer - sum(other < layer for other in set(self.prune))
        return f"blk.{number}.{name[match.end() :]}"

    def without_effect(self, file: GgufFile) -> Iterator[str]:
        """Yield what to say of choices that change nothing of a model."""
        for option, parts in (("include", self.include), ("exclude", self.exclude)):
            for part in parts:
                if not any(part in name for name in file.names):
                    yield f"no tensor's name has {part!r}: --{option}-weights"
        if self.leave_output and "output.weight" not in file.names:
            yield "has no output.weight to leave: the embedding serves as the output"
        if self.keep_split and len(parts_of(file)) == 1:
            yield "is one file, so --keep-split has no effect"

    def check(self, file: GgufFile, *, has_matrix: bool) -> None:
        """Refuse what means nothing for a model."""
        if (self.include or self.exclude) and not has_matrix:
            option = "--include-weights" if self.include else "--exclude-weights"
            raise UsageError(f"{option} goes with --imatrix FILE")
        if self.include and self.exclude:
            raise UsageError("--include-weights and --exclude-weights exclude each other")
        layers = {int(match[1]) for match in map(_LAYER.match, file.names) if match}
        for layer in self.prune:
            if layer not in layers:
                what = f"{layer} is not a layer: the model has {len(layers)}, from 0"
                raise UsageError(what, field="--prune-layers", source=file.name)
        if self.prune and layers <= set(self.prune):
            raise UsageError("leaves no layer", field="--prune-layers", source=file.name)


def parse_layers(text: str) -> tuple[int, ...]:
    """Return the layers of ``--prune-layers``: 3,4,17."""
    words = text.split(",")
    are_numbers = all(re.fullmatch("[0-9]{1,9}", word) for word in words)
    if not are_numbers or max(map(int, words)) >= _MOST_LAYER:
        hint = "write them like 20,21"
        raise UsageError(f"{text[:40]!r} is no list of layers", field="--prune-layers", hint=hint)
    return tuple(sorted({int(word) for word in words}))


def read_tensor_types(path: str) -> list[str]:
    """Return each PATTERN=TYPE of a file, between blanks and line breaks."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split()
    except UnicodeDecodeError:
        raise UsageError("is not text", source=path, field="--tensor-type-file") from None


def _parse_override(text: str) -> tuple[str, int, object]:
    """Return key, number of the type, and value of KEY=TYPE:VALUE."""
    name, sign, rest = text.partition("=")
    kind, colon, value = rest.partition(":")
    if not name or not sign or not colon or kind not in _KINDS:
        hint = f"TYPE is one of {', '.join(_KINDS)}"
        raise UsageError(f"{text!r} is not KEY=TYPE:VALUE", field="--override-kv", hint=hint)
    if len(name.encode()) > _MOST_BYTES or (kind == "str" and len(value.encode()) > _MOST_BYTES):
        hint = "mtkit edit --set sets it afterwards"
        what = f"{text[:40]!r}: llama.cpp takes at most {_MOST_BYTES} bytes"
        raise UsageError(what, field="--override-kv", hint=hint)
    try:
        parsed = _parse_value(kind, value)
    except (ValueError, OverflowError):
        what = f"{text!r}: {value!r} is no {kind}"
        hint = "llama.cpp writes a u32; mtkit edit --set sets others" if kind == "int" else ""
        raise UsageError(what, field="--override-kv", hint=hint) from None
    return name, _KINDS[kind], parsed


def _parse_value(kind: str, value: str) -> object:
    if kind == "int":
        number = int(value)
        if not 0 <= number < 1 << 32:  # llama.cpp would write its absolute value
            raise ValueError
        return number
    if kind == "float":
        return float(value)
    if kind == "bool":
        if value not in ("true", "false"):
            raise ValueError
        return value == "true"
    return value
