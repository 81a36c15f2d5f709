"""A LoRA adapter as PEFT or mlx-lm saves it: adapter_config.json and a file of weights.

A linear layer W gets W + s B A, of rank r; s is alpha / r. What PEFT trains besides, or in another
way, is refused by name: an adapter without it would be another one. A merge takes more than a GGUF
holds: DoRA, biases, single embeddings, and layers that were trained whole. mlx-lm has both matrices
transposed, and the scale itself in place of alpha.
Source: PEFT, tuners/lora/config.py, utils/save_and_load.py, utils/other.py (``get_pattern_key``),
tuners/trainable_tokens/layer.py; mlx-lm, tuner/lora.py (``fuse``).
"""

from __future__ import annotations

import os
import re

from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import read_json, tensors_of, transposed
from mtkit.checkpoints.without_effect import is_known_field, is_known_file
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
_MAGNITUDES = (".lora_magnitude_vector", ".lora_magnitude_vector.weight")
_PAIR_BIAS = ".lora_B.bias"
_WHOLE_ENDS = (".weight", ".bias")
_WRAPPERS = (".base_layer.", ".modules_to_save.")
"""Parts of names that PEFT puts around a layer."""
_MLX_ENDS = {".lora_a": 0, ".lora_b": 1}
_MLX_KIND = "fine_tune_type"
"""Field by which mlx-lm says what it trained."""
_MLX_WEIGHTS = "adapters.safetensors"
# fmt: off
_MLX_FIELDS = frozenset((
    _MLX_KIND, "lora_parameters", "model", "num_layers", "lora_layers", "adapter_path",
    "adapter_file", "batch_size", "config", "data", "grad_checkpoint", "grad_accumulation_steps",
    "iters", "learning_rate", "lr_schedule", "mask_prompt", "max_seq_length", "optimizer",
    "optimizer_config", "project_name", "report_to", "resume_adapter_file", "save_every", "seed",
    "steps_per_eval", "steps_per_report", "test", "test_batches", "train", "val_batches", "wandb",
    "hf_dataset", "prompt", "clear_cache_threshold",
))
# fmt: on
"""What mlx-lm writes: all arguments of the training, of which the first three are read."""
_MLX_PARAMETERS = frozenset(("rank", "scale", "dropout", "keys", "alpha"))
_ROWS_END = ".token_adapter.trainable_tokens_delta"
_ROWS_FIELD = "trainable_token_indices"
_GREATEST = 3e38
"""Near that of a float32."""
_MERGED = {
    "modules_to_save": "whole layers that were trained, too",
    "use_dora": "DoRA, which trains the length of each row as well",
    "bias": "biases that were trained, too",
    "lora_bias": "biases of the adapter",
    _ROWS_FIELD: "single embeddings that were trained, too",
}
"""Field -> what it asks for, which only a merge into a folder takes; plain LoRA has it false, empty
or "none"."""
_OTHER = {
    "layer_replication": "layers that stand several times",
    "target_parameters": "parameters that are not linear layers",
    "alora_invocation_tokens": "an adapter that begins behind certain tokens",
    "invocation_string": "an adapter that begins behind a certain text",
    "use_qalora": "QALoRA",
    "use_bdlora": "BD-LoRA",
    "arrow_config": "a mixture of adapters",
}
"""Likewise, of what nothing takes."""
_PLAIN_STARTS = (None, True, False, "gaussian", "orthogonal", "eva")
"""Values of ``init_lora_weights`` that leave the base model as it is."""
_HINT = "in Python: peft.PeftModel.from_pretrained(…).merge_and_unload() gives a whole model"
_MERGE_HINT = "mtkit merge BASE_FOLDER --lora ADAPTER -o MERGED_FOLDER/ gives a whole model"
_MOST_LOOPS = 2
"""How many quantifiers a pattern of ``alpha_pattern`` may have, so that matching ends."""


class Pair(Record):
    """The two matrices that are added to a layer.

    Attributes:
        a: Of shape (rank, columns).
        b: Of shape (rows, rank).
        alpha: The scale of the product is this by the rank.
        embeds: B A is transposed: its columns are tokens, its rows what an embedding holds.
        magnitude: Of DoRA: the lengths that the rows of the sum get.
        bias: What is added to the bias of the layer, times the same scale.
    """

    a: StoredTensor
    b: StoredTensor
    alpha: float
    embeds: bool = False
    magnitude: StoredTensor | None = None
    bias: StoredTensor | None = None

    @property
    def scale(self) -> float:
        """The factor of the product."""
        return self.alpha / int(self.a.weight.shape[0])


class AdapterFolder(Record):
    """An adapter.

    Attributes:
        pairs: Name of a weight of the base model -> what is added, in the order of the file.
        whole: Name of a tensor of the base model -> the one in its place.
        rows: Name of a matrix of the base model -> new rows, and their numbers.
        alpha: That of most layers.
    """

    path: str
    config: Mapping[str, Any]
    pairs: Mapping[str, Pair]
    whole: Mapping[str, StoredTensor]
    alpha: float
    rows: Mapping[str, tuple[StoredTensor, tuple[int, ...]]] = {}

    @property
    def base(self) -> str | None:
        """Name or path of the model that it was trained for, as far as it says."""
        name = self.config.get("model" if is_mlx(self.config) else "base_model_name_or_path")
        return name if isinstance(name, str) and name else None


def sniff(path: str) -> bool:
    """Tell by an adapter_config.json in a folder."""
    return os.path.isfile(os.path.join(path, CONFIG))


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights of an adapter."""
    return name in (WEIGHTS, _PICKLE) or name.endswith("adapters.safetensors")


def is_mlx(config: Mapping[str, Any]) -> bool:
    """Tell whether mlx-lm wrote an adapter."""
    return config.get(_MLX_KIND) is not None


def kind_of(config: Mapping[str, Any]) -> str:
    """Return what kind of adapter a config describes."""
    if is_mlx(config):
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


def notes(path: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields and files of which no effect is known."""
    if is_mlx(config):
        fields = [
            *(config.keys() - _MLX_FIELDS),
            *(_mlx_parameters(config).keys() - _MLX_PARAMETERS),
        ]
        fields.sort()
    else:
        fields = [name for name, value in config.items() if not is_known_field(CONFIG, name, value)]
    with os.scandir(path) as entries:
        files = sorted(entry.name + "/" * entry.is_dir() for entry in entries)
    files = [name for name in files if not is_known_file(name) and not is_weights(name)]
    for where, names in ((CONFIG, fields), ("files", files)):
        if names:
            yield f"{where}: not used, effect unknown: {', '.join(map(shown, names))}"


def read(path: str, *, is_merged: bool = False) -> AdapterFolder:
    """Read a folder; no weight is read.

    Args:
        is_merged: The adapter is merged into a model folder, not written as a GGUF.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or half of a pair is missing or does not fit the other.
        UnsupportedError: It is not plain LoRA.
    """
    source = os.path.join(path, CONFIG)
    config = read_json(source)
    _refuse_others(config, source, is_merged=is_merged)
    names = (_MLX_WEIGHTS,) if is_mlx(config) else (WEIGHTS, _PICKLE)
    paths = [os.path.join(path, name) for name in names]
    weights = next(filter(os.path.isfile, paths), None)
    if weights is None:
        raise UsageError(f"has no {names[0]}", source=path)
    parts = _Parts(weights, is_merged=is_merged)
    pairs = parts.pairs(_Alphas(config, source))
    if config.get("use_dora") is True and not all(pair.magnitude for pair in pairs.values()):
        layer = next(layer for layer, pair in pairs.items() if not pair.magnitude)
        raise FormatError(f"has no lora_magnitude_vector of {quoted(layer)}", source=weights)
    modules = config.get("modules_to_save") or ()
    if not isinstance(modules, (list, tuple)):
        raise FormatError("is not a list of names", source=source, field="modules_to_save")
    for module in modules:
        if not any(_is_in(name, str(module)) for name in parts.whole):
            what = f"has no tensor of {quoted(str(module))}, which {CONFIG} says was trained"
            raise FormatError(what, source=weights)
    by_rank = config.get("use_rslora") or is_mlx(config)
    alphas = [pair.alpha for pair in pairs.values()] if by_rank else []
    usual = alphas[0] if alphas else _number(config, source)
    return AdapterFolder(path, config, pairs, parts.whole, usual, parts.numbered(config, source))


def is_norm(name: str) -> bool:
    """Tell whether a tensor is a norm, by its name; llama.cpp's converter takes those."""
    return "_layernorm" in name or ".norm" in name


def _is_in(name: str, module: str) -> bool:
    return f".{module}." in f".{name}"


def _refuse_others(config: Mapping[str, Any], source: str, *, is_merged: bool) -> None:
    if is_mlx(config):
        if config[_MLX_KIND] != "lora":
            what = f"is {quoted(str(config[_MLX_KIND]))} of MLX (mlx-lm); mtkit converts its lora"
            hint = "mlx_lm.fuse gives a whole model"
            raise UnsupportedError(what, source=source, field=_MLX_KIND, hint=hint)
        return
    kind = config.get("peft_type")
    if kind != "LORA":
        what = f"is {quoted(str(kind))}, mtkit converts LORA"
        raise UnsupportedError(what, source=source, field="peft_type")
    saved = config.get("modules_to_save")
    only_norms = isinstance(saved, list) and all("norm" in str(name) for name in saved)
    for fields, hint in ((_OTHER, _HINT), ({} if is_merged else _MERGED, _MERGE_HINT)):
        for field, asks in fields.items():
            if field == "modules_to_save" and only_norms:
                continue
            if config.get(field) not in (None, False, "", "none", [], {}):
                raise UnsupportedError(f"asks for {asks}", source=source, field=field, hint=hint)
    start = config.get("init_lora_weights")
    if isinstance(start, (int, float, list, dict)) and type(start) is not bool:
        start = str(start)
    if start not in _PLAIN_STARTS:
        what = f"is {shown(repr(start)[:40])}, which changes the base model as well"
        hint = "save it as plain LoRA: PEFT's path_initial_model_for_weight_conversion"
        raise UnsupportedError(what, source=source, field="init_lora_weights", hint=hint)


class _Parts:
    """The tensors of an adapter, by what they are."""

    def __init__(self, path: str, *, is_merged: bool) -> None:
        self._path = path
        self._rows: dict[str, StoredTensor] = {}
        is_mlx = os.path.basename(path) == _MLX_WEIGHTS
        ends = _MLX_ENDS if is_mlx else _ENDS
        self._halves: dict[str, list[StoredTensor | None]] = {}
        self._magnitudes: dict[str, StoredTensor] = {}
        self._biases: dict[str, StoredTensor] = {}
        self.whole: dict[str, StoredTensor] = {}
        for stored in tensors_of(path):
            name = stored.weight.name.removeprefix(PREFIX)
            for end, half in ends.items():
                if name.endswith(end):
                    stored = transposed(stored) if is_mlx else stored
                    pair = self._halves.setdefault(_layer(name, end), [None, None])
                    self._put(pair, half, stored)
                    break
            else:
                if not self._take_other(name, stored, is_merged=is_merged):
                    what = f"has {quoted(stored.weight.name)}, which is no part of plain LoRA"
                    raise UnsupportedError(what, source=path, hint=_MERGE_HINT)

    def _put(self, pair: list[StoredTensor | None], half: int, stored: StoredTensor) -> None:
        if pair[half] is not None:
            raise FormatError(f"has {quoted(stored.weight.name)} twice", source=self._path)
        pair[half] = stored

    def _take_other(self, name: str, stored: StoredTensor, *, is_merged: bool) -> bool:
        """Take a tensor that is no half of a pair; tell whether it has a meaning."""
        magnitude = next((end for end in _MAGNITUDES if name.endswith(end)), "")
        for end, tensors in ((magnitude, self._magnitudes), (_PAIR_BIAS, self._biases)):
            if end and name.endswith(end):
                tensors[_layer(name, end)] = stored
                return is_merged
        if name.endswith(_ROWS_END):
            self._rows[_layer(name, _ROWS_END)] = stored
            return is_merged
        plain = name
        for wrapper in _WRAPPERS:
            plain = plain.replace(wrapper, ".")
        if "lora_" in plain or not plain.endswith(_WHOLE_ENDS):
            return False
        if plain in self.whole:
            raise FormatError(f"has {quoted(plain)} twice", source=self._path)
        self.whole[plain] = stored
        # PEFT saves the base's own embedding beside a pair, and the converter passes over it.
        return is_merged or is_norm(plain) or ".base_layer.weight" in name

    def pairs(self, alphas: _Alphas) -> dict[str, Pair]:
        """Return the pairs; raise ``FormatError`` where a half is missing or does not fit."""
        path = self._path
        if not self._halves and not self.whole and not self._rows:
            raise FormatError("holds no adapter", source=path)
        pairs = {}
        for layer, (a, b) in self._halves.items():
            if a is None or b is None:
                half = "lora_A" if a is None else "lora_B"
                raise FormatError(f"has no {half} of {quoted(layer)}", source=path)
            shapes = a.weight.shape, b.weight.shape
            if len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[0][0] != shapes[1][1]:
                what = f"the shapes {list(shapes[0])} and {list(shapes[1])} are no pair"
                raise FormatError(what, source=path, field=quoted(layer))
            if not shapes[0][0]:
                raise FormatError("has the rank 0", source=path, field=quoted(layer))
            pairs[layer] = Pair(
                a,
                b,
                alphas.of(layer.removesuffix(".weight"), shapes[0][0]),
                a.weight.name.endswith(_EMBEDDING_END),
                self._magnitudes.pop(layer, None),
                self._biases.pop(layer, None),
            )
        left = next(iter((*self._magnitudes.values(), *self._biases.values())), None)
        if left is not None:
            raise FormatError(f"has {quoted(left.weight.name)} without a pair", source=path)
        return pairs

    def numbered(
        self, config: Mapping[str, Any], source: str
    ) -> dict[str, tuple[StoredTensor, tuple[int, ...]]]:
        """Return the rows that were trained, with their numbers.

        A list of numbers is that of the only embedding; else each module has one.
        """
        value = config.get(_ROWS_FIELD) or {}
        rows = {}
        for name, stored in self._rows.items():
            lists = value.items() if isinstance(value, dict) else [("", value)]
            numbers = next((n for module, n in lists if _is_in(name, module) or not module), None)
            sound = isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)
            if not sound or [*stored.weight.shape[:1]] != [len(set(numbers or ()))]:
                what = f"does not say which rows of {quoted(name)} were trained"
                raise FormatError(what, source=source, field=_ROWS_FIELD)
            if name in self._halves or name in self.whole:
                what = f"trains {quoted(name)} in two ways"
                raise UnsupportedError(what, source=source, field=_ROWS_FIELD, hint=_HINT)
            rows[name] = (stored, tuple(numbers or ()))
        modules = list(value) if isinstance(value, dict) else [""] * bool(value)
        if len(modules) > len(rows):
            what = f"has no {_ROWS_END.rpartition('.')[2]} of {', '.join(map(quoted, modules))}"
            raise FormatError(what, source=self._path)
        return rows


def _layer(name: str, end: str) -> str:
    return name.removesuffix(end) + ".weight"


class _Alphas:
    """The alpha of each layer, as llama.cpp divides it: by the rank."""

    def __init__(self, config: Mapping[str, Any], source: str) -> None:
        self._is_scale = is_mlx(config)
        if self._is_scale:
            config = {"lora_alpha": _mlx_parameters(config).get("scale")}
            self._alpha = _number(config, source, "lora_parameters.scale")
        else:
            self._alpha = _number(config, source)
        self._uses_root = bool(config.get("use_rslora"))
        self._own: list[tuple[re.Pattern[str], float]] = []
        field, own = "alpha_pattern", config.get("alpha_pattern") or {}
        if not isinstance(own, dict):
            raise FormatError("is not a JSON object", source=source, field=field)
        for name in own:
            pattern = _pattern(name)
            if pattern is None:
                what = f"{quoted(name)} is a pattern that mtkit does not support"
                raise UnsupportedError(what, source=source, field=field, hint=_HINT)
            self._own.append((pattern, _number({"lora_alpha": own[name]}, source, field)))

    def of(self, layer: str, rank: int) -> float:
        """Return that of a layer; the first name that fits counts, as in PEFT."""
        if self._is_scale:
            return self._alpha * rank
        fits = (alpha for pattern, alpha in self._own if pattern.match(layer))
        alpha = next(fits, self._alpha)
        return float(alpha * rank**0.5) if self._uses_root else alpha


def _pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern as PEFT reads it; None: it is none, or one that may take for ever."""
    loops = re.findall(r"(?<!\\)[*+{]", text)
    if len(loops) > _MOST_LOOPS or re.search(r"\)[*+{]|\(\?|\\[1-9]", text):
        return None
    try:
        return re.compile(rf"(?:.*\.)?(?:{text})$")
    except (re.error, RecursionError, OverflowError, ValueError):  # 5,000 digits
        return None


def _number(config: Mapping[str, Any], source: str, field: str = "lora_alpha") -> float:
    value = config.get("lora_alpha")
    try:
        alpha = float(value) if type(value) is int or type(value) is float else 0.0
    except OverflowError:
        alpha = 0.0
    if not 0 < abs(alpha) < _GREATEST:  # 0 is a scale of 1 in llama.cpp
        raise FormatError("is not a number other than 0", source=source, field=field)
    return alpha
