"""The packaged default tokenizer is what its script makes, and says what its source says."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from support import TESTS, shared

from mtkit.base.binary import Source
from mtkit.formats import hf, mtok

if TYPE_CHECKING:
    from types import ModuleType


def tool() -> ModuleType:
    """Import the script by its path: the sources must not hide the mtkit that is tested."""
    found = spec_from_file_location("tool", TESTS.parent / "tools" / "default_tokenizer.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


TARGET: str = tool().TARGET


def test_it_can_be_read() -> None:
    source = Source.open(TARGET)
    spec = mtok.read(source, {}).spec
    assert spec.vocab_size == 32768
    assert spec.special_ids.eos is not None
    assert spec.chat_templates


def test_the_script_makes_the_same_bytes() -> None:
    folder = shared("own/tokenizer")
    assert tool().content(str(folder)) == Path(TARGET).read_bytes()
    source = Source.open(str(folder / "tokenizer.json"))
    assert mtok.read(Source.open(TARGET), {}).spec == hf.read(source, {}).spec
