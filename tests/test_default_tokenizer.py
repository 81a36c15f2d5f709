"""The packaged default tokenizer is what its script makes, and says what its source says."""

from __future__ import annotations

from pathlib import Path

from support import shared

from mtkit.binary import Source
from mtkit.formats import hf, mtok
from tools.default_tokenizer import TARGET, content


def test_it_can_be_read() -> None:
    source = Source.open(TARGET)
    spec = mtok.read(source, {}).spec
    assert spec.vocab_size == 32768
    assert spec.special_ids.eos is not None
    assert spec.chat_templates


def test_the_script_makes_the_same_bytes() -> None:
    folder = shared("own/tokenizer")
    assert content(str(folder)) == Path(TARGET).read_bytes()
    source = Source.open(str(folder / "tokenizer.json"))
    assert mtok.read(Source.open(TARGET), {}).spec == hf.read(source, {}).spec
