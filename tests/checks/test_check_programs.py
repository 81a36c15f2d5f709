"""``check --runs-on``: what other programs do otherwise, held against the programs themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llama import Llama
from support import FIXTURES, Run, one_line, reference

from mtkit.base.rules import Finding
from mtkit.checks import check, programs
from mtkit.checks.programs import compare_as, read_with
from mtkit.conversion.programs import PROGRAMS, find_program
from mtkit.conversion.tokenizer import convert
from mtkit.errors import FormatError, UsageError
from mtkit.tokenizer.comparison import probe_texts
from mtkit.tokenizer.load import load

HF = FIXTURES / "bbpe-8k"
COMPOSED = "cafe\u0301"
INVENTED = """
import os, sys
__version__ = "0"
class Invented:
    def load(self, path):
        print("a library may say what it likes")
        {load}
    def encode(self, text, bos, eos):
        {encode}
    def decode_batch(self, ids):
        return "?"
CppHFTokenizer = CppSPTokenizer = CppLlama2cTokenizer = Invented
"""


def told(path: Path, program: str) -> dict[str, Finding]:
    """Findings about one program, by the code of their rule, notes left out."""
    found = check(str(path), runs_on=[program]).findings
    assert {finding.rule.source for finding in found} <= {program}
    return {one.rule.code: one for one in found if one.rule.severity != "note"}


def folder(path: Path, **config: object) -> Path:
    """A folder with the tokenizer of the fixture and settings of its own."""
    (path / "tokenizer.json").write_bytes((HF / "tokenizer.json").read_bytes())
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def test_llama_cpp_gives_the_ids_that_are_told(tmp_path: Path) -> None:
    source = FIXTURES / "wordpiece"
    assert "runs-ids" in told(source, "llama.cpp")
    done = convert(load(source), tmp_path / "x.gguf", allow_loss=("ids", "ids-possible"))
    asked = probe_texts()
    tokenizer = load(source)
    reading = read_with(PROGRAMS["llama.cpp"], tokenizer, asked)
    real = Llama(type(source)(done.path))
    try:
        for text, there in zip(asked, reading.there, strict=True):
            wanted = real.encode(text.encode(), add=False, parse=True)
            assert there.ids == tuple(wanted), text
    finally:
        real.close()


@pytest.mark.parametrize("program", ["llama.cpp", "mnn"])
def test_what_a_program_does_alike_is_not_told(program: str) -> None:
    assert "runs-ids" not in told(HF, program)


def test_transformers_reads_what_a_folder_says(tmp_path: Path) -> None:
    reference("transformers")
    said = {"eos_token": "<|im_end|>"}
    assert not told(folder(tmp_path, tokenizer_class="PreTrainedTokenizerFast", **said),
                    "transformers")  # fmt: skip


def test_transformers_when_a_class_overrides_the_file(tmp_path: Path) -> None:
    """The class Qwen2Tokenizer composes text (NFC), whatever tokenizer.json says."""
    library = reference("transformers")
    said = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    made = folder(tmp_path, tokenizer_class="Qwen2Tokenizer", **said)
    found = told(made, "transformers")
    there = library.AutoTokenizer.from_pretrained(made)(COMPOSED)["input_ids"]
    here = load(made).encode_ids(COMPOSED)
    assert here != there
    assert "runs-ids" in found
    assert "Qwen2Tokenizer" in found["runs-ids"].what


def test_executorch_and_onnxruntime_as_their_libraries_say(tmp_path: Path) -> None:
    """Each answer is the library's, asked here without a process between."""
    tokenizer, asked = load(HF), probe_texts()
    reading = read_with(PROGRAMS["executorch"], tokenizer, asked)
    library = reference("pytorch_tokenizers").CppHFTokenizer()
    library.load(str(HF / "tokenizer.json"))
    for text, there in zip(asked, reading.there, strict=True):
        assert there.ids == tuple(library.encode(text, 0, 0))
    reading = read_with(PROGRAMS["onnxruntime"], tokenizer, asked)
    options = {"add_special_tokens": False}
    other = reference("onnxruntime_extensions.pp_api").Tokenizer(str(HF), options)
    for text, there in zip(asked, reading.there, strict=True):
        assert there.ids == tuple(other.tokenize(text))


@pytest.mark.parametrize("name", ["spm-bpe", "spm-unigram"])
def test_sentencepiece_as_the_library_says(tmp_path: Path, name: str) -> None:
    library = reference("sentencepiece")
    path = FIXTURES / name / "tokenizer.model"
    tokenizer, asked = load(path), probe_texts()
    reading = read_with(PROGRAMS["sentencepiece"], tokenizer, asked)
    there = library.SentencePieceProcessor(model_file=str(path))
    for text, answer in zip(asked, reading.there, strict=True):
        assert answer.ids == tuple(there.encode(text))
    assert not told(path, "sentencepiece")
    # What is written is asked for as well.
    convert(tokenizer, tmp_path / "back.model", to="spm")
    assert not told(tmp_path / "back.model", "sentencepiece")
    convert(tokenizer, tmp_path / "made.mtok")
    assert "runs-ids" not in told(tmp_path / "made.mtok", "sentencepiece")


def test_a_class_that_a_program_does_not_know_is_refused(tmp_path: Path) -> None:
    reference("onnxruntime_extensions")
    found = told(folder(tmp_path, tokenizer_class="InventedTokenizer"), "onnxruntime")
    assert list(found) == ["runs-refused"]


def invented(monkeypatch: pytest.MonkeyPatch, path: Path, load: str, encode: str) -> None:
    package = path / "site" / "pytorch_tokenizers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INVENTED.format(load=load, encode=encode))
    monkeypatch.syspath_prepend(str(package.parent))


def test_a_library_that_ends_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    invented(monkeypatch, tmp_path, "pass", "os.abort() if 'é' in text else None; return [1]")
    found = told(HF, "executorch")
    assert {"runs-ids", "runs-text", "runs-decoding"} == found.keys()
    assert "its process ended with signal" in found["runs-text"].what


def test_a_library_that_refuses_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    invented(monkeypatch, tmp_path, "raise ValueError('no\\nthanks')", "return []")
    (found,) = told(HF, "executorch").values()
    assert (found.rule.code, found.what) == ("runs-refused", "refused: no thanks")


def test_a_library_that_ends_while_it_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    invented(monkeypatch, tmp_path, "os._exit(7)", "return []")
    (found,) = told(HF, "executorch").values()
    assert (found.rule.code, found.what) == (
        "runs-refused", "refused: its process ended with status 7")  # fmt: skip


def test_a_library_that_is_missing_is_not_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "pytorch_tokenizers"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(str(tmp_path))
    report = check(str(HF), runs_on=["executorch"])
    (found,) = report.findings
    assert found.rule.code == "runs-unknown"
    assert "pip install pytorch-tokenizers" in found.advice
    assert report.exit_code


def test_a_tokenizer_that_mtkit_cannot_read_is_not_content(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    assert "runs-unknown" in {one.rule.code for one in check(str(path), runs_on=["mnn"]).findings}


def test_every_rule_has_its_program() -> None:
    assert {rule.code for rule in programs.PROGRAM_RULES} == {
        "runs-unknown", "runs-refused", "runs-text", "runs-ids", "runs-special-ids", "runs-around",
        "runs-decoding", "runs-lacks",
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"known: llama\.cpp, mnn"):
        find_program("llama")


def test_compare_as_another_program(mtkit: Run) -> None:
    """B is A where it is left out; a program that refuses the file is an error."""
    done = mtkit("compare", FIXTURES / "wordpiece", "--as", "llama.cpp", "-n", "1", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["differences"][0]["stage"]) == (1, "llama.cpp")
    one = document["differences"][0]
    here = load(FIXTURES / "wordpiece").encode_ids(one["text"])
    assert one["left"]["ids"] == here != one["right"]["ids"]
    assert mtkit("compare", HF, HF, "--as", "mnn", "--no-special").returncode == 0
    one_line(mtkit("compare", HF), 2)
    one_line(mtkit("compare", HF, "--as", "invented"), 2)


def test_a_refused_file_is_an_error_of_compare(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    invented(monkeypatch, tmp_path, "raise ValueError('no')", "return []")
    tokenizer = load(HF)
    with pytest.raises(FormatError, match="executorch: no"):
        compare_as(PROGRAMS["executorch"], tokenizer, tokenizer, ["a"])
