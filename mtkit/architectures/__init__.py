"""What models of each family are made of, in a HuggingFace folder and in a GGUF.

``families`` holds the table, a module a family; here a class of transformers or a name of llama.cpp
finds its row. Nothing is read or written: ``checkpoints`` has the folder, ``gguf`` the file.
"""

from __future__ import annotations

import re
from functools import cache

from mtkit.architectures.table import Architecture
from mtkit.base.escape import quoted
from mtkit.errors import UnsupportedError

__all__ = ["Architecture", "architectures", "of_class", "of_name", "packed_classes"]

_ENDS = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|Model)$")
"""Of a class's name: what says how it is used, not what it is."""


@cache
def architectures() -> dict[str, Architecture]:
    """Return class of transformers -> architecture, of all families."""
    from importlib import import_module
    from pkgutil import iter_modules

    from mtkit.architectures import families

    found = {}
    for module in iter_modules(families.__path__):
        family = import_module(f"{families.__name__}.{module.name}")
        for value in vars(family).values():
            if isinstance(value, Architecture):
                found.update(dict.fromkeys(value.classes, value))
    return found


def of_class(name: str) -> Architecture:
    """Return the architecture of a class of transformers, as ``architectures`` names it.

    Raises:
        UnsupportedError: There is none of that name.
    """
    from difflib import get_close_matches

    known = architectures()
    if name not in known:
        families = {_ENDS.sub("", one): one for one in reversed(known)}  # the first class counts
        near = get_close_matches(_ENDS.sub("", name), families, n=3)
        hint = f"the nearest that are known: {', '.join(families[n] for n in near)}" if near else ""
        what = f"{quoted(name)} is an architecture that mtkit does not convert"
        raise UnsupportedError(what, field="architectures", hint=hint)
    return known[name]


def packed_classes() -> list[str]:
    """Return the classes of models that may have weights of 4 bits (MXFP4) in a folder."""
    return [name for name, one in architectures().items() if one.packed]


def of_name(name: str) -> list[Architecture]:
    """Return the architectures that a GGUF calls by a name, in the order of the table."""
    found = [one for one in architectures().values() if one.name == name]
    return list({id(one): one for one in found}.values())
