"""llama.cpp through llama-cpp-python's low-level functions.

This package is the only one that calls llama.cpp. It guards what would end the process in C:
batches are split; ids, grammars and sizes are checked before they get there.

* ``shared_library``  loading the library, its log, its devices, its chat templates
* ``model``           a model: how it is loaded, its vocabulary, what its tokenizer can be given
* ``context``         a context: batches, logits, hidden states, memory and state, vectors of texts
* ``slots``           a context of several sequences
* ``media``           projectors for pictures and sounds; ``picture``: the process that decodes
* ``importance``      importance matrices: what enters a model's matrices, and files of it
* ``sampler``         samplers
* ``grammar``         what tokens have to follow, by llguidance; ``gbnf`` translates grammars
* ``schema``          JSON schemas as llguidance enforces them; ``schema_pattern``: their patterns
* ``trial``           the child process that tries a model file
* ``quantizer``       the child process that quantizes one

Closing a model closes its contexts first.

Source: llama.h of llama.cpp; the names are those of llama-cpp-python 0.3.36.
"""

from __future__ import annotations

from mtkit.llama.context import Context, Interrupted
from mtkit.llama.grammar import Grammar, check_schema, one_of
from mtkit.llama.model import Model
from mtkit.llama.sampler import Chain
from mtkit.llama.shared_library import Device, devices, library, library_file, log, system_info
from mtkit.llama.slots import SlotContext
from mtkit.settings import ContextSettings, LoadSettings

__all__ = [
    "Chain",
    "Context",
    "ContextSettings",
    "Device",
    "Grammar",
    "Interrupted",
    "LoadSettings",
    "Model",
    "SlotContext",
    "check_schema",
    "devices",
    "library",
    "library_file",
    "log",
    "one_of",
    "system_info",
]
