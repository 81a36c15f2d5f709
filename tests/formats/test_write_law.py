"""What any writer makes of generated tokenizers reads back as the same, less the listed losses.

Components, options, small vocabularies and added tokens are drawn; ``MTKIT_EXAMPLES`` is how many
for each writer.
"""

from __future__ import annotations

import os
import random

import pytest
from conversions_back import WRITABLE, trip
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_tokenizers import draw_tokenizer
from support import FIXTURES, reference

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import MtkitError
from mtkit.formats import hf
from mtkit.spec import SpecialIds, TokenizerSpec, models, normalizers, pre_tokenizers, replace
from mtkit.tokenizer.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("MTKIT_EXAMPLES") or 16)
BASES = (
    "bbpe-8k/tokenizer.json",
    "bbpe-8k/vocab.json",
    "bbpe-8k/vocab.gguf",
    "spm-bpe/tokenizer.model",
    "spm-bpe/tokenizer.bin",
    "spm-unigram/tokenizer.model",
    "wordpiece/tokenizer.json",
    "wordpiece/vocab.gguf",
)


def hold(spec: TokenizerSpec, to: str, texts: list[str]) -> bool:
    """Check the law; return whether the format took the tokenizer."""
    found = trip(Tokenizer(spec), to, texts)
    if found is None:
        return False
    assert not found.fields, (found.fields, found.losses)
    assert not found.ids, (found.ids, found.losses)
    return True


@pytest.mark.parametrize("to", WRITABLE)
def test_drawn_tokenizers(to: str) -> None:
    reference("tokenizers")
    taken = []

    @settings(max_examples=EXAMPLES)
    @given(st.integers(0, 1 << 32))
    def law(seed: int) -> None:
        drawn = draw_tokenizer(random.Random(seed)).to_str()
        try:
            spec = hf.read(Source("tokenizer.json", drawn.encode()), {}).spec
        except MtkitError:
            return  # such files have their tests
        taken.append(hold(spec, to, []))

    law()
    assert taken
    if to in ("mtok", "hf"):
        assert sum(taken) > EXAMPLES // 3


IDS = st.none() | st.integers(0, 200) | st.just(1 << 20)


@st.composite
def changes(draw: st.DrawFn) -> dict[str, object]:
    """Draw changes of a tokenizer's fields that do not stand in any format's way alone."""
    drawn: dict[str, object] = {
        "join": draw(st.sampled_from([" ", "", "+"])),
        "invalid_utf8": draw(st.sampled_from(["error", "replace", "keep", "loose", "wide"])),
        "clean_up_spaces": draw(st.sampled_from(["none", "full", "contractions", "three_passes"])),
        "special_ids": SpecialIds(
            *draw(st.lists(IDS, min_size=3, max_size=9)),
            stop=tuple(sorted(draw(st.sets(st.integers(0, 200), max_size=3)))),
        ),
        "normalizer": draw(
            st.sampled_from(
                [normalizers.Lowercase(), normalizers.UnicodeForm("NFC"), normalizers.Sequence(())]
            )
        ),
        "pre_tokenizer": draw(
            st.sampled_from(
                [None, pre_tokenizers.Sequence(()), pre_tokenizers.Digits(individual=True)]
            )
        ),
        "decoder": None,
        "post_processor": None,
        "prefix_ids": tuple(draw(st.lists(st.integers(0, 50), max_size=2))),
    }
    kept = draw(st.sets(st.sampled_from(sorted(drawn)), max_size=2))
    return {name: drawn[name] for name in kept}


@pytest.mark.parametrize("base", BASES)
def test_changed_fields(base: str) -> None:
    spec = mtkit.load(FIXTURES / base).spec

    @settings(max_examples=EXAMPLES // 4)
    @given(changes(), st.sampled_from(WRITABLE))
    def law(changed: dict[str, object], to: str) -> None:
        hold(replace(spec, **changed), to, [])

    law()


def test_another_unknown_token_than_the_models() -> None:
    spec = mtkit.load(FIXTURES / "spm-bpe/tokenizer.bin").spec
    assert hold(replace(spec, special_ids=SpecialIds(unk=1)), "hf", [])


def test_kept_spellings_of_special_tokens_that_have_changed() -> None:
    spec = mtkit.load(FIXTURES / "bbpe-8k/tokenizer.json").spec
    assert spec.special_ids.stop
    kept = {
        "tokenizer_config.json": {"eos_token": {"content": "<|im_end|>"}, "bos_token": "none such"},
        "special_tokens_map.json": {"pad_token": "<|im_start|>", "mask_token": "<|endoftext|>"},
        "generation_config.json": {"eos_token_id": [8191, 8189], "top_k": 3},
    }
    for changed in (SpecialIds(), SpecialIds(eos=8191, mask=8189, stop=(5,))):
        assert hold(replace(spec, special_ids=changed), "hf", [])
        assert hold(replace(spec, special_ids=changed, extras=tuple(kept.items())), "hf", [])


def test_what_joins_tokens_beside_a_decoder() -> None:
    spec = mtkit.load(FIXTURES / "bbpe-8k/vocab.gguf").spec
    assert spec.decoder is not None
    assert hold(replace(spec, join=""), "hf", [])


def test_options_of_a_model() -> None:
    """One option after the other, into every format: none gets lost in silence."""
    bpe = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    pieces = mtkit.load(FIXTURES / "wordpiece" / "tokenizer.json").spec
    assert isinstance(bpe.model, models.BPE)
    assert isinstance(pieces.model, models.WordPiece)
    changed = [
        *(replace(bpe, model=replace(bpe.model, **{name: True}))
          for name in ("fuse_unk", "byte_fallback", "ignore_merges", "whole_newlines")),
        replace(bpe, model=replace(bpe.model, unk=0)),
        replace(bpe, model=replace(bpe.model, missing="after")),
        replace(bpe, model=replace(bpe.model, without_unk="error")),
        *(replace(pieces, model=replace(pieces.model, **option))
          for option in ({"max_chars": None}, {"unit": "bytes"}, {"too_long": "nothing"},
                         {"gap": "rest"}, {"restart": "\u2581"})),
    ]  # fmt: skip
    for spec in changed:
        taken = [to for to in WRITABLE if hold(spec, to, [])]
        assert "mtok" in taken
