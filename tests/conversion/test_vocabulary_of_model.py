"""``mtkit edit --tokenizer``: another tokenizer's description in a model's file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES, one_line, reference, shared

import mtkit as package
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

MODEL = os.path.join(os.path.dirname(package.__file__), "data", "default-model.gguf")
TEXTS = ["Hello, MNN! 中文 🙂", "It's  1234 words\n\n\tand tabs", "<|endoftext|>a", ""]


def test_the_other_tokenizer_answers(mtkit: Run, tmp_path: Path) -> None:
    source = FIXTURES / "spm-bpe" / "tokenizer.model"
    one = package.load(source)
    rows = open_gguf(MODEL).names["token_embd.weight"].shape[-1]
    assert one.spec.vocab_size <= rows
    done = mtkit("edit", MODEL, "--tokenizer", source, "-o", "new.gguf")
    assert (done.returncode, done.stderr) == (0, b"")
    changed = {row.split(b"\t")[1].decode() for row in done.stdout.splitlines()}
    before, after = open_gguf(MODEL), open_gguf(tmp_path / "new.gguf")
    assert {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores"} <= changed
    assert len(after.metadata["tokenizer.ggml.tokens"]) == rows
    for key, value in before.metadata.items():
        if not key.startswith("tokenizer.") and not key.endswith(".vocab_size"):
            assert after.metadata[key] == value or list(after.metadata[key]) == list(value)
    assert [bytes(after.tensor_data(t)) for t in after.tensors] == [
        bytes(before.tensor_data(t)) for t in before.tensors
    ]
    other = package.load(tmp_path / "new.gguf")
    for text in TEXTS:
        ids = other.encode_ids(text)
        assert ids == [1, *one.encode_ids(text, add_special_tokens=False)]  # as convert adds BOS


def test_llama_cpp_has_the_new_tokenizer(mtkit: Run, tmp_path: Path) -> None:
    reference("llama_cpp")
    source = FIXTURES / "spm-bpe" / "tokenizer.model"
    mtkit("edit", MODEL, "--tokenizer", source, "-o", "new.gguf")
    script = (
        "import llama_cpp, sys\n"
        "m = llama_cpp.Llama(sys.argv[1], vocab_only=True, verbose=False)\n"
        "print(m.tokenize(sys.argv[2].encode()))"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "new.gguf"), TEXTS[0]]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == str(package.load(tmp_path / "new.gguf").encode_ids(TEXTS[0]))
    argv = [sys.executable, "-m", "mtkit", "generate", "a", "-m", "new.gguf", "-n", "4", "-q"]
    subprocess.run(argv, check=True, cwd=tmp_path, capture_output=True)


def test_ids_that_do_not_fit_are_refused(mtkit: Run, tmp_path: Path) -> None:
    large = shared("gguf-vocab/ggml-vocab-gpt-2.gguf")
    done = mtkit("edit", MODEL, "--tokenizer", large, "-o", "new.gguf")
    assert "ids, but the tokenizer has 50257" in one_line(done, UsageError.exit_code)
    assert not (tmp_path / "new.gguf").exists()


def test_its_own_tokenizer_changes_nothing(mtkit: Run) -> None:
    done = mtkit("edit", MODEL, "--tokenizer", MODEL, "--dry-run")
    assert (done.returncode, done.stderr) == (0, b"")
    assert {row.split(b"\t")[0] for row in done.stdout.splitlines()} <= {b"set", b"unset"}
    assert b"tokens" not in done.stdout


@pytest.mark.parametrize("name", ["bbpe-8k", "spm-unigram", "wordpiece"])
def test_a_vocabulary_becomes_any_other(mtkit: Run, tmp_path: Path, name: str) -> None:
    """Of a file without tensors the old count of tokens is the one that holds."""
    source = next(iter(sorted((FIXTURES / name).glob("tokenizer.*"))), FIXTURES / name)
    one = package.load(source)
    target = shared("gguf-vocab/ggml-vocab-llama-spm.gguf")
    options = ["--allow-loss", "ids-possible"]
    done = mtkit("edit", target, "--tokenizer", source, "-o", "new.gguf", *options)
    if done.returncode:
        assert done.returncode in (1, 4), done.stderr
        return
    other = package.load(tmp_path / "new.gguf")
    ids = [each.encode_ids(TEXTS[1], add_special_tokens=False) for each in (one, other)]
    assert ids[0] == ids[1]
