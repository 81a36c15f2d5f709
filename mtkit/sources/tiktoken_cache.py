"""Published encodings by name: where tiktoken keeps their rank files on this machine.

A file of the cache is named by the SHA-1 of the address it was fetched from. ``cl100k_base`` names
an encoding, ``gpt-4`` the one of that model.

Source: openai/tiktoken, load.py (``read_file_cached``), tiktoken_ext/openai_public.py.
"""

from __future__ import annotations

import os

_FILES = {
    "gpt2": "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
    "r50k_base": "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
    "p50k_base": "ec7223a39ce59f226a68acc30dc1af2788490e15",
    "p50k_edit": "ec7223a39ce59f226a68acc30dc1af2788490e15",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "o200k_harmony": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
"""Encoding -> name of its ranks in the cache; gpt2's are those of r50k_base."""


def names() -> list[str]:
    """Return the names of the published encodings."""
    return list(_FILES)


def encoding_of(name: str) -> str | None:
    """Return the published encoding that a name stands for: its own, or a model's."""
    if name in _FILES:
        return name
    if "/" in name:  # a repository; tiktoken need not be asked for its table
        return None
    from mtkit.sources.tiktoken_models import encoding_of_model

    encoding = encoding_of_model(name)
    return encoding if encoding in _FILES else None


def folder() -> str:
    """Return the folder in which tiktoken keeps what it fetched."""
    from tempfile import gettempdir

    found = os.path.join(gettempdir(), "data-gym-cache")
    for variable in ("DATA_GYM_CACHE_DIR", "TIKTOKEN_CACHE_DIR"):
        found = os.environ.get(variable, found)
    return found


def find(encoding: str) -> str | None:
    """Return the rank file of a published encoding; None where the cache does not have it."""
    path = os.path.join(folder(), _FILES[encoding])
    return path if os.path.isfile(path) else None
