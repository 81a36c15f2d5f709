"""Grapheme clusters: what a reader takes for one character.

Source: Unicode Standard Annex 29, extended grapheme clusters.
"""

from __future__ import annotations

import unicodedata


def clusters(text: str) -> list[str]:
    """Cut a text into extended grapheme clusters."""
    found: list[str] = []
    for character in text:
        if found and unicodedata.combining(character):
            found[-1] += character
        else:
            found.append(character)
    return found
