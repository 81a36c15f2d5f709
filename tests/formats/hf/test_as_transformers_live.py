"""What transformers makes of a folder with a tokenizer.json, whatever class its files name."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from support import latest_transformers, reference

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import UnsupportedError
from mtkit.formats.hf import auto_tokenizer
from mtkit.formats.hf.class_pipelines import CLASSES
from mtkit.unicode.utf8 import BYTE_LETTERS

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
NAMES = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "[UNK]", "[CLS]", "[SEP]", "<|endoftext|>"]
NEEDED = {"WhisperTokenizer": ["<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>"]}
OWN = ["<tool>", "<é y>", "ab", "<bos>", "<cls>", "▁<PRE>"]
CHARACTERS = "abcdeéÀÉ中 '1 23\n\u0301`"


def vocabulary(rng: random.Random, kind: str) -> dict[str, Any]:
    """Draw a model that is full of the names that classes look for."""
    if kind == "BPE":
        pieces = [*BYTE_LETTERS, "▁", *(f"<0x{byte:02X}>" for byte in range(256) if byte > 127)]
    elif kind == "WordPiece":
        pieces = [*"abcde1中'`", *(f"##{c}" for c in "abcde123"), "ab", "abc"]
    else:
        pieces = ["<unk>", "▁", *"abcdeé1'中", "▁a", "▁ab", "ab", "bc", "cde", "▁de"]
    merges = []
    if kind == "BPE":
        for _ in range(30):
            left, right = rng.choice(["a", "b", "Ġ", "▁", *pieces[-4:]]), rng.choice("abcd1")
            if len(left) < 8 and left + right not in pieces and not left.startswith("<0x"):
                merges.append([left, right])
                pieces.append(left + right)
    pieces += rng.sample(NAMES[:8] if kind != "Unigram" else [*NAMES[:2], *NAMES[3:]], 5)
    if kind != "Unigram" and rng.random() < 0.5:
        pieces.insert(0, pieces.pop())
    pieces = list(dict.fromkeys(pieces))
    model: dict[str, Any] = {"type": kind}
    if kind == "Unigram":
        scores = [0.0 if rng.random() < 0.3 else -rng.random() * 9 for _ in pieces]
        model |= {"unk_id": 0, "vocab": list(zip(pieces, scores, strict=True))}
        return {**model, "byte_fallback": False}
    model["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    if kind == "BPE":
        return {**model, "merges": merges, "ignore_merges": rng.random() < 0.3}
    if "[UNK]" not in model["vocab"]:
        model["vocab"]["[UNK]"] = len(pieces)
    return {
        **model, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }  # fmt: skip


def token_object(rng: random.Random, text: str) -> dict[str, Any]:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"content": text, **{flag: rng.random() < 0.3 for flag in flags}}


def drawn_document(rng: random.Random, kind: str, name: str | None = None) -> dict[str, Any]:
    model = vocabulary(rng, kind)
    size = len(model["vocab"])
    texts = rng.sample([*NAMES, *OWN], rng.randrange(5))
    texts = list(dict.fromkeys([*texts, *NEEDED.get(name or "", ())]))
    known = model["vocab"] if isinstance(model["vocab"], dict) else {}
    known = known or {piece: place for place, (piece, _) in enumerate(model["vocab"])}
    added = [
        {"id": known.get(text, size + place), **token_object(rng, text)}
        for place, text in enumerate(sorted(texts, key=lambda text: text in known))
    ]
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    letters["use_regex"] = True
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    first = {"Sequence": {"id": "A", "type_id": 0}}
    around = [
        {"type": "BertProcessing", "sep": ["a", 1], "cls": ["b", 2]},
        {
            "type": "TemplateProcessing",
            "single": [first, {"SpecialToken": {"id": "a", "type_id": 0}}],
            "pair": [first, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"a": {"id": "a", "ids": [1], "tokens": ["a"]}},
        },
    ]  # fmt: skip
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": rng.choice([None, {"type": "Lowercase"}, {"type": "NFC"}]),
        "pre_tokenizer": rng.choice([None, letters, mark, {"type": "Whitespace"}]),
        "post_processor": rng.choice([*around, None]),
        "decoder": rng.choice([None, letters, mark]),
        "model": model,
    }


def drawn_config(rng: random.Random, name: str | None) -> dict[str, dict[str, Any]]:
    config: dict[str, Any] = {} if name is None else {"tokenizer_class": name}
    switches = (
        "add_prefix_space", "add_bos_token", "split_special_tokens", "trim_offsets", "legacy",
        "do_lower_case", "strip_accents", "tokenize_chinese_chars", "keep_accents",
    )  # fmt: skip
    for key in switches:
        if rng.random() < 0.3:
            config[key] = rng.random() < 0.5
    for role in ROLES:
        draw = rng.random()
        if draw < 0.15:
            config[f"{role}_token"] = rng.choice([*NAMES, *OWN])
        elif draw < 0.25:
            token = token_object(rng, f"<{role} 1>")
            config[f"{role}_token"] = {**token, "__type": "AddedToken"}
    draw = rng.random()
    if draw < 0.2:
        config[rng.choice(["additional_special_tokens", "extra_special_tokens"])] = rng.sample(
            OWN, 2
        )
    elif draw < 0.3:
        config["extra_special_tokens"] = {"audio_token": "<audio>"}
    files: dict[str, dict[str, Any]] = {}
    draw = rng.random()
    if draw < 0.35:
        texts = rng.sample([*NAMES, *OWN], 4)
        ids = rng.sample(range(700), 4)
        config["added_tokens_decoder"] = {
            str(number): token_object(rng, text) for number, text in zip(ids, texts, strict=True)
        }
    elif draw < 0.6:
        files["added_tokens.json"] = dict(
            zip(rng.sample(OWN, 3), rng.sample(range(700), 3), strict=True)
        )
        files["special_tokens_map.json"] = {
            f"{role}_token": rng.choice([rng.choice(NAMES), token_object(rng, f"<{role} 2>")])
            for role in rng.sample(ROLES, 2)
        }
    return {**files, "tokenizer_config.json": config}


def texts(rng: random.Random) -> list[str]:
    parts = [
        *NAMES,
        *OWN,
        *CHARACTERS,
        " ",
        "  ",
        "<audio>",
        "<pad 1>",
        "<mask 1>",
        "<cls 2>",
        "2023",
    ]
    parts += ["<extra_id_5>", "▁<SUF>", "<eop>", "``a''"]
    return ["", " ", *("".join(rng.choices(parts, k=rng.randrange(1, 12))) for _ in range(25))]


def write(folder: Path, files: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def both(folder: Path):
    """Return the answer of AutoTokenizer and ours; an exception where it refuses the folder."""
    transformers = reference("transformers")
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = transformers.AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # noqa: BLE001  the library panics as it likes
        theirs = error
    except BaseException as error:  # PanicException
        if type(error).__name__ != "PanicException":
            raise
        theirs = error
    try:
        ours = mtkit.load(folder, reader="transformers")
    except mtkit.MtkitError as error:
        ours = error
    return theirs, ours


def differing(folder: Path, rng: random.Random) -> str | None:
    """Compare both; return None where either refuses, else how many texts were asked."""
    theirs, ours = both(folder)
    if isinstance(theirs, BaseException) or isinstance(ours, UnsupportedError):
        return None
    assert not isinstance(ours, BaseException), ours
    for text in texts(rng):
        for special in (True, False):
            try:
                wanted = theirs.encode(text, add_special_tokens=special)
            except Exception:  # noqa: BLE001  of the library, when a text has an unknown part
                with pytest.raises(mtkit.MtkitError):
                    ours.encode_ids(text, add_special_tokens=special)
                continue
            assert ours.encode_ids(text, add_special_tokens=special) == wanted, (folder, text)
        try:
            theirs._tokenizer.encode(text)
        except Exception:  # noqa: BLE001
            continue
        wanted = theirs._tokenizer.encode(text).ids
        for skip in (True, False):
            back = theirs._tokenizer.decode(wanted, skip_special_tokens=skip)
            assert ours.decode(wanted, skip_special_tokens=skip) == back, (folder, wanted)
    return "same"


def kind_of(name: str) -> str:
    from mtkit.formats.tokenizer_config import Settings

    settings = Settings(Source("tokenizer.json", b"{}", siblings={}))
    return CLASSES[name](settings, None).kind


@pytest.mark.parametrize("name", [*CLASSES, "PreTrainedTokenizerFast", "NobodysTokenizer", None])
def test_drawn_folders(name, tmp_path) -> None:
    latest_transformers()
    rng = random.Random(str(name))
    same, number = 0, 0
    while same < 15:  # the library refuses many
        kind = kind_of(name) if name in CLASSES else rng.choice(["BPE", "WordPiece", "Unigram"])
        folder = tmp_path / str(number)
        said = name if name is None or rng.random() < 0.5 else f"{name}Fast"
        files = {"tokenizer.json": drawn_document(rng, kind, name), **drawn_config(rng, said)}
        write(folder, files)
        same += differing(folder, rng) is not None
        number += 1
        assert number < 150


def test_the_tables_are_those_of_the_version_that_is_installed() -> None:
    auto = latest_transformers("transformers.models.auto.tokenization_auto")
    named = {kind: name for kind, name in auto.TOKENIZER_MAPPING_NAMES.items() if name}
    ours = {
        kind: auto_tokenizer.CLASS_OF_TYPE.get(kind, auto_tokenizer.GENERIC_CLASS) for kind in named
    }
    assert ours == named
    assert auto_tokenizer.CLASS_OF_TYPE.keys() <= named.keys()
    models = reference("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    without = {kind for kind in auto_tokenizer.CLASS_OF_TYPE if kind not in models}
    generic = {kind for kind in without if named[kind] == auto_tokenizer.GENERIC_CLASS}
    assert without - generic == auto_tokenizer.TYPES_WITHOUT_MODEL
    assert auto_tokenizer.WRONG_TYPES == auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    names = {name for name in dir(reference("transformers")) if name.endswith("Tokenizer")}
    assert all(map(auto_tokenizer.is_known_class, names - {"AutoTokenizer"}))


def test_the_class_that_is_taken(tmp_path) -> None:
    """Of drawn models and names, with a byte-level file and one that is not."""
    rng = random.Random(12)
    transformers = latest_transformers()
    auto = reference("transformers.models.auto.tokenization_auto")
    types = [*auto.TOKENIZER_MAPPING_NAMES, "nobodys"]
    names = [*CLASSES, *CLASSES, "PreTrainedTokenizerFast", "BartTokenizerFast", "Nobodys"]
    asked = set()
    for number in range(150):
        folder = tmp_path / str(number)
        document = drawn_document(rng, rng.choice(["BPE", "BPE", "WordPiece", "Unigram"]))
        model = {"model_type": rng.choice(types)}
        config: dict[str, Any] = {}
        rng.choice([config, model])["tokenizer_class"] = rng.choice(names)
        if rng.random() < 0.2:
            del (config if "tokenizer_class" in config else model)["tokenizer_class"]
        files = {"tokenizer.json": document, "tokenizer_config.json": config, "config.json": model}
        write(folder, files)
        theirs, _ = both(folder)
        if isinstance(theirs, BaseException):
            continue
        found = type(theirs).__name__
        is_byte_level = any(
            (document[stage] or {}).get("type") == "ByteLevel"
            for stage in ("pre_tokenizer", "decoder")
        )
        ours = auto_tokenizer.auto_class(
            config, model, is_byte_level=is_byte_level, has_tekken=False
        )
        assert auto_tokenizer.canonical_class(found) == ours, files
        asked.add(found)
    assert len(asked) > 12
    assert transformers


def test_whose_class_is_not_known(tmp_path) -> None:
    files = {"tokenizer.json": drawn_document(random.Random(1), "Unigram")}
    write(tmp_path / "a", {**files, "tokenizer_config.json": {"tokenizer_class": "NllbTokenizer"}})
    with pytest.raises(UnsupportedError, match="what a NllbTokenizer makes of it is not known"):
        mtkit.load(tmp_path / "a", reader="transformers")
    write(tmp_path / "b", {**files, "tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}})
    with pytest.raises(UnsupportedError, match="does not take this vocabulary"):
        mtkit.load(tmp_path / "b", reader="transformers")
    own = {"auto_map": {"AutoTokenizer": ["a.Own", None]}, "tokenizer_class": "OwnTokenizer"}
    write(tmp_path / "c", {**files, "tokenizer_config.json": own})
    with pytest.raises(UnsupportedError, match="names a class that is in the folder"):
        mtkit.load(tmp_path / "c", reader="transformers")
