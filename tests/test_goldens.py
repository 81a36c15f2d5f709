"""Every stored answer of sentencepiece, tiktoken, mistral-common, llama2.c and RWKV is ours, too.

The engine gives all of them, the pipeline every fifth: ids with and without special tokens, pieces,
decoded text. ``test_hf_golden`` does the same for tokenizer.json.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import SHARED, absent, shared_json_lines, shared_tokenizer

import mtkit
from mtkit.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = {
    "spm": ("tokenizer.model",),
    "tiktoken": ("tokenizer.tiktoken",),
    "tekken": ("tekken.json",),
    "llama2c": ("tokenizer.bin", "tok512.bin"),
    "rwkv": ("rwkv_vocab_v20230424.txt",),
}
SAMPLED = 5
"""The pipeline gives every so manieth answer."""


def stored() -> list[tuple[str, str]]:
    """Return name and kind of every file of answers but tokenizer.json's."""
    folder = SHARED / "tokenizers" / "golden"
    names = [file.name.split(".jsonl")[0].rsplit(".", 1) for file in folder.glob("*.jsonl.gz")]
    return sorted((name, kind) for name, kind in names if kind != "hf") or [("none", "spm")]


def inputs() -> list[str]:
    file = SHARED / "tokenizers" / "golden" / "inputs.json"
    found: list[str] = json.loads(file.read_text(encoding="utf-8"))["inputs"]
    return found


def checks(tokenizer: Tokenizer, kind: str, text: str, row: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (what, expected, made)."""
    ids, special = row["ids"], row.get("sp", row["ids"])
    plain: dict[str, bool] = {}
    full: dict[str, bool] = {}
    if kind == "tiktoken":  # "special" means that those written in the text are recognised
        plain, full = {"parse_special": False}, {"parse_special": True}
    elif kind == "tekken":
        plain = {"add_special_tokens": False}
    yield "ids", ids, tokenizer.encode_ids(text, **plain)
    yield "ids with special tokens", special, tokenizer.encode_ids(text, **full)
    decoded = row.get("d", text)
    if "dx" in row:
        decoded = bytes.fromhex(row["dx"]).decode("utf-8", "replace")
    given = special if kind == "tiktoken" else ids
    yield "decoded", decoded, tokenizer.decode(given, skip_special_tokens=False)
    if "p" in row:
        yield "pieces", row["p"], tokenizer.encode(text).tokens


@pytest.mark.parametrize(("name", "kind"), stored())
def test_stored_answers(name: str, kind: str) -> None:
    if name == "none":
        absent("the shared answers are not here", "MTKIT_REQUIRE_SHARED")
    folder = shared_tokenizer(name)
    path = next(folder / file for file in FILES[kind] if (folder / file).exists())
    tokenizer = mtkit.load(path)
    assert tokenizer.format_name == kind
    from mtkit.pipeline import Pipeline

    pipeline = Tokenizer(tokenizer.spec, engine=Pipeline(tokenizer.spec))
    texts = inputs()
    rows = shared_json_lines(f"tokenizers/golden/{name}.{kind}.jsonl.gz")
    rows = [row for row in rows if "ids" in row]
    assert len(rows) > 500
    unlike = []
    for number, row in enumerate(rows):
        text = texts[row["i"]]
        for made_by in [tokenizer, pipeline][: 1 + (number % SAMPLED == 0)]:
            for what, expected, made in checks(made_by, kind, text, row):
                if made != expected:
                    unlike.append((made_by.engine.name, what, text, expected, made))
    assert unlike[:3] == []
