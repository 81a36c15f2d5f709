"""Writers: generated tokenizers and every format read back as the same, less the listed losses,
and the lists stay short.

Components, options, small vocabularies and added tokens are drawn; ``MTKIT_EXAMPLES`` is how many
for each writer.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from conversions_back import WRITABLE, trip, written
from hypothesis import given, settings
from hypothesis import strategies as st
from llama import Llama
from pipeline_cases import draw_tokenizer
from rank_cases import random_ranks
from small_files import sources
from support import FIXTURES, SHARED, golden_inputs, reference, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.base.packed import Pieces
from mtkit.base.record import Record
from mtkit.commands.convert.report import MOST_LOSSES, loss_lines
from mtkit.conversion.tokenizer import MOST_NAMED, refuse_losses
from mtkit.conversion.verification import spec_equal
from mtkit.errors import LossError, MtkitError, UnsupportedError
from mtkit.formats import FORMATS, get_format, hf, read
from mtkit.formats.contract import LOSS_CODES, Loss, WriteOptions
from mtkit.formats.ranks import rank_spec, rank_vocabulary
from mtkit.spec import (
    SpecialIds,
    TokenizerSpec,
    Vocabulary,
    models,
    normalizers,
    pre_tokenizers,
    replace,
)
from mtkit.tokenizer import comparison
from mtkit.tokenizer.tokenizer import Tokenizer

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_changed_fields(base: str) -> None:
    spec = mtkit.load(FIXTURES / base).spec

    @settings(max_examples=EXAMPLES // 4)
    @given(changes(), st.sampled_from(WRITABLE))
    def law(changed: dict[str, object], to: str) -> None:
        hold(replace(spec, **changed), to, [])

    law()


@pytest.mark.slow
def test_another_unknown_token_than_the_models() -> None:
    spec = mtkit.load(FIXTURES / "spm-bpe/tokenizer.bin").spec
    assert hold(replace(spec, special_ids=SpecialIds(unk=1)), "hf", [])


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_joins_tokens_beside_a_decoder() -> None:
    spec = mtkit.load(FIXTURES / "bbpe-8k/vocab.gguf").spec
    assert spec.decoder is not None
    assert hold(replace(spec, join=""), "hf", [])


@pytest.mark.slow
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


LONGEST_LIST = 24
"""Of any writer, however large the vocabulary: a loss is of a field, not of a token."""


def test_tokens_that_are_not_bytes_are_one_loss() -> None:
    """50,001 such tokens were as many lines."""
    spec = rank_spec(rank_vocabulary(random_ranks(1)), r"\S+|\s+", {}, SpecialIds())
    more = [b"not bytes %d" % number for number in range(50_001)]
    odd = replace(spec, vocabulary=Vocabulary(Pieces.of([*spec.vocabulary.pieces, *more])))
    written = get_format("tiktoken").write(odd, WriteOptions())
    (loss,) = (loss for loss in written.losses if loss.code == "decoding")
    assert "50001, the first 400" in loss.effect


@pytest.mark.parametrize("name", [name for name in sources() if not name.startswith("mtok")])
def test_a_writer_lists_a_loss_once_and_few_of_them(name: str) -> None:
    spec = read(sources()[name])[1].spec
    for to in FORMATS:
        try:
            losses = get_format(to).write(spec, WriteOptions()).losses
        except (AttributeError, UnsupportedError):
            continue
        assert len(losses) <= LONGEST_LIST
        assert len(set(losses)) == len(losses), (to, losses)


class Unheard(Record):
    """A component that no writer names."""


@pytest.mark.parametrize("name", ["gguf:t5", "gguf:llama"])
def test_a_normalizer_that_gguf_does_not_name_is_lost(name: str) -> None:
    """It was taken for one that llama.cpp has in another form: ``ids-possible``."""
    spec = replace(read(sources()[name])[1].spec, normalizer=Unheard())
    losses = get_format("gguf").write(spec, WriteOptions()).losses
    assert [loss.code for loss in losses if loss.field == "normalizer"] == ["ids"]


def drawn(seed: int) -> tuple[Loss, ...]:
    rng = random.Random(seed)
    fields = ["vocabulary", "vocabulary.types", "model.merges", "model", "normalizer"]
    return tuple(
        Loss(rng.choice(LOSS_CODES), rng.choice(fields), f"effect {number}")
        for number in range(rng.choice([0, 3, 20, 400]))
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_screen_folds_many_of_one_kind(seed: int) -> None:
    losses = drawn(seed)
    whole = loss_lines("lost", losses, verbose=True)
    assert sorted(whole) == sorted(f"  lost\t{x.code}: {x.field}: {x.effect}" for x in losses)
    lines = loss_lines("lost", losses, verbose=False)
    kinds = [(loss.code, loss.field.partition(".")[0]) for loss in losses]
    assert len(lines) == sum(
        kinds.count(kind) if kinds.count(kind) <= MOST_LOSSES else 1 for kind in set(kinds)
    )
    counted = [line for line in lines if "-v lists them" in line]
    hidden = sum(int(line.split("(and ")[1].split(" more")[0]) for line in counted)
    assert len(lines) + hidden == len(losses)


def test_a_refusal_names_a_few_losses() -> None:
    losses = tuple(Loss("ids", "model", f"effect {number}") for number in range(50_001))
    with pytest.raises(LossError, match=f"and {50_001 - MOST_NAMED} more") as caught:
        refuse_losses(losses, (), "x", "hf")
    assert len(str(caught.value)) < 500


FULL = bool(os.environ.get("MTKIT_FULL"))
LARGE_BYTES = 3_000_000
"""Of a file: from here on an ordinary run writes only the format itself and .mtok."""
NO_TOKENIZER = ("llama-3/tokenizer.tiktoken",)
"""Ranks without a pattern: mtkit asks for it."""
ENDINGS = ("tokenizer.json", "tekken.json", ".model", ".tiktoken", ".bin", ".txt", ".gguf")
BESIDE = ("merges.txt",)


def own() -> list[str]:
    return sorted(
        f"{file.parent.name}/{file.name}"
        for file in FIXTURES.glob("*/*")
        if file.name.endswith((*ENDINGS, "vocab.json")) and file.name not in BESIDE
    )


def stored() -> list[str]:
    """Return the shared files, or one to be skipped."""
    names = []
    for file in (SHARED / "tokenizers" / "tokenizers").glob("*/*"):
        name = f"{file.parent.name}/{file.name.removesuffix('.xz')}"
        if name.endswith(ENDINGS) and name not in NO_TOKENIZER and not name.endswith(BESIDE):
            names.append(name)
    return sorted(names) or ["none/tokenizer.json"]


def goals(tokenizer: Tokenizer, path: Path) -> tuple[str, ...]:
    if FULL or path.stat().st_size < LARGE_BYTES:
        return WRITABLE
    return tuple(name for name in WRITABLE if name in ("mtok", tokenizer.format_name))


def check(path: Path, texts: list[str]) -> None:
    tokenizer = mtkit.load(path)
    arrived = []
    for to in goals(tokenizer, path):
        found = trip(tokenizer, to, texts)
        if found is None:
            continue
        arrived.append(to)
        assert not found.fields, (to, found.fields, found.losses)
        assert not found.ids, (to, found.ids[:3], len(found.ids), found.losses)
        if to == "mtok":
            assert not [loss for loss in found.losses if loss.code != "metadata"]
            assert not found.explained
    assert "mtok" in arrived
    assert tokenizer.format_name in arrived


@pytest.mark.parametrize("name", own())
def test_own_fixture(name: str) -> None:
    check(FIXTURES / name, comparison.probe_texts())


@pytest.mark.parametrize("name", stored())
def test_shared_tokenizer(name: str) -> None:
    folder, file = name.split("/")
    check(shared_tokenizer(folder) / file, golden_inputs())


@pytest.mark.parametrize("name", stored())
def test_llama_cpp_gives_what_mtkit_gives_for_the_file(name: str, tmp_path: Path) -> None:
    folder, file = name.split("/")
    path = shared_tokenizer(folder) / file
    if not FULL and path.stat().st_size >= LARGE_BYTES:
        pytest.skip("a large vocabulary; MTKIT_FULL=1 takes it")
    tokenizer = mtkit.load(path)
    made = written(tokenizer.spec, "gguf")
    if made is None:
        return  # llama.cpp has no such tokenizer; the law of refusing has its tests elsewhere
    target = tmp_path / "out.gguf"
    target.write_bytes(next(iter(made.files.values())))
    back = mtkit.load(target)
    llama = Llama(target)
    try:
        for text in golden_inputs():
            for add, parse in ((False, False), (True, True)):
                ids = back.encode_ids(text, add_special_tokens=add, parse_special=parse)
                assert ids == llama.encode(text.encode(), add=add, parse=parse), text
    finally:
        llama.close()


def test_the_comparison_notices() -> None:
    """A field, a field of a stage, and one that only a loss of another stage names."""
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    other = replace(spec, model=replace(spec.model, ignore_merges=True, fuse_unk=True))
    one, two = Loss("ids", "model.ignore_merges", ""), Loss("ids", "model.fuse_unk", "")
    assert not spec_equal(spec, other, ())
    assert not spec_equal(spec, other, (one,))
    assert not spec_equal(spec, other, (Loss("ids", "normalizer", ""),))
    assert spec_equal(spec, other, (one, two))
    assert spec_equal(spec, other, (Loss("ids", "model", ""),))
    assert not spec_equal(spec, replace(spec, join="+"), (one, two))
