"""llama.cpp through llama-cpp-python's low-level functions.

This package is the only one that calls llama.cpp. It guards what would end the process in C:
batches are split; ids, grammars and sizes are checked before they get there.

* ``shared_library``  loading the library, its log, its devices
* ``load``            how a model is loaded
* ``model``           a model with its vocabulary
* ``text``            what its tokenizer can be given
* ``context``         a context: batches, logits, hidden states
* ``slots``           a context of several sequences
* ``products``        what enters its matrices while it computes
* ``memory``          its memory and state
* ``settings``        its parameters
* ``sampler``         samplers and grammars
* ``grammar_work``    whether llama.cpp can follow one; ``grammar_rules`` reads it
* ``schema``          JSON schemas as grammars; ``schema_keywords``, ``gbnf`` are its parts
* ``trial``           what the child process does that tries a model file
* ``quantizer``       what the child process does that quantises one

Whatever is opened closes what depends on it first: closing a model closes its contexts.
Source: llama.h of llama.cpp; the names are those of llama-cpp-python 0.3.36.
"""

from __future__ import annotations

from mtkit.llama.context import Context, Interrupted
from mtkit.llama.model import Model
from mtkit.llama.sampler import Chain, Grammar, check_grammar, schema_grammar
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
    "check_grammar",
    "devices",
    "library",
    "library_file",
    "log",
    "schema_grammar",
    "system_info",
]
