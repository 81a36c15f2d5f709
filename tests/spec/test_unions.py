"""Every member of the closed unions is held to its reference, with nothing from outside.

The members come from the unions themselves: a new one without a case fails here. Where a reference
can be installed the case asks it: ``tokenizers``, ``sentencepiece``, ``tiktoken``, llama.cpp. The
loader of MNN and the tokenizer of llama2.c cannot; for what only they have, the answers are
written down by their rules.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import union_cases as made
from union_rules import RULES

from mtkit.base.record import Record, fields, replace
from mtkit.engine import load_engine
from mtkit.pipeline import Pipeline
from mtkit.spec import codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = 4
STAGES = {
    "Normalizer": ("normalizer", made.normalizer),
    "PreTokenizer": ("pre_tokenizer", made.pre_tokenizer),
    "PostProcessor": ("post_processor", made.post_processor),
    "Decoder": ("decoder", made.decoder),
}
LIBRARY = {
    "Normalizer": made.cases.NORMALIZERS,
    "PreTokenizer": made.cases.PRE_TOKENIZERS,
    "PostProcessor": ["Template", "Bert", "Roberta", "ByteLevel", "Sequence"],
    "Decoder": made.cases.DECODERS,
    "Model": ["BPE", "Unigram", "WordPiece", "WordLevel"],
}
"""Members that ``tokenizers`` has."""
TRAINED = {
    ("Normalizer", "Spaces"): "unigram", ("Decoder", "Subwords"): "unigram",
    ("Model", "ScoreBPE"): "bpe", ("Model", "Characters"): "char", ("Model", "Words"): "word",
}  # fmt: skip
LLAMA = {
    ("PreTokenizer", "DigitGroups"): "gpt2",
    ("Model", "Trie"): "rwkv",
    ("Model", "ShortestPath"): "plamo2",
    ("Model", "SectionBPE"): "hybriddna",
    ("Decoder", "Pieces"): "gpt2",
}
PATTERNS = {"Text": ("Normalizer", "Replace"), "Regex": ("PreTokenizer", "Split")}


def contained(record: object) -> Iterator[type[Record]]:
    """Yield the class of every record in a specification."""
    if isinstance(record, Record):
        yield type(record)
        for name in fields(record):
            yield from contained(getattr(record, name))
    elif isinstance(record, tuple):
        for part in record:
            yield from contained(part)


def cases_of(union: str, name: str, folder: Path) -> list[made.Case]:
    if union == "Pattern":
        stage, kind = PATTERNS[name]
        return [STAGES[stage][1](kind, seed) for seed in range(3 * SEEDS)]
    if name in LIBRARY.get(union, ()):
        build = made.model if union == "Model" else STAGES[union][1]
        return [build(name, seed) for seed in range(SEEDS)]
    if (union, name) in TRAINED:
        return [made.trained(TRAINED[union, name], seed) for seed in range(2)]
    if (union, name) == ("Model", "RankBPE"):
        return [made.ranks(seed) for seed in range(2)]
    if (union, name) in LLAMA:
        return [made.llama_cpp(LLAMA[union, name], folder / "vocabulary.gguf")]
    pytest.fail(f"no case holds {union}.{name} to its reference")


MEMBERS = [(union, cls) for union in codec.UNIONS for cls in codec.union_members(union)]


def answers(case: made.Case, pipeline: Any) -> list[Any]:
    rng = random.Random(1)
    size = len(case.spec.vocabulary)
    found: list[Any] = []
    for text in case.texts:
        encoded = pipeline.encode(text, **case.options)
        found.append((list(encoded.ids), [tuple(span) for span in encoded.offsets]))
    for _ in range(20):
        ids = [rng.randrange(min(size, rng.choice([30, 300]))) for _ in range(rng.randint(0, 7))]
        found.append(pipeline.decode(ids, skip_special_tokens=False))
    return found


def expected(case: made.Case, ours: list[Any]) -> list[Any]:
    """Return the reference's answers; offsets that it has not are taken as they are."""
    rng = random.Random(1)
    size = len(case.spec.vocabulary)
    found: list[Any] = []
    for text, own in zip(case.texts, ours, strict=False):
        ids, offsets = case.encode(text)
        found.append((ids, own[1] if offsets is None else offsets))
    for _ in range(20):
        ids = [rng.randrange(min(size, rng.choice([30, 300]))) for _ in range(rng.randint(0, 7))]
        found.append(case.decode(ids) if case.decode else ours[len(found)])
    return found


LIVE = [(union, cls) for union, cls in MEMBERS if (union, cls.__name__) not in RULES]


@pytest.mark.parametrize(
    ("union", "cls"), LIVE, ids=[f"{union}.{cls.__name__}" for union, cls in LIVE]
)
def test_member_answers_as_its_reference(union: str, cls: type[Record], tmp_path: Path) -> None:
    cases = cases_of(union, cls.__name__, tmp_path)
    cases = [case for case in cases if cls in contained(case.spec)]
    assert cases, "no case contains it"
    matters = False
    for case in cases:
        ours = answers(case, Pipeline(case.spec))
        assert ours == expected(case, ours)
        assert answers(case, load_engine(case.spec)) == ours
        if union in STAGES:
            bare = replace(case.spec, **{STAGES[union][0]: None})
            matters = matters or answers(case, Pipeline(bare)) != ours
    assert matters or union not in STAGES, "without it the answers are the same"


@pytest.mark.parametrize(("union", "name"), RULES, ids=[".".join(key) for key in RULES])
def test_member_answers_by_the_rules(union: str, name: str) -> None:
    (cls,) = (cls for cls in codec.union_members(union) if cls.__name__ == name)
    spec, encoded, decoded = RULES[union, name]()
    assert cls in contained(spec)
    assert decoded if union == "Decoder" else encoded
    for tokenizer in (Pipeline(spec), load_engine(spec)):
        for text, ids in encoded:
            assert tokenizer.encode_ids(text, add_special_tokens=False) == ids, text
        for ids, content in decoded:
            assert tokenizer.decode_bytes(ids, skip_special_tokens=False) == content, ids
