"""What a tokenizer makes of a text is bounded: the step that multiplies it is named, at once."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from support import FIXTURES

import mtkit
from mtkit.base.binary import Source
from mtkit.base.native import native
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import load_engine
from mtkit.errors import ResourceError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline, growth
from mtkit.spec import models, replace
from mtkit.spec import normalizers as norm
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.post_processors import Slot, Template
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
LEVELS = 30
TIMES = {
    "ByteLevel": norm.Sequence((norm.Replace(Text(" "), "é"), *(norm.ByteLevel(),) * LEVELS)),
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
    header = (Path(__file__).parents[2] / "native" / "text" / "part.hpp").read_text(
        encoding="utf-8"
    )
    assert native is not None
    (size,) = re.findall(r"GROWTH_BYTES = (\d+)U << 20;", header)
    (factor,) = re.findall(r"GROWTH_FACTOR = (\d+);", header)
    assert (int(size) << 20, int(factor)) == (growth.GROWTH_BYTES, growth.GROWTH_FACTOR)


def template(*slots: Slot, single: int = 1) -> mtkit.TokenizerSpec:
    """Return a tokenizer that puts slots in front of its text, which stands there so often."""
    texts = (Slot(text=0),) * single
    return replace(SPEC, post_processor=Template((*slots, *texts)))


@pytest.mark.parametrize("make", [load_engine, Pipeline])
def test_a_template_that_multiplies_is_named(make) -> None:
    """One token of many ids many times, a text many times: before a list of them is made."""
    many = Slot(ids=(1,) * (1 << 10))
    for spec in (template(*[many] * (1 << 11)), template(single=1 << 21)):
        engine = make(spec)
        for encode in (engine.encode_ids, engine.encode, engine.encode_array):
            with pytest.raises(ResourceError, match="at most 1048576 can be") as found:
                encode("a b")
            assert found.value.field == "post_processor"
        if spec.post_processor.single[0].text is None:
            plain = make(SPEC).encode_ids("a b", add_special_tokens=False)
            assert engine.encode_ids("a b", add_special_tokens=False) == plain


@pytest.mark.parametrize("make", [load_engine, Pipeline])
def test_a_template_up_to_the_limit_is_run(make) -> None:
    spec = template(*[Slot(ids=(1,) * 1000)] * 300)
    ids = make(SPEC).encode_ids("a b", add_special_tokens=False)
    assert make(spec).encode_ids("a b") == [1] * 300_000 + ids
    assert make(template(single=100)).encode_ids("a b") == ids * 100


def test_what_a_template_repeats_is_kept_once() -> None:
    """300,000 entries are not as many objects (13 s and 470 MB before the first id)."""
    special = {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    document = json.loads((FIXTURES / "wordpiece" / "tokenizer.json").read_bytes())
    document["post_processor"]["single"] = [special] * 3000 + [text]
    spec = hf.read(Source("tokenizer.json", json.dumps(document).encode()), {}).spec
    assert len(spec.post_processor.single) == 3001
    assert len({id(slot) for slot in spec.post_processor.single}) == 2
    assert load_engine(spec).encode_ids("") == [3] * 3000
