"""GGUF to tokenizer.json and back: what one writer writes the other accepts, and means the same.

A special id stands in a written file only if the source stated it, by a key, by a name or by the
text of a token. Vocabularies, roles and flags are drawn; llama.cpp and transformers read the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama import Llama
from made_files import Made
from small_gguf import WORDS, small_gguf, spec_of
from support import FIXTURES, VOCABULARIES, reference, shared

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import gguf, hf
from mtkit.formats.contract import WriteOptions, Written
from mtkit.formats.gguf.metadata import ID_KEYS
from mtkit.formats.gguf.pre_tokenizers import DIGIT_GROUPS, LITTLE_KNOWN, NAMES, RULES
from mtkit.gguf import open_gguf
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, normalizers, replace
from mtkit.spec.spaces import spaces_of, spell_out_spaces

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
    if drawn["pre"] == "glm4" and drawn["flags"].get("bos") and "bos" not in roles:
        # The one kind without a default: llama.cpp asserts when it is to add what is not there.
        with pytest.raises(FormatError, match="no such id"):
            spec_of(data)
        return
    spec = spec_of(data)
    pieces = [piece.decode() for piece in spec.vocabulary.pieces]
    stated = {role: pieces[number] for role, number in roles.items()}
    unk, added = getattr(spec.model, "unk", None), {t.id for t in spec.added_tokens.tokens}
    if unk is not None:  # the model names it; named here, it would be looked for in every text
        stated["unk"] = pieces[unk]
        if unk not in added:
            del stated["unk"]
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


def key_of(data: bytes, name: str) -> Any:
    return open_gguf(Source("made.gguf", data)).metadata.get(f"tokenizer.ggml.{name}")


def and_back(spec: TokenizerSpec) -> bytes:
    """Return the GGUF of the tokenizer.json of a specification."""
    again = hf.read(Made(to_hf(spec)), {}).spec
    (data,) = gguf.write(again, WriteOptions()).files.values()
    return data


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_pre_tokenizer_comes_back(name: str, tmp_path: Path) -> None:
    pre = NAMES[name]
    model = "whitespace" if pre.rule == "whitespace" else "gpt2"
    data = small_gguf(
        model,
        {"bos_token_id": 257} if pre.add_bos or pre.forced_bos else {},
        words_of="gpt2" if pre.byte_alphabet else "llama",
        pre=name,
    )
    spec = spec_of(data)
    if DIGIT_GROUPS in RULES[pre.rule]:
        with pytest.raises(UnsupportedError, match="groups digits"):
            to_hf(spec)
        return
    made = and_back(spec)
    again = NAMES[key_of(made, "pre")]
    switches = ["rule", "ignore_merges", "escape_whitespaces"]
    if name in LITTLE_KNOWN:  # a tokenizer.json has no names: the known one, and a listed loss
        back = hf.read(Made(to_hf(spec)), {}).spec
        losses = gguf.write(back, WriteOptions()).losses
        assert ("decoding", "clean_up_spaces") in {(loss.code, loss.field) for loss in losses}
    else:
        switches.append("clean_spaces")
    for switch in switches:
        assert getattr(again, switch) == getattr(pre, switch), switch
    if spec.special_ids.bos is None and not pre.default_bos:
        assert not again.default_bos  # or llama.cpp would take one
    paths = (tmp_path / "first.gguf", tmp_path / "again.gguf")
    paths[0].write_bytes(data)
    paths[1].write_bytes(made)
    before, after = map(Llama, paths)
    for text in ("he, he's 12345 HE\u4f60\u597d he\n\n  he", "", " he"):
        for add in (False, True):
            ids = before.encode(text.encode(), add=add, parse=False)
            assert after.encode(text.encode(), add=add, parse=False) == ids, text
    before.close()
    after.close()


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_shared_vocabulary_is_accepted_again(name: str) -> None:
    path = shared(f"gguf-vocab/ggml-vocab-{name}.gguf")
    spec = gguf.read(Source.open(str(path)), {}).spec
    if type(spec.model).__name__ in ("ShortestPath", "Trie"):
        with pytest.raises(UnsupportedError, match="does not support"):
            to_hf(spec)
        return
    given, made = path.read_bytes(), and_back(spec)
    assert key_of(made, "model") == key_of(given, "model")
    if key_of(given, "model") == "gpt2":
        assert NAMES[key_of(made, "pre")] == NAMES[key_of(given, "pre")]
    back = spec_of(made)
    assert back.normalizer == spec.normalizer
    assert back.pre_tokenizer == spec.pre_tokenizer
    assert back.decoder == spec.decoder
    assert back.clean_up_spaces == spec.clean_up_spaces


def test_deepseeks_pattern_for_the_end_of_a_text_is_read_back() -> None:
    """tokenizer.json needs ``\\z`` where llama.cpp's rule has ``$``."""
    made = and_back(spec_of(small_gguf("gpt2", pre="deepseek-llm")))
    assert key_of(made, "pre") == "deepseek-llm"


SPACES = st.builds(
    normalizers.Spaces,
    charsmap=st.sampled_from([b"", b"\0" * 8]),
    add_dummy_prefix=st.booleans(),
    remove_extra_whitespaces=st.booleans(),
    escape_whitespaces=st.booleans(),
    suffix=st.booleans(),
    prefix=st.sampled_from(["text", "word"]),
)


@given(SPACES)
def test_what_is_spelled_out_is_taken_together_again(spaces: normalizers.Spaces) -> None:
    said = spaces
    if not spaces.add_dummy_prefix:
        said = replace(spaces, suffix=False, prefix="text")
    elif spaces.suffix:
        said = replace(spaces, prefix="text")
    assert spaces_of(normalizers.Sequence(spell_out_spaces(spaces))) == said


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("squeeze", [False, True])
def test_a_unigram_vocabulary_keeps_its_space_in_front(prefix: bool, squeeze: bool) -> None:
    flags = {"add_space_prefix": prefix, "remove_extra_whitespaces": squeeze}
    spec = spec_of(small_gguf("t5", flags=flags))
    made = and_back(spec)
    assert {name: key_of(made, name) for name in flags} == flags
    assert spec_of(made).normalizer == spec.normalizer
    assert spec_of(made).decoder == spec.decoder
