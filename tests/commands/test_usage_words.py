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
from mtkit.sources.locate import MODEL, shipped
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


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("generate", "--temp", "x", "hi"), "'x' is not a number; see"),
        (("generate", "--foo", "hi"), "no such option: --foo; is it --force"),
        (("encode", "a", "b", "c"), "unexpected argument: b c; see"),
        (("encode", "hi", "--encoding", "gpt2"), "--encoding: is for .tiktoken files; for the"),
        (("encode", "hi", "--encoding", "foo"), ".tiktoken files; published encodings: gpt2"),
        (("encode", "hi", "--foo"), "no such option: --foo; is it --bos or --eos? see"),
        (("encode", "hi", "--special"), "; is it --no-special or --parse-special? see"),
        (("decode", "model.gguf", "1", "2"), "not a token id; run: mtkit decode 1 2 -t model.gguf"),
        (("decode", "x", "1"), "'x' is not a token id; ids are whole numbers"),
        (("convert", str(BBPE / "vocab.gguf")), "vocab.gguf --to hf; formats: all, gguf, hf, hf-m"),
        (("convert", str(BBPE), "x.mtok", "--verify"), "--verify is for a model folder"),
        (("encode", "-f", "."), ".: is a folder"),
        (("generate", "hi", "--grammar", 'root = "a"'), "is neither a file nor GBNF; a rule is"),
        (("generate", "hi", "--json-schema", "no.json"), "is neither a file nor a JSON schema; a"),
        (("convert", "no.json", "x.gguf", "--type", "Q8_0"), "no.json: no such file"),
        (("convert", "an/id", "x.gguf", "--type", "Q8_0"), "an/id: no such folder; add --download"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_line(
    mtkit: Run, args: tuple[str, ...], said: str
) -> None:
    if args[0] == "generate":
        reference("llama_cpp")
    assert said in one_line(mtkit(*args), 2)


def test_a_message_without_content_is_told_of(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text('[{"role": "user"}]', encoding="utf-8")
    done = mtkit("template", shipped(MODEL), "--messages", tmp_path / "chat.json")
    assert "has no 'content', which the chat template needs" in one_line(done, 2)


def test_a_vocabulary_does_not_draft(mtkit: Run) -> None:
    """Also where a draft is loaded only when it may pay."""
    reference("llama_cpp")
    done = mtkit("generate", "hi", "-n", "4", "--draft", BBPE / "vocab.gguf")
    assert "vocab.gguf: has a vocabulary but no weights" in one_line(done, 4)


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
