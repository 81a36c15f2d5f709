"""Settings are declared once: keywords, JSON and every spelling of an option give one record."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from support import Run

from mtkit.base.record import fields, replace
from mtkit.commands.application import application
from mtkit.commands.command import Command
from mtkit.errors import UsageError
from mtkit.settings import (
    HEADINGS,
    AnswerSettings,
    ContextSettings,
    DraftSettings,
    GenerateSettings,
    LoadSettings,
    ModelSettings,
    SamplerSettings,
    ServeSettings,
    TextSettings,
)
from mtkit.settings.declaration import Setting, Settings, settings_of, table

KINDS = (GenerateSettings, AnswerSettings, ModelSettings)
SETTINGS = table(GenerateSettings)


def value_of(setting: Setting, chance: random.Random) -> tuple[Any, list[str]]:
    """Draw a value, and how a command line gives it behind the option (once for each entry)."""
    hint, low, high = setting.hint, setting.low, setting.high
    if setting.name == "logit_bias":
        bias = chance.choice((7, " cat")), chance.uniform(-9, 9)
        return (bias,), [f"{bias[0]}={bias[1]!r}"]
    if setting.name == "tensor_split":
        shares = tuple(chance.uniform(0, 9) for _ in range(chance.randint(1, 4)))
        return shares, [",".join(map(repr, shares))]
    if setting.name == "grammar":
        return 'root ::= "a"', ['root ::= "a"']
    if setting.name == "json_schema":
        return '{"type": "object"}', ['{"type": "object"}']
    if get_origin(hint) is tuple:
        texts = tuple(f"text {chance.random()}" for _ in range(chance.randint(1, 3)))
        return texts, list(texts)
    if setting.options and "/" in setting.options[0]:  # both may be said
        return True, []
    if hint is bool:
        return not setting.default, []
    kinds = get_args(hint) or (hint,)
    if isinstance(kinds[0], str):
        found: Any = chance.choice(kinds)
    elif int in kinds:
        found = chance.randint(int(low or 0), int(high or 9))
    elif float in kinds:
        found = chance.uniform(low or 0, high or 9)
    else:
        found = f"file {chance.random()}"
    return found, [repr(found) if isinstance(found, float) else str(found)]


def by_command_line(kind: type[Settings], *args: str) -> Settings:
    """Return the record that a command gets of these arguments."""
    records = []

    def run(*, settings: Settings) -> None:
        """Take them."""
        records.append(settings)

    command = Command(run, settings=kind)
    application(command)(list(args), standalone_mode=False)
    plain_call = command.plain_call(args)
    if plain_call:
        plain_call()
    assert records[0] == records[-1]
    return records[0]


def arguments(spelling: str, values: list[str]) -> list[str]:
    return [part for value in values for part in (spelling, value)] or [spelling]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_spelling_gives_the_same_record(name: str) -> None:
    setting = SETTINGS[name]
    chance = random.Random(name)
    for _ in range(4):
        value, texts = value_of(setting, chance)
        wanted = settings_of(GenerateSettings, {name: value})
        assert wanted != GenerateSettings() or value == setting.default
        for key in setting.names:
            by_json = json.loads(json.dumps({key: value}))
            assert settings_of(GenerateSettings, by_json) == wanted, key
        for spelling in (*setting.options, *setting.also):
            first, _, off = spelling.partition("/")
            given = by_command_line(GenerateSettings, *arguments(first, texts))
            assert given == wanted, first
            if off:
                wanted_off = settings_of(GenerateSettings, {name: False})
                assert by_command_line(GenerateSettings, off) == wanted_off, off


def test_without_arguments_every_default_counts() -> None:
    for kind in KINDS:
        assert by_command_line(kind) == settings_of(kind, {}) == kind()
        defaults = json.loads(json.dumps({x.name: x.default for x in table(kind).values()}))
        assert settings_of(kind, defaults) == kind()


@pytest.mark.parametrize("setting", [x for x in SETTINGS.values() if x.low is not None],
                         ids=lambda setting: setting.name)  # fmt: skip
def test_what_is_outside_a_range_is_refused_by_name(setting: Setting) -> None:
    assert setting.low is not None
    assert setting.high is not None
    is_tuple = isinstance(setting.default, tuple)
    whole = setting.hint in (int, int | None)
    step = 1 if whole else 0.001 * (setting.high - setting.low)
    cases: list[Any] = [setting.low - step, setting.high + step]
    for value in cases if whole else [*cases, float("nan")]:
        for key in setting.names:
            with pytest.raises(UsageError, match=r"is \S+, not in the range \S+ to \S+") as caught:
                settings_of(GenerateSettings, {key: [value] if is_tuple else value})
            assert caught.value.field == key
        with pytest.raises(UsageError) as caught:
            by_command_line(GenerateSettings, f"{setting.options[-1]}={value}")
        assert caught.value.field == setting.options[-1]
    for edge in (setting.low, setting.high):
        made = settings_of(GenerateSettings, {setting.name: [edge] if is_tuple else edge})
        assert made != GenerateSettings() or edge == setting.default


@pytest.mark.parametrize(
    ("given", "field", "what"),
    [
        ({"temperature": "hot"}, "temperature", "is 'hot', not a number"),
        ({"top_k": 1.5}, "top_k", "is 1.5, not a whole number"),
        ({"top_k": True}, "top_k", "is True, not a whole number"),
        ({"temperature": None}, "temperature", "is None, not a number"),
        ({"ignore_eos": 1}, "ignore_eos", "is 1, not true or false"),
        ({"stop": "end"}, "stop", "is 'end', not a list"),
        ({"stops": ["a", 1]}, "stops[1]", "is 1, not text"),
        ({"grammar": 3}, "grammar", "is 3, not text"),
        ({"kv_type": "q9"}, "kv_type", "not one of f32, f16, bf16, q8_0"),
        ({"kv_type": ["f16"]}, "kv_type", "is ['f16'], not one of"),
        ({"logit_bias": [[1, 2, 3]]}, "logit_bias[0]", "has 3 entries, not 2"),
        ({"logit_bias": [[1.5, 2]]}, "logit_bias[0][0]", "is 1.5, not text"),
        (
            {"logit_bias": [[1, float("nan")]]},
            "logit_bias",
            "is nan for 1, not a number",
        ),
        ({"repeat_last_n": 1, "penalty_last": 2}, "penalty_last", "is given twice"),
        ({"kv_type": "q8_0", "flash_attention": "off"}, "kv_type", "needs flash attention"),
        ({"temprature": 1}, "", "did you mean temperature?"),
        ({"embeddings": True}, "", "there is no setting 'embeddings'"),
        ({"sampler": {}}, "", "there is no setting 'sampler'"),
    ],
    ids=str,
)
def test_errors_name_the_key(given: dict[str, Any], field: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(GenerateSettings, given)
    assert caught.value.field == field
    assert what in str(caught.value)


def test_numbers_of_other_libraries_and_paths_count() -> None:
    import numpy as np

    made = settings_of(
        GenerateSettings,
        {"top_k": np.int64(3), "temperature": np.float32(0.5), "n_predict": np.uint8(7)},
    )
    assert made == settings_of(GenerateSettings, {"top_k": 3, "temperature": 0.5, "n_predict": 7})
    assert type(made.sampler.temperature) is float

    class Path:
        def __fspath__(self) -> str:
            return "model.gguf"

    assert settings_of(ModelSettings, {"model": Path()}).model == "model.gguf"


def test_settings_are_sorted_by_record() -> None:
    given = {"temperature": 0.5, "n_batch": 7, "gpu_layers": 1, "n_predict": 3}
    plain = GenerateSettings()
    assert settings_of(GenerateSettings, given) == replace(
        plain,
        sampler=replace(plain.sampler, temperature=0.5),
        context=replace(plain.context, n_batch=7),
        load=replace(plain.load, gpu_layers=1),
        n_predict=3,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_settings_share_a_spelling(kind: type[Settings]) -> None:
    settings = table(kind).values()
    names = [name for setting in settings for name in setting.names]
    assert len(names) == len(set(names))
    spellings = [x for s in settings for x in (*s.options, *s.also)]
    assert len(spellings) == len(set(spellings))
    assert {setting.heading for setting in settings} <= {"", *HEADINGS}


def test_every_field_of_a_record_is_declared() -> None:
    """Hidden states and sequences alone are no settings: a program asks for them."""
    known = set(SETTINGS) | {"context", "load", "sampler", "drafting"}
    kinds = LoadSettings, ContextSettings, SamplerSettings, DraftSettings, GenerateSettings
    own = map(fields, kinds)
    assert {name for names in own for name in names} - known == {
        "embeddings", "pooling", "n_seq", "kv_unified",
    }  # fmt: skip
    assert [setting.name for setting in SETTINGS.values() if not setting.options] == ["logprobs"]


def test_commands_show_the_same_options_in_the_same_order(mtkit: Run) -> None:
    shown: dict[str, list[str]] = {}
    for name, kind in (("generate", GenerateSettings), ("chat", AnswerSettings),
                       ("perplexity", TextSettings), ("logits", ModelSettings)):  # fmt: skip
        text = mtkit(name, "--help").stdout.decode()
        places = {}
        for setting in table(kind).values():
            if setting.options:
                spelled = re.escape(", ".join(setting.options).replace("/", " / "))
                (place,) = re.finditer(rf"^  {spelled}(?= |$)", text, re.MULTILINE)
                places[setting.name] = place.start()
        shown[name] = sorted(places, key=places.__getitem__)
    for names in shown.values():
        common = [name for name in shown["generate"] if name in names]
        assert [name for name in names if name in shown["generate"]] == common


def test_an_option_out_of_range_is_one_line(mtkit: Run) -> None:
    for args, wanted in (
        (("--temp", "-1"), "mtkit: --temp: is -1.0, not in the range 0 to 1000\n"),
        (("--n-predict", "-2"), "mtkit: --n-predict: is -2, not in the range -1 to 2147483647\n"),
        (("--logit-bias", "5=nan"), "mtkit: --logit-bias: is nan for 5, not a number of 32 bits\n"),
        (
            ("--tensor-split", "x"),
            "mtkit: --tensor-split: is 'x', not numbers separated by commas; write it like 3,1\n",
        ),
    ):
        done = mtkit("generate", "x", *args)
        assert (done.returncode, done.stderr.decode()) == (2, wanted)
    done = mtkit("generate", "x", "--kv-type", "q9")
    assert done.returncode == 2
    assert "'--kv-type': 'q9' is not one of 'f32', 'f16'" in done.stderr.decode()


def test_a_prompt_is_given_once(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("Hello")
    for args in (("x", "-p", "y"), ("x", "-f", "prompt"), ("-p", "y", "-f", "prompt")):
        for name in ("generate", "logits"):
            done = mtkit(name, *args)
            assert done.returncode == 2
            assert b"give only one of TEXT, --prompt and --file" in done.stderr


def test_the_model_s_own_sampling_counts_where_nobody_says_otherwise() -> None:
    own = {f"general.sampling.{key}": value for key, value in
           (("temp", 0.3), ("top_k", 7), ("min_p", "x"), ("penalty_repeat", 1.5))}  # fmt: skip
    for given, values in (
        ({}, (0.3, 7, 0.05, 1.5)),
        ({"temp": 0.0, "top_k": 40}, (0.0, 40, 0.05, 1.5)),
        ({"temperature": 0.8}, (0.8, 7, 0.05, 1.5)),
    ):
        sampler = settings_of(ServeSettings, given).sampler.with_own(own)
        found = (sampler.temperature, sampler.top_k, sampler.min_p, sampler.repeat_penalty)
        assert found == values, given
    assert settings_of(ServeSettings, {}).sampler.with_own({}).temperature == 0.8
    wrong = settings_of(ServeSettings, {}).sampler.with_own({"general.sampling.temp": -1.0})
    assert wrong.temperature == 0.8
