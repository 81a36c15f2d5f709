"""What a model says in metadata or config.json: architecture, fields, tensors that no GGUF has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from model_folders import write_folder

from mtkit.architectures import (
    architecture_of_class,
    architectures,
    architectures_of_name,
    tensor_match,
)
from mtkit.architectures.config import Config
from mtkit.architectures.decoder_rows import only
from mtkit.architectures.metadata import keys_of, rotary_dim, u32, with_keys
from mtkit.architectures.tensor_match import recognize
from mtkit.base.record import replace
from mtkit.conversion.model import convert_model, plan_gguf
from mtkit.conversion.model_keys import architecture_keys
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.writer import Key

if TYPE_CHECKING:
    from pathlib import Path

    from model_folders import Shapes

    from mtkit.architectures import Architecture
    from mtkit.architectures.tensor_match import Recognition


CLASSES = ("Olmo3ForCausalLM", "Olmo2ForCausalLM", "MixtralForCausalLM", "RobertaModel")


def found(path: Path) -> Recognition:
    file = open_gguf(str(path))
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in file.tensors}
    return recognize(file.metadata, shapes)


def changed(path: Path, *keys: Key) -> Path:
    draft = Draft.of(open_gguf(str(path)))
    for key in keys:
        draft.set(key)
    target = path.with_name("changed.gguf")
    target.write_bytes(b"".join(draft.chunks()))
    return target


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_the_order_of_the_table_does_not_count(
    name: str, turned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.gguf"
    folder = write_folder(tmp_path / "model", name, tokenizer="bbpe-8k")
    convert_model(folder, path, allow_loss=("ids", "ids-possible"))
    if turned:
        monkeypatch.setattr(
            tensor_match, "architectures_of_name", lambda name: architectures_of_name(name)[::-1]
        )
    one = found(path)
    assert (name in one.architecture.classes, one.tensors.faults) == (True, ())


def test_what_is_of_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    convert_model(write_folder(tmp_path / "model"), path)
    with pytest.raises(UnsupportedError, match="'other' is an architecture that"):
        found(changed(path, Key("general.architecture", "string", "other")))
    with pytest.raises(FormatError, match="not a whole number"):
        found(changed(path, Key("llama.block_count", "string", "two")))

    def none_fits(name: str) -> list[Architecture]:
        return [replace(one, fits=lambda _: False) for one in architectures_of_name(name)]

    monkeypatch.setattr(tensor_match, "architectures_of_name", none_fits)
    with pytest.raises(UnsupportedError, match="none of the llama models that mtkit knows"):
        found(path)


BUFFER = (1, 1, 128, 128)
T5 = {
    "d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_decoder_layers": 2,
    "num_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("LlamaForCausalLM", {"model.layers.0.self_attn.rotary_emb.inv_freq": (8,)}),
        ("GPT2LMHeadModel", {"h.0.attn.bias": BUFFER, "h.1.attn.masked_bias": ()}),
        ("GPTBigCodeForCausalLM", {"transformer.h.0.attn.bias": BUFFER}),
        ("GPTNeoXForCausalLM", {"gpt_neox.layers.0.attention.bias": BUFFER}),
        ("T5ForConditionalGeneration", {"decoder.embed_tokens.weight": (128, 64)}),
        ("T5EncoderModel", {"encoder.embed_tokens.weight": (128, 64)}),
    ],
)
def test_what_no_gguf_has_stays_out(name: str, more: Shapes, tmp_path: Path) -> None:
    def names(folder: str, added: Shapes) -> list[str]:
        path = write_folder(
            tmp_path / folder,
            name,
            config=T5,
            optional=(),
            change=lambda shapes: shapes.update(added),
            tokenizer="",
        )
        return [tensor.name for tensor in plan_gguf(str(path)).tensors()]

    assert names("more", more) == names("plain", {})
    with pytest.raises(FormatError, match="has no tensor 'more"):
        names("unknown", {"more.attn.weight": (1,)})


def test_a_copy_alone_is_the_tensor(tmp_path: Path) -> None:
    def renamed(shapes: Shapes) -> None:
        shapes["encoder.embed_tokens.weight"] = shapes.pop("shared.weight")

    name = "T5EncoderModel"
    path = write_folder(tmp_path / "t5", name, config=T5, optional=(), change=renamed, tokenizer="")
    made = {tensor.name for tensor in plan_gguf(str(path)).tensors()}
    assert "token_embd.weight" in made


def test_a_field_of_text_config_hides_the_outer_one_unless_it_is_null() -> None:
    config = Config({"a": 1, "b": 2, "text_config": {"a": None, "b": 3, "c": None, "d": 4}})
    assert config.fields == {"a": 1, "b": 3, "c": None, "d": 4}


def test_a_null_in_text_config_gets_the_default() -> None:
    config = Config({"text_config": {"head_dim": None, "hidden_size": 8}})
    assert config.with_defaults({"head_dim": 4, "hidden_size": 6}).fields == {
        "head_dim": 4, "hidden_size": 8,
    }  # fmt: skip


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize(
    ("name", "field"),
    [("Exaone4ForCausalLM", "sliding_window"), ("ApertusForCausalLM", "rope_scaling")],
)
def test_a_null_that_is_written_is_no_missing_field(name: str, field: str, *, inner: bool) -> None:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    defaults = architecture_of_class(name).defaults

    def known(said: dict[str, object]) -> Config:
        config = Config({"text_config": {**sizes, **said}} if inner else {**sizes, **said})
        return config.with_defaults(defaults(config))

    assert known({}).get(field) is not None
    assert known({field: None}).get(field) is None


def test_every_check_is_asked() -> None:
    """Rows of keys go by their names; checks have none, and replacing rows loses none."""
    llama = architectures()["LlamaForCausalLM"]
    checks = (only("first", 1), only("second", 2))
    strict = replace(llama, keys=with_keys((u32("a", "a"),), u32("b", "b")), checks=checks)
    assert architecture_keys(strict, Config({"first": 1}), 0)
    for field in ("first", "second"):
        with pytest.raises(UnsupportedError, match=field):
            architecture_keys(strict, Config({field: 3}), 0)
    assert not list(keys_of(strict.name, strict.keys, Config({"first": 3})))


def test_what_is_rotated_is_rounded_as_the_converter_does() -> None:
    """0.29 * 100 is just below 29, 0.29 * 10000 is 2900."""
    sizes = {"hidden_size": 10000, "num_attention_heads": 100}
    config = Config({**sizes, "partial_rotary_factor": 0.29})
    assert rotary_dim(1.0)(config) == 28
    assert rotary_dim(1.0, of_all_heads=True)(config) == 29
    assert rotary_dim(0.25)(Config(sizes)) == 25
    with pytest.raises(FormatError, match="not in the range 0 to 1"):
        rotary_dim(1.0)(Config({**sizes, "partial_rotary_factor": 1.5}))


def test_a_later_row_of_a_key_counts() -> None:
    rows = (u32("a", "first"), u32("a", "second"))
    made = list(keys_of("x", rows, Config({"first": 1, "second": 2})))
    assert [(key.name, key.value) for key in made] == [("x.a", 2)]


def test_an_architecture_has_its_names_in_the_source_of_its_module() -> None:
    """Other modules are not imported for them."""
    for name, architecture in architectures().items():
        assert architecture_of_class(name) == architecture
        namesakes = [one for one in architectures().values() if one.name == architecture.name]
        for one in namesakes:
            assert one in architectures_of_name(architecture.name), one.classes
