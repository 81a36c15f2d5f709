"""Which of llama.cpp's names a split gets, however a file spells it, and what is listed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama import Llama
from support import FIXTURES, golden_inputs, reference, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.formats import gguf, hf
from mtkit.formats.contract import WriteOptions
from mtkit.formats.tiktoken import ENCODINGS
from mtkit.gguf import open_gguf
from mtkit.spec import TokenType, models, pre_tokenizers, replace
from mtkit.spec.text import Regex

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.formats.contract import Written
    from mtkit.spec import TokenizerSpec

O200K = ENCODINGS["o200k_base"]().pattern
LETTERS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
TEXT = st.text(
    st.characters(codec="ascii") | st.sampled_from("\u4f60\u597d\u00e4\u00df\u2026 '/\n")
)


def with_split(split: pre_tokenizers.Split, *, whole: bool) -> TokenizerSpec:
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    assert isinstance(spec.model, models.BPE)
    return replace(
        spec,
        normalizer=None,
        pre_tokenizer=pre_tokenizers.Sequence((split, LETTERS)),
        model=replace(spec.model, ignore_merges=whole),
    )


def pre_of(made: Written) -> str:
    (data,) = made.files.values()
    found: str = open_gguf(Source("made.gguf", data)).metadata["tokenizer.ggml.pre"]
    return found


def listed(made: Written) -> dict[str, str]:
    return {loss.field: loss.code for loss in made.losses}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("behavior", "invert"), [("isolated", False), ("removed", True)])
def test_the_split_of_gpt_4o_is_llama_cpps(
    tmp_path: Path, behavior: Any, invert: bool, whole: bool
) -> None:
    """Published files have it either way; merges make every token, so whole words, too."""
    split = pre_tokenizers.Split(Regex(O200K), behavior, invert)
    spec = with_split(split, whole=whole)
    made = gguf.write(spec, WriteOptions())
    assert pre_of(made) == "gpt-4o"
    assert "ids" not in listed(made).values()
    path = tmp_path / "made.gguf"
    path.write_bytes(next(iter(made.files.values())))
    text = hf.write(spec, WriteOptions()).files["tokenizer.json"].decode()
    library, llama = reference("tokenizers").Tokenizer.from_str(text), Llama(path)

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(TEXT)
    def law(drawn: str) -> None:
        if "<|" not in drawn:
            wanted = library.encode(drawn, add_special_tokens=False).ids
            assert llama.encode(drawn.encode(), add=False, parse=False) == wanted

    law()
    llama.close()


@settings(max_examples=20)
@given(st.sets(st.integers(0, 200), max_size=3), st.booleans())
def test_tokens_that_no_merge_makes_are_a_loss_where_whole_words_count(
    unmade: set[int], whole: bool
) -> None:
    spec = with_split(pre_tokenizers.Split(Regex(O200K)), whole=whole)
    assert isinstance(spec.model, models.BPE)
    pairs = list(spec.model.merges.pairs)
    pieces = list(spec.vocabulary.pieces)
    lost = {pieces[pairs[2 * n]] + pieces[pairs[2 * n + 1]] for n in unmade}
    kept = [
        number
        for n in range(len(pairs) // 2)
        for number in pairs[2 * n : 2 * n + 2]
        if pieces[pairs[2 * n]] + pieces[pairs[2 * n + 1]] not in lost
    ]
    merges = models.Merges(Numbers.of("I", kept), Pieces.of([]))
    made = gguf.write(replace(spec, model=replace(spec.model, merges=merges)), WriteOptions())
    assert (listed(made).get("model.ignore_merges") == "ids") is (whole and bool(lost))
    if whole and lost:
        effect = next(loss.effect for loss in made.losses if loss.field == "model.ignore_merges")
        assert effect.startswith(f"{len(lost)} tokens")


@pytest.mark.parametrize(
    ("name", "encoding", "pre", "unlike"),
    [
        ("kimi-k2", None, "kimi-k2", 11),
        # Words with marks (\\p{M}) in them are cut there by llama.cpp's own code for this rule.
        ("o200k_base", None, "gpt-4o", 18),
        ("o200k_base", "o200k_harmony", "gpt-4o", 18),  # gpt-oss
        ("cl100k_base", None, "glm4", 0),  # Llama 3's rule without its BOS
        ("claude-legacy", None, "gpt-2", 0),  # "trillion" decodes as it does, and few know it
    ],
)
def test_ranks_become_a_merge_list_for_llama_cpp(
    name: str, encoding: str | None, pre: str, unlike: int, tmp_path: Path
) -> None:
    import unicodedata

    overrides = {} if encoding is None else {"encoding": encoding}
    tokenizer = mtkit.load(shared_tokenizer(name) / "tokenizer.tiktoken", overrides=overrides)
    made = gguf.write(tokenizer.spec, WriteOptions())
    assert pre_of(made) == pre
    assert "ids" not in listed(made).values()
    path = tmp_path / "made.gguf"
    path.write_bytes(next(iter(made.files.values())))
    llama, others = Llama(path), []
    spelled = [token.content.decode() for token in tokenizer.spec.added_tokens.tokens]
    for text in golden_inputs():
        if any(token in text for token in spelled):
            continue  # llama.cpp finds some of gpt-oss's whether asked to or not (ids-special)
        ids = tokenizer.encode_ids(text, add_special_tokens=False)
        if llama.encode(text.encode(), add=False, parse=False) != ids:
            others.append(text)
    llama.close()
    assert len(others) == unlike
    assert all(any(unicodedata.category(c)[0] == "M" for c in text) for text in others)


def test_holes_between_ranks_and_special_tokens_are_placeholders() -> None:
    tokenizer = mtkit.load(shared_tokenizer("o200k_base") / "tokenizer.tiktoken")
    (data,) = gguf.write(tokenizer.spec, WriteOptions()).files.values()
    back = gguf.read(Source("made.gguf", data), {}).spec
    special = {token.id for token in tokenizer.spec.added_tokens.tokens}
    known = len([piece for piece in tokenizer.spec.vocabulary.pieces if piece])
    kinds = [back.vocabulary.type_of(number) for number in range(back.vocab_size)]
    assert kinds.count(TokenType.NORMAL) == known
    assert {number for number, kind in enumerate(kinds) if kind == TokenType.CONTROL} == special
