"""Programs that tokenize, and asking them: ``check --runs-on``, ``compare --as``, ``convert``.

mtkit has the rules of llama.cpp and MNN itself: they are its formats gguf and mtok. The others are
asked: their own library reads the file in a process of its own, because native code can end it.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import UsageError


class Program(Record):
    """A program that tokenizes.

    Attributes:
        name: What users call it.
        reads: Names of the formats that it reads.
        writes: The format that others are converted to.
        package: What has its library; empty: mtkit has its rules.
    """

    name: str
    reads: tuple[str, ...]
    writes: str
    package: str = ""


PROGRAMS = {
    program.name: program
    for program in (
        Program("llama.cpp", ("gguf",), "gguf"),
        Program("mnn", ("mtok", "mnn-text"), "mtok"),
        Program("transformers", ("hf", "vocab-merges", "wordpiece"), "hf", "transformers"),
        Program("executorch", ("hf", "spm", "llama2c"), "hf", "pytorch-tokenizers"),
        Program("onnxruntime", ("hf",), "hf", "onnxruntime-extensions"),
        Program("sentencepiece", ("spm",), "spm", "sentencepiece"),
    )
}


def program_named(name: str) -> Program:
    """Return the program that a user names.

    Raises:
        UsageError: None is called so.
    """
    if name not in PROGRAMS:
        raise UsageError(f"unknown program {name!r}", hint=f"known: {', '.join(PROGRAMS)}")
    return PROGRAMS[name]
