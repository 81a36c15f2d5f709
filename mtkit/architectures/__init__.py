"""The architectures of models: keys and tensors in a HuggingFace folder and in a GGUF.

``families`` holds the table, a module a family; here a class of transformers or a name of llama.cpp
finds its row. Nothing is read or written: ``checkpoints`` has the folder, ``gguf`` the file.
"""

from __future__ import annotations

import os
import re
from functools import cache

from mtkit.architectures.config import MXFP4, Config, class_named, quantization
from mtkit.architectures.loader import with_loader_rows
from mtkit.architectures.table import Architecture
from mtkit.base.escape import quoted
from mtkit.base.record import replace
from mtkit.errors import MtkitError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "Architecture",
    "architecture_of",
    "architecture_of_class",
    "architectures",
    "architectures_of_name",
    "describe_config",
    "may_be_packed",
]

_ENDS = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|Model)$")
"""Endings of class names, which say how a model is used, not what it is."""


_CLASSES = {"mistral4": "Mistral4ForCausalLM"}
"""``model_type`` of a text part -> its class, where config.json names that of another."""


@cache
def _sources() -> dict[str, bytes]:
    """Return the source of each family's module by its name.

    pkgutil, which lists modules, imports inspect: it would be a fifth of checking a file.
    """
    folder = os.path.join(os.path.dirname(__file__), "families")
    sources = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "__init__.py":
            with open(os.path.join(folder, file), "rb") as source:
                sources[file.removesuffix(".py")] = source.read()
    return sources


@cache
def _table(name: str = "") -> tuple[Architecture, ...]:
    """Return the architectures of the families that name one; those with an ``accepts`` come first.

    A module without the name in its source is not imported: all of them take 50 ms, a third of
    checking a file. Where the name is that of another module's architecture, the docstring has it.

    Args:
        name: Of a class or in a GGUF; "": the architectures of all families.
    """
    from importlib import import_module

    values: dict[int, Architecture] = {}
    word = f'"{name}"'.encode("utf-8", "replace") if name else b""
    for family, source in _sources().items():
        if word in source:
            rows = vars(import_module(f"{__name__}.families.{family}")).values()
            values.update((id(row), row) for row in rows if isinstance(row, Architecture))
    table = sorted(values.values(), key=lambda architecture: architecture.accepts is None)
    return tuple(map(with_loader_rows, table))


def _with_class(name: str) -> list[Architecture]:
    return [architecture for architecture in _table(name) if name in architecture.classes]


@cache
def architectures() -> dict[str, Architecture]:
    """Return class of transformers -> architecture; of several the usual one."""
    return {name: architecture for architecture in _table() for name in architecture.classes}


def architecture_of_class(name: str) -> Architecture:
    """Return the architecture of a class of transformers, as ``architectures`` names it.

    Raises:
        UnsupportedError: There is none of that name.
    """
    from difflib import get_close_matches

    if of_class := _with_class(name):
        return of_class[-1]
    families = {
        _ENDS.sub("", class_name): class_name for class_name in reversed(architectures())
    }  # the first class counts
    near = get_close_matches(_ENDS.sub("", name), families, n=3)
    hint = f"the nearest that are known: {', '.join(families[n] for n in near)}" if near else ""
    what = f"{quoted(name)} is an architecture that mtkit does not convert"
    raise UnsupportedError(what, field="architectures", hint=hint)


def architecture_of(document: Mapping[str, Any]) -> Architecture:
    """Return the architecture of a model, with the rows of the weights that it has.

    Raises:
        FormatError: It names none.
        UnsupportedError: It is none that mtkit converts.
    """
    inner = document.get("text_config")
    kind = inner.get("model_type") if isinstance(inner, dict) else None
    name = _CLASSES.get(str(kind)) or class_named(document)
    architecture = architecture_of_class(name)
    for other in _with_class(name):
        if other.accepts and other.accepts(Config(document)):
            architecture = other
            break
    is_packed = bool(architecture.packed) and quantization(document) == MXFP4
    return replace(architecture, rows=architecture.packed) if is_packed else architecture


def describe_config(document: Mapping[str, Any], source: str) -> tuple[Architecture, Config]:
    """Return the architecture of a model, and its fields with those that transformers fills in.

    Raises:
        FormatError: It names no architecture, or a field is not what it should be.
        UnsupportedError: It is none that mtkit converts.
    """
    try:
        architecture = architecture_of(document)
        config = architecture.filled(Config(document, source))
        if architecture.rows_of is not None:
            rows = architecture.rows_of(config)
            architecture = with_loader_rows(replace(architecture, rows=rows))
    except MtkitError as error:
        raise error.located(source) from None
    return architecture, config


def may_be_packed(name: str) -> bool:
    """Tell whether models of a class may have weights of 4 bits (MXFP4) in a folder."""
    return any(architecture.packed for architecture in _with_class(name)[-1:])


def architectures_of_name(name: str) -> list[Architecture]:
    """Return the architectures that have this name in a GGUF, in the order of the table."""
    return [architecture for architecture in _table(name) if architecture.name == name]
