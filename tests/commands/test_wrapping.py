"""Words that stream onto a terminal are not cut at its edge."""

from __future__ import annotations

import random
import re

import pytest
from rich.cells import cell_len

from mtkit.commands.chat.screen import LineWrapper


def screen(written: str) -> list[str]:
    """Return the lines of a terminal: text, line breaks, and going back to erase."""
    lines = [""]
    for back, letter in re.findall(r"\x1b\[(\d+)D\x1b\[K|(.)", written, re.S):
        if back:
            lines[-1] = lines[-1][: -int(back)]
        elif letter == "\n":
            lines.append("")
        else:
            lines[-1] += letter
    return lines


@pytest.mark.parametrize("width", [8, 20, 33])
def test_lines_fit_and_words_are_whole(width: int) -> None:
    random.seed(width)
    words = ["".join(random.choices("abcxyz", k=random.randint(1, 6))) for _ in range(200)]
    text = " ".join(words)
    wrapping, written, at = LineWrapper(width), "", 0
    while at < len(text):
        step = random.randint(1, 9)
        written += wrapping.push(text[at : at + step])
        at += step
    lines = screen(written)
    assert max(map(cell_len, lines)) < width
    assert " ".join(lines).split() == words


def test_wide_characters_break_anywhere() -> None:
    lines = screen(LineWrapper(9).push("世界你好" * 4))
    assert "".join(lines) == "世界你好" * 4
    assert {cell_len(line) for line in lines} == {8}


def test_code_and_long_words_stay_as_they_are() -> None:
    code = "```\nint main(int argc, char **argv) { return 0; }\n```\n"
    assert LineWrapper(20).push(code) == code
    assert screen(LineWrapper(10).push("a" * 25)) == ["a" * 9, "a" * 9, "a" * 7]
    assert screen(LineWrapper(10).push("ab 12345678901234")) == ["ab ", "123456789", "01234"]
