"""Published encodings of tiktoken by name: the models that use them, and their rank files.

``cl100k_base`` names an encoding, ``gpt-4`` the one of that model. Where tiktoken is installed, its
own table of models counts, which may be newer. tiktoken's cache names a file by the SHA-1 of the
address that it was fetched from.

Source: openai/tiktoken 0.14, model.py, load.py (``read_file_cached``),
tiktoken_ext/openai_public.py.
"""

from __future__ import annotations

import os
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


_MODEL_PREFIXES = {
    "o200k_base": ("o1- o3- o4-mini- gpt-5 gpt-4.5- gpt-4.1- chatgpt-4o- gpt-4o- ft:gpt-4o"),
    "cl100k_base": (
        "gpt-4- gpt-3.5-turbo- gpt-35-turbo- ft:gpt-4 ft:gpt-3.5-turbo ft:davinci-002 "
        "ft:babbage-002"
    ),
    "o200k_harmony": "gpt-oss-",
}
"""Encoding -> prefixes of its models' names; of two that match the first counts."""
_MODEL_NAMES = {
    "o200k_base": "o1 o3 o4-mini gpt-5 gpt-4.1 gpt-4o",
    "cl100k_base": (
        "gpt-4 gpt-3.5-turbo gpt-3.5 gpt-35-turbo davinci-002 babbage-002 "
        "text-embedding-ada-002 text-embedding-3-small text-embedding-3-large"
    ),
    "p50k_base": (
        "text-davinci-003 text-davinci-002 code-davinci-002 code-davinci-001 code-cushman-002 "
        "code-cushman-001 davinci-codex cushman-codex"
    ),
    "r50k_base": (
        "text-davinci-001 text-curie-001 text-babbage-001 text-ada-001 davinci curie babbage ada "
        "text-similarity-davinci-001 text-similarity-curie-001 text-similarity-babbage-001 "
        "text-similarity-ada-001 text-search-davinci-doc-001 text-search-curie-doc-001 "
        "text-search-babbage-doc-001 text-search-ada-doc-001 code-search-babbage-code-001 "
        "code-search-ada-code-001"
    ),
    "p50k_edit": "text-davinci-edit-001 code-davinci-edit-001",
    "gpt2": "gpt2 gpt-2",
}
"""Encoding -> names of its models."""


def own_model_tables() -> tuple[dict[str, str], dict[str, str]]:
    """Return model -> encoding and prefix of a model's name -> encoding, as of mtkit itself."""
    names, prefixes = (
        {name: encoding for encoding, listed in table.items() for name in listed.split()}
        for table in (_MODEL_NAMES, _MODEL_PREFIXES)
    )
    return names, prefixes


@lru_cache(1)
def model_tables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return tiktoken's two tables where it is installed, else our own."""
    try:
        from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING
    except ImportError:
        return own_model_tables()
    return MODEL_TO_ENCODING, MODEL_PREFIX_TO_ENCODING


def model_encoding(name: str) -> str | None:
    """Return the encoding of a model; None where none is known."""
    names, prefixes = model_tables()
    if name in names:
        return names[name]
    matches = (prefixes[prefix] for prefix in prefixes if name.startswith(prefix))
    return next(matches, None)


_RANK_FILES = {
    "gpt2": "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
    "r50k_base": "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
    "p50k_base": "ec7223a39ce59f226a68acc30dc1af2788490e15",
    "p50k_edit": "ec7223a39ce59f226a68acc30dc1af2788490e15",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "o200k_harmony": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
"""Encoding -> name of its ranks in the cache; gpt2's are those of r50k_base."""


def encoding_names() -> list[str]:
    """Return the names of the published encodings."""
    return list(_RANK_FILES)


def encoding_of(name: str) -> str | None:
    """Return the published encoding that a name stands for: its own, or a model's."""
    if name in _RANK_FILES:
        return name
    if "/" in name:  # a repository: spares the import of tiktoken
        return None
    encoding = model_encoding(name)
    return encoding if encoding in _RANK_FILES else None


def rank_folder() -> str:
    """Return the folder of tiktoken's cache."""
    from tempfile import gettempdir

    folder = os.path.join(gettempdir(), "data-gym-cache")
    for variable in ("DATA_GYM_CACHE_DIR", "TIKTOKEN_CACHE_DIR"):
        folder = os.environ.get(variable, folder)
    return folder


def find_ranks(encoding: str) -> str | None:
    """Return the rank file of a published encoding; None where the cache does not have it."""
    path = os.path.join(rank_folder(), _RANK_FILES[encoding])
    return path if os.path.isfile(path) else None
