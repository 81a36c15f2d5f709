"""The matrix of ``tools/matrix.py`` on the fixtures: the target's library, every difference named.

The command takes the stored tokenizers, which are too many and too large for each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conversions_back import WRITABLE
from libraries import OPENERS
from matrix import Comparison, cell
from support import FIXTURES

import mtkit
from mtkit.formats import hf
from mtkit.formats.contract import Loss, WriteOptions
from mtkit.spec import normalizers, replace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SOURCES = (
    "bbpe-8k/tokenizer.json",
    "spm-bpe/tokenizer.model",
    "spm-unigram/tokenizer.model",
    "wordpiece/vocab.txt",
)


@pytest.mark.parametrize("name", SOURCES)
def test_libraries_give_what_the_source_gives_or_a_loss_says_so(name: str) -> None:
    source = mtkit.load(FIXTURES / name)
    cells = {to: cell(source, to) for to in WRITABLE}
    assert not [line for found in cells.values() for line in found.unnamed]
    held = {to for to, found in cells.items() if not found.refused}
    assert held >= {"mtok", "hf", "gguf", source.format_name}
    # Each library is asked about each text, two of them about what is written for transformers.
    assert all(cells[to].texts >= 200 * len(OPENERS.get(to, "x")) for to in held)


def compared(tmp_path: Path, losses: tuple[Loss, ...]) -> Comparison:
    """Compare a tokenizer with a file of another one: it lower-cases its text."""
    source = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json")
    other = replace(source.spec, normalizer=normalizers.Lowercase())
    path = tmp_path / "tokenizer.json"
    for name, content in hf.write(other, WriteOptions()).files.items():
        (tmp_path / name).write_bytes(content)
    made = Comparison(source, losses)
    made.open(path, "hf")
    return made


def test_the_comparison_notices_what_no_loss_names(tmp_path: Path) -> None:
    assert set(compared(tmp_path, ()).unnamed) >= {"tokenizers plain", "tokenizers whole"}


def test_a_loss_of_ids_names_it(tmp_path: Path) -> None:
    made = compared(tmp_path, (Loss("ids", "normalizer", "is skipped"),))
    assert not made.unnamed
    assert made.named
