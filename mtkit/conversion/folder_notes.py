"""A tokenizer.json and the folder around it: how transformers reads it, which model it is for.

transformers may choose another class for it, and the model may have more rows than tokens.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import MODEL_CONFIG
from mtkit.errors import FormatError, MtkitError
from mtkit.formats import get_format, other_readings
from mtkit.formats.json_fields import parse_json
from mtkit.tokenizer import comparison
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

TRANSFORMERS = "transformers"
_STAGES = (
    "normalizer", "pre_tokenizer", "model", "post_processor", "decoder", "added_tokens",
)  # fmt: skip
_MOST_OWN_TOKENS = 200
_OWN_TEXTS = (
    "2023",
    "in 2023\n\nand  more",
    "I'm 12 345,67",
    "``it''s  a\tb ",
    "\u00e9 \u00c9 e\u0301",
)
"""Texts on which the classes' own pipelines differ most often."""
_MOST_IDS = 6


class TransformersDifference(Record):
    """A text that gets other ids in transformers."""

    text: str
    here: list[int]
    there: list[int]
    how: str

    def __str__(self) -> str:
        spellings = [
            " ".join(map(str, ids[:_MOST_IDS])) + (" …" if len(ids) > _MOST_IDS else "")
            for ids in (self.there, self.here)
        ]
        return (
            f"{self.how}: {quoted(self.text)} gives {spellings[0]} there, but {spellings[1]} here"
        )


def compare_transformers(tokenizer: Tokenizer) -> TransformersDifference | None:
    """Return the first text that gets other ids in transformers 5; None where all agree."""
    if tokenizer.format_name != "hf" or not os.path.isfile(tokenizer.source):
        return None
    reading = other_readings(get_format("hf"))[TRANSFORMERS]
    read = reading.read(Source.open(tokenizer.source))
    if all(getattr(read.spec, name) == getattr(tokenizer.spec, name) for name in _STAGES):
        return None
    other = Tokenizer(read.spec, source=tokenizer.source, format_name="hf")
    how = f"{reading.title} {' '.join(read.assumptions) or 'adds tokens of the other files'}"
    for text in _texts(tokenizer, other):
        ids = []
        for name in (tokenizer, other):
            try:
                ids.append(name.encode_ids(text))
            except MtkitError:  # an unknown part, for which there is no token
                ids.append([])
        if ids[0] != ids[1]:
            return TransformersDifference(text, ids[0], ids[1], how)
    return None


def _texts(*tokenizers: Tokenizer) -> Iterator[str]:
    """Yield built-in texts, texts that spell special tokens, and tokens as text."""
    yield from _OWN_TEXTS
    yield from comparison.probe_texts()
    for tokenizer in tokenizers:
        yield from comparison.special_token_texts(tokenizer.spec)
    size = tokenizers[0].vocab_size
    for number in range(0, size, max(size // _MOST_OWN_TOKENS, 1)):
        text = tokenizers[0].token_bytes(number).decode("utf-8", "ignore")
        yield f"{text} a{text}"


def folder_notes(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return notes on the folder that a tokenizer was read from."""
    try:
        difference = compare_transformers(tokenizer)
    except MtkitError as error:
        notes = [f"transformers 5 may make another tokenizer of the folder: {error.what}"]
    else:
        notes = [] if difference is None else [str(difference)]
    rows = embedding_rows(tokenizer)
    if rows is not None and rows > tokenizer.vocab_size:
        more = rows - tokenizer.vocab_size
        notes.append(f"{MODEL_CONFIG} has a vocab_size of {rows}: {more} ids have no token")
    return tuple(notes)


def tokenizer_document(tokenizer: Tokenizer) -> dict[str, Any]:
    """Describe a tokenizer as a JSON document, schema ``mtkit.inspect/1``."""
    from mtkit.inspection.tokenizer import specification_document

    return {
        "schema": "mtkit.inspect/1",
        "format": tokenizer.format_name,
        **specification_document(tokenizer.spec),
        "assumptions": list(tokenizer.assumptions),
        "notes": list(folder_notes(tokenizer)),
    }


def embedding_rows(tokenizer: Tokenizer) -> int | None:
    """Return ``vocab_size`` of the config.json beside a tokenizer.json; None where it has none."""
    config = _config(tokenizer)
    for part in (config, config.get("text_config")):
        size = part.get("vocab_size") if isinstance(part, dict) else None
        if type(size) is int and size > 0:
            return size
    return None


def _config(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the config.json beside a tokenizer; an empty one where there is none."""
    path = os.path.join(os.path.dirname(tokenizer.source), MODEL_CONFIG)
    if tokenizer.format_name not in ("hf", "spm") or not os.path.isfile(path):
        return {}
    data = Source.open(path).data
    try:
        config = parse_json(data, MODEL_CONFIG)
    except FormatError:  # reading the model reports it
        return {}
    return config if isinstance(config, dict) else {}


def with_architecture(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that names the architecture of the model beside it, as a GGUF does."""
    from mtkit.architectures import architecture_of
    from mtkit.formats import gguf
    from mtkit.formats.gguf import roles
    from mtkit.spec import replace

    spec, config = tokenizer.spec, _config(tokenizer)
    try:
        name = architecture_of(config).name if config else ""
        usual = roles.architecture_of(spec)
    except MtkitError:  # mtkit does not convert the model, or llama.cpp has no such tokenizer
        return tokenizer
    if name in ("", usual):
        return tokenizer
    extras = dict(spec.extras)
    extras[gguf.NAME] = {**roles.extras_of(spec), "architecture": name}
    return Tokenizer(
        replace(spec, extras=tuple(extras.items())),
        source=tokenizer.source,
        format_name=tokenizer.format_name,
        assumptions=tokenizer.assumptions,
    )


def pad_vocabulary(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with as many ids as the model beside it; the new ones have no token."""
    from mtkit.base.packed import Numbers, Pieces
    from mtkit.spec import TokenType, Vocabulary, replace
    from mtkit.spec.vocabulary import is_sparse

    rows, spec = embedding_rows(tokenizer), tokenizer.spec
    if rows is None or rows <= spec.vocab_size or is_sparse(rows, spec.vocab_size):
        return tokenizer
    old = spec.vocabulary
    more = rows - len(old)
    types = [*old.all_types(), *[TokenType.ABSENT] * more]
    scores = old.scores
    vocabulary = Vocabulary(
        Pieces.of([*old.pieces, *[b""] * more]),
        Numbers("B", bytes(types)),
        None if scores is None else Numbers.of(scores.code, [*scores, *[0.0] * more]),
        old.hidden,
    )
    return Tokenizer(
        replace(spec, vocabulary=vocabulary),
        source=tokenizer.source,
        format_name=tokenizer.format_name,
        assumptions=tokenizer.assumptions,
    )
