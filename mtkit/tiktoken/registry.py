"""Encodings by name, as ``tiktoken.registry``: the published ones, and those of plug-ins.

A plug-in is a module in the namespace package ``tiktoken_ext`` with ``ENCODING_CONSTRUCTORS``: name
-> function that returns what ``Encoding`` takes.
"""

from __future__ import annotations

from functools import lru_cache

from mtkit.errors import UsageError
from mtkit.sources import encodings
from mtkit.tiktoken.core import Encoding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_PUBLISHED = "tiktoken_ext.openai_public"
ENCODINGS: dict[str, Encoding] = {}
"""The encodings that are open."""


def get_encoding(encoding_name: str) -> Encoding:
    """Return an encoding by its name.

    Raises:
        ValueError: There is no such encoding.
        UsageError: Its ranks are not in the cache.
    """
    if not isinstance(encoding_name, str):
        raise ValueError(  # noqa: TRY004  as tiktoken does
            f"Expected a string in get_encoding, got {type(encoding_name)}"
        )
    if encoding_name not in ENCODINGS:
        ENCODINGS[encoding_name] = _open_encoding(encoding_name)
    return ENCODINGS[encoding_name]


def list_encoding_names() -> list[str]:
    """Return the names that ``get_encoding`` knows."""
    return list(dict.fromkeys([*encodings.encoding_names(), *plug_ins()]))


def _open_encoding(name: str) -> Encoding:
    if name not in encodings.encoding_names():
        constructor = plug_ins().get(name)
        if constructor is None:
            names = ", ".join(list_encoding_names())
            raise ValueError(f"Unknown encoding {name}.\nThere are: {names}")
        return Encoding(**constructor())
    if encodings.find_ranks(name) is None:
        raise UsageError(
            "is not in tiktoken's cache",
            source=name,
            hint="tiktoken.get_encoding of tiktoken itself fetches it, or take from_file",
        )
    from mtkit.tokenizer.load import load

    return Encoding.of(load(name), name)


@lru_cache(1)
def plug_ins() -> Mapping[str, Callable[[], dict[str, Any]]]:
    """Return the functions of all plug-ins, by the names of their encodings."""
    from importlib import import_module
    from pkgutil import iter_modules

    try:
        space = import_module("tiktoken_ext")
    except ImportError:
        return {}
    constructors: dict[str, Callable[[], dict[str, Any]]] = {}
    for module in iter_modules(space.__path__, "tiktoken_ext."):
        if module.name != _PUBLISHED:
            constructors.update(import_module(module.name).ENCODING_CONSTRUCTORS)
    return constructors
