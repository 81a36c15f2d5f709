"""A tokenizer of transformers with mtkit inside answers as it does without."""

from __future__ import annotations

import copy
import pickle
import random
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_texts import nasty_text
from support import FIXTURES, reference, shared_tokenizer

import mtkit
import mtkit.hf
from mtkit.errors import UnsupportedError, UsageError
from mtkit.hf.backend import BACKEND, Accelerated, MtkitBackend

FOLDERS = ("bbpe-8k", "wordpiece")
STORED = (
    "gpt2", "qwen3", "llama-3", "bert-base-uncased", "t5-small", "deepseek-v3", "falcon",
    "gpt-neox", "mistral-v0.3", "phi-3-vision", "minimind", "clip",
)  # fmt: skip
TEXTS = [
    "Hello, world!", "", " two  spaces\n\n", "中文 café ﬁ Ａ", "<s> a </s> [SEP] <|endoftext|>b",
    "a" * 90,
]  # fmt: skip
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
    """Return what it answers, arrays as lists with their type, or what is wrong."""
    try:
        return {
            key: (value.dtype, repr(value.tolist())) if hasattr(value, "dtype") else value
            for key, value in tokenizer(*args, **options).items()
        }
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
        "padding_side": data.draw(st.sampled_from([None, "left"])),
        "pad_to_multiple_of": data.draw(st.sampled_from([None, None, 8])),
        "truncation": data.draw(st.sampled_from([False, True, "only_second"])),
        "max_length": data.draw(st.integers(1, 20)),
        "stride": data.draw(st.sampled_from([0, 0, 2])),
        "return_tensors": data.draw(st.sampled_from([None, "np"])),
        "return_offsets_mapping": data.draw(st.booleans()),
        "return_special_tokens_mask": data.draw(st.booleans()),
        "return_token_type_ids": data.draw(st.sampled_from([None, True])),
        "return_attention_mask": data.draw(st.sampled_from([None, False])),
        "split_special_tokens": data.draw(st.booleans()),
    }
    seconds = data.draw(st.lists(st.text(max_size=30), min_size=len(texts), max_size=len(texts)))
    pairs = list(zip(texts, seconds, strict=True))
    calls = [(texts,), (texts[0],), (texts, seconds), (texts[0], seconds[0]), (pairs,)]
    args = data.draw(st.sampled_from(calls))
    if data.draw(st.booleans()):
        options = {k: v for k, v in options.items() if k.startswith(("return", "add", "split"))}
    assert answer(fast, *args, **options) == answer(plain, *args, **options)
    for one in (plain, fast):
        assert one.backend_tokenizer.padding == plain.backend_tokenizer.padding
        assert one.backend_tokenizer.truncation == plain.backend_tokenizer.truncation


@pytest.mark.parametrize(
    "name", [*FOLDERS, "llama-3", "bert-base-uncased", "t5-small", "xlnet-base-cased"]
)
def test_rows_of_texts_and_pairs(name) -> None:
    """Lists and arrays of all that a call can return, cut on both sides."""
    plain, fast = pair_of(name)
    every = {**CALLS["everything"], "padding": True}
    more = [{}, {"add_special_tokens": False}]
    more += [{"truncation": how, "max_length": 9} for how in (True, "only_first", "only_second")]
    for cut in more:
        for side in ("left", "right"):
            for one in (plain, fast):
                one.truncation_side = one.padding_side = side
            for kind in (None, "np"):
                for args in ((TEXTS,), (TEXTS, TEXTS[::-1]), (TEXTS[0], TEXTS[3]), (TEXTS[0],)):
                    options = {**every, **cut, "return_tensors": kind}
                    a, b = answer(fast, *args, **options), answer(plain, *args, **options)
                    assert a == b, (cut, side, kind)
    for one in (plain, fast):
        one.truncation_side = one.padding_side = "right"


def test_nothing_is_asked_of_the_library_for_usual_calls(monkeypatch) -> None:
    """Else the speed of docs/performance.md is gone."""
    _, fast = both("wordpiece")
    tokenizer = type(fast).__mro__[2]
    for name in ("_encode_plus", "_decode", "encode"):
        monkeypatch.setattr(tokenizer, name, None, raising=False)
    for options in ({}, CALLS["everything"], CALLS["cut and padded"], CALLS["padded left"]):
        for args in ((TEXTS,), ("a",), (["a", "b"], ["c", "d"])):
            assert len(fast(*args, **options)["input_ids"])
    assert fast.decode(fast.encode("a b"), skip_special_tokens=True) == "a b"
    assert fast.batch_decode([[70], [71]]) == [fast.decode([70]), fast.decode([71])]


def test_decoding() -> None:
    plain, fast = both("bbpe-8k")
    import numpy as np

    ids = plain("Hello wörld")["input_ids"]
    for given_ids in (
        ids,
        ids[0],
        [ids, []],
        [],
        np.array(ids),
        tuple(ids),
        [10**6],
        {"input_ids": ids},
    ):
        for name in ("decode", "batch_decode"):
            for options in (
                {},
                {"skip_special_tokens": True},
                {"clean_up_tokenization_spaces": True},
            ):
                answers = []
                for one in (plain, fast):
                    try:
                        answers.append(getattr(one, name)(given_ids, **options))
                    except Exception as error:  # noqa: BLE001  the library raises as it likes
                        answers.append(type(error))
                assert answers[0] == answers[1], (given_ids, name)


def test_who_holds_the_object(tmp_path) -> None:
    """As long as nobody has had it, no text asks whether it changed; then each does."""
    plain, _ = both("bbpe-8k")
    plain.save_pretrained(tmp_path)
    fast = mtkit.hf.from_pretrained(tmp_path)
    backend = vars(fast)[BACKEND]
    assert len(fast) == len(plain)
    assert fast.convert_ids_to_tokens([5, 6]) == plain.convert_ids_to_tokens([5, 6])
    fast(TEXTS, padding=True)
    assert backend._is_alone
    component = fast.backend_tokenizer.pre_tokenizer
    assert not backend._is_alone
    before = fast("Hello")["input_ids"]
    for part in [component] if hasattr(component, "add_prefix_space") else component:
        if hasattr(part, "add_prefix_space"):
            part.add_prefix_space = not part.add_prefix_space
    assert fast("Hello")["input_ids"] != before
    alone = mtkit.hf.from_pretrained(tmp_path)
    assert alone.add_tokens(["<new>"]) == plain.add_tokens(["<new>"]) == 1
    assert alone("a <new> b") == plain("a <new> b")


def test_the_encodings_of_a_batch() -> None:
    plain, fast = both("wordpiece")
    for options in ({}, {"truncation": True, "max_length": 5}):
        batches = [t(TEXTS, padding=True, return_tensors="np", **options) for t in (plain, fast)]
        sent = pickle.loads(pickle.dumps(batches[1]))
        for at in range(len(TEXTS)):
            of = [(b.tokens(at), b[at].offsets, b.word_ids(at)) for b in (*batches, sent)]
            assert of[0] == of[1] == of[2]
        assert batches[1].is_fast
        assert batches[1].n_sequences == 1


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
        assert isinstance(other, Accelerated)
        assert other(TEXTS) == plain(TEXTS)
    loaded = mtkit.hf.from_pretrained(tmp_path)
    assert isinstance(loaded, Accelerated)
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
    plain, fast = both("bbpe-8k")
    asked = []

    class Noted:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            asked.append(name)
            return getattr(self._inner, name)

    wanted = plain(TEXTS)["input_ids"]
    backend = MtkitBackend(plain._tokenizer)
    vars(backend)["inner"] = Noted(plain._tokenizer)
    assert [one.ids for one in backend.encode_batch(TEXTS)] == wanted
    assert backend.decode(wanted[0]) == plain.decode(wanted[0], skip_special_tokens=True)
    assert asked
    assert not {"encode", "encode_batch", "encode_batch_fast", "decode"} & set(asked)
    assert type(fast) is not type(plain)
    assert fast(TEXTS)["input_ids"] == wanted


@pytest.mark.parametrize("name", ["bbpe-8k", "t5-small", "gpt2"])
def test_overflowing_parts_are_padded(name) -> None:
    plain, fast = both(name)
    for options in (
        {"truncation": True, "max_length": 3, "padding": "max_length"},
        {
            "truncation": True,
            "max_length": 4,
            "stride": 1,
            "padding": True,
            "pad_to_multiple_of": 2,
        },
        {"truncation": True, "max_length": 4, "padding": "longest", "padding_side": "left"},
        {"truncation": True, "max_length": 50, "padding": True},
    ):
        for texts in (["ab cd ef gh ij", "a"], ["ab cd ef" * 4], ["a"]):
            a, b = (one(texts, **options).encodings for one in (plain, fast))
            for name_of in ("ids", "attention_mask", "type_ids", "special_tokens_mask", "offsets"):
                parts = [
                    [[getattr(part, name_of) for part in (one, *one.overflowing)] for one in made]
                    for made in (a, b)
                ]
                assert parts[0] == parts[1], (options, texts, name_of)


@pytest.mark.parametrize("name", ["bbpe-8k", "gpt2", "t5-small", "llama-3", "bert-base-uncased"])
def test_the_library_takes_what_is_inside(name) -> None:
    """vLLM hands ``_tokenizer`` to the library's decoder of streams."""
    tokenizers = reference("tokenizers")
    plain, fast = both(name)
    assert isinstance(fast.backend_tokenizer, tokenizers.Tokenizer)
    ids = plain("Hello, wörld 中文 🦙!")["input_ids"]
    for skip in (True, False):
        texts = []
        for one in (plain, fast):
            stream = tokenizers.decoders.DecodeStream(ids=ids[:2], skip_special_tokens=skip)
            texts.append([stream.step(one._tokenizer, number) for number in ids[2:]])
        assert texts[0] == texts[1]


def test_a_class_made_of_it(tmp_path) -> None:
    """vLLM copies a tokenizer and gives the copy a class of its own, made of the tokenizer's."""
    plain, fast = both("bbpe-8k")

    class Cached(fast.__class__):
        @property
        def all_special_ids(self):
            return [1]

        def __reduce__(self):
            return both, ("bbpe-8k",)

    made = copy.copy(fast)
    made.__class__ = Cached
    assert made.all_special_ids == [1]
    assert made(TEXTS) == plain(TEXTS)
    made.padding_side = "left"
    assert fast.padding_side == plain.padding_side == "right"
    assert pickle.loads(pickle.dumps(made))[1](TEXTS) == plain(TEXTS)
    assert type(copy.deepcopy(fast)) is type(fast)
    assert type(fast).__name__ == type(plain).__name__
    fast.save_pretrained(tmp_path / "fast")
    plain.save_pretrained(tmp_path / "plain")
    for file in ("tokenizer_config.json", "tokenizer.json"):
        assert (tmp_path / "fast" / file).read_bytes() == (tmp_path / "plain" / file).read_bytes()
    again = fast.__class__.from_pretrained(tmp_path / "fast")
    assert type(again) is type(plain)
    assert type(fast.train_new_from_iterator(TEXTS, 300)) is type(plain)


@pytest.mark.parametrize("name", ["bbpe-8k", "t5-small"])
def test_any_change_of_the_object_counts(name) -> None:
    tokenizers = reference("tokenizers")

    def strip_after(inner):
        inner.add_tokens([tokenizers.AddedToken("<tool>", rstrip=True)])

    def strips_too(inner):
        inner.add_tokens([tokenizers.AddedToken("<tool>", lstrip=True, rstrip=True)])

    def lower(inner):
        inner.normalizer = tokenizers.normalizers.Lowercase()

    def another_model(inner):
        vocabulary = {str(token): i for i, token in inner.get_added_tokens_decoder().items()}
        more = [token for token in ("a", "b", "unknown") if token not in vocabulary]
        for token in more:
            vocabulary[token] = max(vocabulary.values()) + 1
        inner.model = tokenizers.models.WordLevel(vocabulary, unk_token="unknown")

    def another_unknown(inner):
        inner.model.unk_token = "b"

    plain, fast = both(name)
    kept = fast._tokenizer
    for change in (strip_after, strips_too, lower, another_model, another_unknown):
        change(plain._tokenizer)
        change(kept if change is lower else fast._tokenizer)
        for text in ("Hello <tool> A", "a B a"):
            assert fast(text) == plain(text), change.__name__
            assert fast.decode([0, 1]) == plain.decode([0, 1])


def test_added_tokens_that_no_file_can_hold() -> None:
    """The library keeps the ids of added tokens when the model is replaced; a file cannot."""
    tokenizers = reference("tokenizers")
    plain, fast = both("bbpe-8k")
    for one in (plain, fast):
        one.add_tokens(["<tool>"])
        one._tokenizer.model = tokenizers.models.WordLevel({"a": 0, "?": 1}, unk_token="?")
    wanted = plain("Hello <tool> a")
    with pytest.warns(UserWarning, match="mtkit cannot run the changed tokenizer"):
        assert fast("Hello <tool> a") == wanted


def test_what_cannot_be_done() -> None:
    with pytest.raises(UsageError, match="int is not a fast tokenizer"):
        mtkit.hf.accelerate(7)
    tokenizers = reference("tokenizers")
    transformers = reference("transformers")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [], dropout=0.5))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner)
    with pytest.raises(UnsupportedError):
        mtkit.hf.accelerate(tokenizer)
