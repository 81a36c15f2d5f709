"""GGUF: the vocabulary in the metadata of a model file, as llama.cpp reads it.

Keys ``tokenizer.ggml.*``: the kind of model, token texts, types, scores, merges, ids with a role,
flags; ``tokenizer.chat_template`` and named ones. ``general.architecture``, ``general.name`` and
``tokenizer.ggml.pre`` change behavior, too: see docs/formats/gguf-vocabulary.md.

Source: llama.cpp, src/llama-vocab.cpp; the container is ``mtkit.gguf``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source
    from mtkit.formats.contract import Reading, WriteOptions, Written
    from mtkit.spec import TokenizerSpec

NAME = "gguf"
TITLE = "GGUF vocabulary"
ADDS_SPECIAL_TOKENS = True


def sniff(source: Source) -> bool:
    """Tell by the first four bytes."""
    return bytes(source.data[:4]) == b"GGUF"


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read the vocabulary of a GGUF.

    Args:
        overrides: Metadata keys replaced while reading: key -> bool, int, float or string.

    Raises:
        FormatError: The file is damaged or llama.cpp could not use its vocabulary.
        UnsupportedError: It holds no vocabulary.
        UsageError: An override has the wrong type.
    """
    from mtkit.formats.contract import Reading
    from mtkit.formats.gguf.metadata import ARCHITECTURES, LLAMA_VERSION, Keys
    from mtkit.formats.gguf.reader import read_spec
    from mtkit.formats.gguf.roles import text_ends
    from mtkit.gguf import open_gguf

    keys = Keys(open_gguf(source), overrides)
    spec = read_spec(keys)
    assumptions = []
    architecture = keys.text("general.architecture")
    if architecture not in ARCHITECTURES:
        assumptions.append(
            f"a model of the architecture {architecture!r}, which llama-cpp-python"
            f" {LLAMA_VERSION} does not know, has a tokenizer like any other"
        )
    pre = keys.text("tokenizer.ggml.pre")
    if keys.text("tokenizer.ggml.model") in {"gpt2", "hybriddna", "whitespace"}:
        if pre:
            assumptions.append(f"the split pattern is the one that llama.cpp means by {pre!r}")
        else:
            assumptions.append(
                "no split pattern is named: llama.cpp's default, which is not GPT-2's"
            )
    first, _ = text_ends(spec) or ((), ())
    if first and first[0] not in (spec.special_ids.bos, spec.special_ids.cls):
        assumptions.append(f"BOS is id {first[0]}, llama.cpp's default: no key names one")
    return Reading(spec, tuple(assumptions))


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a vocabulary-only GGUF."""
    from mtkit.formats.gguf.writer import write_spec

    return write_spec(spec, options)
