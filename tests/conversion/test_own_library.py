"""What sentencepiece says of a .model is a line of the proof, and a contradiction ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import FIXTURES, reference

from mtkit.conversion.tokenizer import convert
from mtkit.errors import AnswerNo
from mtkit.formats.contract import LOSS_CODES
from mtkit.tokenizer.load import load

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.conversion.verification import Verification

UNIGRAM = FIXTURES / "spm-unigram" / "tokenizer.model"
BPE = FIXTURES / "spm-bpe"
INVENTED = """
__version__ = "9"
class SentencePieceProcessor:
    def __init__(self, model_file):
        {opened}
    def encode(self, text):
        return [0] if text else []
    def decode(self, ids):
        return "?"
"""


def row(source: Path, target: Path) -> Verification:
    """The last row of a conversion's proof."""
    return convert(source, target, allow_loss=LOSS_CODES).verified[-1]


def invent(monkeypatch: pytest.MonkeyPatch, path: Path, content: str) -> None:
    package = path / "site" / "sentencepiece"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(content)
    monkeypatch.syspath_prepend(str(package.parent))


@pytest.mark.parametrize("name", ["x.model", "x.mtok", "x.gguf"])
@pytest.mark.parametrize("source", [UNIGRAM, BPE / "tokenizer.model"])
def test_the_library_agrees(tmp_path: Path, source: Path, name: str) -> None:
    version = reference("sentencepiece").__version__
    done = convert(source, tmp_path / name, allow_loss=LOSS_CODES)
    ours, last = done.verified[0], done.verified[-1]
    assert last.reader == f"sentencepiece {version}"
    assert (last.equal, last.explained, last.total) == (ours.equal, ours.explained, ours.total)
    assert last.total > 200
    assert not last.unable


def test_what_is_no_model_is_not_asked_about(tmp_path: Path) -> None:
    source = FIXTURES / "bbpe-8k" / "tokenizer.json"
    assert all(
        "sentence" not in one.reader for one in convert(source, tmp_path / "x.mtok").verified
    )


@pytest.mark.parametrize("name", ["x.model", "x.mtok"])
def test_a_contradiction_ends_the_conversion(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    invent(monkeypatch, tmp_path, INVENTED.format(opened="pass"))
    with pytest.raises(
        AnswerNo, match=r"texts gets? different ids in sentencepiece 9, .*nothing was"
    ):
        row(UNIGRAM, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the result it ends a conversion; of the source it is told."""
    invent(monkeypatch, tmp_path, INVENTED.format(opened="raise ValueError('no')"))
    with pytest.raises(AnswerNo, match="sentencepiece refuses the result: no"):
        row(UNIGRAM, tmp_path / "x.model")
    assert row(UNIGRAM, tmp_path / "x.mtok").unable == "refused: no"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    invent(monkeypatch, tmp_path, "raise ImportError('not here')")
    assert row(UNIGRAM, tmp_path / "x.model").unable == "its library is not installed (not here)"
    assert load(tmp_path / "x.model").encode_ids("a") == load(UNIGRAM).encode_ids("a")
