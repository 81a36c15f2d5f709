"""Models give the ids and offsets of the tokenizers library, and traces say how."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from support import FIXTURES, reference, shared, shared_tokenizer

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import UnsupportedError
from mtkit.formats import hf, llama2c, spm
from mtkit.pipeline import Pipeline
from mtkit.pipeline.models import build
from mtkit.spec import TokenizerSpec, Vocabulary
from mtkit.spec import models as spec_models
from mtkit.unicode.utf8 import letters_of_bytes

ALPHABET = "aab bcé日本🙂<u>k\n"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def words(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    made = ["".join(chance.choices(ALPHABET, k=chance.randint(1, 12))) for _ in range(count)]
    return [*made, "<unk>", "<unk>a", "a<unk><unk>日", "ab" * 40, "\n\n", "\n"]


def compare(spec: TokenizerSpec, model: object, texts: list[str]) -> int:
    """Compare with the library; return how many texts gave ids."""
    tokenizer = reference("tokenizers").Tokenizer(model)
    pipeline, encoder = Pipeline(spec), build(spec)
    compared = 0
    for text in texts:
        try:
            expected = tokenizer.encode(text)
        except Exception:  # noqa: BLE001  the library raises nothing more special
            with pytest.raises(UnsupportedError):
                encoder.encode(text)
            continue
        found = pipeline.encode(text)
        assert found.ids == expected.ids, text
        assert found.offsets == expected.offsets, text
        assert encoder.trace(text).ids == expected.ids
        compared += 1
    return compared


def random_merges(chance: random.Random, prefix: str, suffix: str) -> tuple[list[str], list]:
    """A vocabulary of characters and merges whose products are tokens."""
    units = sorted(set(ALPHABET) - set(chance.sample(ALPHABET, 3)))
    vocabulary = list(units)
    if prefix:
        vocabulary += [prefix + unit for unit in units]
    if suffix:
        vocabulary += [unit + suffix for unit in units]
        vocabulary += [prefix + unit + suffix for unit in units if prefix]
    vocabulary.append("<unk>")
    merges = []
    for _ in range(60):
        left, right = chance.choice(vocabulary), chance.choice(vocabulary)
        if prefix and not right.startswith(prefix):
            continue
        made = left + right[len(prefix) :]
        if len(made) > 24:
            continue
        merges.append((left, right))
        if made not in vocabulary:
            vocabulary.append(made)
    return vocabulary, merges


@pytest.mark.parametrize("seed", range(40))
def test_bpe(seed: int) -> None:
    chance = random.Random(seed)
    prefix = chance.choice(["", "", "##"])
    suffix = chance.choice(["", "", "</w>"])
    vocabulary, merges = random_merges(chance, prefix, suffix)
    vocabulary += chance.choice([[], BYTES, BYTES[:0xE4]])
    vocabulary = list(dict.fromkeys([*vocabulary, "a日b", "  "]))
    ids = {token: number for number, token in enumerate(vocabulary)}
    switches = {
        "fuse_unk": chance.random() < 0.5,
        "byte_fallback": chance.random() < 0.6,
        "ignore_merges": chance.random() < 0.3,
    }
    unk = chance.choice([None, "<unk>", "<unk>"])
    affixes = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "unk_token": unk}
    given = {name: value for name, value in affixes.items() if value}
    model = reference("tokenizers").models.BPE(vocab=ids, merges=merges, **given, **switches)
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(token.encode() for token in vocabulary)),
        spec_models.BPE(
            spec_models.Merges(
                Numbers.of("I", [ids[part] for pair in merges for part in pair]), Pieces.of([])
            ),
            unk=None if unk is None else ids[unk],
            continuing_subword_prefix=prefix,
            end_of_word_suffix=suffix,
            **switches,
        ),
    )
    assert compare(spec, model, words(seed, 150)) > 3


@pytest.mark.parametrize("seed", range(40))
def test_unigram(seed: int) -> None:
    chance = random.Random(seed)
    pieces = ["<unk>", *sorted(set(ALPHABET) - set(chance.sample(ALPHABET, 3)))]
    pieces += {"".join(chance.choices(ALPHABET, k=chance.randint(2, 5))) for _ in range(40)}
    pieces = list(dict.fromkeys(pieces + chance.choice([[], BYTES, BYTES[:0xE4]])))
    scores = [chance.choice([-1.0, -2.0, -3.5, -1.5, chance.uniform(-9, 30)]) for _ in pieces]
    unk = chance.choice([None, 0, 0, 0])
    byte_fallback = chance.random() < 0.5
    model = reference("tokenizers").models.Unigram(
        list(zip(pieces, scores, strict=True)), unk, byte_fallback
    )
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(piece.encode() for piece in pieces), None, Numbers.of("d", scores)),
        spec_models.Unigram(unk=unk, byte_fallback=byte_fallback),
    )
    assert compare(spec, model, words(seed, 150)) > 10


@pytest.mark.parametrize("seed", range(10))
def test_word_piece(seed: int) -> None:
    chance = random.Random(seed)
    starts = sorted(set(ALPHABET) - {"k"})
    pieces = ["[UNK]", *starts, *("##" + unit for unit in starts if chance.random() < 0.8)]
    pieces += {"".join(chance.choices(ALPHABET, k=3)) for _ in range(20)}
    pieces += {"##" + "".join(chance.choices(ALPHABET, k=2)) for _ in range(20)}
    pieces = list(dict.fromkeys(pieces))
    limit = chance.choice([5, 8, 100])
    model = reference("tokenizers").models.WordPiece(
        vocab={piece: number for number, piece in enumerate(pieces)},
        unk_token="[UNK]",
        max_input_chars_per_word=limit,
    )
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(piece.encode() for piece in pieces)),
        spec_models.WordPiece(unk=0, max_chars=limit),
    )
    assert compare(spec, model, words(seed, 200)) > 100


def test_word_level() -> None:
    pieces = ["<unk>", "a", "ab", "日本"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    vocabulary = Vocabulary(Pieces.of(piece.encode() for piece in pieces))
    models = reference("tokenizers").models
    texts = ["a", "ab", "日本", "x", "aab"]
    known = TokenizerSpec(vocabulary, spec_models.WordLevel(unk=0))
    assert compare(known, models.WordLevel(ids, unk_token="<unk>"), texts) == 5
    unknown = TokenizerSpec(vocabulary, spec_models.WordLevel())
    assert compare(unknown, models.WordLevel(ids, unk_token="nothing"), texts) == 3


def test_dropout_is_refused() -> None:
    merges = spec_models.Merges(Numbers.of("I", []), Pieces.of([]))
    spec = TokenizerSpec(Vocabulary(Pieces.of([b"a"])), spec_models.BPE(merges, dropout=0.1))
    with pytest.raises(UnsupportedError, match="dropout"):
        build(spec)


# The trace of a word: the article's merges, those of real tokenizers, and scores. RankBPE is held
# against tiktoken here, Trie against longest match written down again.


FOLDERS = {
    "article (seed-example/tokenizer.json)": None, "gpt2": "gpt2", "qwen3": "qwen3",
    "llama-3": "llama-3", "deepseek-v3": "deepseek-v3",
}  # fmt: skip


def traces() -> dict[str, Any]:
    document = json.loads(shared("tokenizers/seed-example/trace.json").read_text("utf-8"))
    return document["merge_traces"]


def test_every_given_trace_is_compared() -> None:
    assert traces().keys() == FOLDERS.keys()


@pytest.mark.parametrize("name", FOLDERS)
def test_merges_in_order(name: str) -> None:
    folder = FOLDERS[name]
    given = traces()
    path = shared_tokenizer(folder) / "tokenizer.json" if folder else None
    path = path or shared("tokenizers/seed-example/tokenizer.json")
    spec = hf.read(Source.open(str(path)), {}).spec
    encoder = build(spec)
    assert given[name]
    for word, wanted in given[name].items():
        trace = encoder.trace(word)
        if trace.merges or not wanted["steps"]:  # ignore_merges takes the word whole
            assert [s.decode() for s in trace.start] == wanted["start"]
        steps = [
            {
                "pair": [part.decode() for part in step.pair],
                "rank": step.rank,
                "after": [part.decode() for part in step.after],
            }
            for step in trace.merges
        ]
        assert not steps or steps == wanted["steps"], word
        if not getattr(spec.model, "ignore_merges", False):
            assert steps == wanted["steps"]
        assert trace.ids == wanted["ids"]


def test_scores_of_a_sentencepiece_model() -> None:
    spec = spm.read(Source.open(str(FIXTURES / "spm-bpe" / "tokenizer.model")), {}).spec
    trace = build(spec).trace("\u2581hello")
    scores, ids = spec.vocabulary.scores, spec.vocabulary.pieces.ids
    assert scores is not None
    assert trace.start == tuple(c.encode() for c in "\u2581hello")
    after = list(trace.start)
    assert trace.merges
    for step in trace.merges:
        union = b"".join(step.pair)
        assert step.rank is None
        assert step.score == scores[ids[union]]
        possible = [a + b for a, b in itertools.pairwise(after)]
        assert step.score == max(scores[ids[p]] for p in possible if p in ids)
        at = possible.index(union)
        after[at : at + 2] = [union]
        assert step.after == tuple(after)
    assert [piece.piece for piece in trace.pieces] == after


def test_scores_of_llama2c_and_unigram() -> None:
    spec = llama2c.read(Source.open(str(FIXTURES / "spm-bpe" / "tokenizer.bin")), {}).spec
    trace = build(spec).trace(" é🙂")
    assert trace.start[0] == b" "
    assert trace.start[-4:] == (b"<0xF0>", b"<0x9F>", b"<0x99>", b"<0x82>")
    assert [(p.start, p.end) for p in trace.pieces][-4:] == [(2, 3)] * 4
    unigram = spm.read(Source.open(str(FIXTURES / "spm-unigram" / "tokenizer.model")), {}).spec
    trace = build(unigram).trace("\u2581hello")
    assert (trace.start, trace.merges) == ((), ())
    assert b"".join(p.piece for p in trace.pieces) == "\u2581hello".encode()
    assert all(p.score is not None for p in trace.pieces)
    assert [p.start for p in trace.pieces[1:]] == [p.end for p in trace.pieces[:-1]]


def test_rank_bpe_is_tiktoken() -> None:
    tiktoken = reference("tiktoken")
    for seed in range(12):
        chance = random.Random(seed)
        tokens = [bytes((byte,)) for byte in range(256)]
        chance.shuffle(tokens)
        known = set(tokens)
        for _ in range(300):
            made = chance.choice(tokens[-60:]) + chance.choice([b"a", b"b", b"\xc3", b"\xa9", b" "])
            if made not in known and len(made) < 12:
                tokens.append(made)
                known.add(made)
        library = tiktoken.Encoding(
            "test",
            pat_str=r"[\s\S]+",
            mergeable_ranks={token: rank for rank, token in enumerate(tokens)},
            special_tokens={},
        )
        spec = TokenizerSpec(
            Vocabulary(Pieces.of(letters_of_bytes(token).encode() for token in tokens)),
            spec_models.RankBPE(),
        )
        encoder = build(spec)
        for _ in range(200):
            text = "".join(chance.choices("aab é ã日\n", k=chance.randint(1, 40)))
            word = letters_of_bytes(text.encode())
            ids = [symbol[0] for symbol in encoder.encode(word)]
            assert ids == library.encode_ordinary(text)
            trace = encoder.trace(word)
            assert trace.ids == ids
            assert not trace.merges or len(trace.merges[-1].after) == len(ids)


def test_trie_takes_the_longest() -> None:
    pieces = [b"", b"a", b"ab", b"abcd", b"\xe6", b"\xe6\x97\xa5", b"b", b"c"]
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(pieces), Numbers("B", bytes([255] + [1] * 7))), spec_models.Trie()
    )
    encoder = build(spec)
    assert encoder.encode("abcab日") == [
        (2, 0, 2), (7, 2, 3), (2, 3, 5), (5, 5, 6)
    ]  # fmt: skip
    assert encoder.encode("abcd\udce6a") == [(3, 0, 4), (4, 4, 5), (1, 5, 6)]
    with pytest.raises(UnsupportedError, match="no token"):
        encoder.encode("x")
    assert encoder.encode("") == []


def test_merging_after_the_fact() -> None:
    """``missing="after"``: unknown characters merge as text and are spelled in bytes last."""
    pieces = [b"a", b"b", b"ab", b"<0xE2>", b"\xe2", b"\n\n"]
    merges = spec_models.Merges(Numbers.of("I", [6, 0, 0, 1, 1, 0]), Pieces.of(["é".encode()]))
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(pieces)),
        spec_models.BPE(merges, missing="after", byte_fallback=True, whole_newlines=True),
    )
    encoder = build(spec)
    # "é" and "a" become "éa" first, which is not a token: nothing is left but dropped bytes.
    assert encoder.encode("éab") == [(1, 2, 3)]
    assert encoder.encode("ab") == [(2, 0, 2)]
    assert encoder.encode("baab") == [(2, 2, 4)]  # "ba" merges last and is not a token either
    assert encoder.encode("\u2581") == [(3, 0, 1)]
    assert encoder.encode("\n\n") == [(5, 0, 2)]
    assert encoder.encode("\n") == []
