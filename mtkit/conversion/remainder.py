"""What lies in a model folder and is not used: each file, field and tensor by name.

A conversion reads what it needs and keeps account of it (``Config.read``). What is left is held
against ``checkpoints.without_effect``, and against what llama.cpp's model of this architecture
implies (``Architecture.config``, from which a config.json is written back). The rest is named here,
in notes of the conversion and of ``check``.
"""

from __future__ import annotations

import os
import re

from mtkit.architectures import architectures_of_name
from mtkit.architectures.projectors import class_of_projector, projectors
from mtkit.architectures.tensor_match import layer_count, layer_number_names
from mtkit.base.escape import quoted, shown
from mtkit.checkpoints import mistral_form
from mtkit.checkpoints.folder_files import GENERATION, MODEL_CONFIG, read_json
from mtkit.checkpoints.model_folder import PREFIX, TEXT_PART, UNUSED
from mtkit.checkpoints.sentence_modules import read_modules
from mtkit.checkpoints.tensor_names import PARTS
from mtkit.checkpoints.without_effect import (
    TENSORS,
    is_known_field,
    is_known_file,
    is_named,
)
from mtkit.errors import MtkitError, format_first
from mtkit.formats.tokenizer_config import ADDED_TOKENS
from mtkit.gguf.values import decode_values
from mtkit.tokenizer.folder import DOCUMENT
from mtkit.tokenizer.folder import FILES as TOKEN_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import Match
    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.gguf.writer import NewTensor

_MOST_LETTERS = 60
"""Of a name or a value in a note."""
_MOST_NAMED = 5
"""Tokens of a file that a note names."""
_GELU, _SILU = "gelu", ("silu", "swish")
_PATTERNS = {"gemma2": 2, "gpt-oss": 2, "gemma3": 6, "gemma-embedding": 6, "cohere2": 4,
             "exaone4": 4, "olmo2": 4}  # fmt: skip
"""Architecture -> every how many layers one sees the whole text, in llama.cpp's models without a
key for it. Source: src/models of llama.cpp (``set_swa_pattern``)."""


def file_notes(folder: ModelFolder) -> Iterator[str]:
    """Yield what is said of the files: those not read, and a prefix that was taken off."""
    for finding in folder.findings:
        if finding.rule is PREFIX:
            yield finding.what
        elif finding.rule is TEXT_PART:
            yield f"{finding.what}; {_projector_hint(folder.config)}"
        elif finding.rule is UNUSED:
            yield f"{finding.field} {finding.what}"
    named = {finding.field for finding in folder.findings}
    named.update(f"{module.place}/" for module in read_modules(folder.path))
    with os.scandir(folder.path) as entries:
        names = sorted(entry.name + "/" * entry.is_dir() for entry in entries)
    left = [
        name
        for name in names
        if name not in folder.files and shown(name) not in named and not is_known_file(name)
    ]
    yield from _not_read("files", left)


def _projector_hint(config: Mapping[str, Any]) -> str:
    """Return how to have what is left out of a model that sees or hears."""
    own = config.get("architectures") == ["MistralForCausalLM"]
    name = mistral_form.PROJECTOR if own else class_of_projector(config)
    if name in projectors():
        return "mtkit convert FOLDER --mmproj writes them, with the preprocessor's settings"
    return f"mtkit knows no projector of {shown(name)}; convert_hf_to_gguf.py --mmproj may"


def field_notes(
    folder: ModelFolder, config: Config, architecture: Architecture, implied: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the fields of JSON files that are not used.

    Args:
        implied: Fields of config.json that the architecture has in llama.cpp whatever it says.
    """
    left = []
    for name, value in config.fields.items():
        if value is None or name in config.read:
            left += _inner_left(config, name, value)
        elif name in implied:
            if not _is_same(value, implied[name]):
                usual = f"llama.cpp runs {architecture.name} models with {_text(implied[name])}"
                yield f"{MODEL_CONFIG}: {name} {_text(value)} is not kept: {usual}"
        elif name == "layer_types":
            yield from _layer_notes(architecture.name, value)
        elif name.endswith("sliding_window_pattern"):
            if value != _PATTERNS.get(architecture.name):
                left.append(name)
        elif name == "sliding_window":
            if config.fields.get("use_sliding_window") is not False:
                yield (
                    f"{MODEL_CONFIG}: sliding_window {_text(value)} is not kept: llama.cpp's "
                    f"{architecture.name} models see the whole text"
                )
        elif not is_known_field(MODEL_CONFIG, name, value):
            left.append(name)
    yield from _not_read(MODEL_CONFIG, left)
    for file in (GENERATION, "tokenizer_config.json", "special_tokens_map.json"):
        yield from json_notes(folder.path, file)


def json_notes(path: str, file: str) -> Iterator[str]:
    """Yield the fields of a JSON file beside the weights that are not used."""
    try:
        document = read_json(os.path.join(path, file))
    except (MtkitError, OSError):
        return  # it is missing, or what reads it says that it is damaged
    left = [name for name, value in document.items() if not is_known_field(file, name, value)]
    yield from _not_read(file, left)


def tensor_notes(
    architecture: Architecture, folder: ModelFolder, dims: Dims, matches: Iterable[Match]
) -> Iterator[str]:
    """Yield the tensors that the GGUF does not get, a line for all with the same first name."""
    used = {name for match in matches for name in match.folder}
    used |= layer_number_names(architecture, layer_count(dims, len(folder.tensors)))
    groups: dict[str, list[str]] = {}
    for name in folder.tensors:
        if name not in used and not any(is_named(name, row.names) for row in TENSORS):
            groups.setdefault(re.sub(r"\d+", "N", name).rpartition(".")[0], []).append(name)
    for names in groups.values():
        text = format_first([shown(name) for name in names], 1)
        yield f"tensor {text}: not in a GGUF of {architecture.name}"


def token_notes(folder: str, ids: Callable[[str], int | None]) -> Iterator[str]:
    """Yield the tokens that files beside a tokenizer name, but that it does not have, or elsewhere.

    Args:
        ids: Returns the id that a text has in the tokenizer.
    """
    for name in TOKEN_FILES:
        missing, moved = [], []
        for text, number in _named_tokens(folder, name):
            own = ids(text)
            if own is None:
                missing.append(quoted(text))
            elif number not in (None, own):
                moved.append(f"{quoted(text)} ({number} there, {own} in the vocabulary)")
        for what, texts in (("not in the vocabulary", missing), ("under another id", moved)):
            if texts:
                yield f"{name}: tokens {what}: {format_first(texts, _MOST_NAMED)}"


def _named_tokens(folder: str, name: str) -> Iterator[tuple[str, int | None]]:
    """Yield the tokens that a file names, each with the id that it has there."""
    try:
        document = read_json(os.path.join(folder, name))
    except (MtkitError, OSError):
        return  # missing, or what reads it says that it is damaged
    if name == ADDED_TOKENS:
        yield from ((text, number) for text, number in document.items() if type(number) is int)
        return
    if name == DOCUMENT:
        tokens = document.get("added_tokens")
        for token in tokens if isinstance(tokens, list) else ():
            yield from _token(token, token.get("id") if isinstance(token, dict) else None)
        return
    decoder = document.get("added_tokens_decoder")
    for number, token in decoder.items() if isinstance(decoder, dict) else ():
        yield from _token(token, int(number) if number.isdecimal() and len(number) < 10 else None)
    for role, value in document.items():
        if role.endswith("_token") and not role.startswith("add_"):
            yield from _token(value, None)
        elif role.endswith("_special_tokens"):
            values = [*value.values()] if isinstance(value, dict) else value
            for token in values if isinstance(values, list) else ():
                yield from _token(token, None)


def _token(value: Any, number: object) -> Iterator[tuple[str, int | None]]:
    text = value.get("content") if isinstance(value, dict) else value
    if isinstance(text, str) and text:
        yield text, number if type(number) is int else None


def implied_fields(
    architecture: Architecture, dims: Dims, matches: Iterable[Match], generated: Iterable[NewTensor]
) -> Mapping[str, Any]:
    """Return the fields of config.json that a GGUF of an architecture stands for without a key."""
    import numpy as np

    classes = (architecture, *architectures_of_name(architecture.name))
    fields = next((other.config for other in classes if other.config is not None), None)
    if fields is None:
        return {}
    shapes = {
        name: shape
        for match in matches
        for name, shape in zip(match.gguf, match.gguf_shapes, strict=True)
    }
    values = {
        tensor.name: decode_values(
            np.frombuffer(b"".join(map(bytes, tensor.pieces())), np.uint8), tensor.type.name
        )
        for tensor in generated
    }
    shapes.update((name, array.shape) for name, array in values.items())
    try:
        return fields(dims.among(shapes), values.get)
    except MtkitError:  # a GGUF of which no folder can be made: nothing is implied
        return {}


def _inner_left(config: Config, name: str, value: object) -> list[str]:
    """Return the fields of an object in config.json that nothing asked for, where some were."""
    is_read = any(read.startswith(f"{name}.") for read in config.read)
    if not isinstance(value, dict) or not is_read or name in PARTS:
        return []
    return [
        f"{name}.{field}"
        for field, inner in value.items()
        if inner is not None
        and f"{name}.{field}" not in config.read
        and not is_known_field(MODEL_CONFIG, field, inner)
        and field not in _ROPE_FIELDS
    ]


_ROPE_FIELDS = (
    "type",
    "rope_type",
    "mrope_interleaved",
    "mscale",
    "truncate",
    "finetuned",
    "rope_theta",
    "original_max_position_embeddings",
    "partial_rotary_factor",
)
"""Fields that the kind of scaling says, or that stand beside it under the same name."""


def _layer_notes(architecture: str, kinds: object) -> Iterator[str]:
    """Yield what is wrong with kinds of layers that llama.cpp has fixed in its model."""
    every = _PATTERNS.get(architecture, 1)
    if isinstance(kinds, list) and all(
        (kind == "full_attention") == ((layer + 1) % every == 0) for layer, kind in enumerate(kinds)
    ):
        return
    usual = "all layers see" if every == 1 else f"every {every}th layer sees"
    yield (
        f"{MODEL_CONFIG}: layer_types is not kept: in llama.cpp's {architecture} models "
        f"{usual} the whole text"
    )


def _is_same(value: Any, implied: Any) -> bool:
    """Tell whether two values mean the same; all kinds of GELU are one in llama.cpp."""
    if isinstance(value, str) and isinstance(implied, str):
        both = value.lower(), implied.lower()
        return both[0] == both[1] or all(_GELU in v for v in both) or all(v in _SILU for v in both)
    if isinstance(value, (int, float)) and isinstance(implied, (int, float)):
        return abs(value - implied) <= 1e-6 * max(abs(value), abs(implied))
    return bool(value == implied)


def _not_read(where: str, names: list[str]) -> Iterator[str]:
    if names:
        text = ", ".join(shown(name[:_MOST_LETTERS]) for name in names)
        yield f"{where}: not used, effect unknown: {text}"


def _text(value: object) -> str:
    import json

    return shown(json.dumps(value, ensure_ascii=False)[:_MOST_LETTERS])
