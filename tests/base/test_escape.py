"""Escaped text is one printable line, keeps its backslashes, and shows every byte."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.base.escape import as_text, byte_escapes, is_utf8, json_visible, printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        ("\u2581 \u4f60\U0001f600".encode(), "\u2581 \u4f60\U0001f600"),
        (b"a\nb\tc\rd", "a\\nb\\tc\\rd"),
        (b"\x1b[31mred\x07\x7f", "\\x1b[31mred\\x07\\x7f"),
        (b"\\p{N}\\n\n", "\\p{N}\\n\\n"),
        (b"\xff\x85", "\\xff\\x85"),
        ("\x85\u202e\u2066\u200d".encode(), "\\u0085\\u202e\\u2066\\u200d"),
        ("\ufeff\u2028".encode(), "\\ufeff\\u2028"),
        ("\U000e0041".encode(), "\\U000e0041"),
        (b"[bold]markup[/bold]", "[bold]markup[/bold]"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),  # a surrogate is not valid UTF-8
    ],
)  # fmt: skip
def test_examples(raw: bytes, shown: str) -> None:
    assert printable(raw) == shown
    assert printable(as_text(raw)) == shown


def undone(text: str) -> bytes:
    r"""Read ``\xNN`` as a byte and the rest of the escapes as Python does."""
    out, rest = b"", text
    while rest:
        if rest.startswith("\\x"):
            out, rest = out + bytes.fromhex(rest[2:4]), rest[4:]
        elif rest[0] == "\\":
            size = {"u": 6, "U": 10}.get(rest[1], 2)
            out, rest = out + str(ast.literal_eval(f"'{rest[:size]}'")).encode(), rest[size:]
        else:
            out, rest = out + rest[0].encode(), rest[1:]
    return out


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8")))
def test_without_backslashes_it_can_be_undone(raw: bytes) -> None:
    raw = raw.replace(b"\\", b"/")
    shown = printable(raw)
    assert printable(shown) == shown
    assert undone(shown) == raw
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert is_utf8(shown)


def test_messages_keep_their_backslashes() -> None:
    assert printable("C:\\new\n\x1b[0m") == "C:\\new\\n\\x1b[0m"


def test_json_text_loses_only_bad_bytes() -> None:
    assert byte_escapes(as_text(b"a\n\xe9\\")) == "a\n\\xe9\\"
    assert byte_escapes("\u4f60\n") == "\u4f60\n"


@pytest.mark.parametrize(
    "name", ["A\x1b]0;x\x07", "\x9b31m", "\u202eB", "\x7f", "\U000e0041", "a\u00e9 \u4f60"]
)
def test_json_on_a_terminal_is_the_same_json(name: str) -> None:
    line = json_visible(json.dumps({name: [name]}, ensure_ascii=False, indent=1))
    assert json.loads(line) == {name: [name]}
    assert all(part.isprintable() for part in line.split("\n"))
