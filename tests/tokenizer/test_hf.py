"""A tokenizer of transformers with mtkit inside answers as it does without."""

from __future__ import annotations

import copy
import pickle
import random
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_texts import nasty_text
from support import FIXTURES, reference, shared_tokenizer

import mtkit
import mtkit.hf
from mtkit.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("bbpe-8k", "wordpiece")
STORED = (
    "gpt2", "qwen3", "llama-3", "bert-base-uncased", "t5-small", "deepseek-v3", "falcon",
    "gpt-neox", "mistral-v0.3", "phi-3-vision", "minimind", "clip",
)  # fmt: skip
TEXTS = [
    "Hello, world!",
    "",
    " two  spaces\n\n",
    "中文 café ﬁ Ａ",
    "<s> a </s> [SEP] <|endoftext|>b",
    "a" * 90,
]
NASTY = [nasty_text(random.Random(seed), 40) for seed in range(30)]
CALLS = {
    "plain": {},
    "without special tokens": {"add_special_tokens": False},
    "special tokens are text": {"split_special_tokens": True},
    "padded": {"padding": True, "pad_to_multiple_of": 8},
    "padded left": {"padding": "max_length", "max_length": 40, "padding_side": "left"},
    "cut": {"truncation": True, "max_length": 6},
    "cut and padded": {"truncation": True, "padding": "max_length", "max_length": 9},
    "overflowing": {
        "truncation": True, "max_length": 6, "stride": 1, "return_overflowing_tokens": True,
    },
    "everything": {
        "return_offsets_mapping": True, "return_special_tokens_mask": True, "return_length": True,
        "return_token_type_ids": True,
    },
    "cut, with offsets": {
        "truncation": True, "max_length": 5, "return_offsets_mapping": True, "padding": True,
    },
}  # fmt: skip


def folder(name: str) -> Path:
    return FIXTURES / name if name in FOLDERS else shared_tokenizer(name)


def both(name: str):
    """Load a tokenizer twice: as it is, and with mtkit inside."""
    transformers = reference("transformers")
    file = str(folder(name) / "tokenizer.json")
    made = [transformers.PreTrainedTokenizerFast(tokenizer_file=file) for _ in range(2)]
    for one in made:
        if one.pad_token is None:
            one.pad_token = one.convert_ids_to_tokens(0)
    return made[0], mtkit.hf.accelerate(made[1])


def answer(tokenizer, *args, **options):
    """Return what it answers, or what is wrong."""
    try:
        return tokenizer(*args, **options)
    except Exception as error:  # noqa: BLE001  the library panics as it likes
        return str(error)


@pytest.mark.parametrize("name", [*FOLDERS, *STORED])
def test_calls(name) -> None:
    plain, fast = both(name)
    for what, options in CALLS.items():
        for side in ("right", "left"):
            plain.truncation_side = fast.truncation_side = side
            assert fast(TEXTS, **options) == plain(TEXTS, **options), (what, side)
            for text in TEXTS:
                assert fast(text, **options) == plain(text, **options), (what, text)
    pairs = TEXTS, TEXTS[::-1]
    for options in ({}, CALLS["everything"], {"truncation": "only_second", "max_length": 8}):
        assert answer(fast, *pairs, **options) == answer(plain, *pairs, **options)


@pytest.mark.parametrize("name", [*FOLDERS, *STORED])
def test_nasty_texts(name) -> None:
    plain, fast = both(name)
    for text in NASTY:
        ids = plain(text)["input_ids"]
        assert fast(text)["input_ids"] == ids
        assert fast.encode(text) == ids
        assert fast.tokenize(text) == plain.tokenize(text)
        for skip in (True, False):
            options = {"skip_special_tokens": skip}
            assert fast.decode(ids, **options) == plain.decode(ids, **options)
    words = [text.split() for text in NASTY if text.split()]
    given_words = {"is_split_into_words": True}
    assert fast(words, **given_words) == plain(words, **given_words)


pair_of = lru_cache(both)


@pytest.mark.parametrize("name", FOLDERS)
@given(data=st.data())
def test_drawn_calls(name, data) -> None:
    plain, fast = pair_of(name)
    texts = data.draw(st.lists(st.text(max_size=30), min_size=1, max_size=4))
    options = {
        "add_special_tokens": data.draw(st.booleans()),
        "padding": data.draw(st.sampled_from([False, True, "max_length"])),
        "truncation": data.draw(st.booleans()),
        "max_length": data.draw(st.integers(1, 20)),
        "return_offsets_mapping": True,
        "return_special_tokens_mask": True,
    }
    assert answer(fast, texts, **options) == answer(plain, texts, **options)


def test_what_an_encoding_knows() -> None:
    plain, fast = both("bbpe-8k")
    text = "Hello, big world"
    a, b = plain(text), fast(text)
    assert b.is_fast
    assert (b.tokens(), b.word_ids(), b.sequence_ids()) == (
        a.tokens(),
        a.word_ids(),
        a.sequence_ids(),
    )
    assert [b.char_to_token(i) for i in range(16)] == [a.char_to_token(i) for i in range(16)]
    assert b.token_to_chars(1) == a.token_to_chars(1)
    assert b.word_to_tokens(1) == a.word_to_tokens(1)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_tokenizer_that_changes(name) -> None:
    plain, fast = both(name)
    text = "Hello <new> world Hello<tool>"
    for one in (plain, fast):
        one(text)
        assert one.add_tokens(["<new>"]) == 1
    assert fast(text) == plain(text)
    for one in (plain, fast):
        one.add_special_tokens({"additional_special_tokens": ["<tool>"]})
    assert fast(text) == plain(text)
    ids = plain(text)["input_ids"]
    assert fast.decode(ids, skip_special_tokens=True) == plain.decode(ids, skip_special_tokens=True)
    tokenizers = reference("tokenizers")
    for one in (plain, fast):
        one.backend_tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    assert fast("HELLO")["input_ids"] == plain("HELLO")["input_ids"] == plain("hello")["input_ids"]


def test_a_component_changed_in_place() -> None:
    plain, fast = both("bbpe-8k")
    before = fast("Hello")["input_ids"]
    for one in (plain, fast):
        component = one.backend_tokenizer.pre_tokenizer
        for part in [component] if hasattr(component, "add_prefix_space") else component:
            if hasattr(part, "add_prefix_space"):
                part.add_prefix_space = not part.add_prefix_space
    assert fast("Hello")["input_ids"] == plain("Hello")["input_ids"] != before


def test_it_is_saved_copied_and_sent(tmp_path) -> None:
    transformers = reference("transformers")
    plain, fast = both("bbpe-8k")
    fast.save_pretrained(tmp_path)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again(TEXTS) == plain(TEXTS)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert isinstance(other._tokenizer, mtkit.hf.Backend)
        assert other(TEXTS) == plain(TEXTS)
    loaded = mtkit.hf.from_pretrained(tmp_path)
    assert isinstance(loaded._tokenizer, mtkit.hf.Backend)
    assert loaded(TEXTS) == plain(TEXTS)


def test_chats_and_tensors() -> None:
    plain, fast = both("bbpe-8k")
    chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    for options in ({}, {"tokenize": False}, {"return_dict": False}):
        wanted = plain.apply_chat_template(chat, chat_template=template, **options)
        assert fast.apply_chat_template(chat, chat_template=template, **options) == wanted
    wanted = plain(TEXTS, padding=True, return_tensors="np")
    found = fast(TEXTS, padding=True, return_tensors="np")
    assert found.keys() == wanted.keys()
    assert all((found[key] == wanted[key]).all() for key in wanted)


@pytest.mark.parametrize("path", ["spm-bpe/tokenizer.model", "spm-unigram/tokenizer.model"])
def test_files_of_other_formats(path) -> None:
    reference("transformers")
    tokenizer = mtkit.hf.from_file(FIXTURES / path, allow_loss=["ids-possible"])
    own = mtkit.load(FIXTURES / path)
    for text in TEXTS[:4]:
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == own.encode_ids(
            text, add_special_tokens=False
        )


def test_mtkit_answers() -> None:
    """The library is not asked for ids."""
    _, fast = both("bbpe-8k")
    wanted = fast(TEXTS)["input_ids"]

    class Silent:
        encode_special_tokens = False
        truncation = padding = None

        def __getattr__(self, name):
            raise AssertionError(name)

    vars(fast._tokenizer)["_inner"] = Silent()
    assert [fast._tokenizer.encode(text).ids for text in TEXTS] == wanted


def test_what_cannot_be_done() -> None:
    with pytest.raises(UsageError, match="int is not a fast tokenizer"):
        mtkit.hf.accelerate(7)
    tokenizers = reference("tokenizers")
    transformers = reference("transformers")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [], dropout=0.5))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner)
    with pytest.raises(UnsupportedError):
        mtkit.hf.accelerate(tokenizer)
