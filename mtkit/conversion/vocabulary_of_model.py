"""Another tokenizer's description in a model's file: ``mtkit edit --tokenizer``.

The tokenizer is written as every conversion writes it, between the model's own keys, on which
llama.cpp's rules depend as well, read back from there and compared on the built-in texts.
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.conversion.convert import write
from mtkit.conversion.verify import verify
from mtkit.errors import UsageError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.draft import Draft
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mtkit.gguf.draft import Kept
    from mtkit.gguf.file import GgufFile, Metadata
    from mtkit.tokenizer.tokenizer import Tokenizer

PREFIX = "tokenizer."
TEMPLATES = ("tokenizer.chat_template", "tokenizer.chat_templates")
TOKENS, SCORES, TYPES = (f"tokenizer.ggml.{name}" for name in ("tokens", "scores", "token_type"))
EMBEDDING = "token_embd.weight"
_UNUSED, _UNUSED_SCORE = 5, -10000.0
"""Source: conversion/base.py of llama.cpp, which fills a vocabulary up in the same way."""


def replace_vocabulary(
    draft: Draft, file: GgufFile, tokenizer: Tokenizer, allow_loss: Collection[str] = ()
) -> Metadata:
    """Describe another tokenizer in a draft of a model.

    Ids that the embedding has and the tokenizer lacks become unused tokens. Chat templates stay
    where the tokenizer brings none.

    Args:
        draft: Of the file, changed in place.
        file: The model.
        tokenizer: What it is to have.
        allow_loss: Codes of losses that may happen although they change ordinary ids.

    Returns:
        The metadata as they are then.

    Raises:
        UsageError: It has another number of ids than the model.
        UnsupportedError: llama.cpp has nothing that does the same.
        LossError: Ordinary text would get different ids and that is not allowed.
        AnswerNo: What was written does not give the same ids.
    """
    from mtkit.base.record import replace
    from mtkit.formats import gguf
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf import open_gguf

    name = str(file.metadata.get("general.name", ""))
    tokenizer, _, written = write(tokenizer, gguf, WriteOptions(name=name), allow_loss)
    made = open_gguf(Source(".gguf", written.files[".gguf"])).metadata
    new = {
        name: Key(name, made.type_name(name), value)
        for name, value in made.items()
        if name.startswith(PREFIX)
    }
    fill(new, _ids(file), file.name)
    draft.keys = _merged(draft.keys, new)
    architecture = str(file.metadata.get("general.architecture", ""))
    said = f"{architecture}.vocab_size"
    if said in draft.keys:
        draft.set(Key(said, file.metadata.type_name(said), len(new[TOKENS].value)))
    vocabulary = b"".join(Draft(draft.keys.values(), (), draft.version).chunks())
    verify(tokenizer, gguf, replace(written, files={".gguf": vocabulary}), allow_loss)
    return open_gguf(Source(".gguf", vocabulary)).metadata


def _ids(file: GgufFile) -> int:
    """Return how many ids a model has."""
    embedding, tokens = file.names.get(EMBEDDING), file.metadata.get(TOKENS)
    if embedding is not None and embedding.shape:
        return embedding.shape[-1]
    return len(tokens) if isinstance(tokens, GgufArray) else 0


def fill(new: dict[str, Key], wanted: int, source: str) -> None:
    """Add unused tokens up to the number of ids of a model.

    Args:
        new: The keys of a tokenizer by name, changed in place.
        wanted: The number.
        source: Of the model, for a message.

    Raises:
        UsageError: There are more tokens than that.
    """
    tokens = list(new[TOKENS].value)
    if len(tokens) > wanted:
        raise UsageError(
            f"has {wanted} ids, but the tokenizer has {len(tokens)}",
            source=source,
            hint="give the tokenizer that the model was trained with",
        )
    if len(tokens) == wanted:
        return
    numbers = range(len(tokens), wanted)
    for name, values in (
        (TOKENS, [f"[PAD{number}]" for number in numbers]),
        (SCORES, [_UNUSED_SCORE] * len(numbers)),
        (TYPES, [_UNUSED] * len(numbers)),
    ):
        if name in new:
            new[name] = Key(name, new[name].type, [*new[name].value, *values])


def _merged(old: Mapping[str, Kept | Key], new: Mapping[str, Key]) -> dict[str, Kept | Key]:
    """Return the keys of a model with a new vocabulary in the place of the old one."""
    brings_templates = any(name.startswith(TEMPLATES) for name in new)
    kept = [
        key
        for name, key in old.items()
        if not name.startswith(PREFIX) or (name.startswith(TEMPLATES) and not brings_templates)
    ]
    before = 0
    for name in old:
        if name.startswith(PREFIX):
            break
        before += 1
    keys: list[Kept | Key] = [*kept[:before], *new.values(), *kept[before:]]
    return {key.name: key for key in keys}
