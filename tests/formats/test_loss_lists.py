"""Lists of losses stay short: in the library by what writers list, on the screen by folding."""

from __future__ import annotations

import random

import pytest
from rank_cases import random_ranks
from small_files import sources

from mtkit.base.packed import Pieces
from mtkit.base.record import Record
from mtkit.commands.convert.report import MOST_LOSSES, loss_lines
from mtkit.conversion.tokenizer import MOST_NAMED, refuse_losses
from mtkit.errors import LossError, UnsupportedError
from mtkit.formats import FORMATS, get_format, read
from mtkit.formats.contract import LOSS_CODES, Loss, WriteOptions
from mtkit.formats.ranks import rank_spec, rank_vocabulary
from mtkit.spec import SpecialIds, Vocabulary, replace

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
