"""What projectors have in common: keys of an encoder, rows of its layers, sizes of axes.

A projector is one encoder or two, each an ``Architecture`` whose keys begin with ``clip.vision`` or
``clip.audio``. Its config is the part's object of config.json; beside the fields stand the whole
config.json (``model``), the preprocessor's file (``preprocessor``) and the width of the text model.

Source: llama.cpp, conversion/base.py (``MmprojModel``); gguf-py, tensor_mapping.py.
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME, Change, Split
from mtkit.architectures.metadata import always, computed
from mtkit.architectures.table import Architecture, Rows, block, join_rows, plain, row
from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow

    Sizes = Mapping[str, Callable[[Dims], int]]

NAME = "clip"
"""The architecture of all projectors in a GGUF."""
VISION, AUDIO = "clip.vision", "clip.audio"
MODEL, PREPROCESSOR, WIDTH, BREAK = "model", "preprocessor", "text_width", "image_break_token_id"
LINE_END = "v.token_embd.img_break"
"""The tensor with what stands behind a line of patches, without which clip.cpp loads no Pixtral."""
FOLDER_LAYERS = "folder_layers"
"""No key: how many layers there are in the folder, and in the GGUF, where the key says fewer."""
_LAYERS = (
    "n_layers", "num_hidden_layers", "n_layer", "num_layers", "depth", "layers", "encoder_layers",
    "vt_num_hidden_layers",
)  # fmt: skip


class Projector(Record):
    """What a class of transformers has beside its text model, as clip.cpp runs it.

    Attributes:
        classes: Names in ``architectures`` of config.json, or of its vision_config.
        parts: Its encoders.
        place: Object of config.json that holds those of the parts; empty: config.json itself.
        fields: Gives the fields of the part by the whole config.json, where no object has them.
    """

    classes: tuple[str, ...]
    parts: tuple[Architecture, ...]
    place: str = ""
    fields: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None


def counted(name: str, *fields: str) -> KeyRow:
    """Return the row of a whole number that a projector must have."""
    return computed(name, "u32", lambda config: config.count(*(fields or (name,))))


def epsilon(default: float, *fields: str) -> KeyRow:
    """Return the row of what norms add."""

    def value(config: Config) -> float:
        number = config.number(*(fields or ("layer_norm_eps",)))
        return default if number is None else number

    return computed("attention.layer_norm_epsilon", "f32", value)


def kind(name: str) -> KeyRow:
    """Return the row of the kind of projector."""
    return always("clip.projector_type", "string", name)


def scale(value: Callable[[Config], Any]) -> KeyRow:
    """Return the row of how many patches of a side become one token."""
    return computed("projector.scale_factor", "u32", value)


def row_scale() -> KeyRow:
    """Return the row of how many patches of a side a token takes, where that is not the usual 4."""

    def value(config: Config) -> int | None:
        tokens = config.table(PREPROCESSOR).whole("image_seq_length")
        side = int((256 if tokens is None else tokens) ** 0.5)
        factor = config.count("image_size") // config.count("patch_size") // max(side, 1)
        return factor if factor > 0 and factor != 4 else None

    return scale(value)


def limit(name: str) -> KeyRow:
    """Return the row of the least or the most pixels, which the preprocessor says."""
    return computed(f"image_{name}", "u32", lambda config: config.table(PREPROCESSOR).count(name))


def merge_size(default: int) -> KeyRow:
    """Return the row of how many patches of a side are merged into one."""
    return computed(
        "spatial_merge_size", "u32", lambda config: config.whole("spatial_merge_size") or default
    )


def first_side(config: Config, name: str) -> int:
    """Return a number that may be that of each side of a square."""
    value = config.get(name)
    if isinstance(value, list) and value and type(value[0]) is int and value[0] > 0:
        return value[0]
    return config.count(name)


MEAN, STANDARD_DEVIATION = (
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
)
"""Those of CLIP. Source: mistral_common (``DATASET_MEAN``)."""


def colors(name: str, default: Sequence[float] | None = None) -> KeyRow:
    """Return the row of three numbers, one a color, of the preprocessor."""

    def value(config: Config) -> list[float]:
        table = config.table(PREPROCESSOR)
        numbers = table.get(name)
        if numbers is None and default is not None:
            return list(default)
        is_list = isinstance(numbers, list) and len(numbers) == 3
        if not is_list or not all(type(n) in (int, float) and abs(n) < 3e38 for n in numbers):
            raise table.wrong("is not three numbers; preprocessor_config.json has them", name)
        return [float(number) for number in numbers]

    return computed(name, "f32[]", value)


GELU = always("clip.use_gelu", "bool", True)
SILU = always("clip.use_silu", "bool", True)


def activation(*, required: bool) -> tuple[KeyRow, ...]:
    """Return the rows of the kind of activation that the encoder's config names."""

    def flag(name: str) -> Callable[[Config], bool | None]:
        def value(config: Config) -> bool | None:
            own = config.text("hidden_act") or ""
            if required and own not in ("gelu", "silu"):
                raise config.wrong("is neither gelu nor silu, as llama.cpp has them", "hidden_act")
            return True if own.lower() == name else None

        return value

    return tuple(computed(f"clip.use_{name}", "bool", flag(name)) for name in ("gelu", "silu"))


VISION_KEYS = (
    always("clip.has_vision_encoder", "bool", True),
    counted("projection_dim", WIDTH),
    computed("image_size", "u32", lambda config: first_side(config, "image_size")),
    computed("patch_size", "u32", lambda config: first_side(config, "patch_size")),
    counted("embedding_length", "hidden_size", "width", "vt_hidden_size"),
    counted("feed_forward_length", "intermediate_size", "vt_intermediate_size"),
    counted("block_count", *_LAYERS),
    counted(
        "attention.head_count", "num_attention_heads", "num_heads", "heads",
        "vt_num_attention_heads",
    ),
    colors("image_mean"),
    colors("image_std"),
)  # fmt: skip
AUDIO_KEYS = (
    always("clip.has_audio_encoder", "bool", True),
    counted("projection_dim", WIDTH),
    counted("embedding_length", "hidden_size", "d_model"),
    counted("feed_forward_length", "intermediate_size", "encoder_ffn_dim"),
    counted("block_count", *_LAYERS),
    counted("attention.head_count", "num_attention_heads", "encoder_attention_heads"),
)


def size_of(*names: str, axis: int = 0) -> Callable[[Dims], int]:
    """Return the size of an axis that no key gives: by default the first one of a tensor.

    Args:
        names: Of the tensor in the GGUF, and in the folder.
    """

    def size(dims: Dims) -> int:
        shapes = (dims.shapes.get(name) for name in names)
        return next((shape[axis] for shape in shapes if shape and axis < len(shape)), 0)

    return size


SIZES: Sizes = {
    "patch": lambda dims: dims.key("patch_size"),
    "pixels": lambda dims: 3 * dims["patch"] ** 2,
    "embd*3": lambda dims: 3 * dims["embd"],
    "embd*4": lambda dims: 4 * dims["embd"],
    "out": lambda dims: dims.key("projection_dim"),
    "tile": lambda dims: dims["embd"] * dims.key("projector.scale_factor") ** 2,
}
"""Name of an axis -> its size; ``tile`` is that of the patches that become one token."""
_AXES = {
    "ln1": "embd", "ln2": "embd", "ls1": "embd", "ls2": "embd", "attn_post_norm": "embd",
    "ffn_post_norm": "embd", "attn_q": "embd embd", "attn_k": "embd embd", "attn_v": "embd embd",
    "attn_out": "embd embd", "attn_qkv": "embd*3 embd", "ffn_up": "ff embd", "ffn_gate": "ff embd",
    "ffn_down": "embd ff", "attn_q_norm": "key", "attn_k_norm": "key",
}  # fmt: skip


def layers(folder: str, start: str = "v.", **names: str) -> Rows:
    """Return the rows of layers; any may have a bias.

    Args:
        folder: What stands before the names in the folder.
        names: Of a tensor in the GGUF -> in the folder.
    """
    rows = (row(name, key, _AXES[key]) for key, name in names.items())
    return block(folder, *rows, gguf=f"{start}blk.{{i}}.")


def split_qkv(folder: str, name: str) -> Rows:
    """Return the rows of queries, keys and values that are one tensor in the folder."""
    three = row(name, "attn_q attn_k attn_v", "embd embd, embd embd, embd embd", Split(0))
    return block(folder, three, gguf="v.blk.{i}.")


class _Frames(Change):
    """A convolution over two pictures that is one for each of them in the GGUF."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape with the axis of time."""
        out, colors, *rest = shapes[0]
        return [(out, colors, 2, *rest)]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take the pictures apart."""
        return [arrays[0][:, :, number] for number in range(2)]


class TilesLast(Change):
    """Patches as lines of pixels with the colors last, which a convolution has first."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of lines."""
        return [(shapes[0][0], dims["pixels"])]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Move the colors."""
        side = dims["patch"]
        return [arrays[0].reshape(-1, side, side, 3).transpose(0, 3, 1, 2)]


def frames(folder: str) -> Rows:
    """Return the rows of the patches of two pictures."""
    gguf, square = "v.patch_embd.weight", "embd 3 patch patch"
    weight = plain(f"{folder}.weight", f"{gguf} {gguf}.1", f"{square}, {square}", _Frames())
    return (*weight, *plain(f"{folder}.bias", "v.patch_embd.bias", "embd", optional=True))


def patches(folder: str, change: Change = SAME) -> Rows:
    """Return the rows of the patches of one picture."""
    weight = plain(f"{folder}.weight", "v.patch_embd.weight", "embd 3 patch patch", change)
    return (*weight, *plain(f"{folder}.bias", "v.patch_embd.bias", "embd", optional=True))


POSITION = "v.position_embd.weight"


def positions(folder: str) -> Rows:
    """Return the row of the learned positions."""
    return plain(f"{folder}.weight", POSITION, "position embd")


def siglip(
    tower: str, change: Change = SAME, out: str = "out_proj", *, norm: bool = True,
    places: bool = True, patch: str = "embd 3 patch patch",
) -> Rows:  # fmt: skip
    """Return the rows of SigLIP.

    Args:
        norm: Whether there is one behind the layers.
        places: Whether positions are learned.
        patch: Axes of the patches.
    """
    name = f"{tower}embeddings.patch_embedding"
    return join_rows(
        plain(f"{name}.weight", "v.patch_embd.weight", patch, change),
        plain(f"{name}.bias", "v.patch_embd.bias", "embd", optional=True),
        positions(f"{tower}embeddings.position_embedding") if places else (),
        row(f"{tower}post_layernorm", "v.post_ln", "embd") if norm else (),
        layers(
            f"{tower}encoder.layers.{{i}}.", ln1="layer_norm1", ln2="layer_norm2",
            attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj",
            attn_out=f"self_attn.{out}", ffn_up="mlp.fc1", ffn_down="mlp.fc2",
        ),
    )  # fmt: skip


def siglip_sizes(tower: str, **more: Callable[[Dims], int]) -> Sizes:
    """Return the sizes of SigLIP and others."""
    folder = f"{tower}embeddings.position_embedding.weight"
    return {"position": size_of(POSITION, folder), **more}


def encoder(
    name: str,
    classes: str,
    keys: tuple[KeyRow, ...],
    rows: Rows,
    of: tuple[str, ...],
    *,
    sizes: Sizes | None = None,
    defaults: Mapping[str, Any] | None = None,
    renamed: Callable[[str], str] | None = None,
    without: tuple[str, ...] = (),
    rows_of: Callable[[Config], Rows] | None = None,
) -> Architecture:
    """Return an encoder.

    Args:
        of: Beginnings of the names of its tensors in a folder, once they are renamed.
        without: Parts of names of those that no GGUF has.
    """
    new = renamed or str

    def is_other(tensor: str, _: Config) -> bool:
        return not new(tensor).startswith(of) or any(part in tensor for part in without)

    return Architecture(
        name=name,
        classes=tuple(classes.split()),
        model_type=NAME,
        keys=keys,
        rows=rows,
        defaults=lambda _: defaults or {},
        prefix="",
        skips=is_other,
        dims={**SIZES, **(sizes or {})},
        renamed=renamed,
        rows_of=rows_of,
    )
