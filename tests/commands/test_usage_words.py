"""Help and errors that name options: the options are there, and do what the words say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from screens import screen
from support import FIXTURES, one_line, reference

from mtkit.conversion.tokenizer import convert, find_refusal
from mtkit.errors import LossError, format_texts
from mtkit.formats.contract import WriteOptions
from mtkit.tokenizer.load import load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

BBPE = FIXTURES / "bbpe-8k"
RUNS = ("perplexity", "imatrix", "generate")
"""Commands that run a model."""


@pytest.mark.parametrize("command", ["count", "encode", "explain", *RUNS])
def test_a_model_in_the_place_of_a_text_names_an_option_of_the_command(
    mtkit: Run, command: str
) -> None:
    if command in RUNS:
        reference("llama_cpp")
    option = "-m" if command in RUNS else "-t"
    line = one_line(mtkit(command, "-f", BBPE / "vocab.gguf"), 2)
    file = "FILE" if command in ("count", "perplexity", "imatrix") else "-f FILE"
    assert f"is a model, not a text; run: mtkit {command} {file} {option} " in line
    assert re.search(rf"^  {option}, --", mtkit(command, "--help").stdout.decode(), re.M)


def test_a_default_that_is_not_always_the_same_is_said_once(mtkit: Run) -> None:
    """What a terminal's chat takes for --temp and --ctx is not what the record has."""
    words = " ".join(mtkit("chat", "--help").stdout.decode().split())
    for name, next_name in (("--temp T", "--top-k"), ("--ctx N", "--batch-size")):
        said = words.partition(f"{name} ")[2].partition(next_name)[0]
        assert "efault: " in said
        assert "[default" not in said


def test_a_refusal_counts_the_same_on_a_terminal_and_in_a_row(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer.json"
    document = json.loads((BBPE / "tokenizer.json").read_bytes())
    source.write_text(json.dumps(document | {"normalizer": {"type": "NFC"}}), encoding="utf-8")
    target = str(tmp_path / "x.gguf")
    with pytest.raises(
        LossError, match=r"different ids, the first is .*; possible causes: "
    ) as caught:
        convert(load(str(source)), target)
    found = find_refusal(load(str(source)), "gguf", WriteOptions())
    assert found is not None
    assert str(caught.value.what).startswith(
        format_texts(found.different, found.total, "get different ids")
    )
    shown = screen("convert", source, "--to", "gguf", "-o", target)
    assert f"not written: {found.different} of {found.total} text" in " ".join(shown.lines)


def test_a_text_of_a_refusal_is_escaped_once(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer.json"
    document = json.loads((BBPE / "tokenizer.json").read_bytes())
    rule = {"type": "Replace", "pattern": {"String": "\u0085"}, "content": "-"}
    source.write_text(json.dumps(document | {"normalizer": rule}), encoding="utf-8")
    shown = screen("convert", source, "--to", "gguf", "-o", tmp_path / "x.gguf").text
    assert "u0085" in shown.lower()
    assert not re.search(r"\\\\[xu]", shown)


def test_one_text_takes_the_verb_of_one() -> None:
    assert format_texts(1, 9, "get different ids") == "1 of 9 texts gets different ids"
    assert format_texts(2, 9, "are refused in x") == "2 of 9 texts are refused in x"
    assert format_texts(1, 1, "are refused") == "1 of 1 text is refused"
