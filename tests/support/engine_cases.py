"""What the tests of the engine share: files, nasty texts, parts of generated tokenizers."""

from __future__ import annotations

import random
from functools import lru_cache

from support import FIXTURES

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import MtkitError
from mtkit.spec import AddedToken, AddedTokens, TokenizerSpec, models, normalizers
from mtkit.spec import post_processors as post
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.text import Regex, Text
from mtkit.spec.vocabulary import Vocabulary

FILES = [
    "bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model", "spm-unigram/tokenizer.model",
    "spm-unigram-id/tokenizer.model", "wordpiece/tokenizer.json",
]  # fmt: skip

TEXTS: list[str | bytes] = [
    "", " ", "Hello, MNN!", "  two  spaces, a tab\tand\r\nnewlines\n\n\n  ",
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
]  # fmt: skip

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


@lru_cache(maxsize=8)
def fixture(name: str) -> TokenizerSpec:
    _, reading = formats.read(Source.open(str(FIXTURES / name)))
    return reading.spec


NORMALIZERS = [
    None, normalizers.UnicodeForm("NFC"), normalizers.UnicodeForm("NFD"),
    normalizers.UnicodeForm("NFKC"), normalizers.UnicodeForm("NFKD"), normalizers.Lowercase(),
    normalizers.Lowercase("simple"), normalizers.Strip(),
    normalizers.Strip(left=False, white_space="spaces"), normalizers.Bert(),
    normalizers.Bert(lowercase=False, strip_accents=True, clean_text=False),
    normalizers.Nmt(),
    normalizers.Sequence((normalizers.UnicodeForm("NFD"), normalizers.StripAccents())),
    normalizers.Sequence((normalizers.Prepend("\u2581"), normalizers.Replace(Text(" "), "\u2581"))),
    normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Text(""), "\u2581"),
    normalizers.ByteLevel(), normalizers.Spaces(),
    normalizers.Spaces(remove_extra_whitespaces=False, suffix=True),
    normalizers.Spaces(prefix="word", escape_whitespaces=False),
]  # fmt: skip
PRE_TOKENIZERS = [
    None, pre.ByteLevel(), pre.ByteLevel(add_prefix_space=False, use_regex=False), pre.Metaspace(),
    pre.Metaspace(prepend_scheme="first"), pre.Metaspace(prepend_scheme="never", split=False),
    pre.MarkSpaces(), pre.Bert(), pre.Bert("16.0"), pre.Whitespace(), pre.WhitespaceSplit(),
    pre.CharDelimiterSplit("-"), pre.FixedLength(3), pre.Split(Text(""), "isolated"),
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
]  # fmt: skip
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
    if rng.random() < 0.3:  # equal pieces, of which some models take the first and some the last
        pieces += rng.sample(sorted(found), 9)
    types = [2, 3, *[6] * 128, *(rng.choice((1, 1, 1, 1, 4, 5)) for _ in pieces[130:])]
    scores = [float(rng.randrange(-12, 1)) / rng.choice((2, 2, 10, 3)) for _ in pieces]
    some = sorted(rng.sample(range(2, len(pieces)), 30)) if rng.random() < 0.3 else ()
    columns = Numbers.of("B", types), Numbers.of("f", scores)
    return Vocabulary(Pieces.of(pieces), *columns, hidden=tuple(some))


def random_merges(rng: random.Random, vocabulary: Vocabulary) -> models.Merges:
    ids = vocabulary.ids
    pairs = []
    for piece in ids:
        text = piece.decode("utf-8", "replace")
        for cut in range(1, len(text)):
            left, right = ids.get(text[:cut].encode()), ids.get(text[cut:].encode())
            if left is not None and right is not None and rng.random() < 0.7:
                pairs.append((left, right))
    rng.shuffle(pairs)
    numbers = Numbers.of("I", [number for pair in pairs for number in pair])
    return models.Merges(numbers, Pieces.of([]))


def random_model(rng: random.Random, vocabulary: Vocabulary) -> models.Model:

    def flag() -> bool:
        return rng.random() < 0.5

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


def damage(table: bytes, rng: random.Random, *counts: int) -> bytes:
    """Cut a table or overwrite some of its places."""
    data = bytearray(table)
    if rng.random() < 0.3:
        del data[rng.randrange(len(data) + 1) :]
    for _ in range(rng.choice(counts)):
        if data:
            at = rng.choice((rng.randrange(len(data)), rng.randrange(min(64, len(data)))))
            harm = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", rng.randbytes(4), b"\x7f"))
            data[at : at + 4] = harm[: len(data) - at]
    return bytes(data)
