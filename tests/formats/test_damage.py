"""Whatever is done to a file of whatever format: a tokenizer or one clear error, soon.

Every cut, every count forged and every byte changed of a small file of each format, read in
process, and drawn mutants (`make fuzz-files` has more). What is read must then encode and decode,
or refuse to with an error of mtkit's own.
"""

from __future__ import annotations

import os
import random
import re
import struct
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
from forked import forked
from mutants import mutant, wholes
from small_files import sources
from support import TESTS

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, rules

pytestmark = pytest.mark.slow

FILES = sources()
FORGED = (1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
MOST = int(os.environ.get("MTKIT_FUZZ", "300"))
LONG = 20_000
"""Files with the Unicode table of MNN's normalizer in them: a few places of it will do."""
SECONDS = 1
MEMORY_BYTES = 100_000_000
TEXTS = ("ab abc\n \u2581 b <x>", "a" * 200)


def positions(data: bytes, most: int = MOST) -> list[int]:
    """All positions of a small file; of a longer one both ends and a sample between."""
    if len(data) > LONG:
        most = MOST // 5
    if len(data) <= most:
        return list(range(len(data)))
    ends = most // 4
    between = random.Random(1).sample(range(ends, len(data) - ends), most // 2)
    return [*range(ends), *sorted(between), *range(len(data) - ends, len(data))]


def outcome(name: str, data: bytes, what: object) -> str:
    """Read and use damaged bytes; anything but mtkit's errors goes through."""
    kind = name.partition(":")[0]
    whole = FILES[name]
    beside = {**whole._siblings, whole.name: data} if whole._siblings else {}
    source = Source(whole.name, data, siblings=beside)
    started = time.process_time()
    verdict = "read"
    try:
        formats.recognize(source)
    except FormatError as error:
        assert_clear(error)
    try:
        spec = formats.get_format(kind).read(source, {}).spec
    except (FormatError, UnsupportedError) as error:
        assert_clear(error)
        verdict = "refused"
    else:
        verdict = use(spec)
    spent = time.process_time() - started
    assert spent < SECONDS, f"{name}: {what} takes {spent:.1f} s"
    return verdict


def use(spec: TokenizerSpec) -> str:
    """Encode and decode; bytes that are not valid UTF-8 may be refused."""
    verdict = "read"
    try:
        pipeline = Pipeline(spec)
        for text in TEXTS:
            pipeline.decode(pipeline.encode_ids(text))
        with suppress(UsageError):
            pipeline.decode(pipeline.encode_ids(b"a\xff\x00"))
    except MtkitError as error:
        assert_clear(error)
        verdict = "unusable"
    return verdict


def assert_clear(error: MtkitError) -> None:
    message = str(error)
    assert "\n" not in message
    assert len(message) < 500, message


def outcomes(name: str, damaged: Iterable[tuple[object, bytes]]) -> dict[object, str]:
    """Return what became of each damaged file, read within the memory that one may take."""
    found, grown = forked(lambda: {what: outcome(name, data, what) for what, data in damaged})
    assert grown < MEMORY_BYTES, f"took {grown >> 20} MiB"
    return found


def test_memory_is_measured_behind_a_peak() -> None:
    # Large memory goes back to the system at once, small pieces below one in use stay in the heap.
    peak = b"x" * (2 * MEMORY_BYTES)
    pieces = [b"x" * 100_000 for _ in range(2 * MEMORY_BYTES // 100_000 + 1)]
    last = pieces[-1]
    del peak, pieces
    assert forked(lambda: None)[1] < MEMORY_BYTES / 4
    assert forked(lambda: len(b"x" * (MEMORY_BYTES * 5 // 4)))[1] > MEMORY_BYTES
    assert last


def test_every_format_is_here() -> None:
    assert {name.split(":")[0] for name in FILES} == set(formats.FORMATS)


@pytest.mark.parametrize("name", FILES)
def test_small_file_is_whole(name: str) -> None:
    whole = [("nothing", bytes(FILES[name].data))]
    assert outcomes(name, whole) == {"nothing": "read"}


@pytest.mark.parametrize("name", FILES)
def test_every_cut(name: str) -> None:
    data = bytes(FILES[name].data)
    found = outcomes(name, ((size, data[:size]) for size in positions(data, LONG)))
    # A cut that leaves a valid file is read as one; half of a file with counts is none.
    assert found[0] == "refused" or name.endswith(":merges")  # an empty list of merges is one
    if name.startswith(("gguf", "hf", "tekken")):
        assert set(found.values()) == {"refused"}


@pytest.mark.parametrize("name", FILES)
def test_every_count_forged(name: str) -> None:
    data = bytes(FILES[name].data)
    raws = [struct.pack("<I" if value < 1 << 32 else "<Q", value) for value in FORGED]
    outcomes(
        name,
        (
            (f"{raw.hex()} at {at}", data[:at] + raw + data[at + len(raw) :])
            for at in positions(data)
            for raw in raws
        ),
    )


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("gguf")])
def test_every_number_forged(name: str) -> None:
    data = bytes(FILES[name].data)
    numbers = list(re.finditer(rb"-?\d+", data))
    rng = random.Random(2)
    outcomes(
        name,
        (
            (
                f"{value} for {match[0]!r} at {match.start()}",
                data[: match.start()] + b"%d" % value + data[match.end() :],
            )
            for match in rng.sample(numbers, min(len(numbers), MOST // 10))
            for value in (-1, *FORGED, 1 << 70, (1 << 24) - 1)
        ),
    )


@pytest.mark.parametrize("name", FILES)
def test_every_byte_changed(name: str) -> None:
    data = bytes(FILES[name].data)
    rng = random.Random(3)
    outcomes(
        name,
        (
            (f"{value} at {at}", data[:at] + bytes([value]) + data[at + 1 :])
            for at in positions(data)
            for value in (data[at] ^ 0xFF, rng.randrange(256))
        ),
    )


SEED = 1
PARTS = 4
CASES = 200


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return tools/fuzz_files.py; the repository's root may not be on the path."""
    location = spec_from_file_location("fuzz_files", TESTS.parent / "tools" / "fuzz_files.py")
    assert location
    assert location.loader
    module = module_from_spec(location)
    monkeypatch.setattr(sys, "path", [*sys.path])
    location.loader.exec_module(module)
    return module


def run(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: object) -> int:
    monkeypatch.setattr(sys, "argv", ["fuzz_files", *map(str, options)])
    return tool.main()


@pytest.mark.parametrize("part", range(PARTS))
def test_mutants(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    part: int,
) -> None:
    status = run(tool, monkeypatch, "--seed", SEED, "--from", part * CASES, "--cases", CASES)
    said = capsys.readouterr().out
    assert status == 0, said
    total, _, read = said.splitlines()[-1].split()[:3]
    assert int(total) == CASES
    assert int(read) > CASES / 5


@pytest.mark.parametrize("kind", ["gguf", "safetensors", "folders", "manifests", "answers"])
def test_mutants_of_what_the_workbench_reads(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    status = run(tool, monkeypatch, "--kind", kind, "--seed", SEED, "--cases", CASES)
    said = capsys.readouterr().out
    assert status == 0, said
    total, _, read = said.splitlines()[-1].split()[:3]
    assert int(total) == CASES
    assert int(read) > CASES / 20


def test_mutants_are_made_of_every_format_and_are_the_same_each_time() -> None:
    assert {name.partition(":")[0] for name in wholes()} == {*formats.FORMATS}
    for number in range(50):
        first, again = mutant(SEED, number), mutant(SEED, number)
        assert first.name == again.name
        assert bytes(first.source.data) == bytes(again.source.data)
        assert first.source._siblings == again.source._siblings


def test_without_the_rules_of_a_specification_something_is_found(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "check", lambda spec: None)
    assert run(tool, monkeypatch, "--seed", SEED, "--cases", 40, "--file", "mtok:of spm") == 1
    assert f"--seed {SEED} --only " in capsys.readouterr().out


@pytest.mark.parametrize(("name", "body"), [
    ("TookTooLong", "while True: pass"),
    ("hang", "import time; time.sleep(60)"),
    ("process ended with -6", "import os; os.abort()"),
    ("MemoryError", "b'x' * (1 << 40)"),
])  # fmt: skip
def test_what_does_not_end_well_is_found(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    body: str,
) -> None:
    import file_uses

    monkeypatch.setattr(tool, "CPU_SECONDS", 0.1)
    monkeypatch.setattr(tool, "WALL_SECONDS", 0.5 if name == "hang" else 60)
    monkeypatch.setattr(file_uses, "use", lambda source, rng: exec(body))
    assert run(tool, monkeypatch, "--seed", SEED, "--cases", 2) == 1
    said = capsys.readouterr().out
    assert said.count(name) >= 2
    assert f"--seed {SEED} --only 1" in said
