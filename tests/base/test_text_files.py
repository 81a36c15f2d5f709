from __future__ import annotations

from typing import TYPE_CHECKING

from mtkit.base.files import is_text_file, visible_files

if TYPE_CHECKING:
    from pathlib import Path


def test_files_of_a_folder_are_in_order_and_hidden_ones_are_left(tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.py", "a/.d", ".git/e", "a/b/f"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    found = [path[len(str(tmp_path)) + 1 :] for path in visible_files(str(tmp_path))]
    assert found == ["b.txt", "a/c.py", "a/b/f"]


def test_text_is_utf8_without_nul(tmp_path: Path) -> None:
    cases = {
        b"int main() {}": True,
        "文".encode() * 8000: True,  # the part that is looked at ends within a character
        b"": False,
        b"GGUF\x03\0\0\0": False,
        b"\xff\xfea": False,
    }
    for number, (content, expected) in enumerate(cases.items()):
        path = tmp_path / str(number)
        path.write_bytes(content)
        assert is_text_file(str(path)) is expected
    assert not is_text_file(str(tmp_path / "nothing"))
