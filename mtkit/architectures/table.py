"""What an architecture is: the keys of its GGUF and where each of its tensors comes from.

A family is a module of ``families`` that declares one or several of these. The same declaration
serves conversion both ways and tells ``check`` which tensors a GGUF must have.
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME
from mtkit.architectures.metadata import Dims
from mtkit.base.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.changes import Change
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Axes, KeyRow

    Check = Callable[[Config], None]
    """Refuses a config that llama.cpp cannot run."""
    Writer = Callable[[Dims, Callable[[str], Any]], Mapping[str, Any]]
    """Gives fields of config.json by the sizes and by a function from a name to a tensor's float32
    values, None where there is no such tensor."""

WEIGHT, BIAS = ".weight", ".bias"
ANY_LAYER, ANY_EXPERT = "{i}", "{e}"
"""Placeholders in a name for the number of a layer, of an expert."""
ANY_NEXT_LAYER = "{n}"
"""That for the number among the layers behind the last one, where a folder counts them anew; the
axis ``hidden_layers`` says how many come before."""
COUNTS = {
    ANY_EXPERT: ("expert_count", 1),
    "{c}": ("expert_count", 2),
    "{h}": ("attention.head_count", 1),
    "{k}": ("attention.head_count_kv", 1),
}
"""Placeholder in a folder's name -> the key that counts the tensors merged into one, and how many
of these share a tensor."""


class Row(Record):
    """Tensors of a folder and the tensors of a GGUF that they become, in each layer.

    Attributes:
        folder: Names in the folder; one with ``{e}`` stands for those of all experts (``COUNTS``).
        layers: Whether a layer has it; None: every layer.
        exact: Whether the tensors of the GGUF are F32 in every file.
        half: Whether its matrices are F16 in every file.
        patches: Whether its matrices are F16 where others are, else F32, as those of patches.
        keeps: Whether they keep the types that the folder has, whatever type was asked for.
    """

    folder: tuple[str, ...]
    gguf: tuple[str, ...]
    axes: tuple[Axes, ...]
    change: Change = SAME
    optional: bool = False
    layers: Callable[[Dims], bool] | None = None
    exact: bool = False
    keeps: bool = False
    half: bool = False
    patches: bool = False


Rows = tuple[Row, ...]


class Generated(Record):
    """A tensor of a GGUF that no file of the folder holds: config.json says its values.

    Attributes:
        values: Float32 values; None: the model has no such tensor.
    """

    name: str
    axes: Axes
    values: Callable[[Config, Dims], Any]


class LayerNumber(Record):
    """A number of each layer: a tensor in the folder, one array of all of them in the metadata.

    Without ``{i}`` in its name it is one of the model, and a number in the metadata.

    Attributes:
        axes: Axes of a tensor: "1", or "" for a scalar.
    """

    key: str
    folder: str
    axes: Axes


class Architecture(Record):
    """A class of models of transformers, as llama.cpp runs it.

    Attributes:
        classes: Names in ``architectures`` of config.json; the first is written back.
        defaults: Fields that a config.json need not have, with transformers' defaults.
        packed: Rows of a folder with weights of 4 bits (MXFP4 by its quantization_config); empty:
            there are no such folders.
        skips: Whether a tensor of the folder stays out of the GGUF, by its name and the config.
        accepts: Whether a config.json is of this architecture; asked where several share a class.
        fits: Whether a GGUF is of this class; asked where several classes share a name.
        dims: Name of an axis -> its size, besides the usual ones.
        copies: Names that one tensor may have in a folder; the rows have the first. Of several
            copies the first counts.
        zeros: Ends of names in the folder that no GGUF has, as they hold zeros.
        rows_of: Gives the rows of a folder, where config.json says what becomes of values.
        special_tokens: Role in the key of a GGUF -> text of the token that has it where the
            tokenizer's files say nothing else.
        replaces_tokens: Whether these, and keys of a tokenizer in ``keys``, come before the files.
        adds_eos: Whether EOS ends every text where the tokenizer's files do not say so.
        config: Gives the fields of config.json that no row of ``keys`` gives back.
    """

    name: str
    classes: tuple[str, ...]
    model_type: str
    keys: tuple[KeyRow, ...]
    rows: Rows
    defaults: Callable[[Config], Mapping[str, Any]]
    checks: tuple[Check, ...] = ()
    packed: Rows = ()
    prefix: str = "model."
    skips: Callable[[str, Config], bool] | None = None
    accepts: Callable[[Config], bool] | None = None
    fits: Callable[[Dims], bool] | None = None
    dims: Mapping[str, Callable[[Dims], int]] = {}
    generated: tuple[Generated, ...] = ()
    layer_numbers: tuple[LayerNumber, ...] = ()
    renamed: Callable[[str], str] | None = None
    copies: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    rows_of: Callable[[Config], Rows] | None = None
    special_tokens: Mapping[str, str] = {}
    replaces_tokens: bool = False
    adds_eos: bool = False
    config: Writer | None = None

    def filled(self, config: Config) -> Config:
        """Return a config with transformers' defaults."""
        return config.with_defaults(self.defaults(config))

    def sizes(self, metadata: Mapping[str, Any], vocab: int) -> Dims:
        """Return the sizes that the metadata of a GGUF say; ``vocab`` is the number of tokens."""
        return Dims.of(self.name, metadata, vocab, self.dims)


def row(
    folder: str,
    gguf: str,
    axes: Axes,
    change: Change = SAME,
    *,
    bias: bool | None = None,
    optional: bool = False,
) -> Rows:
    """Return the rows of a weight and of its bias.

    Args:
        axes: Of the weight; the bias has the first. Several shapes are separated by commas.
        bias: Whether there is one; None: optional.
    """
    names, gguf_names = tuple(folder.split()), tuple(gguf.split())
    shapes = tuple(part.strip() for part in axes.split(","))
    weight = Row(_ending(names, WEIGHT), _ending(gguf_names, WEIGHT), shapes, change, optional)
    if bias is False:
        return (weight,)
    # Norms and projections alike have a bias as long as what comes out of them.
    first = tuple(shape.split()[0] for shape in shapes)
    can_lack = bias is None or optional
    return weight, Row(_ending(names, BIAS), _ending(gguf_names, BIAS), first, change, can_lack)


def plain(
    folder: str, gguf: str, axes: Axes, change: Change = SAME, *, optional: bool = False
) -> Rows:
    """Return the row of tensors by their whole names."""
    shapes = tuple(part.strip() for part in axes.split(","))
    return (Row(tuple(folder.split()), tuple(gguf.split()), shapes, change, optional),)


def _ending(names: tuple[str, ...], end: str) -> tuple[str, ...]:
    return tuple(name + end for name in names)


def block(folder: str, *rows: Rows, gguf: str = "blk.{i}.") -> Rows:
    """Return rows with a prefix in front of their names."""
    return tuple(
        replace(
            row,
            folder=tuple(folder + name for name in row.folder),
            gguf=tuple(gguf + name for name in row.gguf),
        )
        for group in rows
        for row in group
    )


def optional(*rows: Rows) -> Rows:
    """Return rows whose tensors a model may lack."""
    return tuple(replace(row, optional=True) for group in rows for row in group)


def exact(*rows: Rows) -> Rows:
    """Return rows whose tensors are F32 in every GGUF."""
    return tuple(replace(row, exact=True) for group in rows for row in group)


def half(*rows: Rows) -> Rows:
    """Return rows whose matrices are F16 in every GGUF."""
    return tuple(replace(row, half=True) for group in rows for row in group)


def as_patches(*rows: Rows) -> Rows:
    """Return rows whose matrices have the type of a projector's patches."""
    return tuple(replace(row, patches=True) for group in rows for row in group)


def keeping(*rows: Rows) -> Rows:
    """Return rows whose tensors keep their types; what was FP8 is Q8_0."""
    return tuple(replace(row, keeps=True) for group in rows for row in group)


def in_layers(layers: Callable[[Dims], bool], *rows: Rows) -> Rows:
    """Return rows that only some layers have, of those that have them already."""

    def both(inner: Callable[[Dims], bool] | None) -> Callable[[Dims], bool]:
        return (lambda dims: layers(dims) and inner(dims)) if inner else layers

    return tuple(replace(row, layers=both(row.layers)) for group in rows for row in group)


def join_rows(*rows: Rows) -> Rows:
    """Return rows one after the other."""
    return tuple(row for group in rows for row in group)


def tied_head(name: str, config: Config) -> bool:
    """Tell whether a tensor is a head tied to the embedding."""
    return name.endswith("lm_head.weight") and config.flag("tie_word_embeddings") is True


def beyond_layers(name: str, config: Config) -> bool:
    """Tell whether a tensor is of a layer behind the last one, which predicts further tokens."""
    parts = name.split(".")
    number = parts[2] if parts[:2] == ["model", "layers"] and len(parts) > 2 else ""
    is_number = number.isdecimal() and len(number) < 10
    return is_number and int(number) >= config.count("num_hidden_layers")
