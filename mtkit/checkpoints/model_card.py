"""What a model's card says of it: the front matter of README.md, as far as it is plain.

Values are texts and lists of texts; anything else, a card that is no YAML, and what stands behind
``MOST_BYTES`` is passed over: a conversion does not fail for its card.
Source: huggingface/huggingface_hub, repocard.py.
"""

from __future__ import annotations

import os

CARD = "README.md"
MOST_BYTES = 1 << 16
_MOST_ITEMS = 1000
_FENCE = "---"

Card = dict[str, "str | list[str]"]


def read(folder: str) -> Card:
    """Return name -> value; empty where there is no card that says something."""
    import yaml

    path = os.path.join(folder, CARD)
    if not os.path.isfile(path):
        return {}
    with open(path, "rb") as file:
        lines = file.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    if lines[:1] != [_FENCE] or _FENCE not in lines[1:]:
        return {}
    front = "\n".join(lines[1 : lines.index(_FENCE, 1)]).replace("\t", "  ")
    try:
        # The base loader makes nothing but texts, lists and objects, and copies no alias.
        found = yaml.load(front, yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return {
        name: value
        for name, value in (found.items() if isinstance(found, dict) else ())
        if isinstance(name, str) and _is_plain(value)
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, list) and len(value) <= _MOST_ITEMS:
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str)
