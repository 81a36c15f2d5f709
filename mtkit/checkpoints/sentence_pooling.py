"""How a model of sentence-transformers makes one vector of a text: files beside config.json.

Source: sentence-transformers, models/Pooling.py; llama.cpp, conversion/base.py
(``_try_set_pooling_type``).
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import is_utf8
from mtkit.checkpoints.folder_files import read_json
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULES = "modules.json"
MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
}
_MOST_BYTES = 1 << 20


def of_folder(path: str) -> str | None:
    """Return how the model of a folder pools, as sentence-transformers calls it; None: not said.

    Raises:
        FormatError: One of its files is damaged.
        UsageError: One is missing.
    """
    file = os.path.join(path, MODULES)
    if not os.path.isfile(file):
        return None
    for module in _modules(file):
        kind, place = module.get("type"), module.get("path")
        if isinstance(kind, str) and kind.endswith("Pooling"):
            if not isinstance(place, str) or not _is_beside(place):
                raise FormatError("is not a folder beside it", source=file, field="path")
            said = read_json(os.path.join(path, place, "config.json"))
            return next((MODES[one] for one in MODES if said.get(one)), _named(said))
    return None


def _is_beside(place: str) -> bool:
    leaves = os.path.isabs(place) or ".." in place.split("/")
    return not leaves and is_utf8(place) and "\0" not in place


def _named(said: dict[str, Any]) -> str:
    return str(said.get("pooling_mode", "unknown"))


def _modules(file: str) -> list[dict[str, Any]]:
    import json

    data = Source.open(file).data
    try:
        found = json.loads(bytes(data)) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise FormatError("is not a JSON list of objects", source=file)
    return found
