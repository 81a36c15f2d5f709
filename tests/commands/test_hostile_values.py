"""Values that Python itself refuses: numbers of 5,000 digits, JSON that nests deep, other types.

int() takes no more than 4,300 digits and raises a ValueError beyond; json, tomllib and ast raise a
RecursionError; re raises either, or an OverflowError. Each is an error of mtkit's own here.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from support import reference

from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANCE = random.Random(29)
DIGITS = [str(CHANCE.randrange(1, 10)) * size for size in (20, 4301, 5000, 50_000)]
DIGITS += ["\u00b2", "\u0663" * 5000]
DEEP = ["[" * 60_000, '{"a":' * 60_000, "[" * 9000 + "]" * 9000]


def _patterns(number: str) -> list[str]:
    return [f"a{{{number}}}", f"a{{1,{number}}}", f"(b|a{{{number},}})", f"\\{number}"]


def _schemas(number: str) -> None:
    from mtkit.llama.grammar import check_schema

    reference("llguidance")
    for pattern in _patterns(number):
        for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}},
                       {"allOf": [{"type": "string", "pattern": pattern}]}):  # fmt: skip
            try:
                check_schema(json.dumps(schema))
            except MtkitError:
                continue
            assert not number.isascii()  # braces without digits of ASCII stand for themselves


def _adapters(number: str) -> None:
    from mtkit.checkpoints.adapter_folder import _pattern

    assert [_pattern(text) for text in _patterns(number)][1] in (None, _pattern(f"a{{1,{number}}}"))


def _layers(number: str) -> None:
    from mtkit.llm.quantize_choices import parse_layers

    with pytest.raises(MtkitError):
        parse_layers(f"1,{number}")


def _sizes(number: str) -> None:
    from mtkit.commands.options import parse_bytes

    with pytest.raises(MtkitError):
        parse_bytes(f"{number}G", "--split-max-size")


def _enumerations(number: str) -> None:
    from mtkit.architectures.families.step3p5 import _first_sparse

    class Config:
        def text(self, _: str) -> str:
            return f"7, {number} ,9"

    config: Any = Config()
    assert _first_sparse(config) == 7


@pytest.mark.parametrize("use", [_schemas, _adapters, _layers, _sizes, _enumerations])
@pytest.mark.parametrize("number", DIGITS, ids=lambda number: f"{number[0]!a} {len(number)}")
def test_numbers_of_more_digits_than_python_takes(use: Callable[[str], None], number: str) -> None:
    use(number)


@pytest.mark.parametrize("number", DIGITS, ids=lambda number: f"{number[0]!a} {len(number)}")
def test_ids_of_added_tokens(tmp_path: Path, number: str) -> None:
    from mtkit.conversion.remainder import _named_tokens

    document = {"added_tokens_decoder": {number: {"content": "x"}, "7": {"content": "y"}}}
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert list(_named_tokens(str(tmp_path), "c.json")) == [("x", None), ("y", 7)]


@pytest.mark.parametrize("text", DEEP, ids=["list", "object", "closed"])
def test_what_nests_deeper_than_python_reads(tmp_path: Path, text: str) -> None:
    from unittest.mock import patch

    from mtkit.chat.call_analysis import _reads_back
    from mtkit.commands.template import _setting
    from mtkit.corpus.job import _read_json
    from mtkit.sources import config

    path = tmp_path / "a"
    path.write_text(text)
    for use in (lambda: _setting(f"a={text}"), lambda: _read_json(str(path))):
        with pytest.raises(MtkitError):
            use()
    path.write_text(f"model = {text.replace('{', '{a = ')}")
    with patch.object(config, "path", lambda: str(path)), pytest.raises(MtkitError):
        config.read()
    assert not _reads_back(text, 1)


@pytest.mark.parametrize("value", [5, True, 0.5, "x", {"a": 1}])
def test_names_of_modules_that_are_no_list(tmp_path: Path, value: object) -> None:
    from adapters import linear_layers, write_adapter
    from model_folders import write_folder

    from mtkit.checkpoints import adapter_folder

    base = write_folder(tmp_path / "base", "LlamaForCausalLM", tokenizer="")
    layers = dict(list(linear_layers(base).items())[:1])
    path = write_adapter(tmp_path / "a", base, layers, config={"modules_to_save": value})
    with pytest.raises(MtkitError, match="modules_to_save"):
        adapter_folder.read(str(path), is_merged=True)


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b"{", b'{"documents": "1"}', b'{"x": 1}', b"\xff"]
)
def test_parts_of_a_corpus_that_were_damaged(tmp_path: Path, content: bytes) -> None:
    from mtkit.corpus.job import Parts

    (tmp_path / "000000.json").write_bytes(content)
    with Parts(str(tmp_path)) as parts, pytest.raises(MtkitError, match="is damaged"):
        parts.tally(0)


def test_values_of_parquet_that_python_cannot_hold(tmp_path: Path) -> None:
    from mtkit.corpus.documents import Reading, read_documents, units_of

    pyarrow, parquet = reference("pyarrow"), reference("pyarrow.parquet")
    ends = b"".join(at.to_bytes(4, "little") for at in (0, 2, 4, 5))
    texts = pyarrow.StringArray.from_buffers(
        3, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"ab\xff\xfec")
    )
    dates = pyarrow.array([1 << 62, 1, None], pyarrow.timestamp("us"))
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"text": texts, "date": dates}), path)
    blocks = {}
    for name in ("text", "date"):
        (unit,) = units_of([path], Reading(name))[0]
        (blocks[name],) = read_documents(unit, Reading(name))
    assert (blocks["text"].texts, blocks["text"].places) == (["ab", "c"], [0, 2])
    assert blocks["text"].bad == [(1, "column 'text' is not valid UTF-8")]
    assert [place for place, _ in blocks["date"].bad] == [0, 1, 2]


@pytest.mark.parametrize("count", [2, 3])
def test_columns_of_one_name(tmp_path: Path, count: int) -> None:
    from mtkit.corpus.documents import Reading, units_of

    pyarrow, parquet = reference("pyarrow"), reference("pyarrow.parquet")
    path = str(tmp_path / "a.parquet")
    columns = [pyarrow.array([str(number)]) for number in range(count)]
    parquet.write_table(pyarrow.table(columns, names=["text"] * count), path)
    with pytest.raises(MtkitError, match=f"has {count} columns 'text'"):
        units_of([path], Reading())


def test_what_pyarrow_says_of_damage_is_one_line(tmp_path: Path) -> None:
    from mtkit.corpus.documents import Reading, read_documents, units_of

    pyarrow, parquet = reference("pyarrow"), reference("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["a", "b"]}), path)
    whole, errors = path.read_bytes(), []
    for at in range(4, len(whole) - 8):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x7F]) + whole[at + 1 :])
        try:
            for unit in units_of([str(path)], Reading())[0]:
                list(read_documents(unit, Reading()))
        except MtkitError as error:
            errors.append(str(error))
    assert errors
    assert not any("\n" in error for error in errors)


@pytest.mark.parametrize("place", ["\n", "a\n", "\0", "\x1b[2J", "\u2028", "a\rb"])
def test_places_of_modules_that_a_terminal_obeys(tmp_path: Path, place: str) -> None:
    from mtkit.checkpoints import sentence_modules

    module = {"idx": 0, "path": place, "type": "sentence_transformers.models.Dense"}
    (tmp_path / "modules.json").write_text(json.dumps([module]))
    with pytest.raises(MtkitError) as caught:
        list(sentence_modules.read_dense(str(tmp_path)))
    assert str(caught.value).isprintable(), str(caught.value)


def test_a_name_of_a_column_that_is_not_utf_8(tmp_path: Path) -> None:
    from mtkit.corpus.documents import Reading, units_of

    pyarrow, parquet = reference("pyarrow"), reference("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["a"], "body": ["b"]}), path)
    path.write_bytes(path.read_bytes().replace(b"body", b"bod\xee"))
    with pytest.raises(MtkitError, match="is damaged: 'utf-8'"):
        units_of([str(path)], Reading("text"))
