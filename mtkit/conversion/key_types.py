"""Types of the keys of a GGUF, by their names; and keys of a file of metadata, for ``convert``.

Source: gguf-py, gguf_writer.py (the type that each ``add_…`` writes), constants.py (``Keys``),
metadata.py (``load_metadata_override``); llama.cpp, for ``quantize.*`` and ``imatrix.*``.
"""

from __future__ import annotations

import re

from mtkit.architectures import architectures, architectures_of_name
from mtkit.base.escape import quoted, shown
from mtkit.errors import UsageError, wording
from mtkit.gguf.writer import Key, key_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


_TEXTS = (
    r"general\.(architecture|author|basename|description|doi|finetune|license|name|organization"
    r"|quantized_by|repo_url|size_label|type|url|uuid|version|license\.(link|name)"
    r"|source\.(doi|repo_url|url|uuid|huggingface\.repository)"
    r"|(base_model|dataset)\.\d+\.(author|description|doi|name|organization|repo_url|url|uuid"
    r"|version))"
)
_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"general\.(alignment|file_type|quantization_version)", "u32"),
    (r"general\.(base_model|dataset)\.count", "u32"),
    (r"general\.(tags|languages)", "string[]"),
    (r"general\.sampling\.(top_k|penalty_last_n|mirostat)", "i32"),
    (r"general\.sampling\.sequence", "string"),
    (r"general\.sampling\.\w+", "f32"),
    (_TEXTS, "string"),
    (r"tokenizer\.ggml\.\w+_token_id", "u32"),
    (r"tokenizer\.ggml\.eog_token_ids", "u32[]"),
    (r"tokenizer\.ggml\.suppress_tokens", "i32[]"),
    (r"tokenizer\.ggml\.token_type_count", "u32"),
    (r"tokenizer\.ggml\.(tokens|merges)", "string[]"),
    (r"tokenizer\.ggml\.scores", "f32[]"),
    (r"tokenizer\.ggml\.token_type", "i32[]"),
    (r"tokenizer\.ggml\.(add_\w+|remove_extra_whitespaces|escape_whitespaces)", "bool"),
    (r"tokenizer\.ggml\.(model|pre)", "string"),
    (r"tokenizer\.chat_templates", "string[]"),
    (r"tokenizer\.(chat_template(\.\w+)?|huggingface\.json|rwkv\.world)", "string"),
    (r"split\.(no|count)", "u16"),
    (r"split\.tensors\.count", "i32"),
    (r"quantize\.imatrix\.(file|dataset)", "string"),
    (r"quantize\.imatrix\.\w+_count", "i32"),
    (r"imatrix\.datasets", "string[]"),
    (r"imatrix\.chunk_(count|size)", "u32"),
    (r"adapter\.type", "string"),
    (r"adapter\.lora\.alpha", "f32"),
)
"""Whole name -> type; the first match counts."""
_ROLE_NAMES = {"sep": "seperator", "separator": "seperator", "unk": "unknown", "pad": "padding"}
_ROLES = (
    "bos", "eos", "eot", "eom", "unk", "sep", "pad", "cls", "mask", "fim_pre", "fim_suf", "fim_mid",
    "fim_pad", "fim_rep", "fim_sep",
)  # fmt: skip


def known_type(name: str, architecture: object = None) -> str | None:
    """Return the type that a key has in every file; None where the name is not known.

    Args:
        architecture: Of the model, whose own keys begin with it.
    """
    for pattern, kind in _PATTERNS:
        if re.fullmatch(pattern, name):
            return kind
    if not isinstance(architecture, str) or not name.startswith(f"{architecture}."):
        return None
    tables = [*architectures_of_name(architecture), *architectures().values()]
    rest = name.removeprefix(f"{architecture}.")
    return next((row.type for table in tables for row in table.keys if row.name == rest), None)


def role_key(role: str) -> str:
    """Return the key with the id of a special token: of eos, of eot, of fim_pre."""
    own = role.lower().replace("-", "_").removesuffix("_token").removesuffix("_token_id")
    own = _ROLE_NAMES.get(own, own)
    if own not in {_ROLE_NAMES.get(known, known) for known in _ROLES}:
        hint = f"one of {', '.join(_ROLES)}"
        raise UsageError(f"{role!r} is no special token", field="--special-token", hint=hint)
    return f"tokenizer.ggml.{own}_token_id"


_FIXED = frozenset(
    f"general.{name}" for name in ("architecture", "type", "file_type", "quantization_version")
)
"""Keys that the conversion sets, not a file of metadata."""
_LISTS = {"general.base_models": "general.base_model", "general.datasets": "general.dataset"}
"""Lists of objects -> the keys that they become."""


def read_metadata(path: str) -> list[Key]:
    """Read a JSON object of ``general.…`` keys, as convert_hf_to_gguf's ``--metadata`` takes it."""
    from mtkit.checkpoints.folder_files import read_json

    return metadata_keys(read_json(path), path)


def metadata_keys(document: Mapping[str, Any], path: str = "") -> list[Key]:
    """Return the keys ``general.…`` of an object.

    Raises:
        UsageError: A key is not known, or its value has another type.
    """
    return [_checked(path, name, kind, value) for name, kind, value in _entries(path, document)]


def _entries(path: str, document: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for name, value in document.items():
        if name in _LISTS and isinstance(value, list):
            objects = [item for item in value if isinstance(item, dict)]
            yield f"{_LISTS[name]}.count", "u32", len(value)
            for number, item in enumerate(objects):
                for field, text in item.items():
                    key = f"{_LISTS[name]}.{number}.{field}"
                    yield key, known_type(key) or "", text
            continue
        is_general = name.startswith("general.") and name not in _FIXED
        kind = known_type(name) if is_general else None
        if kind is None:
            hint = "mtkit edit --set sets other keys, of the GGUF"
            raise UsageError(
                wording("is not a key of --metadata", "is not a key of metadata"),
                source=path,
                field=shown(name),
                hint=hint,
            )
        yield name, kind, value


def _checked(path: str, name: str, kind: str, value: Any) -> Key:
    types: dict[str, tuple[type, ...]] = {"string": (str,), "bool": (bool,), "f32": (int, float)}
    expected = types.get(kind.removesuffix("[]"), (int,))
    values = value if kind.endswith("[]") else [value]
    is_right = isinstance(values, list) and all(
        isinstance(item, expected) and isinstance(item, bool) == (kind == "bool") for item in values
    )
    if not kind or not is_right:
        what = f"{quoted(str(value))} is not of the type {kind}" if kind else "is not known"
        raise UsageError(what, source=path, field=shown(name))
    key = Key(name, kind, value)
    key_bytes(key)
    return key
