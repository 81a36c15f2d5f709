"""A LoRA adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors.

A linear layer W gets W + s B A, of rank r; s is alpha / r. What PEFT trains besides, or in another
way, is refused by name: an adapter without it would be another one.
Source: PEFT, tuners/lora/config.py, utils/save_and_load.py.
"""

from __future__ import annotations

import os

from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import read_json, tensors_of
from mtkit.checkpoints.without_effect import is_known_field
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.sources import locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor

CONFIG = locate.ADAPTER
WEIGHTS = "adapter_model.safetensors"
_PICKLE = "adapter_model.bin"
PREFIX = "base_model.model."
_ENDS = {
    ".lora_A.weight": 0,
    ".lora_B.weight": 1,
    ".lora_embedding_A": 0,
    ".lora_embedding_B": 1,
}
_EMBEDDING_END = ".lora_embedding_A"
_MLX_ENDS = {".lora_a": 0, ".lora_b": 1}
_MLX_KIND = "fine_tune_type"
"""Field by which mlx-lm says what it trained."""
_GREATEST = 3e38
"""Near that of a float32."""
_OTHER = {
    "modules_to_save": "whole layers that were trained, too",
    "use_dora": "DoRA, which trains the length of each row as well",
    "bias": "biases that were trained, too",
    "lora_bias": "biases of the adapter",
    "alpha_pattern": "another alpha for some layers",
    "layer_replication": "layers that stand several times",
    "target_parameters": "parameters that are not linear layers",
    "trainable_token_indices": "single embeddings that were trained, too",
    "alora_invocation_tokens": "an adapter that begins behind certain tokens",
    "invocation_string": "an adapter that begins behind a certain text",
    "use_qalora": "QALoRA",
    "use_bdlora": "BD-LoRA",
    "arrow_config": "a mixture of adapters",
}
"""Field -> what it asks for; plain LoRA has it false, empty or "none"."""
_PLAIN_STARTS = (None, True, False, "gaussian", "orthogonal", "eva")
"""Values of ``init_lora_weights`` that leave the base model as it is."""
_HINT = "in Python: peft.PeftModel.from_pretrained(…).merge_and_unload() gives a whole model"


class Pair(Record):
    """The two matrices that are added to a layer.

    Attributes:
        a: Of shape (rank, columns).
        b: Of shape (rows, rank).
        embeds: B A is transposed: its columns are tokens, its rows what an embedding holds.
    """

    a: StoredTensor
    b: StoredTensor
    embeds: bool = False


class AdapterFolder(Record):
    """An adapter.

    Attributes:
        pairs: Name of a weight of the base model -> what is added, in the order of the file.
    """

    path: str
    config: Mapping[str, Any]
    pairs: Mapping[str, Pair]
    alpha: float

    @property
    def base(self) -> str | None:
        """Name or path of the model that it was trained for, as far as it says."""
        name = self.config.get("base_model_name_or_path")
        return name if isinstance(name, str) and name else None


def sniff(path: str) -> bool:
    """Tell by an adapter_config.json in a folder."""
    return os.path.isfile(os.path.join(path, CONFIG))


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights of an adapter."""
    return name in (WEIGHTS, _PICKLE) or name.endswith("adapters.safetensors")


def kind_of(config: Mapping[str, Any]) -> str:
    """Return what kind of adapter a config describes."""
    if config.get(_MLX_KIND) is not None:
        return f"MLX {shown(str(config[_MLX_KIND]))}"
    kind = config.get("peft_type")
    if kind == "LORA":
        return "DoRA" if config.get("use_dora") is True else "LoRA"
    return shown(str(kind)) if kind else "unknown"


def rank_of(config: Mapping[str, Any]) -> object:
    """Return the rank that a config says."""
    return config.get("r") or _mlx_parameters(config).get("rank")


def alpha_of(config: Mapping[str, Any]) -> object:
    """Return the alpha that a config says; of mlx-lm the scale, which stands in its place."""
    return config.get("lora_alpha") or _mlx_parameters(config).get("scale")


def _mlx_parameters(config: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = config.get("lora_parameters")
    return parameters if isinstance(parameters, dict) else {}


def layer_of(name: str) -> tuple[str, bool]:
    """Return the layer of a tensor, and whether it is the first of a pair."""
    for end, half in (*_ENDS.items(), *_MLX_ENDS.items()):
        if name.endswith(end):
            return name.removesuffix(end), half == 0
    return name, False


def field_notes(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of which no effect is known."""
    left = [name for name, value in config.items() if not is_known_field(CONFIG, name, value)]
    if left and config.get(_MLX_KIND) is None:
        yield f"{CONFIG}: not used, effect unknown: {', '.join(map(shown, left))}"


def read(path: str) -> AdapterFolder:
    """Read a folder; no weight is read.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or half of a pair is missing or does not fit the other.
        UnsupportedError: It is not plain LoRA.
    """
    source = os.path.join(path, CONFIG)
    config = read_json(source)
    _refuse_others(config, source)
    weights = os.path.join(path, WEIGHTS)
    if not os.path.isfile(weights):
        if os.path.isfile(os.path.join(path, _PICKLE)):
            hint = "in Python: peft.PeftModel.from_pretrained(…).save_pretrained(NEW)"
            what = f"{_PICKLE} is a pickle, which runs code when it is loaded"
            raise UnsupportedError(what, source=path, hint=hint)
        raise UsageError(f"has no {WEIGHTS}", source=path)
    pairs = _pairs(weights)
    return AdapterFolder(path, config, pairs, _alpha(config, pairs, source))


def _refuse_others(config: Mapping[str, Any], source: str) -> None:
    if config.get(_MLX_KIND) is not None:
        what = "is an adapter of MLX (mlx-lm); mtkit converts those of PEFT"
        hint = "mlx_lm.fuse gives a whole model"
        raise UnsupportedError(what, source=source, field=_MLX_KIND, hint=hint)
    kind = config.get("peft_type")
    if kind != "LORA":
        what = f"is {quoted(str(kind))}, mtkit converts LORA"
        raise UnsupportedError(what, source=source, field="peft_type")
    for field, asks in _OTHER.items():
        if config.get(field) not in (None, False, "", "none", [], {}):
            raise UnsupportedError(f"asks for {asks}", source=source, field=field, hint=_HINT)
    start = config.get("init_lora_weights")
    if isinstance(start, (int, float, list, dict)) and type(start) is not bool:
        start = str(start)
    if start not in _PLAIN_STARTS:
        what = f"is {shown(repr(start)[:40])}, which changes the base model as well"
        hint = "save it as plain LoRA: PEFT's path_initial_model_for_weight_conversion"
        raise UnsupportedError(what, source=source, field="init_lora_weights", hint=hint)


def _pairs(path: str) -> dict[str, Pair]:
    halves: dict[str, list[StoredTensor | None]] = {}
    for stored in tensors_of(path):
        name = stored.weight.name
        end = next((end for end in _ENDS if name.endswith(end)), None)
        if end is None:
            what = f"has {quoted(name)}, which is no part of plain LoRA"
            if "norm" in name:
                what += "; llama.cpp passes over norms in an adapter"
            raise UnsupportedError(what, source=path, hint=_HINT)
        layer = name.removeprefix(PREFIX).removesuffix(end) + ".weight"
        pair = halves.setdefault(layer, [None, None])
        if pair[_ENDS[end]] is not None:
            raise FormatError(f"has {quoted(layer)} twice", source=path)
        pair[_ENDS[end]] = stored
    if not halves:
        raise FormatError("holds no adapter", source=path)
    pairs = {}
    for layer, (a, b) in halves.items():
        if a is None or b is None:
            half = "lora_A" if a is None else "lora_B"
            raise FormatError(f"has no {half} of {quoted(layer)}", source=path)
        shapes = a.weight.shape, b.weight.shape
        if len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[0][0] != shapes[1][1]:
            what = f"the shapes {list(shapes[0])} and {list(shapes[1])} are no pair"
            raise FormatError(what, source=path, field=quoted(layer))
        if not shapes[0][0]:
            raise FormatError("has the rank 0", source=path, field=quoted(layer))
        pairs[layer] = Pair(a, b, a.weight.name.endswith(_EMBEDDING_END))
    return pairs


def _alpha(config: Mapping[str, Any], pairs: Mapping[str, Pair], source: str) -> float:
    """Return alpha as llama.cpp divides it: by the rank, where rsLoRA has the rank's root."""
    value = config.get("lora_alpha")
    try:
        alpha = float(value) if type(value) is int or type(value) is float else 0.0
    except OverflowError:
        alpha = 0.0
    if not 0 < abs(alpha) < _GREATEST:  # 0 is a scale of 1 in llama.cpp
        raise FormatError("is not a number other than 0", source=source, field="lora_alpha")
    if not config.get("use_rslora"):
        return alpha
    ranks = sorted({pair.a.weight.shape[0] for pair in pairs.values()})
    if len(ranks) > 1:
        what = f"with layers of ranks {', '.join(map(str, ranks[:4]))} a GGUF cannot hold"
        raise UnsupportedError(what, source=source, field="use_rslora", hint=_HINT)
    return float(alpha * ranks[0] ** 0.5)
