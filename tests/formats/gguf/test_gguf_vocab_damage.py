"""Odd vocabularies give llama.cpp's ids, damaged ones one clear error."""

import json
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_gguf import small_gguf
from support import shared

from mtkit.base.binary import Source
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.formats import FORMATS, get_format, gguf
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.spec import replace

STAND_IN = "k_model_test"
REFUSED_BY_LLAMA_CPP_ALONE = {"k_byte_short", "k_token_dup", "m_arch_unknown"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("bad")
    script = shared("gguf-vocab/make_bad_gguf.py")
    subprocess.run([sys.executable, script, out], check=True, capture_output=True)
    return str(out)


def cases() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        shared("gguf-vocab/bad_expectations.json").read_bytes()
    )["cases"]
    return found


def encode(path: str, *, add: bool) -> list[int]:
    spec = gguf.read(Source.open(path), {}).spec
    return Pipeline(spec).encode_ids("Hello", add_special_tokens=add, parse_special=False)


def test_bad_vocabularies_are_format_errors(folder: str) -> None:
    names = {str(case["name"]) for case in cases() if case["want"] == "semantic"}
    names -= REFUSED_BY_LLAMA_CPP_ALONE
    assert len(names) > 30
    for name in names:
        with pytest.raises(FormatError) as caught:
            encode(f"{folder}/{name}.gguf", add=True)
        assert "\n" not in str(caught.value), name


def test_odd_vocabularies_encode_as_llama_cpp_does(folder: str) -> None:
    checked = 0
    for case in cases():
        llama = case["llama"]
        assert isinstance(llama, dict)
        if case["want"] not in {"accept", "lenient"} or "ids_Hello" not in llama:
            continue
        path = f"{folder}/{case['name']}.gguf"
        if case["name"] == STAND_IN:
            with pytest.raises(UnsupportedError, match="stand-in"):
                encode(path, add=False)
            continue
        found = [encode(path, add=False), encode(path, add=True)]
        assert found == llama["ids_Hello"], case["name"]
        checked += 1
    assert checked > 60


def test_what_only_llama_cpp_refuses_is_read(folder: str) -> None:
    for name in sorted(REFUSED_BY_LLAMA_CPP_ALONE):
        assert encode(f"{folder}/{name}.gguf", add=True)


def test_every_file_ends_in_ids_or_an_error(folder: str) -> None:
    codes = set()
    for case in cases():
        try:
            encode(f"{folder}/{case['name']}.gguf", add=True)
        except MtkitError as error:
            codes.add(error.exit_code)
    assert codes == {3, 4}


def test_every_file_is_converted_or_refused(folder: str) -> None:
    for case in cases():
        path = f"{folder}/{case['name']}.gguf"
        try:
            spec = gguf.read(Source.open(path), {}).spec
        except MtkitError:
            continue
        for name in FORMATS:
            module = get_format(name)
            if hasattr(module, "write"):
                with suppress(UnsupportedError, FormatError):  # damage that shows when it is used
                    assert module.write(spec, WriteOptions()).files, (case["name"], name)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_new_architecture_is_an_assumption(name: str) -> None:
    """A model that llama.cpp does not know yet has a tokenizer like any other."""
    usual = gguf.read(Source("small.gguf", small_gguf("gpt2", pre="gpt-2")), {})
    new = gguf.read(
        Source("small.gguf", small_gguf("gpt2", architecture=f"new {name}", pre="gpt-2")), {}
    )
    (said,) = set(new.assumptions) - set(usual.assumptions)
    assert repr(f"new {name}") in said
    assert replace(new.spec, extras=()) == replace(usual.spec, extras=())
