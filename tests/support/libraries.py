"""The reference library of each format, opened on written files: what it makes of a text.

``OPENERS`` holds one function a library; each takes the main file and returns ``Library`` records.
Formats without a library in Python (.mtok, MNN's text files, llama2.c) are not here.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

from llama import Llama
from support import reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Encode = Callable[[str], list[int]]


class Way(NamedTuple):
    """One way to ask a library for ids, and the options with which mtkit gives the same."""

    encode: Encode
    options: Mapping[str, bool | None]


class Library(NamedTuple):
    """A file opened by a library.

    Attributes:
        name: Name of the library.
        ways: Name of a way -> how ids are asked for.
        decode: Ids to text, special tokens kept; None where the library has no such way.
        close: Gives back what it holds.
    """

    name: str
    ways: Mapping[str, Way]
    decode: Callable[[list[int]], str] | None = None
    close: Callable[[], None] = lambda: None


PLAIN = {"add_special_tokens": False}
WHOLE = {"add_special_tokens": True}
UNPARSED = {"add_special_tokens": False, "parse_special": False}
PARSED = {"add_special_tokens": False, "parse_special": True}


def _tokenizers(path: Path) -> Library:
    found = reference("tokenizers").Tokenizer.from_file(str(path))
    found.no_padding()
    found.no_truncation()
    return Library(
        "tokenizers",
        {
            "plain": Way(lambda text: found.encode(text, add_special_tokens=False).ids, PLAIN),
            "whole": Way(lambda text: found.encode(text).ids, WHOLE),
        },
        lambda ids: str(found.decode(ids, skip_special_tokens=False)),
    )


def _transformers(path: Path, name: str) -> Library:
    factory = getattr(reference("transformers"), name)
    found = factory.from_pretrained(path.parent)

    def ids(text: str, *, add: bool) -> list[int]:
        made: list[int] = found(text, add_special_tokens=add, padding=False, truncation=False)[
            "input_ids"
        ]
        return made

    return Library(
        name,
        {
            "plain": Way(lambda text: ids(text, add=False), PLAIN),
            "whole": Way(lambda text: ids(text, add=True), WHOLE),
        },
    )


def _of_class(path: Path, default: str) -> Library:
    config = path.parent / "tokenizer_config.json"
    named = json.loads(config.read_bytes()).get("tokenizer_class") if config.exists() else None
    return _transformers(path, named or default)


def _sentencepiece(path: Path) -> Library:
    found = reference("sentencepiece").SentencePieceProcessor(model_file=str(path))
    return Library(
        "sentencepiece", {"plain": Way(found.encode, PLAIN)}, lambda ids: str(found.decode(ids))
    )


def _llama(path: Path) -> Library:
    found = Llama(path)

    def encode(text: str, *, whole: bool) -> list[int]:
        return found.encode(text.encode(), add=whole, parse=whole)

    return Library(
        "llama.cpp",
        {
            "plain": Way(lambda text: encode(text, whole=False), UNPARSED),
            "whole": Way(
                lambda text: encode(text, whole=True),
                {"add_special_tokens": True, "parse_special": True},
            ),
        },
        close=found.close,
    )


def _tiktoken(path: Path) -> Library:
    beside = json.loads((path.parent / "pattern.json").read_bytes())
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    found = reference("tiktoken").Encoding(
        "matrix",
        pat_str=beside["pattern"],
        mergeable_ranks={base64.b64decode(piece): int(rank) for piece, rank in lines},
        special_tokens=beside["special_tokens"],
    )
    form = beside.get("normalizer")

    def brought(text: str) -> str:
        return unicodedata.normalize(form, text) if form else text

    return Library(
        "tiktoken",
        {
            "plain": Way(lambda text: found.encode_ordinary(brought(text)), UNPARSED),
            "parsed": Way(lambda text: found.encode(brought(text), allowed_special="all"), PARSED),
        },
        lambda ids: str(found.decode(ids)),
    )


def _tekken(path: Path) -> Library:
    module: Any = reference("mistral_common.tokens.tokenizers.tekken")
    found = module.Tekkenizer.from_file(path)
    return Library(
        "mistral-common",
        {
            "plain": Way(lambda text: found.encode(text, bos=False, eos=False), PLAIN),
            "whole": Way(lambda text: found.encode(text, bos=True, eos=True), WHOLE),
        },
        lambda ids: str(found.decode(ids, special_token_policy=module.SpecialTokenPolicy.KEEP)),
    )


OPENERS: Mapping[str, tuple[Callable[[Path], Library], ...]] = {
    "gguf": (_llama,),
    "hf": (_tokenizers, lambda path: _transformers(path, "PreTrainedTokenizerFast")),
    "spm": (_sentencepiece,),
    "tekken": (_tekken,),
    "tiktoken": (_tiktoken,),
    "vocab-merges": (lambda path: _of_class(path, "GPT2Tokenizer"),),
    "wordpiece": (lambda path: _of_class(path, "BertTokenizer"),),
}
"""Format -> its libraries."""
