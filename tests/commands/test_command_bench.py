"""`mtkit bench`: how fast a tokenizer is here; what it measures moves with the work."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from screens import screen
from support import FIXTURES

from mtkit import Tokenizer, load
from mtkit.errors import UsageError
from mtkit.tokenizer.speed import measure, texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

pytestmark = pytest.mark.slow

HF = str(FIXTURES / "bbpe-8k" / "tokenizer.json")
TEXT = "The quick brown fox, 123 times: 漢字 and café.\nA second line\twith a tab.\n" * 40


def words(count: int) -> str:
    """Return words that come once: what is repeated inside a text is not new the second time."""
    return " ".join(f"w{number * 7919:x}" for number in range(count))


def test_the_document_says_what_was_measured(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    done = mtkit("bench", "-t", HF, str(tmp_path / "text.txt"), "--rounds", "2", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    seconds = ("fresh_seconds", "again_seconds", "decode_seconds")
    (text,) = found["texts"]
    assert (found["schema"], found["tokenizer"], found["format"]) == ("mtkit.bench/1", HF, "hf")
    assert (found["rounds"], found["load_seconds"] > 0) == (2, True)
    tokenizer = load(HF)
    ids = tokenizer.encode_ids(TEXT, add_special_tokens=False)
    assert {key: value for key, value in text.items() if key not in seconds} == {
        "name": "text", "bytes": len(TEXT.encode()), "ids": len(ids),
    }  # fmt: skip
    assert all(text[key] >= 0 for key in seconds)


def test_rows_in_a_pipe_and_a_screen_for_people(mtkit: Run) -> None:
    done = mtkit("bench", "-t", HF, "--rounds", "1", "--size", "20k")
    lines = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert lines[0][:2] == ["load", ""]
    assert {(line[0], line[3]) for line in lines} == {
        ("load", "ms"), ("fresh", "MB/s"), ("again", "MB/s"), ("decode", "MB/s"),
    }  # fmt: skip
    assert "code" in {line[1] for line in lines}
    shown = screen("bench", "-t", HF, "--rounds", "1", "--size", "9k")
    assert "tokenizer.json  loaded in " in shown.text
    assert "fresh" in shown.text


def test_new_text_takes_longer_than_text_seen_before_and_time_is_that_of_the_work() -> None:
    """Loading twice as slowly, with as much to do as the text, moves what it should."""

    def slowly() -> Tokenizer:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        return load(HF)

    texts = {"short": words(1000), "long": words(20_000)}
    seen: list[float] = []
    loaded, (short, long) = measure(slowly, texts, 3, seen.append)
    assert loaded > 0.05
    assert long.fresh > long.again > 0
    assert long.fresh > 4 * short.fresh
    assert long.decode > short.decode
    assert (long.n_bytes, long.n_ids > short.n_ids) == (len(texts["long"]), True)
    assert seen == sorted(seen)
    assert seen[-1] == 1


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["no-such.txt"], 2, "no-such.txt: no such file"),
        (["--size", "much"], 2, "--size 'much' is not a size"),
        (["--size", ""], 2, "--size '' is not a size"),
        (["--size", "0k"], 2, "--size '0k' is not a size"),
        (["-t", "-"], 2, "-t -: a pipe cannot be loaded several times"),
        (["-t", "no/such"], 2, "no/such"),
    ],
)
def test_errors_are_one_line(mtkit: Run, args: list[str], code: int, message: str) -> None:
    done = mtkit("bench", *args)
    assert done.returncode == code, done.stderr
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(UsageError, match="is empty"):
        texts_of([str(tmp_path / "empty.txt")], 8)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 ")
    with pytest.raises(UsageError, match="offset 3: is not valid UTF-8"):
        texts_of([str(tmp_path / "latin.txt")], 8)


def test_a_text_comes_from_a_pipe(mtkit: Run) -> None:
    done = mtkit(
        "bench", "-t", HF, "-", "--rounds", "1", "--size", "1k", "--json", stdin=TEXT.encode()
    )
    (text,) = json.loads(done.stdout)["texts"]
    assert text["name"] == "stdin"
    assert 997 <= text["bytes"] <= 1000  # whole characters


def test_a_text_is_cut_between_characters(tmp_path: Path) -> None:
    path = tmp_path / "han.txt"
    path.write_text("漢字" * 30, encoding="utf-8")
    assert texts_of([str(path)], 8) == {"han": "漢字"}
    assert texts_of([str(path)], 1 << 80) == {"han": "漢字" * 30}
    path.write_bytes("漢".encode() + b"\xff" + b"a" * 20)
    with pytest.raises(UsageError, match="offset 3"):
        texts_of([str(path)], 8)
