"""Generated tokenizers and texts: engine and pipeline give what ``tokenizers`` gives.

20,000 cases in the engine and as many in the pipeline; ``make fuzz-exact`` runs a million. What
such runs have found stands below by name.
"""

from __future__ import annotations

import random
import sys
import warnings

import pytest
from exact_cases import TEXTS, Counts, Drawn, library, ours
from support import reference

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.formats import hf

pytestmark = pytest.mark.slow

PARTS = 10
TOKENIZERS = 20_000 // TEXTS // PARTS


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_tokenizers(part: int) -> None:
    counts = Counts()
    for number in range(part * TOKENIZERS, (part + 1) * TOKENIZERS):
        Drawn(12, number, counts).run()
    sys.stdout.write(f"{dict(counts.counted)}\n")
    assert counts.mismatches == []
    found = counts.counted
    assert found["engine cases"] == found["pipeline cases"] == TOKENIZERS * TEXTS
    assert found["tokenizers in the engine"] > TOKENIZERS / 2
    refusals = found["panics of the library"] + found["errors of the library"]
    assert refusals < TOKENIZERS * TEXTS / 5


def compare(
    model: object,
    texts: list[str],
    normalizer: object = None,
    pre: object = None,
    added: list[object] | None = None,
) -> None:
    """Compare the engine with the library."""
    tokenizer = reference("tokenizers").Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    tokenizer.add_tokens(added or [])
    source = Source("tokenizer.json", tokenizer.to_str().encode())
    engine = load_engine(hf.read(source, {}).spec)
    counts = Counts()
    for text in texts:
        expected = library(lambda text=text: tokenizer.encode(text).ids)
        counts.compare(repr(text), expected, ours(engine.encode_ids, text))
    assert counts.mismatches == []


def texts(letters: str, count: int = 300) -> list[str]:
    rng = random.Random(letters)
    return ["".join(rng.choices(letters, k=rng.randrange(12))) for _ in range(count)]


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_unigram_behind_the_byte_alphabet_knows_letters(byte_fallback: bool) -> None:
    """A letter of two bytes is one unknown character there, and its byte tokens are its own."""
    tokenizers = reference("tokenizers")
    pieces = ["<unk>", "a", "\u0120", "\u0120a", "<0xC4>", "<0xA0>", "<0xC3>", "<0xA9>", "\u00c3"]
    scored = [(piece, -float(number)) for number, piece in enumerate(pieces)]
    compare(
        tokenizers.models.Unigram(scored, 0, byte_fallback),
        texts("aa \u00e9\u0120x"),
        pre=tokenizers.pre_tokenizers.ByteLevel(),
    )


def test_a_whole_word_with_marks_inside_is_not_cut_at_them() -> None:
    """With ignore_merges a stretch in front of U+2581 is not the token that it reads like."""
    vocabulary = {piece: number for number, piece in enumerate(["<unk>", "a", "b", "\u2581", "ab"])}
    bpe = reference("tokenizers").models.BPE(
        vocabulary, [], unk_token="<unk>", ignore_merges=True, byte_fallback=True
    )
    compare(bpe, texts("ab\u2581"))


def test_merges_of_what_is_no_byte_do_no_harm() -> None:
    tokenizers = reference("tokenizers")
    pieces = ["a", "b", "ab", " ", " b", "\u05e9", "b\u05e9", "\u0120", "\u0120 "]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = [(" ", "b"), ("b", "\u05e9"), ("\u0120", " "), ("a", "b")]
    bpe = tokenizers.models.BPE(vocabulary, merges)
    pre = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    compare(bpe, texts("ab \u05e9"), pre=pre)


@pytest.mark.parametrize("pattern", ["^|b", "x*", "(?=a)"])
def test_text_inserted_at_the_very_start_is_refused_where_the_library_fails(pattern: str) -> None:
    tokenizers = reference("tokenizers")
    n = tokenizers.normalizers
    insert = n.Replace(tokenizers.Regex(pattern), "ab")
    bpe = tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2, " ": 3}, [("a", "b")])
    for then in (n.Lowercase(), n.NFC(), n.Strip(), n.Nmt(), n.Prepend("a")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(bpe, texts("ab x", 60), n.Sequence([insert, then]))


@pytest.mark.parametrize("cut", ["step", "token"])
def test_each_part_of_the_first_character_stands_first(cut: str) -> None:
    """The prefix of Metaspace goes before each part of what one character became."""
    tokenizers = reference("tokenizers")
    n, p = tokenizers.normalizers, tokenizers.pre_tokenizers
    pieces = ["<unk>", "g", "a", "l", "_", "_g", "_a", "_l"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")
    metaspace = p.Metaspace(replacement="_", prepend_scheme="first")
    steps = p.Sequence([p.FixedLength(1), metaspace]) if cut == "step" else metaspace
    added = [tokenizers.AddedToken("a", normalized=True)] if cut == "token" else []
    for normalizer in (n.NFKC(), n.Prepend("g")):
        compare(model, texts("\u33ffgal\u33ff"), normalizer, steps, added)


def test_each_byte_of_the_first_character_stands_first() -> None:
    tokenizers = reference("tokenizers")
    p = tokenizers.pre_tokenizers
    pieces = ["<unk>", "_", "\u0142", "_\u0142", "\u00c3", "_\u00c3", "_\u00c4", "2", "_2"]
    model = tokenizers.models.Unigram([(piece, -1.0) for piece in pieces], 0)
    twice = [p.ByteLevel(add_prefix_space=True), p.ByteLevel(add_prefix_space=False)]
    metaspace = p.Metaspace(replacement="_", prepend_scheme="first", split=False)
    ways = [twice, twice[:1], [p.ByteLevel(use_regex=False), p.FixedLength(1)]]
    for scheme in ("always", "first"):
        ways.append([p.Metaspace("_", prepend_scheme=scheme, split=False), p.FixedLength(1)])
        ways.append([p.FixedLength(1), p.Metaspace("_", prepend_scheme=scheme), p.FixedLength(1)])
    for steps in ways:
        compare(model, texts("2 \n\u0142\u00e9"), pre=p.Sequence([*steps, metaspace]))


def test_the_first_word_is_not_the_first_when_what_stood_first_is_gone() -> None:
    tokenizers = reference("tokenizers")
    vocabulary = {piece: number for number, piece in enumerate(["<unk>", "a", "x", "_", "_a"])}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")
    metaspace = tokenizers.pre_tokenizers.Metaspace(replacement="_", prepend_scheme="first")
    for pattern, content in (("x", ""), ("xx", "x"), ("x", "a"), ("xa", "a")):
        compare(model, texts("ax "), tokenizers.normalizers.Replace(pattern, content), metaspace)
