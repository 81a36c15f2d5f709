"""Vocabulary files with drawn settings beside them: what transformers' classes build of them."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import pytest
from support import FIXTURES, golden_inputs, reference, shared_tokenizer

import mtkit
from mtkit.errors import UnsupportedError
from mtkit.formats import get_format
from mtkit.formats.contract import WriteOptions
from mtkit.unicode.utf8 import BYTE_LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mtkit.tokenizer import Tokenizer

BPE_CLASSES = ("GPT2Tokenizer", "RobertaTokenizer", "Qwen2Tokenizer", "BartTokenizer")
BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "ConvBertTokenizer")
NAMES = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<x>", "<é y>", "ab", "[UNK]"]
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def token_object(rng: random.Random, text: str, *, mark: bool) -> dict[str, Any]:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    found: dict[str, Any] = {flag: rng.random() < 0.4 for flag in rng.sample(flags, 3)}
    return {"content": text, **found, **({"__type": "AddedToken"} if mark else {})}


def drawn_settings(rng: random.Random, classes: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Draw the files beside a vocabulary; a third of the time there is none."""
    config: dict[str, Any] = {}
    if rng.random() < 0.9:
        config["tokenizer_class"] = rng.choice(classes) + rng.choice(["", "Fast"])
    for key in ("add_prefix_space", "add_bos_token", "add_eos_token", "split_special_tokens",
                "trim_offsets", "do_lower_case", "strip_accents", "tokenize_chinese_chars",
                "do_basic_tokenize", "clean_up_tokenization_spaces"):  # fmt: skip
        if rng.random() < 0.25:
            config[key] = rng.random() < 0.5
    if rng.random() < 0.2:
        config["never_split"] = ["ab", "[UNK]"]
    for role in ROLES:
        draw = rng.random()
        if draw < 0.15:
            config[f"{role}_token"] = rng.choice(NAMES)
        elif draw < 0.25:
            # Of one text with two forms the library keeps something of both when it decodes.
            config[f"{role}_token"] = token_object(rng, f"<{role} 1>", mark=True)
        elif draw < 0.3:
            config[f"{role}_token"] = None
    if rng.random() < 0.2:
        config["image_token"] = "<img>"
    draw = rng.random()
    if draw < 0.3:
        key = rng.choice(["additional_special_tokens", "extra_special_tokens"])
        config[key] = rng.sample(NAMES, 2)
    elif draw < 0.4:
        config["extra_special_tokens"] = {"audio_token": "<audio>"}
    files = {}
    draw = rng.random()
    if draw < 0.3:
        ids = rng.sample(range(700), 4)
        config["added_tokens_decoder"] = {
            str(number): token_object(rng, text, mark=False)
            for number, text in zip(ids, rng.sample(NAMES, 4), strict=True)
        }
    elif draw < 0.7:
        listed = rng.sample(NAMES, 4)
        files["added_tokens.json"] = dict(zip(listed, rng.sample(range(700), 4), strict=True))
        files["special_tokens_map.json"] = {
            f"{role}_token": rng.choice(
                [rng.choice(NAMES), token_object(rng, f"<{role} 2>", mark=False)]
            )
            for role in rng.sample(ROLES, 2)
        }
        if rng.random() < 0.5:
            files["special_tokens_map.json"]["additional_special_tokens"] = rng.sample(NAMES, 2)
    if rng.random() < 0.8:
        files["tokenizer_config.json"] = config
    return files


def draw_texts(rng: random.Random) -> list[str]:
    parts = [
        *NAMES,
        "<img>",
        "<audio>",
        "<pad 1>",
        "<eos 1>",
        "<cls 2>",
        "<mask 2>",
        *"ab eé中 '1\n\u0301ÀÉ",
        " ",
        "  ",
        "[CLS]",
        "[SEP]",
    ]
    return ["", " ", *("".join(rng.choices(parts, k=rng.randrange(1, 14))) for _ in range(40))]


def bpe_files(rng: random.Random) -> tuple[bytes, bytes]:
    """Draw vocab.json, with holes at times, and merges.txt, with pairs that occur twice."""
    pieces = list(BYTE_LETTERS)
    merges = []
    for _ in range(60):
        left, right = rng.choice("abeÃ©Ġ1" + "".join(pieces[-6:])), rng.choice("abeĠ©1'")
        if len(left + right) < 6:
            merges.append((left, right))
            if left + right not in pieces:
                pieces.append(left + right)
    merges += rng.sample(merges, 3)
    pieces += rng.sample(NAMES[:8], rng.randrange(5))
    numbers = list(range(len(pieces) + rng.choice([0, 0, 5])))
    rng.shuffle(numbers)
    vocab = dict(zip(dict.fromkeys(pieces), sorted(numbers[: len(pieces)]), strict=False))
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    return json.dumps(vocab).encode(), "\n".join(lines).encode() + b"\n"


def compare(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    added = {token.content.decode(): token.id for token in ours.spec.added_tokens.tokens}
    assert added == theirs.get_added_vocab()
    for role in ROLES:
        token = getattr(theirs, f"{role}_token")
        number = None if token is None else theirs.convert_tokens_to_ids(token)
        assert getattr(ours.spec.special_ids, role) == number, role
    for text in texts:
        assert ours.encode_ids(text) == theirs(text)["input_ids"], text
        plain = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode_ids(text, add_special_tokens=False) == plain, text
        assert ours.decode(plain) == theirs.decode(
            plain, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    pair = theirs(texts[-1], texts[-2])
    assert ours.encode(texts[-1], texts[-2]).ids == pair["input_ids"]


def built(folder: Path, default: str) -> Any:
    """Return what transformers builds of a folder; None where it refuses."""
    transformers = reference("transformers")
    config = folder / "tokenizer_config.json"
    named = json.loads(config.read_text()).get("tokenizer_class") if config.exists() else None
    factory = getattr(transformers, (named or default).removesuffix("Fast"))
    try:
        return factory.from_pretrained(folder)
    except (OSError, TypeError, ValueError):
        return None


def check(folder: Path, main: str, default: str, texts: list[str]) -> bool:
    """Compare what is read, and what is written of it; False where transformers refuses."""
    theirs = built(folder, default)
    if theirs is None:
        return False
    ours = mtkit.load(folder / main)
    compare(ours, theirs, texts)
    written = get_format(ours.format_name).write(ours.spec, WriteOptions())
    again = folder / "again"
    again.mkdir()
    for name, data in written.files.items():
        (again / name).write_bytes(data)
    if not written.losses:
        compare(ours, built(again, default), texts)
    vocabulary = ours.spec.vocabulary
    if vocabulary.types is None and not vocabulary.hidden:
        assert not written.losses
    return True


def lay_out_bpe(rng: random.Random, folder: Path) -> None:
    for name, value in drawn_settings(rng, BPE_CLASSES).items():
        (folder / name).write_text(json.dumps(value))
    vocab, merges = bpe_files(rng)
    (folder / "vocab.json").write_bytes(vocab)
    (folder / "merges.txt").write_bytes(merges)


def lay_out_bert(rng: random.Random, folder: Path) -> None:
    for name, value in drawn_settings(rng, BERT_CLASSES).items():
        for role in ("unk", "sep", "cls"):
            if value.get(f"{role}_token", "") is None:
                del value[f"{role}_token"]  # refused by name: see below
        (folder / name).write_text(json.dumps(value))
    pieces = ["a", "b", "##b", "##a", "e", "é", "##e", "##é", "中", "'", "1"]
    pieces += rng.choices([*pieces, "", "A", "##1", "a\u0301"], k=6)
    pieces += rng.sample(["[CLS]", "[SEP]", "[PAD]", "[MASK]"], rng.randrange(5))
    rng.shuffle(pieces)
    ends = ["\n", "\r\n", " \n", "\u3000\n", "\x1f\n", "\r", "\x85\n", "\t\n"]
    text = "".join(piece + rng.choice(ends[: rng.choice([1, 1, 8])]) for piece in pieces)
    names = "".join(f"{name}\n" for name in [*NAMES, "<unk 1>", "<unk 2>"])
    (folder / "vocab.txt").write_text(names + text, encoding="utf-8", newline="")


@pytest.mark.parametrize(
    ("lay_out", "main", "default"),
    [
        (lay_out_bpe, "vocab.json", "GPT2Tokenizer"),
        (lay_out_bert, "vocab.txt", "BertTokenizer"),
    ],
)
def test_drawn_settings_mean_what_transformers_makes_of_them(
    lay_out: Callable[[random.Random, Path], None], main: str, default: str, tmp_path: Path
) -> None:
    count = int(os.environ.get("MTKIT_EXAMPLES", "40"))
    compared = 0
    for seed in range(count):
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        lay_out(rng, folder)
        compared += check(folder, main, default, draw_texts(rng))
    assert compared > count // 2


@pytest.mark.parametrize("name", ["gpt2", "roberta-base", "qwen3", "smollm"])
def test_added_tokens_keep_their_ids_in_transformers(name: str, tmp_path: Path) -> None:
    """Left to added_tokens.json, ``<|endoftext|>`` had another id there."""
    source = mtkit.load(shared_tokenizer(name) / "tokenizer.json")
    mtkit.convert(source, tmp_path, to="vocab-merges", allow_loss=("ids",))
    theirs, ours = built(tmp_path, "GPT2Tokenizer"), mtkit.load(tmp_path / "vocab.json")
    known = {token.content.decode(): token.id for token in source.spec.added_tokens.tokens}
    assert known.items() <= theirs.get_added_vocab().items()
    compare(ours, theirs, draw_texts(random.Random(1)))
    if name != "smollm":  # whose split is another one
        for text in golden_inputs():
            wanted = source.encode_ids(text, add_special_tokens=False)
            assert theirs(text, add_special_tokens=False)["input_ids"] == wanted, text


@pytest.mark.parametrize("role", ["unk", "sep", "cls"])
def test_bert_without_a_token_that_it_needs_is_refused(role: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes((FIXTURES / "wordpiece" / "vocab.txt").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({f"{role}_token": None}))
    with pytest.raises(UnsupportedError, match=f"{role}_token"):
        mtkit.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("WhisperTokenizer", ("bbpe-8k", ("vocab.json", "merges.txt"))),
        ("PreTrainedTokenizerFast", ("bbpe-8k", ("vocab.json", "merges.txt"))),
        ("RoFormerTokenizer", ("wordpiece", ("vocab.txt",))),
        ("BertJapaneseTokenizer", ("wordpiece", ("vocab.txt",))),
    ],
)
def test_a_class_that_builds_another_tokenizer_is_refused(
    name: str, files: tuple[str, tuple[str, ...]], tmp_path: Path
) -> None:
    for file in files[1]:
        (tmp_path / file).write_bytes((FIXTURES / files[0] / file).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    with pytest.raises(UnsupportedError, match=f"tokenizer_class: is '{name}'"):
        mtkit.load(tmp_path / files[1][0])
