"""Mutants of what the GGUF workbench reads, each kind used as its commands use it.

A kind is a module: ``mutant`` draws a case and says what was done, ``use`` gives what became of it,
``refused`` or ``read``. Whatever is not an error of mtkit's own goes through to the caller. Files
lie in memory, as far as what is tried allows it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from file_uses import printed

from workbench import answers, folders, gguf_files, manifests, records, safetensors_files

if TYPE_CHECKING:
    from typing import Any

KINDS: dict[str, Any] = {
    "gguf": gguf_files,
    "safetensors": safetensors_files,
    "folders": folders,
    "manifests": manifests,
    "records": records,
    "answers": answers,
}
"""Name -> what is fuzzed: GGUF files with tensors, headers, model folders, Ollama's manifests,
what lies beside models, servers."""


def drawn(kind: str, seed: int, number: int) -> tuple[str, Any]:
    """Draw a case: what was done, and the mutant."""
    name, made = KINDS[kind].mutant(Random(f"{seed} {number}"))
    return name, made


def use(kind: str, made: Any, number: int) -> str:
    """Use a mutant as the commands do."""
    with printed():
        result: str = KINDS[kind].use(made, Random(number))
        return result
