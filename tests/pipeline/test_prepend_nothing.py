"""A ``Prepend`` of an empty text is not nothing: it unties the first character from its place."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support import reference

from mtkit.base.binary import Source
from mtkit.formats import hf
from mtkit.pipeline import Pipeline
from mtkit.tokenizer.load import load_source

pytestmark = pytest.mark.slow

LETTERS = "<x>Abé 's1"


@pytest.mark.parametrize("seed", range(20))
def test_as_in_tokenizers(seed: int) -> None:
    """Ids, by the engine and by the pipeline, whatever comes behind it."""
    t: Any = reference("tokenizers")
    random = Random(seed)
    steps = [
        t.pre_tokenizers.Split(t.Regex(random.choice(("[<>]+", r"\p{L}+", "b"))), "isolated")
        for _ in range(random.randrange(3))
    ]
    if random.random() < 0.7:
        steps.append(t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    pieces = dict.fromkeys([*LETTERS, *t.pre_tokenizers.ByteLevel.alphabet()])
    theirs = t.Tokenizer(t.models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    theirs.normalizer = t.normalizers.Prepend("")
    if steps:
        theirs.pre_tokenizer = t.pre_tokenizers.Sequence(steps)
    source = Source("tokenizer.json", theirs.to_str().encode())
    ours, pipeline = load_source(source), Pipeline(hf.read(source, {}).spec)
    compared = 0
    for _ in range(20):
        text = "".join(random.choices(LETTERS, k=random.randrange(1, 6)))
        try:
            wanted = theirs.encode(text).ids
        except BaseException as error:  # noqa: BLE001  a panic: it cannot split behind it
            assert type(error).__name__ == "PanicException"
            continue
        compared += 1
        assert ours.encode_ids(text) == wanted, text
        assert ours.encode(text).ids == wanted, text
        assert pipeline.encode(text).ids == wanted, text
    assert compared or len(steps) > 1
