"""What steps and decoders may add to a text is bounded, in both engines alike."""

from __future__ import annotations

import importlib
import json
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support import FIXTURES, TESTS, posix

import mtkit
from mtkit.base.binary import Source
from mtkit.base.native import native
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import load_engine
from mtkit.errors import MtkitError, ResourceError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline
from mtkit.pipeline.growth import GROWTH_BYTES, GROWTH_FACTOR
from mtkit.spec import TokenizerSpec, Vocabulary, decoders, models, replace
from mtkit.spec import normalizers as norm
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.post_processors import Slot, Template
from mtkit.spec.text import Regex, Text

sys.path.append(str(TESTS.parent))
growth = importlib.import_module("benchmarks.growth")
MODELS = dict(growth.small_models())
FROM, TO = 1 << 14, 1 << 17
DOUBLINGS = 3
IN_PIPELINE = ("one letter", "only marks", "random letters")


@pytest.mark.parametrize("name", MODELS)
def test_engine(name: str) -> None:
    block = bytearray(growth.ALLOCATOR)
    del block
    found = growth.makers(MODELS[name])
    assert "engine" in found
    for kind in growth.KINDS:
        for rounds in (1, 4, 16):  # more patience where the machine is busy
            first, last = growth.growths(found["engine"], kind, (FROM, TO), rounds)
            if last < max(first, growth.SMALL["engine"]) * growth.LIMIT**DOUBLINGS:
                break
        assert last < max(first, growth.SMALL["engine"]) * growth.LIMIT**DOUBLINGS, kind


@pytest.mark.parametrize("name", MODELS)
def test_pipeline(name: str) -> None:
    found = growth.makers(MODELS[name])
    sizes = (growth.PIPELINE_SIZES[0], growth.PIPELINE_SIZES[-1])
    for kind in IN_PIPELINE:
        for rounds in (1, 3, 9):
            first, last = growth.growths(found["pipeline"], kind, sizes, rounds)
            if last < max(first, growth.SMALL["pipeline"]) * growth.LIMIT**2:
                break
        assert last < max(first, growth.SMALL["pipeline"]) * growth.LIMIT**2, kind


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_a_huge_word_is_given_back() -> None:
    code = (
        "import mtkit\n"
        "def resident():\n"
        "    with open('/proc/self/statm') as file:\n"
        "        return int(file.read().split()[1]) * 4096 >> 20\n"
        "tokenizer = mtkit.load()\n"
        "before = resident()\n"
        "tokenizer.encode_array('a' * 4_000_000)\n"
        "print(resident() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60  # 112 MB for the symbols of the word alone


# What a tokenizer makes of a text is bounded: the step that multiplies it is named, at once.


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
    most = GROWTH_BYTES
    if make is Pipeline:
        most = 1 << 16  # it is slow
        monkeypatch.setattr("mtkit.pipeline.growth.GROWTH_BYTES", most)
    engine = make(specification(TIMES[name]))
    for encode in (engine.encode_ids, engine.encode, engine.encode_array):
        with pytest.raises(ResourceError, match=f"becomes more than {most} bytes longer") as found:
            encode("a b")
        assert found.value.field == name


def test_engine_and_pipeline_count_alike() -> None:
    """The last text that is taken, and the first one that is not."""
    plain = replace(SPEC, normalizer=None)
    # Each letter becomes a sixteenth of the limit longer, sixteen of them by one byte too many.
    written = "b" * (GROWTH_BYTES // 16 + 2)
    twice = norm.Sequence((norm.Replace(Text("a"), written), norm.Replace(Text("b"), "")))
    letters = replace(SPEC, normalizer=twice)
    for make in (load_engine, Pipeline):
        assert make(letters).encode_ids("a" * 15 + "c") == make(plain).encode_ids("c")
        with pytest.raises(ResourceError):
            make(letters).encode_ids("a" * 16 + "c")


def test_a_long_text_may_grow_in_proportion() -> None:
    tripled = replace(SPEC, normalizer=norm.Replace(Text("x"), "▁"), model=models.Words())
    text = "x" * (GROWTH_BYTES // 2 + 1)
    assert load_engine(tripled).encode_ids(text, add_special_tokens=False)


def test_both_sides_have_the_same_limit() -> None:
    header = (Path(__file__).parents[2] / "native" / "text" / "part.hpp").read_text(
        encoding="utf-8"
    )
    assert native is not None
    (size,) = re.findall(r"GROWTH_BYTES = (\d+)U << 20;", header)
    (factor,) = re.findall(r"GROWTH_FACTOR = (\d+);", header)
    assert (int(size) << 20, int(factor)) == (GROWTH_BYTES, GROWTH_FACTOR)


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


# What a decoder makes of tokens is bounded: whole and in a stream, in engine and pipeline.


LONGER = decoders.Replace(Text("a"), "a" * 1000)
GROWING = {
    "literal": (LONGER,) * 5,
    "fused": (decoders.Fuse(), *(LONGER,) * 5),
    "pattern": (decoders.Replace(Regex("a"), "a" * 1000),) * 5,
    "fused pattern": (decoders.Fuse(), *(decoders.Replace(Regex("a"), "a" * 1000),) * 5),
    "word ends": (decoders.BPE(""),) * 40,
    "blanks": (decoders.CTC("", "", cleanup=True),) * 40,
}


def tokenizer(steps: tuple[decoders.Decoder, ...]) -> TokenizerSpec:
    pieces = [b"a", b"b", b" ", b"aab", "é".encode()]
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers.of("B", [1] * len(pieces)))
    return TokenizerSpec(vocabulary, models.WordLevel(0), decoder=decoders.Sequence(steps))


def streamed(spec: TokenizerSpec, ids: list[int]) -> str:
    stream = Pipeline(spec).decode_stream()
    return "".join([*map(stream.push, ids), stream.finish()])


@pytest.mark.parametrize("name", GROWING)
def test_growth_ends_with_an_error(name: str) -> None:
    resource = posix("resource")
    spec = tokenizer(GROWING[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for engine in (load_engine(spec), Pipeline(spec)):
        with pytest.raises(ResourceError, match="the text becomes longer than"):
            engine.decode([0, 1] * 10)
    with pytest.raises(ResourceError, match="the text becomes longer than"):
        streamed(spec, [0, 1] * 10)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 << 10  # KiB


@pytest.mark.parametrize("seed", range(40))
def test_both_draw_the_same_line(seed: int) -> None:
    """Texts a little shorter and longer than what they may become, of steps that are drawn."""
    rng = random.Random(seed)
    pool = [
        decoders.Fuse(),
        decoders.Replace(Text("a"), "b" * rng.choice((1, 30, 200))),
        decoders.Replace(Text("b"), "ab" * rng.choice((1, 9, 90))),
        decoders.Replace(Regex("[ab]"), "a" * rng.choice((1, 8, 50))),
        decoders.Strip(" ", 1, 0),
        decoders.BPE("b"),
    ]
    spec = tokenizer(tuple(rng.choices(pool, k=rng.randrange(1, 5))))
    engine, pipeline = load_engine(spec), Pipeline(spec)
    for size in (1, 100, 5000, 20000):
        ids = rng.choices(range(5), k=size)
        answers = []
        for one in (engine, pipeline):
            try:
                answers.append(one.decode(ids))
            except MtkitError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]
