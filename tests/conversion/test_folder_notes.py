"""What a folder means to others is said: by check, inspect and convert; ``--as`` reads it so."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support import reference

import mtkit
from mtkit.checks.checker import check
from mtkit.cli import main
from mtkit.conversion.folder_notes import compare_transformers, folder_notes
from mtkit.unicode.utf8 import BYTE_LETTERS

ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def document() -> dict[str, Any]:
    """Digits by threes and line ends of their own, which GPT-2's split does not have."""
    merges = [["2", "0"], ["20", "2"], ["202", "3"], ["Ċ", "Ċ"], ["l", "o"]]
    pieces = [*BYTE_LETTERS, *("".join(pair) for pair in merges)]
    pattern = r"\p{N}{1,3}|\s*[\r\n]+|\s+(?!\S)|\s+| ?[^\s\p{N}]+"
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps = [{**split, "invert": False}, {**letters, "use_regex": False}]
    end = {"id": len(pieces), "content": "<|end|>", **ADDED, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "post_processor": None,
        "decoder": {**letters, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {piece: number for number, piece in enumerate(pieces)},
            "merges": merges,
        },
    }


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir()
    for name, value in {"tokenizer": document(), **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def codes(folder: Path) -> dict[str, str]:
    report = check(str(folder / "tokenizer.json"))
    return {one.rule.code: one.what for one in report.findings if "class" in one.rule.code}


def test_another_class(tmp_path, capsys) -> None:
    config = {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|end|>"}
    folder = write(tmp_path / "a", tokenizer_config=config)
    here, there = mtkit.load(folder), mtkit.load(folder, reader="transformers")
    theirs = reference("transformers").AutoTokenizer.from_pretrained(folder)
    for text in ("2023", "in 2023\n\nlo"):
        assert there.encode_ids(text) == theirs.encode(text) != here.encode_ids(text)
    said = "transformers 5 builds a GPT2Tokenizer instead: '2023' gives 258 there, but 257 51 here"
    assert folder_notes(here) == (said,)
    assert folder_notes(there) == ()
    assert codes(folder) == {
        "tokenizer-class": f"{said}; --as transformers gives the ids of transformers"
    }
    done = mtkit.convert(folder, tmp_path / "a.mtok")
    assert said in done.assumptions
    assert main(["inspect", str(folder)]) == 0
    assert f"note\t{said}\n" in capsys.readouterr().out
    for line, wanted in (
        ("encode 2023 --as transformers", "258\n"),
        ("encode 2023", "257 51\n"),
        ("count -p 2023 --as transformers", "1\n"),
        ("decode 258 --as transformers", "2023\n"),
    ):
        assert main([*line.split(), "-t", str(folder)]) == 0
        assert capsys.readouterr().out == wanted
    assert main(["token", "<|endoftext|>", "-t", str(folder), "--as", "transformers"]) == 0
    assert capsys.readouterr().out.startswith("262\t<|endoftext|>")


def test_tokens_that_stand_in_the_config_alone(tmp_path) -> None:
    tool = {"300": {"content": "<tool>", **ADDED, "special": True}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": tool}
    folder = write(tmp_path / "a", tokenizer_config=config)
    here = mtkit.load(folder)
    theirs = reference("transformers").AutoTokenizer.from_pretrained(folder)
    assert here.encode_ids("a<tool>b") == theirs.encode("a<tool>b") == [97, 262, 98]
    assert "<tool>" in here.assumptions[0]
    assert codes(folder) == {}
    mtkit.convert(folder, tmp_path / "b", to="hf")
    back = mtkit.load(tmp_path / "b")
    assert back.encode_ids("a<tool>b") == [97, 262, 98]
    assert back.assumptions == ()


@pytest.mark.parametrize("seed", range(20))
def test_drawn_tokens_beside_a_generic_class(seed, tmp_path) -> None:
    """What only the files beside it have is added as transformers adds it."""
    rng = random.Random(seed)
    texts = ["<tool>", "<think>", "[x]", "<é y>"]
    config: dict[str, Any] = {"tokenizer_class": "TokenizersBackend"}
    files: dict[str, Any] = {}
    for role in ("pad", "unk"):
        if rng.random() < 0.4:
            config[f"{role}_token"] = rng.choice(texts)
    if rng.random() < 0.5:
        ids = rng.sample(range(400), 3)
        config["added_tokens_decoder"] = {
            str(number): {"content": text, **{flag: rng.random() < 0.3 for flag in ADDED}}
            for number, text in zip(ids, rng.sample(texts, 3), strict=True)
        }
    else:
        files["added_tokens"] = {text: rng.randrange(400) for text in rng.sample(texts, 2)}
    if rng.random() < 0.4:
        config["extra_special_tokens"] = rng.sample(texts, 2)
    folder = write(tmp_path / "a", tokenizer_config=config, **files)
    here = mtkit.load(folder)
    theirs = reference("transformers").AutoTokenizer.from_pretrained(folder)
    for _ in range(40):
        text = "".join(rng.choices([*texts, "a", " ", "2023", "<|end|>", "é"], k=6))
        assert here.encode_ids(text) == theirs.encode(text), (config, files, text)
    assert compare_transformers(here) is None


def test_a_class_that_is_not_known(tmp_path) -> None:
    folder = write(tmp_path / "a", tokenizer_config={"tokenizer_class": "NllbTokenizer"})
    found = codes(folder)
    assert list(found) == ["tokenizer-class-unknown"]
    assert "NllbTokenizer" in found["tokenizer-class-unknown"]


def test_a_model_with_more_rows_than_tokens(tmp_path, capsys) -> None:
    model = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 320}
    plain = document()
    plain["pre_tokenizer"] = plain["pre_tokenizer"]["pretokenizers"][1] | {"use_regex": True}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
    folder = write(tmp_path / "a", config=model, tokenizer=plain, tokenizer_config=config)
    said = "config.json has a vocab_size of 320: 58 ids have no token"
    assert folder_notes(mtkit.load(folder)) == (said,)
    assert main(["inspect", str(folder / "tokenizer.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [said]
    lost = ["ids", "ids-possible"]
    mtkit.convert(folder, tmp_path / "a.gguf", allow_loss=lost)
    tokens = mtkit.load(tmp_path / "a.gguf")
    assert tokens.vocab_size == 320
    assert tokens.id_to_token(319) == "[PAD319]"
    assert tokens.id_to_token(261) == "<|end|>"


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        ({"architectures": ["Qwen3ForCausalLM"]}, "qwen3"),
        ({"architectures": ["LlamaForCausalLM"]}, "llama"),
        ({"architectures": ["NoModelOfOurs"]}, "llama"),
        ([], "llama"),
    ],
)
def test_a_gguf_of_a_tokenizer_names_the_model_beside_it(
    config: Any, architecture: str, tmp_path: Path
) -> None:
    plain = document()
    plain["pre_tokenizer"] = plain["pre_tokenizer"]["pretokenizers"][1] | {"use_regex": True}
    folder = write(tmp_path / "model", config=config, tokenizer=plain)
    lost = ["ids", "ids-possible"]
    done = mtkit.convert(folder / "tokenizer.json", tmp_path / "a.gguf", allow_loss=lost)
    assert mtkit.open_gguf(done.path).metadata["general.architecture"] == architecture
    assumed = [text for text in done.assumptions if text.startswith("architecture")]
    assert len(assumed) == (architecture == "llama")


def test_a_reader_that_there_is_not(tmp_path) -> None:
    folder = write(tmp_path / "a")
    with pytest.raises(mtkit.UsageError, match="no program 'mnn' reads this format"):
        mtkit.load(folder, reader="mnn")
