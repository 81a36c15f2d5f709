"""Which published encoding a model of OpenAI has: the names that tiktoken knows.

Where tiktoken is installed, its own tables count: it may know of newer models.

Source: openai/tiktoken 0.14, model.py.
"""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGINNINGS = {
    "o200k_base": ("o1- o3- o4-mini- gpt-5 gpt-4.5- gpt-4.1- chatgpt-4o- gpt-4o- ft:gpt-4o"),
    "cl100k_base": (
        "gpt-4- gpt-3.5-turbo- gpt-35-turbo- ft:gpt-4 ft:gpt-3.5-turbo ft:davinci-002 "
        "ft:babbage-002"
    ),
    "o200k_harmony": "gpt-oss-",
}
"""Encoding -> what names of its models begin with; of two that fit the first counts."""
_NAMES = {
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


def own_tables() -> tuple[dict[str, str], dict[str, str]]:
    """Return model -> encoding and beginning of a model's name -> encoding, as they stand here."""
    names, beginnings = (
        {name: encoding for encoding, listed in table.items() for name in listed.split()}
        for table in (_NAMES, _BEGINNINGS)
    )
    return names, beginnings


@lru_cache(1)
def tables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the two tables that count: tiktoken's where it is installed."""
    try:
        from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING
    except ImportError:
        return own_tables()
    return MODEL_TO_ENCODING, MODEL_PREFIX_TO_ENCODING


def encoding_of_model(name: str) -> str | None:
    """Return the encoding of a model; None where none is known."""
    names, beginnings = tables()
    if name in names:
        return names[name]
    return next((beginnings[one] for one in beginnings if name.startswith(one)), None)
