"""A converted file answers as it was asked to, in every way in which it can be run."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from inspect import getsource
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TypeVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama import Llama
from pipeline_cases import draw_tokenizer
from support import FIXTURES, SHARED, Run, one_line, reference, shared, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.conversion.tokenizer import apply_options, convert, target_format
from mtkit.conversion.verification import Verification, memory_source, verify
from mtkit.errors import AnswerNo, LossError, MtkitError, UnsupportedError, UsageError
from mtkit.formats import FORMATS, get_format, hf, mtok
from mtkit.formats.contract import LOSS_CODES, WriteOptions
from mtkit.formats.mtok import writer as mtok_write
from mtkit.gguf import open_gguf
from mtkit.spec import AddedTokens, TokenizerSpec, decoders, replace
from mtkit.tokenizer.comparison import special_token_texts
from mtkit.tokenizer.load import load, load_source
from mtkit.tokenizer.tokenizer import Tokenizer

T = TypeVar("T")
NAMED = {"mnn-text": "tokenizer.txt", "tekken": "tekken.json", "rwkv": "rwkv_vocab.txt"}
"""Formats that none of the small tokenizers can be written in -> the name of their file."""
EXAMPLES = int(os.environ.get("MTKIT_EXAMPLES") or 30)
TEXTS = (
    "Hello, world",
    " two  spaces\n",
    "a <s> b </s> c",
    "<unk>\u2581x",
    "",
    "\u65e5\u672c \U0001f600",
)
CHOICES = (None, True, False)
FLAGS = tuple(product(CHOICES, CHOICES))
TABLES = (("tables", "yes"),)
SPM, UNIGRAM, BBPE = (
    "spm-bpe/tokenizer.model",
    "spm-unigram/tokenizer.model",
    "bbpe-8k/tokenizer.json",
)


def models() -> list[str]:
    """Return the shared SentencePiece models, or one to be skipped."""
    files = (SHARED / "tokenizers" / "tokenizers").glob("*/tokenizer.model*")
    return sorted(file.parent.name for file in files) or ["none"]


def answer(ask: Callable[[], T]) -> T | str:
    """Return what is answered, or why nothing is."""
    try:
        return ask()
    except UnsupportedError as error:
        return error.what


def same_in_every_way(left: Tokenizer, right: Tokenizer, texts: tuple[str, ...]) -> None:
    for text, add, parse in product(texts, (True, False), CHOICES):
        options = {"add_special_tokens": add, "parse_special": parse}
        ids, encoding = (
            answer(partial(method, text, **options)) for method in (left.encode_ids, left.encode)
        )
        assert answer(partial(right.encode_ids, text, **options)) == ids, text
        assert answer(partial(right.encode, text, **options)) == encoding, text
        if isinstance(ids, str):
            continue
        assert encoding.ids == ids
        for skip in (True, False):
            decoded = answer(partial(left.decode_bytes, ids, skip_special_tokens=skip))
            assert answer(partial(right.decode_bytes, ids, skip_special_tokens=skip)) == decoded


def tables_and_specification_agree(source: Tokenizer, options: WriteOptions) -> None:
    """Write a .mtok with tables; both must say what was asked for."""
    asked, _ = apply_options(source, mtok, options)
    file = memory_source(mtok.write(asked.spec, options))
    tabled = load_source(file)
    assert tabled.engine.name == "native"
    stored = Tokenizer(mtok.read(file, {}).spec)
    assert stored.spec == asked.spec
    same_in_every_way(stored, tabled, (*TEXTS, *special_token_texts(asked.spec)[:4]))


@pytest.mark.parametrize(("bos", "eos"), FLAGS)
@pytest.mark.parametrize("name", [SPM, UNIGRAM])
def test_tables_are_those_of_the_stored_specification(
    name: str, bos: bool | None, eos: bool | None
) -> None:
    options = WriteOptions(add_bos=bos, add_eos=eos, values=TABLES)
    tables_and_specification_agree(mtkit.load(FIXTURES / name), options)


@pytest.mark.parametrize("name", models())
def test_tables_of_shared_models(name: str) -> None:
    source = mtkit.load(shared_tokenizer(name) / "tokenizer.model")
    tried = 0
    for bos, eos in ((None, None), (None, True), (False, None)):
        if eos is None or source.eos_id is not None:
            options = WriteOptions(add_bos=bos, add_eos=eos, values=TABLES)
            tables_and_specification_agree(source, options)
            tried += 1
    assert tried >= 2


def test_tables_of_drawn_tokenizers() -> None:
    reference("tokenizers")
    taken = []

    @settings(max_examples=EXAMPLES)
    @given(st.integers(0, 1 << 32), st.sampled_from(FLAGS))
    def law(seed: int, flags: tuple[bool | None, bool | None]) -> None:
        drawn = draw_tokenizer(random.Random(seed)).to_str()
        try:
            spec = hf.read(Source("tokenizer.json", drawn.encode()), {}).spec
        except MtkitError:
            return  # such files have their tests
        spec = replace(spec, special_ids=replace(spec.special_ids, bos=0, eos=1))
        options = WriteOptions(add_bos=flags[0], add_eos=flags[1], values=TABLES)
        source = Tokenizer(spec)
        if source.engine.name == "native":  # else there are no tables
            tables_and_specification_agree(source, options)
            taken.append(seed)

    law()
    assert len(taken) > EXAMPLES // 2


def reference_ids(path: Path, text: str) -> list[int]:
    """Encode with the program whose format it is; a .mtok by the rules of MNN's loader."""
    if path.suffix == ".gguf":
        llama = Llama(path)
        try:
            return llama.encode(text.encode(), add=True, parse=False)
        finally:
            llama.close()
    if path.suffix == ".json":
        library = reference("tokenizers").Tokenizer.from_file(str(path))
        ids: list[int] = library.encode(text).ids
        return ids
    return load_source(Source.open(str(path)), reader="mnn").encode_ids(text)


@pytest.mark.parametrize("name", [SPM, UNIGRAM, BBPE, "spm-bpe/tokenizer.bin"])
@pytest.mark.parametrize("to", ["hf", "gguf", "mtok"])
def test_what_is_asked_for_stands_around_a_text(to: str, name: str, tmp_path: Path) -> None:
    """The target's own program adds it; without a choice what the source or its family adds."""
    source = mtkit.load(FIXTURES / name)
    ids = source.encode_ids("hello", add_special_tokens=False)
    given_ids = source.encode_ids("hello")
    at = given_ids.index(ids[0])
    had = {"bos": bool(at) or name == SPM, "eos": len(given_ids) > at + len(ids)}
    for bos, eos in FLAGS:
        choice = {"bos": bos, "eos": eos}
        wanted = {role: had[role] if asked is None else asked for role, asked in choice.items()}
        options = WriteOptions(add_bos=bos, add_eos=eos)
        arguments = {"to": to, "options": options, "allow_loss": LOSS_CODES, "force": True}
        if any(asked and getattr(source, f"{role}_id") is None for role, asked in choice.items()):
            with pytest.raises(UsageError, match=r"no (BOS|EOS)"):
                convert(source, f"{tmp_path}/", **arguments)
            continue
        done = convert(source, f"{tmp_path}/", **arguments)
        around = [source.bos_id] * wanted["bos"] + ids + [source.eos_id] * wanted["eos"]
        assert mtkit.load(done.path).encode_ids("hello") == around, choice
        assert reference_ids(Path(done.path), "hello") == around, choice
        assumed = [text for text in done.assumptions if "--no-bos" in text]
        assert bool(assumed) == (name == SPM and bos is None)


def test_what_a_format_cannot_add_is_a_listed_loss(tmp_path: Path) -> None:
    for name, to in ((SPM, "spm"), (SPM, "llama2c"), (BBPE, "vocab-merges"), (BBPE, "tiktoken")):
        arguments = {"to": to, "allow_loss": LOSS_CODES, "force": True}
        plain = convert(FIXTURES / name, f"{tmp_path}/", **arguments)
        asked = convert(
            FIXTURES / name, f"{tmp_path}/", options=WriteOptions(add_eos=True), **arguments
        )
        fields = {loss.field for loss in plain.losses}
        assert {loss.field for loss in asked.losses} == {*fields, "post_processor"}, to


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("post_processor", None, "different ids with the special tokens around"),
        ("normalizer", None, "get different ids, "),
        ("decoder", decoders.Fuse(), "decode to different text"),
        ("added_tokens", AddedTokens(), "get different ids, "),
    ],
)
@pytest.mark.parametrize("name", [SPM, "wordpiece/tokenizer.json"])
def test_tables_of_another_specification_are_noticed(
    name: str,
    field: str,
    value: object,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Whatever in a file disagrees with the rest of it: nothing is written."""
    made = mtok_write.make_tables
    monkeypatch.setattr(
        mtok_write, "make_tables", lambda spec, *_: made(replace(spec, **{field: value}), "")
    )
    if name == SPM and field == "added_tokens":
        return  # it finds none in a text
    with pytest.raises(AnswerNo, match=f"verification failed: .*{words}"):
        convert(
            FIXTURES / name, tmp_path / "x.mtok", to="mtok", options=WriteOptions(values=TABLES)
        )
    assert not list(tmp_path.iterdir())


def test_a_wrong_specification_is_noticed_in_every_way() -> None:
    """A field that comes back otherwise and no loss names, whatever it changes."""
    source = mtkit.load(FIXTURES / "wordpiece" / "tokenizer.json")
    for field, value, words in (
        ("post_processor", None, "with the special tokens around"),
        ("decoder", decoders.Fuse(), "decode to different text"),
        ("added_tokens", AddedTokens(), "different ids"),
        ("model", replace(source.spec.model, max_chars=2), "different ids"),
    ):
        written = mtok.write(replace(source.spec, **{field: value}), WriteOptions())
        with pytest.raises(AnswerNo, match=words):
            verify(source, mtok, written, ())


def without_unknown_token() -> TokenizerSpec:
    """A Unigram that has a token for few characters and none for the rest."""
    pieces = [b"[PAD]", b"[BOS]", b"a", b"b", b"c", b"d", b"e", b"ab", b"cab"]
    scores = [0.0, 0.0, -2.0, -3.0, -4.0, -5.0, -6.0, -2.5, -1.5]
    document = {
        "added_tokens": [
            {"id": number, "content": pieces[number].decode(), "special": True,
             "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            for number in range(2)
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {
            "type": "Unigram", "unk_id": None, "byte_fallback": False,
            "vocab": [[p.decode(), s] for p, s in zip(pieces, scores, strict=True)],
        },
    }  # fmt: skip
    return hf.read(Source("tokenizer.json", json.dumps(document).encode()), {}).spec


def test_a_text_that_the_source_refuses_is_no_failure(tmp_path: Path) -> None:
    """A vocabulary without an unknown token and few characters (afaanoromo-tokenizer 1.1.3)."""
    source = Tokenizer(without_unknown_token())
    with pytest.raises(UnsupportedError, match="no unknown token"):
        source.encode_ids("hello")
    for to, options in (("hf", WriteOptions()), ("mtok", WriteOptions())):
        done = convert(source, f"{tmp_path / to}/", to=to, options=options)
        back = mtkit.load(done.path)
        assert back.encode_ids("Cab [PAD]ab") == source.encode_ids("Cab [PAD]ab") == [8, 0, 7]
        with pytest.raises(UnsupportedError, match="no unknown token"):
            back.encode_ids("hello")
        ours = done.verified[0]
        assert ours.spec_equal
        assert ours.equal == ours.total > 5
        assert ours.refused > 100


def test_what_no_text_can_be_encoded_with_is_an_error(tmp_path: Path) -> None:
    spec = mtkit.load(FIXTURES / BBPE).spec
    skipping = Tokenizer(replace(spec, model=replace(spec.model, dropout=0.5)))
    with pytest.raises(UnsupportedError, match="at random"):
        convert(skipping, tmp_path / "x.mtok", to="mtok")


@pytest.mark.parametrize(
    "name", [n for n in FORMATS if hasattr(get_format(n), "write") and n not in NAMED]
)
def test_the_name_of_what_is_written_says_its_format(name: str) -> None:
    """The name that a writer gives its main file leads back to that writer."""
    for source in sorted(FIXTURES.glob("*/tokenizer.*")):
        try:
            written = get_format(name).write(load(source).spec, WriteOptions())
        except MtkitError:
            continue
        main = next(iter(written.files))
        file = f"x{main}" if main.startswith(".") else main
        assert target_format(f"some/folder.gguf/{file}") == target_format(file.upper()) == name
        return
    pytest.fail(f"no fixture becomes {name}")


@pytest.mark.parametrize("name", NAMED)
def test_a_fixed_name_says_its_format(name: str) -> None:
    source = getsource(cast("ModuleType", get_format(name)))
    assert f'Written({{"{NAMED[name]}": ' in source
    assert target_format(NAMED[name]) == name


def test_no_format_is_guessed_of_other_names() -> None:
    for dst in (None, "", "out/", "x", "x.txt", "x.gguf.bak"):
        assert target_format(dst) == ""
    model = FIXTURES / "spm-bpe" / "tokenizer.model"
    with pytest.raises(UsageError, match=r"'x\.txt' does not say a format; one of gguf"):
        convert(model, "x.txt")
    with pytest.raises(UsageError, match="no format is given"):
        convert(model)


def test_a_refusal_says_each_effect_once(tmp_path: Path) -> None:
    """bert's normalizer and its pre-tokenizer are both code of llama.cpp's own in a GGUF."""
    with pytest.raises(LossError) as caught:
        convert(FIXTURES / "wordpiece" / "tokenizer.json", tmp_path / "x.gguf")
    assert str(caught.value).count("llama.cpp's own code") == 1


def test_a_token_behind_the_vocabulary_is_left_out(mtkit, tmp_path) -> None:
    """llama2.c has no added tokens: what the source makes of one has no id there (phi-3-vision)."""
    model = FIXTURES / "spm-bpe" / "tokenizer.model"
    assert mtkit("convert", model, "--to", "hf", "-o", tmp_path / "hf").returncode == 0
    path = tmp_path / "hf" / "tokenizer.json"
    document = json.loads(path.read_bytes())
    token = {**document["added_tokens"][0], "id": len(document["model"]["vocab"])}
    document["added_tokens"].append({**token, "content": "<|behind|>", "special": True})
    path.write_text(json.dumps(document))
    done = mtkit("convert", tmp_path / "hf", "--to", "llama2c", "-o", tmp_path / "o.bin")
    assert done.returncode == 0, done.stderr
    assert b"ids-special: added_tokens" in done.stdout


OWN_UNIGRAM = FIXTURES / "spm-unigram" / "tokenizer.model"
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
@pytest.mark.parametrize("source", [OWN_UNIGRAM, BPE / "tokenizer.model"])
def test_the_library_agrees(tmp_path: Path, source: Path, name: str) -> None:
    version = reference("sentencepiece").__version__
    alone = shutil.copy(source, tmp_path / "alone.model")
    done = convert(alone, tmp_path / name, allow_loss=LOSS_CODES)
    ours, last = done.verified[0], done.verified[-1]
    assert last.reader == f"sentencepiece {version}"
    assert (last.equal, last.explained, last.total) == (ours.equal, ours.explained, ours.total)
    assert last.total > 200
    assert not last.unable


def test_the_library_does_not_know_the_tokens_of_files_beside_a_model(tmp_path: Path) -> None:
    reference("sentencepiece")
    done = convert(BPE / "tokenizer.model", tmp_path / "x.gguf", allow_loss=LOSS_CODES)
    ours, last = done.verified[0], done.verified[-1]
    assert ours.equal == ours.total
    assert (last.equal, last.explained) == (last.total - 7, 7)


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
        row(OWN_UNIGRAM, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the result it ends a conversion; of the source it is told."""
    invent(monkeypatch, tmp_path, INVENTED.format(opened="raise ValueError('no')"))
    with pytest.raises(AnswerNo, match="sentencepiece refuses the result: no"):
        row(OWN_UNIGRAM, tmp_path / "x.model")
    assert row(OWN_UNIGRAM, tmp_path / "x.mtok").unable == "refused: no"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    invent(monkeypatch, tmp_path, "raise ImportError('not here')")
    assert (
        row(OWN_UNIGRAM, tmp_path / "x.model").unable == "its library is not installed (not here)"
    )
    assert load(tmp_path / "x.model").encode_ids("a") == load(OWN_UNIGRAM).encode_ids("a")


MODEL = os.path.join(os.path.dirname(mtkit.__file__), "data", "default-model.gguf")
MODEL_TEXTS = ["Hello, MNN! 中文 🙂", "It's  1234 words\n\n\tand tabs", "<|endoftext|>a", ""]


def test_the_other_tokenizer_answers(mtkit: Run, tmp_path: Path) -> None:
    source = FIXTURES / "spm-bpe" / "tokenizer.model"
    one = load(source)
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
    other = load(tmp_path / "new.gguf")
    for text in MODEL_TEXTS:
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
    argv = [sys.executable, "-c", script, str(tmp_path / "new.gguf"), MODEL_TEXTS[0]]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == str(load(tmp_path / "new.gguf").encode_ids(MODEL_TEXTS[0]))
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
    one = load(source)
    target = shared("gguf-vocab/ggml-vocab-llama-spm.gguf")
    options = ["--allow-loss", "ids-possible"]
    done = mtkit("edit", target, "--tokenizer", source, "-o", "new.gguf", *options)
    if done.returncode:
        assert done.returncode in (1, 4), done.stderr
        return
    other = load(tmp_path / "new.gguf")
    ids = [each.encode_ids(MODEL_TEXTS[1], add_special_tokens=False) for each in (one, other)]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_for_files_that_cannot_be_written(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UsageError("the disk is full")

    monkeypatch.setattr("mtkit.conversion.tokenizer.write_ggufs", refuse)
    folder = tmp_path / "new" / "one"
    if there:
        folder.mkdir(parents=True)
    with pytest.raises(UsageError, match="the disk is full"):
        convert(FIXTURES / BBPE, f"{folder}/", to="mtok")
    assert folder.exists() == there
    assert folder.parent.exists() == there
