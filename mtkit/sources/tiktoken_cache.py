"""Published encodings by name: where tiktoken keeps their rank files on this machine.

A file of the cache is named by the SHA-1 of the address it was fetched from. ``cl100k_base`` names
an encoding, ``gpt-4`` the one of that model.

Source: openai/tiktoken, load.py (``read_file_cached``), model.py (``MODEL_PREFIX_TO_ENCODING``),
tiktoken_ext/openai_public.py.
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
_MODELS = {
    "gpt-oss": "o200k_harmony",
    "gpt-5": "o200k_base",
    "gpt-4o": "o200k_base",
    "chatgpt-4o": "o200k_base",
    "gpt-4.1": "o200k_base",
    "gpt-4.5": "o200k_base",
    "o1": "o200k_base",
    "o3": "o200k_base",
    "o4-mini": "o200k_base",
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
    "gpt-35-turbo": "cl100k_base",
    "text-embedding-ada-002": "cl100k_base",
    "text-embedding-3": "cl100k_base",
}
"""Model, or what its name begins with -> encoding; the longer beginnings first."""


def names() -> list[str]:
    """Return the names of the published encodings."""
    return list(_FILES)


def encoding_of(name: str) -> str | None:
    """Return the published encoding that a name stands for."""
    if name in _FILES:
        return "r50k_base" if name == "gpt2" else name
    begins = (one for one in _MODELS if name == one or name.startswith(f"{one}-"))
    model = next(begins, None)
    return None if model is None else _MODELS[model]


def find(name: str) -> str | None:
    """Return the rank file of an encoding; None where the cache does not have it."""
    from tempfile import gettempdir

    encoding = encoding_of(name)
    if encoding is None:
        return None
    folder = os.path.join(gettempdir(), "data-gym-cache")
    for variable in ("DATA_GYM_CACHE_DIR", "TIKTOKEN_CACHE_DIR"):
        folder = os.environ.get(variable, folder)
    path = os.path.join(folder, _FILES[encoding])
    return path if os.path.isfile(path) else None


def overrides(name: str | None, path: str) -> dict[str, object] | None:
    """Return what reading a rank file needs that was found by name: which encoding is meant."""
    if name is None or path == name or path != find(name):
        return None
    return {"encoding": encoding_of(name)}
