"""Texts that commands read: several files, lines as they come, a length to keep to, whole chats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from screens import check_screens
from support import FIXTURES, Run, reference
from tokenizers import Tokenizer

from mtkit import load
from mtkit.commands.encode import truncate
from mtkit.commands.inputs import read_lines

BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
WORDPIECE = FIXTURES / "wordpiece" / "tokenizer.json"


@pytest.mark.parametrize("how", [[], ["--json"], ["--count"], ["--offsets"], ["--truncate", "9"]])
def test_encode_names_the_line_that_is_not_text(mtkit: Run, tmp_path: Path, how: list[str]) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_bytes(b"one\ntwo\n")
    bad.write_bytes(b"fine \xe6\xbc\xa2\r\n" * 20_000 + b"four\xff\nfine\n")  # of several blocks
    done = mtkit("encode", "--lines", "-f", str(good), "-f", str(bad), "-t", BBPE, *how)
    said = f"mtkit: {bad}: line 20001 at offset 4: is not valid UTF-8: byte FF\n"
    assert (done.returncode, done.stderr.decode()) == (2, said)


def test_encode_names_the_line_of_a_file_that_has_no_token(mtkit: Run, tmp_path: Path) -> None:
    document = json.loads(WORDPIECE.read_text(encoding="utf-8"))
    del document["model"]["vocab"][document["model"]["unk_token"]]
    strict, one, two = (tmp_path / name for name in ("tokenizer.json", "one.txt", "two.txt"))
    strict.write_text(json.dumps(document), encoding="utf-8")
    one.write_bytes(b"fine\n")
    two.write_bytes("fine\n\U0001f9ff\n".encode())
    done = mtkit("encode", "--lines", "--no-special", "-f", str(one), "-f", str(two), "-t", strict)
    assert done.returncode == 4
    assert done.stderr.decode().endswith(f"no unknown token, in line 2 of {two}\n")


def test_count_on_a_terminal(tmp_path: Path) -> None:
    for name, text in (("one", "a text"), ("two", "another one, longer")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    shown = check_screens("count", tmp_path / "one", tmp_path / "two", "-t", WORDPIECE)[120]
    assert shown.lines[-2].split() == ["10", "total"]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 5, 6, 7, 40])
def test_truncation_is_that_of_the_tokenizers_library(mtkit: Run, most: int) -> None:
    text = "several words of one text"
    reference = Tokenizer.from_file(str(WORDPIECE))
    args = ("encode", text, "-t", WORDPIECE, "--truncate", most)
    if most < 2:  # the library panics or cuts its own special tokens
        done = mtkit(*args)
        assert done.returncode == 2
        assert b"the 2 special tokens around the text do not fit" in done.stderr
    else:
        reference.enable_truncation(most)
        wanted = reference.encode(text)
        assert mtkit(*args).stdout.decode().split() == list(map(str, wanted.ids))
        document = json.loads(mtkit(*args, "--json").stdout)
        assert document["tokens"] == wanted.tokens
        assert [tuple(pair) for pair in document["offsets"]] == wanted.offsets
    reference.enable_truncation(most)
    bare = reference.encode(text, add_special_tokens=False).ids
    assert mtkit(*args, "--no-special").stdout.decode().split() == list(map(str, bare))


@given(st.text(max_size=60), st.integers(2, 30))
def test_what_is_kept_of_a_truncated_text_is_its_beginning(text: str, most: int) -> None:
    encoding = load(str(WORDPIECE)).encode(text)
    cut = truncate(encoding, most)
    assert len(cut.ids) == min(most, len(encoding.ids))
    assert cut.ids == [*encoding.ids[: len(cut.ids) - 1], encoding.ids[-1]]


@given(st.lists(st.binary(max_size=5), max_size=8), st.sampled_from([b"\n", b"\r\n"]))
def test_lines_are_those_of_the_file(parts: list[bytes], end: bytes) -> None:
    data = end.join(parts)
    read, write = os.pipe()
    with os.fdopen(write, "wb") as out:
        out.write(data)
    with os.fdopen(read, "rb") as file:
        found = [line for group in read_lines(file) for line in group]
    lines = data.split(b"\n") if data else []
    if lines and not lines[-1]:
        lines.pop()
    assert found == [line.removesuffix(b"\r") for line in lines]


def test_a_line_is_answered_before_the_next_one_comes(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "mtkit", "encode", "--lines", "--count"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in (b"one", b"two three"):
            process.stdin.write(text + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().strip().isdigit()
        process.stdin.close()
        assert process.wait(60) == 0


FOLDER = FIXTURES / "bbpe-8k"
CHATS = (
    [{"role": "user", "content": "Hello!"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "中文 <|im_end|> 🙂"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b" * 500},
     {"role": "user", "content": "x\ny"}],
)  # fmt: skip


def test_a_chat_has_the_ids_and_the_length_that_transformers_gives(
    mtkit: Run, tmp_path: Path
) -> None:
    transformers = reference("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(FOLDER)
    for chat in CHATS:
        file = tmp_path / "chat.json"
        file.write_text(json.dumps(chat), encoding="utf-8")
        expected = theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        given = ("encode", "-t", FOLDER, "--messages", file)
        assert [int(x) for x in mtkit(*given).stdout.split()] == expected
        assert int(mtkit(*given, "--count").stdout) == len(expected)
        assert [int(x) for x in mtkit("template", FOLDER, *given[3:], "--ids").stdout.split()] == (
            expected
        )
        cut = mtkit(*given, "--truncate", 7)
        assert [int(x) for x in cut.stdout.split()] == expected[:7]
    piped = mtkit("encode", "-t", FOLDER, "--messages", "-", "--count", "--json",
                  stdin=json.dumps({"messages": CHATS[-1]}).encode())  # fmt: skip
    assert json.loads(piped.stdout)["count"] == len(expected)
