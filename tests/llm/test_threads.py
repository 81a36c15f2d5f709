"""One tokenizer used from eight threads, its lazy tables included, answers as from one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support import FIXTURES

import mtkit
from mtkit.conversion.tokenizer import convert
from mtkit.tokenizer import comparison

THREADS = 8
FILES = (
    "bbpe-8k/tokenizer.json",
    "bbpe-8k/vocab.gguf",
    "spm-bpe/tokenizer.model",
    "spm-bpe/tokenizer.bin",
    "spm-unigram/tokenizer.model",
    "wordpiece/tokenizer.json",
)


def answers(tokenizer: mtkit.Tokenizer, start: int, texts: list[str]) -> dict[int, Any]:
    """Use everything that is made when it is first needed, beginning at another text each time."""
    found = {}
    for step in range(len(texts)):
        number = (start + step) % len(texts)
        encoding = tokenizer.encode(texts[number])
        ids = tokenizer.encode_ids(texts[number], add_special_tokens=False)
        names = [(tokenizer.id_to_token(i), tokenizer.token_bytes(i)) for i in ids[:5]]
        found[number] = (
            encoding,
            ids,
            tokenizer.decode(ids),
            names,
            [tokenizer.token_to_id(name) for name, _ in names if name is not None],
            tokenizer.spec.vocab_size,
            tokenizer.trace(texts[number]).ids if step < 2 else None,
        )
    return found


def together(make: Any, texts: list[str]) -> list[dict[int, Any]]:
    """Run ``answers`` on one tokenizer from many threads that begin at once."""
    tokenizer = make()
    gate = threading.Barrier(THREADS)
    found: list[Any] = [None] * THREADS

    def work(number: int) -> None:
        gate.wait()
        try:
            found[number] = answers(tokenizer, number * len(texts) // THREADS, texts)
        except BaseException as error:  # noqa: BLE001  shown by the test
            found[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return found


@pytest.mark.parametrize("name", [*FILES, "tables.mtok"])
def test_eight_threads(name: str, tmp_path: Any) -> None:
    path = FIXTURES / name
    if name == "tables.mtok":
        from mtkit.formats.contract import WriteOptions

        path = tmp_path / name
        options = WriteOptions(values=(("tables", "yes"),))
        convert(str(FIXTURES / FILES[0]), str(path), to="mtok", options=options)
    texts = comparison.probe_texts()[::4]
    for round_ in range(2):
        alone = answers(mtkit.load(path), 0, texts)
        for number, found in enumerate(together(lambda: mtkit.load(path), texts)):
            assert not isinstance(found, BaseException), found
            assert set(found) == set(alone)
            for text, answer in found.items():
                where = (round_, number, texts[text])
                traced = answer[-1]
                assert answer[:-1] == alone[text][:-1], where
                assert traced is None or traced == answer[0].ids, where
