"""A converted file answers as it was asked to, in every way in which it can be run."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES, SHARED, shared_tokenizer

import mtkit
from mtkit.conversion.verify import memory_source
from mtkit.formats import mtok
from mtkit.formats.contract import WriteOptions
from mtkit.tokenizer.load import load_source
from mtkit.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (
    "Hello, world",
    " two  spaces\n",
    "a <s> b </s> c",
    "<unk>\u2581x",
    "",
    "\u65e5\u672c \U0001f600",
)
CHOICES = (None, True, False)
FLAGS = tuple(product(CHOICES, CHOICES))
TABLES = (("tables", "yes"),)


def models() -> list[str]:
    """Return the shared SentencePiece models, or one to be skipped."""
    files = (SHARED / "tokenizers" / "tokenizers").glob("*/tokenizer.model*")
    return sorted(file.parent.name for file in files) or ["none"]


def same_in_every_way(left: Tokenizer, right: Tokenizer) -> None:
    for text, add, parse in product(TEXTS, (True, False), CHOICES):
        ids = left.encode_ids(text, add_special_tokens=add, parse_special=parse)
        assert right.encode_ids(text, add_special_tokens=add, parse_special=parse) == ids, text
        encoding = right.encode(text, add_special_tokens=add, parse_special=parse)
        assert encoding == left.encode(text, add_special_tokens=add, parse_special=parse)
        assert encoding.ids == ids
        for skip in (True, False):
            decoded = left.decode_bytes(ids, skip_special_tokens=skip)
            assert right.decode_bytes(ids, skip_special_tokens=skip) == decoded


def tables_and_specification_agree(path: Path, bos: bool | None, eos: bool | None) -> None:
    spec = mtkit.load(path).spec
    ends = spec.special_ids
    if (bos and ends.bos is None) or (eos and ends.eos is None):
        return
    written = mtok.write(spec, WriteOptions(add_bos=bos, add_eos=eos, values=TABLES))
    source = memory_source(written)
    tabled = load_source(source)
    assert tabled.engine.name == "native"
    same_in_every_way(Tokenizer(mtok.read(source, {}).spec), tabled)
    ids = tabled.encode_ids("x")
    for wanted, token_id, place in ((bos, ends.bos, 0), (eos, ends.eos, -1)):
        assert wanted is None or (ids[place] == token_id) is wanted


@pytest.mark.parametrize(("bos", "eos"), FLAGS)
@pytest.mark.parametrize("name", ["spm-bpe", "spm-unigram"])
def test_tables_are_those_of_the_stored_specification(
    name: str, bos: bool | None, eos: bool | None
) -> None:
    tables_and_specification_agree(FIXTURES / name / "tokenizer.model", bos, eos)


@pytest.mark.parametrize(("bos", "eos"), [(None, None), (None, True), (False, None)])
@pytest.mark.parametrize("name", models())
def test_tables_of_shared_models(name: str, bos: bool | None, eos: bool | None) -> None:
    tables_and_specification_agree(shared_tokenizer(name) / "tokenizer.model", bos, eos)
