"""Fields of a config.json: those of a text_config, those that are null, those that are missing."""

from __future__ import annotations

import pytest

from mtkit.architectures import architecture_of_class, architectures
from mtkit.architectures.config import Config
from mtkit.architectures.decoder_rows import only
from mtkit.architectures.metadata import keys_of, rotary_dim, u32, with_keys
from mtkit.base.record import replace
from mtkit.conversion.model_keys import architecture_keys
from mtkit.errors import FormatError, UnsupportedError


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
