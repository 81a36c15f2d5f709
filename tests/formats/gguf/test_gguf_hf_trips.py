"""GGUF to tokenizer.json and back: what a format takes for granted is not what a file says.

A special id stands in a written file only if the source stated it, by a key, by a name or by the
text of a token. Vocabularies, roles and flags are drawn; llama.cpp and transformers read the files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama import Llama
from small_gguf import WORDS, small_gguf, spec_of
from support import FIXTURES, reference
from test_hf_write import Made

import mtkit
from mtkit.base.binary import Source
from mtkit.formats import gguf, hf
from mtkit.formats.contract import WriteOptions
from mtkit.formats.gguf.kinds import ID_KEYS
from mtkit.gguf import open_gguf
from mtkit.pipeline import Pipeline
from mtkit.spec import replace

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.formats.contract import Written
    from mtkit.spec import TokenizerSpec

TEXTS = ("he, he!", "", ",", "he<|a|>, <|b|>he", "[A]he[B]")
NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
ENDS = {"</s>", "[PAD]"}
"""Texts of tokens that end a generation in llama.cpp, whatever the keys say."""


@st.composite
def vocabularies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a file states: a model, roles, flags, a pre-tokenizer."""
    model = draw(st.sampled_from(sorted(WORDS)))
    roles = draw(st.dictionaries(st.sampled_from(NAMED), st.integers(0, len(WORDS[model]) - 1)))
    if model == "bert":  # llama.cpp has no vocabulary of this kind without them
        roles = {"unk": 3, "sep": 2, **roles}
    flags = draw(st.dictionaries(st.sampled_from(["bos", "eos"]), st.booleans()))
    pre = draw(st.sampled_from(["gpt-2", "glm4", "llama-bpe", "qwen2"]))
    return {"model": model, "roles": roles, "flags": flags, "pre": pre if model == "gpt2" else None}


def file_of(drawn: dict[str, Any]) -> bytes:
    return small_gguf(
        drawn["model"],
        {ID_KEYS[role]: number for role, number in drawn["roles"].items()},
        {f"add_{role}_token": flag for role, flag in drawn["flags"].items()},
        **({"pre": drawn["pre"]} if drawn["pre"] else {}),
    )


def to_hf(spec: TokenizerSpec) -> Written:
    return hf.write(spec, WriteOptions())


def texts_of(made: Written) -> dict[str, str]:
    config: dict[str, Any] = json.loads(made.files["tokenizer_config.json"])
    return {role: config[f"{role}_token"] for role in NAMED if f"{role}_token" in config}


def stops_of(made: Written) -> set[int]:
    stop = json.loads(made.files.get("generation_config.json", b"{}")).get("eos_token_id", [])
    return set(stop if isinstance(stop, list) else [stop])


def role_keys(data: bytes) -> dict[str, int]:
    metadata = open_gguf(Source("made.gguf", data)).metadata
    keys = {role: f"tokenizer.ggml.{ID_KEYS[role]}" for role in NAMED}
    return {role: metadata[key] for role, key in keys.items() if key in metadata}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(vocabularies())
def test_special_ids_are_those_that_the_source_states(
    tmp_path: Path, drawn: dict[str, Any]
) -> None:
    data, roles = file_of(drawn), drawn["roles"]
    spec = spec_of(data)
    pieces = [piece.decode() for piece in spec.vocabulary.pieces]
    stated = {role: pieces[number] for role, number in roles.items()}
    if getattr(spec.model, "unk", None) is not None:
        stated["unk"] = pieces[spec.model.unk]  # type: ignore[union-attr]  # it has one
    made = to_hf(spec)
    assert texts_of(made) == stated
    ends = {number for number, piece in enumerate(pieces) if piece in ENDS}
    assert stops_of(made) == ends | {number for role, number in roles.items() if role == "eos"}
    # Back in a GGUF: the keys that were there, and no other.
    (again,) = gguf.write(spec, WriteOptions()).files.values()
    assert role_keys(again) == roles
    back = spec_of(again)
    assert back.special_ids == spec.special_ids
    # All the while the ids are llama.cpp's, defaults included.
    path = tmp_path / "drawn.gguf"
    path.write_bytes(data)
    llama, pipeline, other = Llama(path), Pipeline(spec), Pipeline(back)
    for text in TEXTS:
        for add, parse in ((False, False), (True, True)):
            wanted = llama.encode(text.encode(), add=add, parse=parse)
            for mine in (pipeline, other):
                assert mine.encode_ids(text, add_special_tokens=add, parse_special=parse) == wanted
    llama.close()


def test_a_comma_is_no_special_token_of_a_file_that_names_none(tmp_path: Path) -> None:
    """llama.cpp's default for byte-pair vocabularies, id 11, is a comma in most of them."""
    spec = spec_of(small_gguf("gpt2", pre="gpt-2"))
    assert spec.vocabulary.pieces[11] == b","
    assert (spec.special_ids.bos, spec.special_ids.eos, spec.special_ids.stop) == (None, None, ())
    for name, content in to_hf(spec).files.items():
        (tmp_path / name).write_bytes(content)
    library = reference("transformers").PreTrainedTokenizerFast.from_pretrained(tmp_path)
    ids = library.encode("he, he")
    assert library.decode(ids, skip_special_tokens=True) == "he, he"
    assert library.bos_token is library.eos_token is None


def test_the_comma_is_still_put_in_front_where_the_file_adds_a_bos(tmp_path: Path) -> None:
    data = small_gguf("gpt2", flags={"add_bos_token": True}, pre="gpt-2")
    reading = gguf.read(Source("small.gguf", data), {})
    assert reading.spec.special_ids.bos is None
    assert any("id 11" in line for line in reading.assumptions)
    assert Pipeline(reading.spec).encode_ids("he", add_special_tokens=True)[0] == 11
    assert "bos" not in texts_of(to_hf(reading.spec))


def test_a_tokenizer_without_special_ids_comes_back_without(tmp_path: Path) -> None:
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    bare = replace(
        spec,
        special_ids=replace(spec.special_ids, bos=None, eos=None, stop=()),
        extras=(),
        added_tokens=replace(spec.added_tokens, tokens=()),
    )
    (data,) = gguf.write(bare, WriteOptions()).files.values()
    made = to_hf(spec_of(data))
    assert "bos" not in texts_of(made)
    assert "eos" not in texts_of(made)
    assert hf.read(Made(made), {}).spec.special_ids.bos is None


@pytest.mark.parametrize("add", [False, True])
def test_bos_is_added_only_if_the_file_adds_it(add: bool) -> None:
    """A GGUF says whether BOS is added; a tokenizer.model leaves it open."""
    spec = spec_of(small_gguf("llama", {"bos_token_id": 1}, {"add_bos_token": add}))
    made = to_hf(spec)
    library = reference("tokenizers").Tokenizer.from_str(made.files["tokenizer.json"].decode())
    assert (library.encode("he").ids[:1] == [1]) is add
    assert not made.assumptions
