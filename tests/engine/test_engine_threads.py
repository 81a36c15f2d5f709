"""One engine, many threads: encoding, offsets and decoding at once (`make sanitize-threads`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from engine_cases import FILES, TEXTS, fixture, random_texts

from mtkit.engine import load_engine

THREADS = 6


@pytest.mark.parametrize("name", FILES)
def test_first_calls_of_all_threads_at_once(name: str) -> None:
    """What an engine makes when it is first asked is made once, and seen whole by every thread."""
    texts = [text for text in TEXTS if isinstance(text, str)] + random_texts(5, 60)
    texts.append("漢字かな " * 3000)  # enough for what is made when much was seen
    reference = load_engine(fixture(name))
    expected = [reference.encode(text) for text in texts]
    for _ in range(3):
        engine, start = load_engine(fixture(name)), Barrier(THREADS)

        def work(number: int, engine=engine, start=start) -> None:
            start.wait(60)
            for at in range(len(texts)):
                place = (at + number * 7) % len(texts)
                ids = engine.encode_ids(texts[place])
                assert ids == expected[place].ids
                assert list(engine.encode_array(texts[place])) == ids
                assert engine.encode(texts[place]).offsets == expected[place].offsets
                assert engine.decode(ids) == reference.decode(ids)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
