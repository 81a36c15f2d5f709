"""Tokenizers that hypothesis draws, and what holds for each: both engines say the same.

A model is drawn by a seed, each stage and each text on its own: a failure shrinks to the
components that it needs and to a short text.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

from engine_beside_pipeline import HANDED_OVER, Both, Tally
from engine_cases import (
    ADDED,
    ALPHABET,
    NORMALIZERS,
    POST,
    PRE_TOKENIZERS,
    TEXTS,
    random_model,
    random_vocabulary,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtkit.spec import TokenizerSpec, normalizers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from mtkit.spec.models import Model
    from mtkit.spec.vocabulary import Vocabulary

NO_OFFSETS = "a later one changes the whole text"
"""The reference fails on its own offsets; ids need none."""
METHODS = "encode", "encode_offsets"
STAGES: dict[str, Sequence[Any]] = {
    "normalizer": NORMALIZERS, "pre_tokenizer": PRE_TOKENIZERS, "post_processor": POST,
    "added_tokens": ADDED, "invalid_utf8": ("error", "replace", "keep", "loose"),
    "prefix_ids": ((), (2,)),
}  # fmt: skip
_WRITING = re.compile(r"\b(ByteLevel|Metaspace)\(")
"""Behind ``Spaces`` these are the pipeline's."""


def any_model(rng: random.Random) -> tuple[Vocabulary, Model]:
    vocabulary = random_vocabulary(rng, "\u2581")
    return vocabulary, random_model(rng, vocabulary)


@st.composite
def tokenizers(
    draw: DrawFn,
    models: Callable[[random.Random], tuple[Vocabulary, Model]] = any_model,
    **stages: Sequence[Any],
) -> TokenizerSpec:
    """Draw a tokenizer; ``stages`` are fields of the specification and what each may be."""
    vocabulary, model = models(random.Random(draw(st.integers(0, 1 << 32))))
    choices = {**STAGES, **stages}
    parts = {name: draw(st.sampled_from(choices[name])) for name in choices}
    behind = _WRITING.search(repr(parts["pre_tokenizer"]))
    if behind and isinstance(parts["normalizer"], normalizers.Spaces):
        parts["pre_tokenizer"] = None
    return TokenizerSpec(vocabulary, model, **parts)


def joined(units: Sequence[str] = ALPHABET, longest: int = 40) -> SearchStrategy[str]:
    """Draw texts of some characters or strings."""
    return st.lists(st.sampled_from(units), max_size=longest).map("".join)


def say_the_same(
    drawn: SearchStrategy[TokenizerSpec],
    texts: SearchStrategy[str] | SearchStrategy[bytes] = joined(),  # noqa: B008  a constant
    *,
    fixed: Sequence[str | bytes] = TEXTS,
    examples: int = 12,
    handed_over: float | Callable[[TokenizerSpec], float] = HANDED_OVER,
    places: bool = False,
    methods: Sequence[str] = METHODS,
) -> None:
    """Hold engine and pipeline to each other on fixed and on drawn texts.

    Args:
        handed_over: Part of the texts that the core may leave to the pipeline for their ids, over
            all tokenizers; ``places``: and for their tokens with places.
    """
    tally = Tally()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(drawn, st.lists(texts, min_size=4, max_size=12))
    def holds(spec: TokenizerSpec, more: list[str | bytes]) -> None:
        part = handed_over(spec) if callable(handed_over) else handed_over
        with Both(spec, part, tally) as both:
            for text in [*fixed, *more]:
                compare(both, text, places=places, methods=methods)

    holds()
    tally.check()


def compare(
    both: Both, text: str | bytes, *, places: bool = True, methods: Sequence[str] = METHODS
) -> None:
    """Ask for a text's ids with every option, and for its tokens."""
    for special in (True, False):
        for parse in (None, False, True):
            both.same(
                "encode_ids", text, unless=NO_OFFSETS,
                add_special_tokens=special, parse_special=parse,
            )  # fmt: skip
    for method in methods:
        both.same(method, text, counts=places, unless=NO_OFFSETS)
