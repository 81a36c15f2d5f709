"""Tables of a .mtok that contradict what it says are found where somebody asks."""

from __future__ import annotations

import random
import struct
import zlib
from collections import Counter
from pathlib import Path

import pytest
from support import FIXTURES, Run

import mtkit
from mtkit.base.binary import Source
from mtkit.checks.checker import CheckOptions, check_source
from mtkit.conversion.tokenizer import convert
from mtkit.errors import FormatError
from mtkit.formats.mtok.extension import find_extension
from mtkit.tokenizer.load import load_source, mapped

pytest.importorskip("mtkit._native")


def forged(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Change a byte of one of the engine's tables; the checksum fits. Returns its tag as well."""
    extension = find_extension(data)
    assert extension is not None
    tables = {tag: table for tag, table in extension.optional().items() if len(table)}
    tag = rng.choice(sorted(tables))
    place = data.index(bytes(tables[tag]), extension.base_length)
    at = place + rng.randrange(len(tables[tag]))
    changed = bytearray(data)
    changed[at] = (changed[at] + rng.randrange(1, 256)) & 0xFF
    foot = len(data) - 40
    struct.pack_into("<I", changed, foot + 20, zlib.crc32(changed[extension.head : foot]))
    return tag, bytes(changed)


@pytest.mark.parametrize(
    "name",
    ["spm-bpe/tokenizer.model", "spm-unigram/tokenizer.model", "wordpiece/tokenizer.json",
     "bbpe-8k/tokenizer.json"],
)  # fmt: skip
def test_drawn_changes_are_found(name: str, tmp_path: Path) -> None:
    """Wherever they are: which texts have other ids by them does not count."""
    path = tmp_path / "sound.mtok"
    convert(str(FIXTURES / name), str(path), to="mtok")
    sound = path.read_bytes()
    assert mtkit.load(path, verify_tables=True).encode_ids("a") == mtkit.load(path).encode_ids("a")
    assert not check_source(Source("sound", sound), CheckOptions(deep=True)).findings
    rng = random.Random(name)
    found = Counter[str]()
    for _ in range(100):
        tag, changed = forged(sound, rng)
        source = Source("forged", changed)
        if mapped(source)[0] is None:  # the engine refuses them, the specification says the same
            continue
        found[tag] += 1
        with pytest.raises(FormatError, match="do not match the file's specification"):
            load_source(source, verify_tables=True)
        report = check_source(source, CheckOptions(deep=True))
        assert [finding.rule.code for finding in report.findings] == ["engine-tables"]
        left_out = dict(check_source(source, CheckOptions()).skipped)
        assert left_out["engine tables"] == "deep=True compares them with the rest"
    assert len(found) > 4


def test_commands(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.mtok"
    assert mtkit("convert", FIXTURES / "spm-bpe" / "tokenizer.model", "-o", path).returncode == 0
    sound, rng = path.read_bytes(), random.Random(1)
    path.write_bytes(
        next(changed for tag, changed in iter(lambda: forged(sound, rng), None) if tag == "WORD")
    )
    for command in (["encode", "a"], ["count", "-p", "a"], ["decode", "5"]):
        done = mtkit(*command, "-t", path, "--verify-tables")
        assert done.returncode == 3
        assert b"engine tables" in done.stderr
        assert mtkit(*command, "-t", path).returncode in {0, 3, 4, 5}
    assert mtkit("check", "--deep", path).returncode == 3
