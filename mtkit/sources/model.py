"""Which model file a name stands for."""

from __future__ import annotations

import os

from mtkit.base.binary import package_file
from mtkit.errors import UsageError


def locate_model(name: str | None) -> str:
    """Return the path of the model that a name stands for.

    Raises:
        UsageError: There is no such file.
    """
    from mtkit.sources import config

    if name is None:
        name = config.setting("model") or default_model()
    name = os.path.expanduser(name)
    if os.path.isdir(name):
        found = sorted(entry for entry in os.listdir(name) if entry.endswith(".gguf"))
        if not found:
            raise UsageError("is a folder without a .gguf file", source=name)
        return os.path.join(name, found[0])
    if not os.path.exists(name):
        raise UsageError("no such file", source=name, hint="-m names a .gguf file")
    return name


def default_model() -> str:
    """Return the path of the model that ships with mtkit."""
    return package_file("default-model.gguf")
