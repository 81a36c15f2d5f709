"""Tokenizers of other references written as tokenizer.json: the library gives the same ids.

Except where a loss is listed: special tokens, byte tokens or U+2581 spelled out in the text, and
character maps, which the library applies grapheme by grapheme.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from made_files import Made
from support import FIXTURES, SHARED, absent, reference, shared_json_lines, shared_tokenizer

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.errors import UnsupportedError
from mtkit.formats import hf
from mtkit.formats.contract import WriteOptions, Written
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, TokenType, fields

if TYPE_CHECKING:
    from pathlib import Path

NASTY = [
    "",
    " ",
    "   lead and trail   ",
    "a  b   c\n\n d\t\te\r\nf",
    "Hello, MNN! it's they'LL 12345 x²½",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22",
    "e\u0301 \u00e9 \u1e9b\u0323 \ufb01 \u212b",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\u0000\u0001\u007f\u0085\u00ad\u200b\ufeff\ufffd",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<0x41> \u2581\u2581x\u2581",
]
EXACT = [
    "bbpe-8k/vocab.gguf",
    "bbpe-8k/vocab.json",
    "spm-bpe/tokenizer.model",
    "spm-bpe/tokenizer.bin",
    "spm-bpe/vocab.gguf",
    "spm-unigram-id/tokenizer.model",
    "wordpiece/vocab.txt",
]
MAPPED = ["spm-unigram/tokenizer.model", "spm-unigram/vocab.gguf", "spm-unigram-id/vocab.gguf"]


def read(path: Path) -> TokenizerSpec:
    return formats.read(Source.open(str(path)))[1].spec


def write(spec: TokenizerSpec) -> tuple[Written, Any, TokenizerSpec]:
    """Write; returns the files, the library's tokenizer and what reading gives back."""
    made = hf.write(spec, WriteOptions())
    text = made.files["tokenizer.json"].decode()
    library = reference("tokenizers").Tokenizer.from_str(text)
    return made, library, hf.read(Made(made), {}).spec


def texts_of(kind: str) -> list[str]:
    lines = (FIXTURES / kind / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines] + NASTY


def spelled(spec: TokenizerSpec) -> set[str]:
    """Return the texts that the library takes for tokens and the reference does not."""
    found = {token.content.decode("utf-8", "replace") for token in spec.added_tokens.tokens}
    kinds = {TokenType.CONTROL, TokenType.UNKNOWN, TokenType.BYTE, TokenType.USER_DEFINED}
    for number, piece in enumerate(spec.vocabulary.pieces):
        if spec.vocabulary.type_of(number) in kinds:
            found.add(piece.decode("utf-8", "replace"))
    return found | {"\u2581"}


def check_law(spec: TokenizerSpec, made: Written, again: TokenizerSpec) -> None:
    listed = {loss.field.split(".")[0] for loss in made.losses}
    changed = {name for name in fields(spec) if getattr(spec, name) != getattr(again, name)}
    assert changed - {"name"} <= listed


@pytest.mark.parametrize("name", EXACT)
def test_ids_stay(name: str) -> None:
    spec = read(FIXTURES / name)
    made, library, again = write(spec)
    check_law(spec, made, again)
    special, pipeline, mine = spelled(spec), Pipeline(spec), Pipeline(again)
    compared = 0
    for text in texts_of(name.split("/", maxsplit=1)[0]):
        wanted = library.encode(text, add_special_tokens=False).ids
        assert mine.encode_ids(text, add_special_tokens=False) == wanted
        if not any(token in text for token in special):
            assert pipeline.encode_ids(text, add_special_tokens=False) == wanted, text
            compared += 1
    assert compared > 140


@pytest.mark.parametrize("name", MAPPED)
def test_character_maps_are_the_only_difference(name: str) -> None:
    spec = read(FIXTURES / name)
    made, library, again = write(spec)
    check_law(spec, made, again)
    special, pipeline, mine = spelled(spec), Pipeline(spec), Pipeline(again)
    differing = []
    for text in texts_of(name.split("/", maxsplit=1)[0]):
        wanted = library.encode(text, add_special_tokens=False).ids
        assert mine.encode_ids(text, add_special_tokens=False) == wanted
        found = pipeline.encode_ids(text, add_special_tokens=False)
        if found != wanted and not any(token in text for token in special):
            differing.append(text)
    assert len(differing) <= 4
    assert not any(text.isascii() for text in differing)


@pytest.mark.parametrize("kind", ["spm-bpe", "spm-unigram-id"])
def test_the_library_agrees_with_sentencepiece(kind: str) -> None:
    path = FIXTURES / kind / "tokenizer.model"
    processor = reference("sentencepiece").SentencePieceProcessor(model_file=str(path))
    spec = read(path)
    _, library, _ = write(spec)
    special = spelled(spec)
    for text in texts_of(kind):
        if not any(token in text for token in special) and "\0" not in text:
            assert library.encode(text, add_special_tokens=False).ids == processor.encode(text)


def test_decoding_gives_the_text_back() -> None:
    for name in ("spm-bpe/tokenizer.model", "spm-unigram-id/tokenizer.model", "bbpe-8k/vocab.gguf"):
        spec = read(FIXTURES / name)
        _, library, _ = write(spec)
        special = spelled(spec)
        for text in texts_of(name.split("/")[0]):
            if not any(token in text for token in special) and "\0" not in text:
                ids = library.encode(text, add_special_tokens=False).ids
                assert library.decode(ids) == text


SHARED_EXACT = ["llama-2/tokenizer.model", "llama-2/tokenizer.bin", "mistral-v0.3/tokenizer.model"]
SHARED_EXACT += ["cl100k_base/tokenizer.tiktoken", "claude-legacy/tokenizer.tiktoken"]
SHARED_EXACT += ["syn-sp-bpe-opts/tokenizer.model", "tekken-240718/tekken.json"]


@pytest.mark.parametrize("name", SHARED_EXACT)
def test_shared_files_keep_their_ids(name: str) -> None:
    """Ids stored for the source's own reference are those of the tokenizer.json made from it."""
    folder, file = name.split("/")
    spec = read(shared_tokenizer(folder) / file)
    _, library, _ = write(spec)
    kind = {"tokenizer.model": "spm", "tokenizer.bin": "llama2c", "tekken.json": "tekken"}
    answers = shared_json_lines(f"tokenizers/golden/{folder}.{kind.get(file, 'tiktoken')}.jsonl.gz")
    inputs = SHARED / "tokenizers" / "golden" / "inputs.json"
    texts = json.loads(inputs.read_text(encoding="utf-8"))["inputs"]
    special = spelled(spec)
    compared = 0
    for answer in answers:
        text = texts[answer["i"]]
        if "ids" in answer and not any(token in text for token in special):
            wanted = answer["ids"][1:] if file == "tokenizer.bin" else answer["ids"]
            assert library.encode(text, add_special_tokens=False).ids == wanted, text
            compared += 1
    assert compared > 480


def test_merges_from_scores_are_the_published_ones() -> None:
    """The tokenizer.json that was published with llama-2 has the same merges in the same order."""
    if not SHARED.is_dir():
        absent("the shared tokenizers are not here", "MTKIT_REQUIRE_SHARED")
    folder = shared_tokenizer("llama-2")
    published: Any = read(folder / "tokenizer.json").model
    _, _, again = write(read(folder / "tokenizer.model"))
    made: Any = again.model
    assert made.merges == published.merges


def test_what_cannot_be_said_is_refused() -> None:
    for name in ("rwkv-world/rwkv_vocab_v20230424.txt",):
        folder, file = name.split("/")
        with pytest.raises(UnsupportedError, match="does not support greedy longest match"):
            hf.write(read(shared_tokenizer(folder) / file), WriteOptions())
