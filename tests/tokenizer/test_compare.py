"""Two tokenizers are compared text by text, and the stage at which they part is named."""

from __future__ import annotations

import io
import json
import random
import sys
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES, measured

import mtkit
from mtkit.tokenizer.comparison import LINE_LIMIT_BYTES, compare, corpus_lines

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run


def changed(path: Path, tmp_path: Path, **sections: object) -> mtkit.Tokenizer:
    """Load a tokenizer.json with some sections replaced."""
    table = json.loads(path.read_text("utf-8"))
    table.update(sections)
    copy = tmp_path / "changed.json"
    copy.write_text(json.dumps(table))
    return mtkit.load(copy)


BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
SPM = FIXTURES / "spm-bpe" / "tokenizer.model"
WORDPIECE = FIXTURES / "wordpiece" / "tokenizer.json"


@pytest.mark.parametrize(
    ("stage", "text", "sections"),
    [
        ("normalizer", "Hello A", {"normalizer": {"type": "Lowercase"}}),
        ("pre-tokenizer", "mtkit_tool", {"pre_tokenizer": {"type": "ByteLevel", "use_regex": True,
         "add_prefix_space": False, "trim_offsets": False}}),
        ("added tokens", "a<|im_end|>", {"added_tokens": []}),
    ],
)  # fmt: skip
def test_the_stage_is_named(
    stage: str, text: str, sections: dict[str, object], tmp_path: Path
) -> None:
    left, right = mtkit.load(BBPE), changed(BBPE, tmp_path, **sections)
    assert left.encode_ids(text) != right.encode_ids(text)
    done = compare(left, right, ["same", text])
    assert (done.texts, done.different, done.equal) == (2, 1, False)
    (one,) = done.differences
    assert (one.stage, one.number, one.text) == (stage, 2, text)
    assert one.left[0][: one.first] == one.right[0][: one.first]
    assert one.left[0][one.first :] != one.right[0][one.first :]


def test_post_processor_and_model_are_told_apart(tmp_path: Path) -> None:
    left = mtkit.load(WORDPIECE)
    right = changed(WORDPIECE, tmp_path, post_processor=None)
    assert compare(left, right, ["a"]).differences[0].stage == "post-processor"
    model = json.loads(BBPE.read_text("utf-8"))["model"]
    fewer = changed(BBPE, tmp_path, model={**model, "merges": model["merges"][:100]})
    assert compare(mtkit.load(BBPE), fewer, ["something"]).differences[0].stage == "model"


def test_long_lines_are_cut_and_counted() -> None:
    seen: list[int] = []
    data = b"a\r\n" + b"x" * (LINE_LIMIT_BYTES + 5) + b"\n\nend"
    lines = list(corpus_lines(io.BytesIO(data), seen.append))
    assert [len(line) for line in lines] == [1, LINE_LIMIT_BYTES, 5, 0, 3]
    assert seen[-1] == len(data)


def test_command(mtkit: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\nA snake_case name\n")
    same = mtkit("compare", BBPE, BBPE, "--file", corpus, "--json")
    assert same.returncode == 0
    assert json.loads(same.stdout)["equal"] is True
    other = mtkit("compare", BBPE, BBPE.parent / "vocab.json", "--file", corpus, "--json")
    assert other.returncode == 1
    document = json.loads(other.stdout)
    assert document["equal"] is False
    assert document["texts"] == 2
    assert {"number", "text", "stage", "left", "right"} <= set(document["differences"][0])
    assert mtkit("compare", BBPE, "missing").returncode == 2


def test_what_is_not_shown_is_said(mtkit: Run, tmp_path: Path) -> None:
    mtkit("convert", SPM, "--to", "mtok", "--bos", "-o", tmp_path / "bos.mtok")
    done = mtkit("compare", SPM, tmp_path / "bos.mtok", "-n", "3")
    assert b"200 different (the first 3 shown)" in done.stdout
    assert b"--no-special" in done.stderr
    equal = mtkit("compare", SPM, tmp_path / "bos.mtok", "--no-special")
    assert (equal.returncode, equal.stderr) == (0, b"")


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """Lines of many lengths, and one that is longer than the parts it is compared in."""
    rng = random.Random(5)
    words = ["mtkit", "Hello,", "世界", "naïve", "x" * 30, "😀", "\t", "1234", "don't"]
    lines = [" ".join(rng.choices(words, k=rng.randrange(40))) for _ in range(2000)]
    peaks = []
    for number, times in enumerate((1, 12)):
        corpus = tmp_path / f"corpus{number}.txt"
        corpus.write_text("".join(f"{line}\n" for line in lines) * times + "y" * 1_500_000)
        program = sys.executable, "-m", "mtkit", "compare", BBPE, BBPE, "--file", corpus
        code, _, peak, stdout, stderr = measured(*program)
        assert (code, stderr) == (0, b""), stderr
        assert stdout.startswith(f"{2000 * times + 2} texts, equal".encode())
        peaks.append(peak)
    assert corpus.stat().st_size > 4_000_000
    assert peaks[1] - peaks[0] < 2_000_000, peaks
