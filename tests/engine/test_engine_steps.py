"""The numbers of the program are written once; what is forged of them is refused."""

from __future__ import annotations

import ast
import re
from enum import IntEnum
from pathlib import Path

import pytest

from mtkit.base.packed import Pieces
from mtkit.engine import Engine, opcodes, tables
from mtkit.engine import program_writer as encoding
from mtkit.errors import FormatError
from mtkit.spec import TokenizerSpec, models
from mtkit.spec.vocabulary import Vocabulary

ROOT = Path(__file__).parents[2]


def test_no_number_means_two_things() -> None:
    kinds = [
        kind
        for kind in vars(opcodes).values()
        if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
    ]
    assert len(kinds) > 10
    for kind in kinds:
        assert len(set(map(int, kind))) == len(kind.__members__), kind


def test_no_step_is_written_as_a_bare_number() -> None:
    """A kind that the compiler writes has a name; flags and counts are no kinds."""
    for path in sorted((ROOT / "mtkit" / "engine").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "u8"):
                continue
            argument = node.args[0]
            bare = isinstance(argument, ast.Constant) and argument.value not in (0, 1)
            assert not bare, f"{path.name}:{node.lineno}"
    for path in sorted((ROOT / "native").rglob("*.cpp")):
        assert not re.search(r"case \d+:", path.read_text(encoding="utf-8")), path.name


def test_forged_programs_are_refused() -> None:
    """Sequences in sequences, added tokens before added tokens: deeper than any stack."""
    pytest.importorskip("mtkit._native")
    good = tables(TokenizerSpec(Vocabulary(Pieces.of([b"a"])), models.WordLevel(unk=0)))
    u8, u32 = encoding.u8, encoding.u32
    empty = u8(0) + u8(1) + u32(0) + u32(0) + u32(0)
    at = good["PROG"].index(empty + u8(0), 4)
    before = good["PROG"][:at]
    forged = {
        "added": before + (empty + u8(1)) * 200_000,
        "normalizer": before + empty + u8(0) + (u8(2) + u32(1)) * 200_000,
        "cut": before + empty + u8(0) + u8(0) + (u8(2) + u32(1)) * 200_000,
        "nothing": before + empty + u8(0) + u8(2) + u32(1) + u8(0) + good["PROG"][at + 17 :],
    }
    for program in forged.values():
        with pytest.raises(FormatError, match=r"nested too deep|not a step of a sequence"):
            Engine({**good, "PROG": program}, lambda: None)  # type: ignore[arg-type,return-value]
