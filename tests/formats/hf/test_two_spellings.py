"""Two texts with one id: both are found; which it decodes to is left to chance by the library."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from support import reference

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.checks.report import survey_findings
from mtkit.checks.tokenizer_rules import VOCABULARY_RULES
from mtkit.engine import load_engine
from mtkit.errors import UnsupportedError
from mtkit.formats import hf, mtok
from mtkit.formats.contract import WriteOptions
from mtkit.spec.vocabulary import Spelling

if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

LETTERS = "abcdé"


def document(model: dict[str, Any]) -> bytes:
    """Write a tokenizer.json around a model."""
    names = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    cut = {"type": "WhitespaceSplit"}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": cut, "model": model}
    return json.dumps({**dict.fromkeys(names), **whole}).encode()


def drawn(rng: random.Random) -> dict[str, Any]:
    """Draw a model in which some tokens have the id of another."""
    kind = rng.choice(["BPE", "WordPiece", "WordLevel"])
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 3))) for _ in range(8)]
    prefix = "##" if kind == "WordPiece" else ""
    pieces = dict.fromkeys(["[UNK]", *LETTERS, *words, *(prefix + letter for letter in LETTERS)])
    count = len(pieces) - 3
    vocab = {p: n if n < count else rng.randrange(count) for n, p in enumerate(pieces)}
    if kind == "BPE":
        pairs = [[w[0], w[1]] for w in words if len(w) == 2]
        return {"type": kind, "unk_token": "[UNK]", "vocab": vocab, "merges": pairs}
    more = {"continuing_subword_prefix": prefix, "max_input_chars_per_word": 100}
    model = {"type": kind, "unk_token": "[UNK]", "vocab": vocab}
    return model | more if kind == "WordPiece" else model


def read(data: bytes) -> TokenizerSpec:
    return hf.read(Source("tokenizer.json", data), {}).spec


@pytest.mark.parametrize("seed", range(40))
def test_either_spelling_is_found(seed: int) -> None:
    rng = random.Random(seed)
    data = document(drawn(rng))
    load = reference("tokenizers").Tokenizer.from_str
    try:
        spec = read(data)
    except UnsupportedError as error:
        assert "second spelling" in str(error)
        return
    ours, theirs = load_engine(spec), load(data.decode())
    back = hf.write(spec, WriteOptions()).files["tokenizer.json"]
    assert spec.vocabulary.also
    assert read(back) == spec
    kept = Source("a.mtok", mtok.write(spec, WriteOptions()).files[".mtok"])
    assert mtok.read(kept, {}).spec == spec
    for _ in range(30):
        text = "".join(rng.choices(LETTERS + " ", k=rng.randint(1, 10)))
        expected = theirs.encode(text)
        found = ours.encode(text)
        assert (found.ids, found.offsets) == (expected.ids, expected.offsets)
        assert load(back.decode()).encode(text).ids == found.ids
    for other in spec.vocabulary.also:
        decoded = {load(data.decode()).decode([other.id]) for _ in range(64)}
        assert ours.decode([other.id]) in decoded


def test_what_merges_make_of_a_second_spelling() -> None:
    """The library merges by ids, and looks up what the file spells."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 1, "ca": 2}, "merges": [["c", "a"]]}
    with pytest.raises(UnsupportedError, match=r"merges\[0\].*'ca' is made of a token's second"):
        read(document(model))


def test_other_formats_and_check_say_what_is_lost() -> None:
    vocab = {letter: min(at, 2) for at, letter in enumerate("abcd")}
    spec = read(document({"type": "BPE", "vocab": vocab, "merges": []}))
    assert spec.vocabulary.also == (Spelling(b"d", 2),)
    (finding,) = survey_findings(VOCABULARY_RULES, spec.vocabulary)
    assert finding.rule.code == "token-spellings"
    written = formats.get_format("vocab-merges").write(spec, WriteOptions())
    for losses in (written.losses, mtok.write(spec, WriteOptions()).partial[0][1]):
        assert [loss.code for loss in losses if loss.field == "vocabulary.also"] == ["ids"]
