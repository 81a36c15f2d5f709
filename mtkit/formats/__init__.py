"""Tokenizer file formats, and recognizing them.

Adding a format is a module (see ``contract``) and a row in ``FORMATS``.
"""

from __future__ import annotations

import os
from importlib import import_module

from mtkit.base.binary import UNMAPPED_BYTES
from mtkit.base.escape import printable
from mtkit.errors import FormatError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.formats.contract import Format, OtherReading, Reading

FORMATS = {
    "gguf": "mtkit.formats.gguf",
    "mtok": "mtkit.formats.mtok",
    "mnn-text": "mtkit.formats.mnn_text",
    "tekken": "mtkit.formats.tekken",
    "hf": "mtkit.formats.hf",
    "spm": "mtkit.formats.spm",
    "tiktoken": "mtkit.formats.tiktoken",
    "rwkv": "mtkit.formats.rwkv",
    "plamo": "mtkit.formats.plamo",
    "vocab-merges": "mtkit.formats.vocab_merges",
    "llama2c": "mtkit.formats.llama2c",
    "wordpiece": "mtkit.formats.wordpiece",
}
"""Name -> module, in the order in which content is tried: strong marks first."""
FOLDERS = {"hf-model": "HuggingFace model folder, weights included"}
"""Name -> title of the formats of whole models, which ``mtkit.conversion`` reads and writes."""
_SYNONYMS = {
    "hf": "json tokenizer.json huggingface tokenizers transformers fast",
    "spm": "model tokenizer.model sentencepiece sp",
    "gguf": "llama.cpp llama-cpp ggml",
    "mtok": "mnn mnn-llm",
    "llama2c": "bin tokenizer.bin llama2.c run.c executorch",
    "tekken": "mistral mistral-common",
    "tiktoken": "openai ranks bpe",
    "vocab-merges": "vocab.json merges.txt gpt2",
    "wordpiece": "bert vocab.txt",
    "hf-model": "safetensors",
}
"""Name -> other names for the format."""
MARKS = {"gguf": b"GGUF", "mtok": b"430 "}
"""Name -> first bytes, of formats whose files are used in place, however long they are."""
LONGEST_BYTES = UNMAPPED_BYTES
"""Limit for other formats, whose tokens become Python objects."""


def get_format(name: str) -> Format:
    """Return the format module called ``name``."""
    if name not in FORMATS:
        known = f"can be written: {', '.join(written_formats())}"
        matches = (key for key, synonyms in _SYNONYMS.items() if name in synonyms.split())
        match = next(matches, "")
        hint = f"is it {match}? {known}" if match else known
        raise UsageError(f"unknown format {name!r}", hint=hint)
    module: Any = import_module(FORMATS[name])
    format_module: Format = module
    return format_module


def written_formats() -> list[str]:
    """Return the names of the formats that can be written."""
    return sorted([*(name for name in FORMATS if hasattr(get_format(name), "write")), *FOLDERS])


def engine_tables(source: Source) -> tuple[Format, Mapping[str, memoryview]] | None:
    """Return the format of a file and the engine's tables in it, located but not read; or None."""
    for name, mark in MARKS.items():
        if bytes(source.data[: len(mark)]) == mark:
            module: Any = get_format(name)
            if hasattr(module, "engine_tables") and (tables := module.engine_tables(source)):
                return module, tables
    return None


def read_as(source: Source, reader: str) -> tuple[Format, Reading]:
    """Read a file as another program does."""
    module = recognize(source)
    readings = other_readings(module)
    if reader not in readings:
        programs = [
            f"{program} ({name})"
            for name in FORMATS
            for program in other_readings(get_format(name))
        ]
        what = f"no program {reader!r} reads this format ({module.NAME})"
        raise UsageError(what, source=source.name, hint=f"known: {', '.join(programs)}")
    return module, readings[reader].read(source)


def other_readings(module: Format) -> Mapping[str, OtherReading]:
    """Return name -> reading of other programs for files of a format."""
    readings: Mapping[str, OtherReading] = getattr(module, "other_readings", dict)()
    return readings


def recognize(source: Source) -> Format:
    """Return the format of a source by its content."""
    long = len(source.data) > LONGEST_BYTES
    for name in MARKS if long else FORMATS:
        module = get_format(name)
        if module.sniff(source):
            return module
    from mtkit.gguf.file import HEAD_BYTES, other_kind

    head = bytes(source.data[:HEAD_BYTES])
    begins = printable(head[:16])
    looks = "is empty" if not head else f"is not in a known format (it begins with '{begins}')"
    if long:
        looks = f"has {len(source.data)} bytes; a tokenizer file has at most {LONGEST_BYTES}"
    hint = _hint(source.name)
    hint = hint or ("mtkit formats lists the known ones" if head else "download or copy it again")
    what, hint = other_kind(head) or (looks, hint)
    raise FormatError(what, source=source.name, hint=hint)


def _hint(name: str) -> str:
    folder, name = os.path.split(name)
    if name.lower().endswith(".mnn"):
        return "mtkit reads MNN's tokenizers (.mtok, tokenizer.txt), not its models"
    if name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        return f"it belongs to a model folder; name the folder: {folder or '.'}"
    return ""


def is_tokenizer(source: Source) -> bool:
    """Tell whether some format knows a source."""
    try:
        recognize(source)
    except FormatError:
        return False
    return True


def read(source: Source, overrides: Mapping[str, object] | None = None) -> tuple[Format, Reading]:
    """Recognize and read a tokenizer file.

    Raises:
        FormatError: The file is damaged or no format knows it.
        UnsupportedError: It holds something that mtkit does not know.
    """
    module = recognize(source)
    return module, module.read(source, overrides or {})
