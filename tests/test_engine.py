"""The native engine gives what the pipeline gives: on files, generated pipelines, nasty text."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import pytest
from support import FIXTURES

from mtkit import formats
from mtkit.binary import Source
from mtkit.engine import load_engine
from mtkit.errors import FormatError, MtkitError
from mtkit.packed import Numbers, Pieces
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    TokenizerSpec,
    fields,
    models,
    normalizers,
    replace,
)
from mtkit.spec import post_processors as post
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.text import Regex, Text
from mtkit.spec.vocabulary import Vocabulary

pytest.importorskip("mtkit._native")
from mtkit.engine import Engine, tables

FILES = [
    "bbpe-8k/tokenizer.json",
    "spm-bpe/tokenizer.model",
    "spm-unigram/tokenizer.model",
    "spm-unigram-id/tokenizer.model",
    "wordpiece/tokenizer.json",
]

TEXTS: list[str | bytes] = [
    "",
    " ",
    "Hello, MNN!",
    "  two  spaces, a tab\tand\r\nnewlines\n\n\n  ",
    "It's 12345 o'clock; they'll've 3.14e-10 x_y-z",
    "naïve café Åström ＦＵＬＬｗｉｄｔｈ ½ ﬁ ǆ İstanbul ΣΊΣΥΦΟΣ",
    "漢字かな交じり文、ハングル 한국어 각 각 ไทย हिन्दी العربية",
    "e\u0301 a\u0323\u0307 q\u0307\u0323 \u0344 \u1e9b\u0323 \ufb2c",
    "👩\u200d👩\u200d👧\u200d👦 🇩🇪🇫🇷 👍🏽 \U0001f3f4\U000e0067\U000e007f",
    "\u2581\u2581marks\u2581 and\u00a0no-break\u3000wide\u2028line\u0085next",
    "<|endoftext|> <s>x</s> [MASK][CLS]  <unk>",
    "\x00\x01\x7f\x80\ufeff\ufffd\uffff\U0010ffff",
    "a" * 300 + " " * 70 + "é" * 40 + "!" * 33,
    "def f(x):\n    return {'a': [1, 22, 333, 4444]}  # ok\n",
    b"\xff\xfe broken \xe4\xb8 bytes \xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80",
    "▁▁cut\xe4".encode("latin-1", "ignore"),
]

ALPHABET = "ab cdeé ñ\u0301漢字▁'.,!?<>1234\n\t\u3000sS\u0130ß😀-_"


def random_texts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(ALPHABET, k=rng.randrange(40))) for _ in range(count)]


def answer(call, *args, **kwargs):
    """A result, or what went wrong, in words."""
    try:
        return call(*args, **kwargs)
    except MtkitError as error:
        return type(error).__name__, str(error)


def assert_equal(spec: TokenizerSpec, texts: list[str | bytes], *, native: bool = True) -> None:
    engine = load_engine(spec)
    assert isinstance(engine, Engine) == native
    pipeline = Pipeline(spec)
    for text in texts:
        for special in (True, False):
            for parse in (None, False, True):
                options = {"add_special_tokens": special, "parse_special": parse}
                expected = answer(pipeline.encode_ids, text, **options)
                if "a later one changes the whole text" in str(expected):
                    continue  # the reference fails on its own offsets; ids need none
                assert answer(engine.encode_ids, text, **options) == expected, (text, options)


@lru_cache(maxsize=8)
def fixture(name: str) -> TokenizerSpec:
    _, reading = formats.read(Source.open(str(FIXTURES / name)))
    return reading.spec


@pytest.mark.parametrize("name", FILES)
def test_files_are_encoded_as_by_the_pipeline(name: str) -> None:
    if not (FIXTURES / name).exists():
        pytest.fail(f"{name} is missing")
    assert_equal(fixture(name), TEXTS + random_texts(1, 100))


@pytest.mark.parametrize("name", FILES)
def test_results_do_not_depend_on_what_came_before(name: str) -> None:
    texts = random_texts(2, 60)
    warm, fresh = load_engine(fixture(name)), Pipeline(fixture(name))
    for _ in range(2):
        for text in [*texts, "".join(texts), *texts]:
            assert warm.encode_ids(text) == fresh.encode_ids(text)


def test_tables_are_flat_and_the_same_every_time() -> None:
    spec = fixture(FILES[0])
    first = tables(spec)
    assert first == tables(spec)
    assert all(len(tag) == 4 and isinstance(table, bytes) for tag, table in first.items())


def test_tables_serve_without_a_specification_at_any_address() -> None:
    spec = fixture(FILES[0])

    def none() -> TokenizerSpec:
        raise AssertionError("nobody needs it")

    shifted = {tag: memoryview(b"x" + table)[1:] for tag, table in tables(spec).items()}
    engine = Engine(shifted, none)
    for text in TEXTS[:-2]:
        assert engine.encode_ids(text) == Pipeline(spec).encode_ids(text)
    assert list(engine.encode_array("Hello, MNN!")) == engine.encode_ids("Hello, MNN!")


def test_one_engine_serves_many_threads() -> None:
    spec = fixture(FILES[0])
    engine = load_engine(spec)
    texts = [text * 20 for text in random_texts(3, 60)]
    expected = [Pipeline(spec).encode_ids(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(engine.encode_ids, texts)) == expected


@pytest.mark.parametrize("name", FILES)
def test_damaged_tables_never_harm(name: str) -> None:
    """Every table cut or overwritten: an engine may refuse or answer, in time and in bounds."""
    rng = random.Random(4)
    good = tables(fixture(name))
    answered = refused = 0
    for _ in range(150):
        damaged = dict(good)
        tag = rng.choice(sorted(good))
        table = bytearray(good[tag])
        if rng.random() < 0.3:
            del table[rng.randrange(len(table) + 1) :]
        for _ in range(rng.choice((0, 1, 40))):
            if table:
                at = rng.randrange(len(table))
                table[at : at + 4] = rng.choice(
                    (b"\xff\xff\xff\xff", b"\0\0\0\0", rng.randbytes(4), b"\x7f")
                )[: len(table) - at]
        damaged[tag] = bytes(table)
        try:
            engine = Engine(damaged, lambda: fixture(name))
            for text in ("Hello, MNN!", "漢字 e\u0301 " * 30, "<s>\u2581 x"):
                engine.encode_ids(text)
            answered += 1
        except MtkitError:
            refused += 1
    assert answered
    assert refused


def test_a_program_of_another_version_is_refused() -> None:
    good = tables(fixture(FILES[0]))
    with pytest.raises(FormatError, match="version"):
        Engine({**good, "PROG": b"\x63\0\0\0" + good["PROG"][4:]}, lambda: fixture(FILES[0]))


NORMALIZERS = [
    None,
    normalizers.UnicodeForm("NFC"),
    normalizers.UnicodeForm("NFD"),
    normalizers.UnicodeForm("NFKC"),
    normalizers.UnicodeForm("NFKD"),
    normalizers.Lowercase(),
    normalizers.Lowercase("simple"),
    normalizers.Strip(),
    normalizers.Strip(left=False, white_space="spaces"),
    normalizers.Bert(),
    normalizers.Bert(lowercase=False, strip_accents=True, clean_text=False),
    normalizers.Nmt(),
    normalizers.Sequence((normalizers.UnicodeForm("NFD"), normalizers.StripAccents())),
    normalizers.Sequence((normalizers.Prepend("\u2581"), normalizers.Replace(Text(" "), "\u2581"))),
    normalizers.Replace(Regex(" {2,}"), " "),
    normalizers.ByteLevel(),
    normalizers.Spaces(),
    normalizers.Spaces(remove_extra_whitespaces=False, suffix=True),
    normalizers.Spaces(prefix="word", escape_whitespaces=False),
]
PRE_TOKENIZERS = [
    None,
    pre.ByteLevel(),
    pre.ByteLevel(add_prefix_space=False, use_regex=False),
    pre.Metaspace(),
    pre.Metaspace(prepend_scheme="first"),
    pre.Metaspace(prepend_scheme="never", split=False),
    pre.MarkSpaces(),
    pre.Bert(),
    pre.Bert("16.0"),
    pre.Whitespace(),
    pre.WhitespaceSplit(),
    pre.CharDelimiterSplit("-"),
    pre.FixedLength(3),
    pre.Sequence((pre.Digits(individual=True), pre.Punctuation("contiguous"))),
    pre.Sequence((pre.WhitespaceSplit(), pre.Metaspace(prepend_scheme="first"))),
    pre.Sequence((pre.ByteLevel(), pre.Digits())),
    *(
        pre.Split(pattern, behavior, invert)
        for behavior in (
            *("removed", "isolated", "merged_with_previous", "merged_with_next"),
            *("contiguous", "glued_to_previous"),
        )
        for pattern, invert in ((Text(" "), False), (Regex(r"\s+(?!\S)|\w+|\d{1,3}"), True))
    ),
]
ADDED = [
    AddedTokens(),
    AddedTokens(
        (
            AddedToken(0, b"ab", special=True, lstrip=True),
            AddedToken(1, b"abc", rstrip=True),
            AddedToken(2, b" c", normalized=True),
            AddedToken(3, "\u00e9".encode(), single_word=True, normalized=True),
            AddedToken(4, b"<>", lstrip=True, rstrip=True, special=True),
        )
    ),
    AddedTokens(
        (AddedToken(0, b"a", lstrip=True), AddedToken(1, b"ab"), AddedToken(2, b" ", rstrip=True)),
        match="longest_first",
        strip="ascii",
        parse_special=False,
    ),
    AddedTokens(
        (AddedToken(0, b"a"), AddedToken(1, b"ab"), AddedToken(2, b"'s", special=True)),
        match="first_listed",
    ),
    AddedTokens((AddedToken(0, b" ", normalized=True), AddedToken(1, b"ab"))),
]
POST = [
    None,
    post.Bert(("</s>", 1), ("<s>", 0)),
    post.Roberta(("</s>", 1), ("<s>", 0)),
    post.Template((post.Slot(ids=(3,)), post.Slot(text=0), post.Slot(ids=(4, 5)))),
    post.Template((post.Slot(text=0), post.Slot(ids=(3,)), post.Slot(text=0))),
    post.Template((post.Slot(text=0), post.Slot(text=0)), without="text"),
    post.Template((post.Slot(ids=(4,)),)),
    post.Template((post.Slot(text=0), post.Slot(text=1))),
    post.Sequence((post.Bert(("</s>", 1), ("<s>", 0)), post.Template((post.Slot(text=0),) * 2))),
    post.Sequence(
        (
            post.Template((post.Slot(text=0), post.Slot(ids=(5,)))),
            post.Template((), (post.Slot(text=1), post.Slot(ids=(6,)), post.Slot(text=0))),
            post.Roberta(("</s>", 1), ("<s>", 0)),
        )
    ),
    post.Sequence((post.Template((post.Slot(text=0),) * 3), post.Template((post.Slot(text=0),)))),
]


def random_vocabulary(rng: random.Random, marks: str) -> Vocabulary:
    """Pieces over a small alphabet, with byte tokens and scores full of ties."""
    letters = sorted(set(ALPHABET + marks + "aaabbccĠĊé"))
    pieces = [b"<unk>", b"<s>", *(b"<0x%02X>" % byte for byte in range(0x80, 0x100))]
    found = {letter.encode() for letter in letters if rng.random() < 0.8}
    for _ in range(200):
        text = "".join(rng.choices("aabcé▁ '漢Ġd", k=rng.randrange(2, 5)))
        found.add(text.encode())
        found.add(b"##" + text.encode())
    pieces += sorted(found)
    types = [2, 3, *[6] * 128, *(rng.choice((1, 1, 1, 1, 4, 5)) for _ in found)]
    scores = [float(rng.randrange(-12, 1)) / rng.choice((2, 2, 10, 3)) for _ in pieces]
    return Vocabulary(Pieces.of(pieces), Numbers.of("B", types), Numbers.of("f", scores))


def random_merges(rng: random.Random, vocabulary: Vocabulary) -> models.Merges:
    ids = vocabulary.pieces.ids
    pairs = []
    for piece in vocabulary.pieces:
        text = piece.decode()
        for cut in range(1, len(text)):
            left, right = ids.get(text[:cut].encode()), ids.get(text[cut:].encode())
            if left is not None and right is not None and rng.random() < 0.7:
                pairs.append((left, right))
    rng.shuffle(pairs)
    numbers = Numbers.of("I", [number for pair in pairs for number in pair])
    return models.Merges(numbers, Pieces.of([]))


def random_model(rng: random.Random, vocabulary: Vocabulary) -> models.Model:
    flag = lambda: rng.random() < 0.5  # noqa: E731
    kind = rng.randrange(9)
    if kind <= 1:
        return models.BPE(
            random_merges(rng, vocabulary),
            unk=rng.choice((0, None)),
            fuse_unk=flag(),
            byte_fallback=flag(),
            ignore_merges=flag(),
            missing=rng.choice(("before", "after")),
            end_of_word_suffix=rng.choice(("", "", "é")),
        )
    if kind == 2:
        return models.RankBPE()
    if kind == 3:
        missing = rng.choice(("before", "after"))
        return models.ScoreBPE(
            unk=0,
            byte_fallback=flag(),
            mergeable=rng.choice(("listed", "any")) if missing == "after" else "any",
            whole=flag(),
            symbols=rng.choice(("first_byte", "continuation")),
            missing=missing,
            score_above=rng.choice((None, -4.0)),
        )
    if kind == 4:
        return models.Unigram(
            unk=0,
            byte_fallback=flag(),
            fuse_unk=flag(),
            candidates=rng.choice(("any", "listed", "used")),
            user_defined=rng.choice(("score", "zero", "preferred")),
            precision=rng.choice(("f32", "f64")),
        )
    if kind == 5:
        return models.WordPiece(
            unk=rng.choice((0, None)),
            max_chars=rng.choice((None, 5, 100)),
            unit=rng.choice(("characters", "bytes")),
            too_long=rng.choice(("unk", "nothing")),
            gap=rng.choice(("word", "rest")),
        )
    if kind == 6:
        return models.WordLevel(unk=0)
    if kind == 7:
        return rng.choice((models.Characters, models.Words))(unk=0, byte_fallback=flag())
    return models.Trie(unk=0)


@pytest.mark.parametrize("seed", range(60))
def test_generated_pipelines(seed: int) -> None:
    rng = random.Random(seed)
    vocabulary = random_vocabulary(rng, "\u2581")
    spec = TokenizerSpec(
        vocabulary,
        random_model(rng, vocabulary),
        normalizer=rng.choice(NORMALIZERS),
        pre_tokenizer=rng.choice(PRE_TOKENIZERS),
        post_processor=rng.choice(POST),
        added_tokens=rng.choice(ADDED),
        invalid_utf8=rng.choice(("error", "replace", "keep", "loose")),
        prefix_ids=rng.choice(((), (2,))),
    )
    texts = TEXTS + random_texts(seed + 100, 25)
    assert_equal(spec, texts)


def test_every_stage_takes_part_in_the_generated_pipelines() -> None:
    """Each normalizer and pre-tokenizer once, before a model that shows the words."""
    vocabulary = random_vocabulary(random.Random(0), "\u2581")
    model = models.Unigram(unk=0)
    texts = TEXTS + random_texts(9, 40)
    for normalizer in NORMALIZERS:
        assert_equal(TokenizerSpec(vocabulary, model, normalizer=normalizer), texts)
    for pre_tokenizer in PRE_TOKENIZERS:
        assert_equal(TokenizerSpec(vocabulary, model, pre_tokenizer=pre_tokenizer), texts)
    for processor in POST:
        for prefix in ((), (2,)):
            spec = TokenizerSpec(vocabulary, model, post_processor=processor, prefix_ids=prefix)
            assert_equal(spec, texts[:20])


def test_the_default_tokenizer_carries_its_tables() -> None:
    """They are those of its specification (else: python -m tools.default_tokenizer)."""
    from mtkit.formats import mtok
    from mtkit.loading import default_path, load_source
    from mtkit.tokenizer import Tokenizer

    source = Source.open(default_path())
    spec = mtok.read(source, {}).spec
    stored = mtok.extension_sections(source)
    assert {tag: bytes(stored[tag]) for tag in tables(spec)} == tables(spec)
    loaded = load_source(source)
    assert isinstance(loaded, Tokenizer)
    assert callable(loaded._spec)
    for text in TEXTS[:-2]:
        assert loaded.encode_ids(text) == Pipeline(spec).encode_ids(text)


def test_the_compiler_knows_every_field_of_what_it_takes() -> None:
    """A new field of a component must be taught to mtkit/engine (or refused there) first."""
    known = {
        models.BPE: "merges unk fuse_unk byte_fallback ignore_merges continuing_subword_prefix"
        " end_of_word_suffix dropout missing whole_newlines without_unk",
        models.RankBPE: "",
        models.ScoreBPE: "unk byte_fallback mergeable whole symbols missing score_above",
        models.Unigram: "unk byte_fallback fuse_unk candidates user_defined precision",
        models.Characters: "unk byte_fallback",
        models.Words: "unk byte_fallback",
        models.WordPiece: "unk prefix max_chars unit too_long gap restart",
        models.WordLevel: "unk",
        models.Trie: "unk",
        normalizers.Bert: "clean_text handle_chinese_chars strip_accents lowercase per_character",
        normalizers.Lowercase: "mapping",
        normalizers.Strip: "left right white_space",
        normalizers.Prepend: "text empty",
        normalizers.Replace: "pattern content",
        normalizers.Spaces: "charsmap add_dummy_prefix remove_extra_whitespaces"
        " escape_whitespaces suffix keep prefix",
        normalizers.CodePointTable: "code_points values blank_controls",
        pre.ByteLevel: "add_prefix_space use_regex trim_offsets",
        pre.Metaspace: "replacement prepend_scheme split",
        pre.MarkSpaces: "replacement prefix",
        pre.Bert: "unicode",
        pre.Split: "pattern behavior invert",
        pre.Punctuation: "behavior",
        pre.Digits: "individual",
        post.Template: "single pair without",
        post.Bert: "sep cls",
        Vocabulary: "pieces types scores hidden",
        AddedToken: "id content single_word lstrip rstrip normalized special",
        AddedTokens: "tokens match strip parse_special first",
    }
    for record, names in known.items():
        assert fields(record) == tuple(names.split()), record


def test_what_the_core_lacks_is_done_by_the_pipeline() -> None:
    spec = fixture(FILES[0])
    assert isinstance(spec.model, models.BPE)
    spec = replace(spec, model=replace(spec.model, without_unk="error"))
    assert_equal(spec, TEXTS[:6], native=False)
