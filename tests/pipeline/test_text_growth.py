"""What a tokenizer makes of a text is bounded: the step that multiplies it is named, at once."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from support import FIXTURES

import mtkit
from mtkit.base.native import native
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import load_engine
from mtkit.errors import ResourceError
from mtkit.pipeline import Pipeline
from mtkit.pipeline.normalizers import growth
from mtkit.spec import models, replace
from mtkit.spec import normalizers as norm
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.text import Text

SPEC = mtkit.load(FIXTURES / "spm-bpe" / "tokenizer.model").spec


def charsmap(letter: bytes, written: bytes) -> bytes:
    """A map of one letter: its node, and the leaf that says where the replacement begins."""
    units = [0] * 512
    units[0] = 256 << 10
    units[256 ^ letter[0]] = (1 << 10) | 1 << 8 | letter[0]
    units[256 ^ letter[0] ^ 1] = 1 << 31
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie)) + trie + written + b"\0"


MAP = charsmap(b"a", b"a" * 100)
TIMES = {
    "Replace": norm.Replace(Text("a"), "a" * 100),
    "Prepend": norm.Prepend("a" * (5 << 20)),
    "Precompiled": norm.Precompiled(MAP),
    "Spaces": norm.Spaces(charsmap=MAP, remove_extra_whitespaces=False, add_dummy_prefix=False),
    "CodePointTable": norm.CodePointTable(
        code_points=Numbers.of("I", [ord("a")]), values=Pieces.of([b"a" * 100])
    ),
    "MarkSpaces": pre.MarkSpaces(replacement=" " * 100),
}


def specification(step: object) -> mtkit.TokenizerSpec:
    """Return a tokenizer that does a step eight times."""
    if isinstance(step, pre.MarkSpaces):
        return replace(SPEC, normalizer=None, pre_tokenizer=pre.Sequence((step,) * 8))
    return replace(SPEC, normalizer=norm.Sequence((step,) * 8))


@pytest.mark.parametrize("make", [load_engine, Pipeline])
@pytest.mark.parametrize("name", TIMES)
def test_a_step_that_multiplies_is_named(name: str, make, monkeypatch) -> None:
    most = growth.GROWTH_BYTES
    if make is Pipeline:
        most = 1 << 16  # it is slow
        monkeypatch.setattr(growth, "GROWTH_BYTES", most)
    engine = make(specification(TIMES[name]))
    for encode in (engine.encode_ids, engine.encode, engine.encode_array):
        with pytest.raises(ResourceError, match=f"becomes more than {most} bytes longer") as found:
            encode("a b")
        assert found.value.field == name


def test_engine_and_pipeline_count_alike() -> None:
    """The last text that is taken, and the first one that is not."""
    plain = replace(SPEC, normalizer=None)
    # Each letter becomes a sixteenth of the limit longer, sixteen of them by one byte too many.
    written = "b" * (growth.GROWTH_BYTES // 16 + 2)
    twice = norm.Sequence((norm.Replace(Text("a"), written), norm.Replace(Text("b"), "")))
    letters = replace(SPEC, normalizer=twice)
    for make in (load_engine, Pipeline):
        assert make(letters).encode_ids("a" * 15 + "c") == make(plain).encode_ids("c")
        with pytest.raises(ResourceError):
            make(letters).encode_ids("a" * 16 + "c")


def test_a_long_text_may_grow_in_proportion() -> None:
    tripled = replace(SPEC, normalizer=norm.Replace(Text("x"), "▁"), model=models.Words())
    text = "x" * (growth.GROWTH_BYTES // 2 + 1)
    assert load_engine(tripled).encode_ids(text, add_special_tokens=False)


def test_both_sides_have_the_same_limit() -> None:
    header = (Path(__file__).parents[2] / "native" / "steps" / "steps.hpp").read_text(
        encoding="utf-8"
    )
    assert native is not None
    (size,) = re.findall(r"GROWTH_BYTES = (\d+)U << 20;", header)
    (factor,) = re.findall(r"GROWTH_FACTOR = (\d+);", header)
    assert (int(size) << 20, int(factor)) == (growth.GROWTH_BYTES, growth.GROWTH_FACTOR)
