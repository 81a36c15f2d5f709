"""The built-in texts on which a conversion is verified: 200 of them, in data/probes.json.

They are made to part tokenizers that nearly agree: spaces and their kinds, digits, contractions,
case, scripts without spaces, combining marks in both orders, controls, emoji with joiners, code,
mixtures of words, and ("spelled") texts that spell out what a special token or U+2581 looks like.
"""

from __future__ import annotations

from mtkit.base.binary import package_file


def texts() -> list[str]:
    """Return all texts, the spelled ones last."""
    import json

    with open(package_file("probes.json"), encoding="utf-8") as file:
        groups = json.load(file)
    return [*groups["plain"], *groups["spelled"]]
