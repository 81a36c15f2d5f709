"""Tables of a .mtok that contradict what it says are found where somebody asks."""

from __future__ import annotations

import random
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES

import mtkit
from mtkit.base.binary import Source
from mtkit.checks.checking import Asked, check_source
from mtkit.conversion.convert import convert
from mtkit.errors import FormatError, MtkitError
from mtkit.formats.mtok.extension import find
from mtkit.tokenizer import probes
from mtkit.tokenizer.load import load_source, mapped

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

pytest.importorskip("mtkit._native")


def forged(data: bytes, rng: random.Random) -> bytes:
    """Change a byte near the begin of the engine's program or its ranks; the checksum fits."""
    extension = find(data)
    assert extension is not None
    tag = rng.choice([tag for tag in ("PROG", "RANK") if tag in extension.sections])
    place = data.index(bytes(extension.sections[tag]), extension.base_length)
    at = place + rng.randrange(min(len(extension.sections[tag]), 60))
    changed = bytearray(data)
    changed[at] = (changed[at] + rng.randrange(1, 256)) & 0xFF
    foot = len(data) - 40
    struct.pack_into("<I", changed, foot + 20, zlib.crc32(changed[extension.head : foot]))
    return bytes(changed)


def differs(source: Source) -> bool | None:
    """Whether a text has other ids by the tables than by the rest; None: they are not used."""
    tabled = mapped(source)[0]
    if tabled is None:
        return None
    specified = mtkit.Tokenizer(tabled.spec)
    for text in probes.texts():
        try:
            if tabled.encode_ids(text) != specified.encode_ids(text):
                return True
        except MtkitError:
            return True
    return False


@pytest.mark.parametrize("name", ["spm-bpe/tokenizer.model", "wordpiece/tokenizer.json"])
def test_drawn_changes_are_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / "sound.mtok"
    convert(str(FIXTURES / name), str(path), to="mtok")
    sound = path.read_bytes()
    assert mtkit.load(path, verify_tables=True).encode_ids("a") == mtkit.load(path).encode_ids("a")
    rng = random.Random(name)
    found = 0
    for _ in range(60):
        source = Source("forged", forged(sound, rng))
        if not differs(source):
            continue
        found += 1
        with pytest.raises(FormatError, match="give other ids than its specification"):
            load_source(source, verify_tables=True)
        report = check_source(source, Asked(deep=True))
        assert [finding.rule.code for finding in report.findings] == ["engine-tables"]
        left_out = dict(check_source(source, Asked()).skipped)
        assert left_out["engine tables"] == "--deep compares what they do"
    assert found


def test_commands(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.mtok"
    assert mtkit("convert", FIXTURES / "spm-bpe" / "tokenizer.model", "-o", path).returncode == 0
    sound, rng = path.read_bytes(), random.Random(1)
    while not differs(Source("", changed := forged(sound, rng))):
        pass
    path.write_bytes(changed)
    for command in (["encode", "a"], ["count", "-p", "a"], ["decode", "5"]):
        done = mtkit(*command, "-t", path, "--verify-tables")
        assert done.returncode == 3
        assert b"engine tables" in done.stderr
        assert mtkit(*command, "-t", path).returncode in {0, 3, 4, 5}
    assert mtkit("check", "--deep", path).returncode == 3
