"""The model files that a folder stands for where a command takes several."""

from __future__ import annotations

import os

from mtkit.sources.locate import TOKENIZER, in_folder


def models_of(name: str) -> list[str]:
    """Return the models of a folder that holds nothing but models, else the name itself.

    A set of shards is there by its first file; where that one is missing, by all of them.
    """
    import re

    folder = os.path.expanduser(name)
    if not os.path.isdir(folder):
        return [name]
    first = in_folder(folder, TOKENIZER.files)
    if first is None or not first.endswith(".gguf"):
        return [name]
    models = sorted(entry for entry in os.listdir(folder) if entry.endswith(".gguf"))
    shard = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
    there = frozenset(models)
    return [
        os.path.join(folder, entry)
        for entry in models
        if (start := shard.sub(r"-00001-of-\1.gguf", entry)) == entry or start not in there
    ]
