"""What is asked for stands around a text, what is not asked for stays: drawn post-processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import UsageError
from mtkit.pipeline import Pipeline
from mtkit.spec import SpecialIds, TokenizerSpec, Vocabulary, models, replace
from mtkit.spec.post_processors import Bert, ByteLevel, Roberta, Sequence, Slot, Template
from mtkit.spec.special_tokens import with_special_ids

if TYPE_CHECKING:
    from mtkit.spec.post_processors import PostProcessor

PIECES = [b"<unk>", b"<s>", b"</s>", b"[SEP]", b"a", b"b"]
BOS, EOS, SEP, A, B = 1, 2, 3, 4, 5
BARE = TokenizerSpec(
    Vocabulary(Pieces.of(PIECES), scores=Numbers.of("f", [0.0] * len(PIECES))),
    models.Characters(unk=0),
    special_ids=SpecialIds(bos=BOS, eos=EOS),
)
FIXED = [Slot(ids=ids, type_id=kind) for ids in [(BOS,), (EOS,), (SEP,), (BOS, SEP), (SEP, EOS)]
         for kind in (0, 1)]  # fmt: skip
CHOICES = st.sampled_from([None, True, False])


def slots(*texts: Slot) -> st.SearchStrategy[tuple[Slot, ...]]:
    fixed = st.lists(st.sampled_from(FIXED), max_size=2)
    parts = st.tuples(*[fixed] * (len(texts) + 1))
    return parts.map(
        lambda drawn: (
            *drawn[0],
            *(
                slot
                for text, after in zip(texts, drawn[1:], strict=True)
                for slot in (text, *after)
            ),
        )
    )


templates = st.builds(Template, slots(Slot(0)), slots(Slot(0), Slot(1, type_id=1)) | st.just(()))
names = st.sampled_from([("<s>", BOS), ("</s>", EOS), ("[SEP]", SEP)])
leaves = (
    templates
    | st.builds(Bert, names, names)
    | st.builds(Roberta, names, names, st.booleans(), st.booleans())
    | st.builds(ByteLevel, st.booleans(), st.booleans())
)
plain = st.builds(ByteLevel, st.booleans(), st.booleans())
processors = (
    st.none()
    | leaves
    | st.builds(lambda step: Sequence((step,)), leaves)
    | st.builds(lambda one, two: Sequence((one, two)), plain, leaves)
    | st.builds(lambda one, two: Sequence((one, two)), leaves, plain)
    | st.just(Sequence(()))
)


def around(spec: TokenizerSpec) -> tuple[list[int], list[int]]:
    ids = Pipeline(spec).encode_ids("a")
    at = ids.index(A)
    return ids[:at], ids[at + 1 :]


@given(processors, CHOICES, CHOICES)
def test_what_is_asked_for_stands_there_and_nothing_else_changes(
    found: PostProcessor | None, bos: bool | None, eos: bool | None
) -> None:
    spec = replace(BARE, post_processor=found)
    changed, assumed = with_special_ids(spec, add_bos=bos, add_eos=eos)
    assert assumed == ()
    front, back = around(spec)
    for wanted, ids, token_id, at in ((bos, front, BOS, 0), (eos, back, EOS, -1)):
        while wanted is False and ids and ids[at] == token_id:
            del ids[at]
        if wanted and (not ids or ids[at] != token_id):
            ids.insert(0 if at == 0 else len(ids), token_id)
    assert around(changed) == (front, back)
    assert (changed is spec) == (around(changed) == around(spec))
    # Without special tokens, and in where the tokens come from, nothing changes.
    for text in ("ab", " a b"):
        before, after = (Pipeline(one) for one in (spec, changed))
        assert after.encode_ids(text, add_special_tokens=False) == before.encode_ids(
            text, add_special_tokens=False
        )
        left, right = (one.encode(text) for one in (before, after))
        assert [
            o for o, s in zip(left.offsets, left.special_tokens_mask, strict=True) if not s
        ] == [o for o, s in zip(right.offsets, right.special_tokens_mask, strict=True) if not s]


@given(processors, CHOICES, CHOICES)
def test_asking_twice_changes_nothing_more(
    found: PostProcessor | None, bos: bool | None, eos: bool | None
) -> None:
    once, _ = with_special_ids(replace(BARE, post_processor=found), add_bos=bos, add_eos=eos)
    assert with_special_ids(once, add_bos=bos, add_eos=eos) == (once, ())


def test_each_text_of_a_pair_gets_what_is_asked_for() -> None:
    spec, _ = with_special_ids(BARE, add_bos=True, add_eos=True)
    encoded = Pipeline(spec).encode("a", "b")
    assert encoded.ids == [BOS, A, EOS, BOS, B, EOS]
    assert encoded.type_ids == [0, 0, 0, 1, 1, 1]
    assert encoded.tokens == ["<s>", "a", "</s>", "<s>", "b", "</s>"]
    assert with_special_ids(spec, add_bos=False, add_eos=False)[0] == BARE


def test_what_stands_between_the_texts_of_a_pair_stays() -> None:
    begin, sep, first, second = Slot(ids=(BOS,)), Slot(ids=(SEP,)), Slot(0), Slot(1, type_id=1)
    template = Template((begin, first), (begin, first, sep, begin, second))
    spec, _ = with_special_ids(replace(BARE, post_processor=template), add_bos=False)
    assert Pipeline(spec).encode("a", "b").ids == [A, SEP, B]
    assert around(spec) == ([], [])


def test_ids_in_front_whatever_one_asks_for_count() -> None:
    spec = replace(BARE, prefix_ids=(BOS, SEP))
    assert with_special_ids(spec, add_bos=True) == (spec, ())
    assert with_special_ids(spec, add_bos=False)[0].prefix_ids == (SEP,)


def test_the_family_counts_where_the_source_leaves_it_open() -> None:
    trained = replace(BARE, model=models.ScoreBPE(unk=0))
    for eos in (None, True, False):
        changed, assumed = with_special_ids(trained, add_eos=eos)
        assert around(changed) == ([BOS], [EOS] if eos else [])
        assert len(assumed) == 1
    assert with_special_ids(trained, by_family=False) == (trained, ())
    assert around(with_special_ids(trained, add_eos=True, by_family=False)[0]) == ([], [EOS])
    assert with_special_ids(trained, add_bos=False) == (trained, ())
    for said in (
        replace(trained, post_processor=ByteLevel()),
        replace(trained, prefix_ids=(BOS,)),
        replace(trained, special_ids=SpecialIds(eos=EOS)),
        replace(trained, model=replace(trained.model, mergeable="any")),
        replace(trained, model=models.Unigram(unk=0)),
    ):
        assert with_special_ids(said) == (said, ())


def test_a_role_without_an_id_cannot_be_added() -> None:
    bare = replace(BARE, special_ids=SpecialIds())
    with pytest.raises(UsageError, match="BOS"):
        with_special_ids(bare, add_bos=True)
    with pytest.raises(UsageError, match="EOS"):
        with_special_ids(bare, add_eos=True)
    assert with_special_ids(bare, add_bos=False, add_eos=False) == (bare, ())
