"""``mtkit token`` and ``mtkit dump``: tokens by id and by text, as people read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from screens import check_screens, screen
from support import FIXTURES, one_line

from mtkit import load

if TYPE_CHECKING:
    from conftest import Run

BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
FILES = (
    "bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model", "spm-unigram/tokenizer.model",
    "bbpe-8k/vocab.gguf", "wordpiece/vocab.gguf",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_token_is_found_by_its_text(name: str) -> None:
    tokenizer = load(FIXTURES / name)
    found: Counter[bool] = Counter()
    for token_id in range(tokenizer.vocab_size):
        if tokenizer.id_to_piece(token_id) is None:
            continue
        ids = tokenizer.text_to_ids(tokenizer.token_bytes(token_id))
        assert all(tokenizer.token_bytes(i) == tokenizer.token_bytes(token_id) for i in ids)
        found[token_id in ids] += 1
    assert found[True] > tokenizer.vocab_size * 0.99, found  # of equal pieces one is looked up


def test_filters_look_into_text_and_spelling(mtkit: Run) -> None:
    def ids(*args: object) -> list[int]:
        rows = mtkit("dump", "vocab", BBPE, *args).stdout.decode().splitlines()
        return [int(row.partition("\t")[0]) for row in rows]

    tokenizer = load(BBPE)
    texts = {i: tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)}
    wanted = [i for i, text in texts.items() if "中".encode() in text]
    assert wanted
    assert ids("--filter", "中") == wanted
    assert ids("--filter", "ä¸Ń") == wanted
    assert ids("--filter", " the") == [i for i, text in texts.items() if b" the" in text]
    assert ids("--filter", " th?") == [
        i for i, text in texts.items() if text.startswith(b" th") and len(text.decode()) == 4
    ]
    assert ids("--id", "5,100-102") == [5, 100, 101, 102]
    assert ids("--id", "100-102", "--filter", "nothing has this") == []
    assert "--id is for" in one_line(mtkit("dump", "merges", BBPE, "--id", "1"), 2)


def test_on_a_terminal_tokens_are_text() -> None:
    lines = check_screens("dump", "vocab", BBPE, "--filter", "中文")[80].lines
    assert lines[0].split() == ["id", "token", "type", "spelling"]
    assert any(line.split()[1] == "中文" and line.endswith("ä¸Ńæĸĩ") for line in lines[1:-1])
    assert "·the" in check_screens("token", "·the", "-t", BBPE)[60].words
    assert screen("encode", "a 中文\n", "--tokens", "-t", BBPE).words == "a ·中 文 ⏎"
    merges = check_screens("dump", "merges", BBPE, "--filter", "中文")[80].lines
    assert merges[0].split() == ["rank", "left", "right", "spelling"]
