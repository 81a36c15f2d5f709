"""What a tokenizer does, as hashes: equal for tokenizers that give the same ids, in any format.

The hash of a specification would differ between a tokenizer.json and the GGUF that is made of it:
llama.cpp has rules of its own that come to the same ids. So what is hashed are tokens and ids; a
part that differs says in what two tokenizers differ.
"""

from __future__ import annotations

import hashlib
import json

from mtkit.errors import MtkitError
from mtkit.spec.codec import fingerprint
from mtkit.tokenizer.comparison import probe_texts, special_token_texts
from mtkit.tokenizer.spelling import Spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.tokenizer.tokenizer import Tokenizer

_PLACEHOLDERS = frozenset({"unused", "absent"})
"""Kinds of ids that stand for no text: a model has more rows than tokens."""
RULES = "rules"
"""The part that is not in the hash: the whole specification, how ids become text included."""


def digests(tokenizer: Tokenizer) -> tuple[str, dict[str, str]]:
    """Return the hash of a tokenizer, and those of its parts.

    Returns:
        The SHA-256 of the parts, and part -> SHA-256: ``tokens`` (the text of each), ``words``
        (ids of the text of each token), ``texts`` (ids of the built-in texts, with special tokens
        around them) and ``special tokens`` (ids of texts that spell them out); and ``rules``.
    """
    spelling = Spelling(tokenizer.spec)
    numbers = [
        number
        for number in range(tokenizer.vocab_size)
        if spelling.kind(number) not in _PLACEHOLDERS
    ]
    texts = [spelling.text(number) for number in numbers]
    words = [text.decode("utf-8", "replace") for text in texts]
    special = special_token_texts(tokenizer.spec)
    parts = {
        "tokens": [[number, text.hex()] for number, text in zip(numbers, texts, strict=True)],
        "words": list(_ids(tokenizer, words, around=False)),
        "texts": list(_ids(tokenizer, probe_texts(), around=True)),
        "special tokens": [special, *_ids(tokenizer, special, around=False, parse=True)],
    }
    hashes = {name: _hash(part) for name, part in parts.items()}
    return _hash(hashes), {**hashes, RULES: fingerprint(tokenizer.spec)}


def _ids(
    tokenizer: Tokenizer, texts: Iterable[str], *, around: bool, parse: bool = False
) -> Iterable[list[int] | str]:
    """Yield the ids of texts; of one that has no tokens, why."""
    for text in texts:
        try:
            yield tokenizer.encode_ids(text, add_special_tokens=around, parse_special=parse)
        except MtkitError as error:
            yield error.what


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
