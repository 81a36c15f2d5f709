"""``mtkit explain``, ``token`` and ``dump``: tokens by id and by text, those of a text and how it
became them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from screens import check_screens, screen
from support import FIXTURES, Run, one_line

import mtkit as package
from mtkit import load

BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
FILES = (
    BBPE,
    FIXTURES / "spm-unigram" / "tokenizer.model",
    FIXTURES / "spm-bpe" / "tokenizer.model",
    FIXTURES / "wordpiece" / "tokenizer.json",
)
HOSTILE = "</style><script>alert(1)</script>\"'><img src=x onerror=a(1)> &amp; ]]> \x1b\u202e\ufffe"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_rows_are_the_tokens_of_encode(path: Path, mtkit: Run) -> None:
    text = "Hello, MNN! 中文 🙂 unbelievable"
    tokenizer = package.load(path)
    encoding = tokenizer.encode(text)
    shown = mtkit("explain", text, "-t", path).stdout.decode().splitlines()
    rows = [row.split("\t") for row in shown]
    assert [int(row[0]) for row in rows] == encoding.ids
    assert [(int(row[1]), int(row[2])) for row in rows] == [*map(tuple, encoding.offsets)]
    assert [bytes.fromhex(row[5]) for row in rows] == [*map(tokenizer.token_bytes, encoding.ids)]
    words = [row[3] for row in rows]
    added = [bool(flag) for flag in encoding.special_tokens_mask]
    assert [word == "" for word in words] == added
    inside = [int(word) for word in words if word]
    assert inside == sorted(inside)
    assert inside[0] == 0
    document = json.loads(mtkit("explain", text, "-t", path, "--json").stdout)
    assert [one["id"] for one in document["tokens"]] == encoding.ids
    assert document["trace"]["ids"] == encoding.ids


def test_a_terminal_shows_text_ids_and_bytes() -> None:
    sent = check_screens("explain", "It's 中文 <|im_end|> 🙂", "-t", BBPE)
    assert "e4 b8 ad" in sent[80].text
    assert "│" in sent[80].text
    ids = package.load(BBPE).encode_ids("It's 中文 <|im_end|> 🙂")
    assert set(map(str, ids)) <= set(sent[120].words.split())
    painted = screen("explain", "Hello, MNN!", "-t", BBPE, color=True).text
    assert re.findall(r"\x1b\[30;4[63]m(\S+?) *\x1b", painted)[:3] == ["H", "el", "lo"]


def test_characters_in_parts_are_whole_above_their_tokens() -> None:
    text = "世界 🙂"
    tokens = package.load(BBPE).encode(text)
    assert any(b > a + 1 or tokens.offsets.count((a, b)) > 1 for a, b in tokens.offsets)
    sent = check_screens("explain", text, "-t", BBPE)
    assert sent[80].text.splitlines()[0].split() == ["世", "界", "│", "·", "🙂"]
    assert "\\x" not in screen("explain", "中文", "-t", BBPE).text


def test_pictures_have_every_step_and_token(tmp_path: Path, mtkit: Run) -> None:
    html, svg = tmp_path / "a.html", tmp_path / "a.svg"
    mtkit("explain", "Hello <|im_end|>", "-t", BBPE, "--html", html, "--svg", svg)
    page, drawn = html.read_text(encoding="utf-8"), svg.read_text(encoding="utf-8")
    for text in ("pre-tokenizer", "BPE", "rank", "8191", "48", "&lt;|im_end|&gt;"):
        assert text in page
        assert text in drawn
    assert mtkit("explain", "x", "--html", html).returncode == 2  # it exists
    assert html.read_text(encoding="utf-8") == page
    assert mtkit("explain", "x", "--html", html, "--force").returncode == 0


def elements(drawn: str) -> set[str]:
    return {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(drawn).iter()}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40) | st.just(HOSTILE), file=st.sampled_from(FILES))
def test_no_text_becomes_markup(text: str, file: Path) -> None:
    from mtkit.tokenizer import explanation as explain

    tokenizer = LOADED[file]
    trace = tokenizer.trace(text)
    rows = explain.trace_rows(trace, explain.token_rows(trace, tokenizer))
    assert elements(explain.svg_drawing(rows)) <= {"svg", "style", "rect", "text"}
    page = explain.html_page(rows)
    tags = set(re.findall(r"<([!/]?[a-zA-Z]+)", page.partition("<table>")[2]))
    assert tags <= {"tr", "th", "td", "span", "small", "/tr", "/th", "/td", "/span", "/small",
                    "/table", "/body", "/html"}  # fmt: skip
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)


LOADED = {path: package.load(path) for path in FILES}


def test_a_text_that_is_too_long_is_refused(mtkit: Run) -> None:
    done = mtkit("explain", "-p", "x" * 70_000)
    assert done.returncode == 2
    assert b"mtkit encode takes any length" in done.stderr


def test_a_pipe_has_tokens_escaped_once_and_json_has_them_as_they_are(mtkit: Run) -> None:
    text = "a\tb\\n\n"
    rows = [
        row.split("\t") for row in mtkit("explain", text, "-t", BBPE).stdout.decode().split("\n")
    ]
    shown = "".join(row[4] for row in rows[:-1])
    assert shown == "a\\tb\\n⏎"
    for option in ("--tokens", "--trace"):
        assert b"\\\\" not in mtkit("encode", option, text, "-t", BBPE).stdout
    document = json.loads(mtkit("explain", text, "-t", BBPE, "--json").stdout)
    assert "".join(one["token"] for one in document["tokens"]) == text


TOKEN_FILES = (
    "bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model", "spm-unigram/tokenizer.model",
    "bbpe-8k/vocab.gguf", "wordpiece/vocab.gguf",
)  # fmt: skip


@pytest.mark.parametrize("name", TOKEN_FILES)
def test_every_token_is_found_by_its_text(name: str) -> None:
    tokenizer = load(FIXTURES / name)
    found: Counter[bool] = Counter()
    for token_id in range(tokenizer.vocab_size):
        if tokenizer.id_to_piece(token_id) is None:
            continue
        ids = tokenizer.text_to_ids(tokenizer.token_bytes(token_id))
        assert all(tokenizer.token_bytes(i) == tokenizer.token_bytes(token_id) for i in ids)
        found[token_id in ids] += 1
    assert found[True] > tokenizer.vocab_size * 0.99, found  # of equal pieces one is looked up


def test_filters_look_into_text_and_spelling(mtkit: Run) -> None:
    def ids(*args: object) -> list[int]:
        rows = mtkit("dump", "vocab", BBPE, *args).stdout.decode().splitlines()
        return [int(row.partition("\t")[0]) for row in rows]

    tokenizer = load(BBPE)
    texts = {i: tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)}
    wanted = [i for i, text in texts.items() if "中".encode() in text]
    assert wanted
    assert ids("--filter", "中") == wanted
    assert ids("--filter", "ä¸Ń") == wanted
    assert ids("--filter", " the") == [i for i, text in texts.items() if b" the" in text]
    assert ids("--filter", " th?") == [
        i for i, text in texts.items() if text.startswith(b" th") and len(text.decode()) == 4
    ]
    assert ids("--id", "5,100-102") == [5, 100, 101, 102]
    assert ids("--id", "100-102", "--filter", "nothing has this") == []
    assert "--id is for" in one_line(mtkit("dump", "merges", BBPE, "--id", "1"), 2)


def test_on_a_terminal_tokens_are_text() -> None:
    lines = check_screens("dump", "vocab", BBPE, "--filter", "中文")[80].lines
    assert lines[0].split() == ["id", "token", "type", "spelling"]
    assert any(line.split()[1] == "中文" and line.endswith("ä¸Ńæĸĩ") for line in lines[1:-1])
    assert "·the" in check_screens("token", "·the", "-t", BBPE)[60].words
    assert screen("encode", "a 中文\n", "--tokens", "-t", BBPE).words == "a ·中 文 ⏎"
    merges = check_screens("dump", "merges", BBPE, "--filter", "中文")[80].lines
    assert merges[0].split() == ["rank", "left", "right", "spelling"]
