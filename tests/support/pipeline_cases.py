"""Generated texts, components of ``tokenizers`` and whole tokenizers, all from a seed.

``text(rng)`` draws from what breaks tokenizers: marks in any order, jamo, emoji joined and not,
flags, controls, every kind of white space, right-to-left scripts, characters whose forms or cases
have several characters, unassigned and private ones, spelled-out special tokens.
Each ``draw_…`` gives a random component of the library with random options; ``COMPONENTS`` names
the members of our unions that each table of them covers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support import reference

from mtkit.base.binary import Source
from mtkit.errors import MtkitError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline

if TYPE_CHECKING:
    import random


WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
GROUPS = [
    "abcdefgh", "XYZABC", "0123456789", " \n\t", WHITE, "..,,!?'\"-_()[]<>#$%&*+/:;=@\\^`{|}~",
    "\u0300\u0301\u0323\u0327\u0308\u0345\u0331\u05b0\u064b\u0670\u093c\u0e38\u20dd\u3099\u1ab0",
    "\u1100\u1161\u11a8\u11a7\u1112\u1175\u11c2\uac00\uac01\ud7a3\u3131",
    "\u00e9\u00c5\u212b\u1e9b\u0130\u0131\u00df\u017f\u01c6\u03a3\u03c2\ufb01\u2126\u0344\u0390",
    "\u00bd\u2460\u2167\u00b2\u3392\uff21\uff01\u2f00\u33ff\u3300\ufdfa\u1d55f\u32ff",
    "\u05d0\u05e9\u05c1\u0627\u0644\u0640\u0651\u200f\u202e\u061c",
    "\u0915\u094d\u0937\u093f\u0e01\u0e33\u0bcd\u0d4d\u1b05\u1b35\u0cc6\u0cd5",
    "\u4e2d\u6587\u8c48\uf900\u9fff\u3402\U00020000\U0002b820\U0002ceb0\u3042\u30a2\u30fc\u3002",
    "\U0001f468\u200d\U0001f469\U0001f3fd\ufe0f\U0001f1e9\U0001f1ea\u20e3\u2764\U0001f600",
    "\0\x01\x07\x08\x0e\x1f\x7f\x80\x9f\u00ad\u200b\u200c\u200e\u2060\ufeff\ufffd\ufff9\ue000",
    "\u0378\u0870\u1c89\U000105d2\U00011de0\U0001e030\U0010ffff\ufdd0\u2e52\ua7ce\u1acf\u16d40",
    "\u2581\u0120\u010a\u00a4\u00a9\u2010\u2014\u2026\u00ab\u2202",
    "\u0660\u0966\u00bc\u3007\U0001d7ce\u2070\u0be6\u0f33",
    "\U0001d11e\U00010400\U00010428\U00011099\U000110ba\U00011131\U00011127\U0001d15e",
]  # fmt: skip
WORDS = ["<s>", "</s>", "[MASK]", "it's", "don't", "we'll", "Hello", "world", "  ", "n't", "##a"]


def text(rng: random.Random, longest: int = 24) -> str:
    """Draw a text."""
    groups = rng.sample(GROUPS, rng.randint(1, 4))
    parts = []
    for _ in range(rng.randint(0, longest)):
        if rng.random() < 0.08:
            parts.append(rng.choice(WORDS))
        elif rng.random() < 0.03:
            code_point = rng.choice([rng.randrange(0x3000), rng.randrange(0x110000)])
            parts.append("" if 0xD800 <= code_point < 0xE000 else chr(code_point))
        else:
            parts.append(rng.choice(rng.choice(groups)))
    return "".join(parts)


def letters(rng: random.Random) -> str:
    """Draw one character of any group."""
    return rng.choice(rng.choice(GROUPS))


def answer(ask: Any, *args: Any, **options: Any) -> Any:
    """Return an answer, or "fails" where there is none, ours or the library's."""
    try:
        return ask(*args, **options)
    except MtkitError:
        return "fails"
    except BaseException as error:
        # The library raises plain exceptions, ValueError for options, and Rust's panics.
        library = type(error) in {Exception, ValueError}
        if not library and type(error).__name__ != "PanicException":
            raise
        return "fails"


def charsmap(rng: random.Random) -> bytes:
    """Return a real character map."""
    name = rng.choice(["nmt_nfkc", "nmt_nfkc_cf", "nfkc"])
    if name not in _CHARSMAPS:
        _CHARSMAPS[name] = _trained_charsmap(name)
    return _CHARSMAPS[name]


_CHARSMAPS: dict[str, bytes] = {}


def _trained_charsmap(name: str) -> bytes:
    import io

    sentencepiece = reference("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g"] * 3),
        model_writer=model,
        vocab_size=12,
        model_type="char",
        normalization_rule_name=name,
        minloglevel=2,
    )
    proto = importlib_model(model.getvalue())
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def importlib_model(data: bytes) -> Any:
    """Parse a model file with the classes that come with sentencepiece."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(data)
    return proto


def pattern(rng: random.Random) -> Any:
    """Draw a literal text or an expression of the kind that tokenizers use."""
    regex = reference("tokenizers").Regex
    if rng.random() < 0.4:
        return rng.choice(
            [" ", "a", "ab", "\u2581", letters(rng), letters(rng) + letters(rng), "."]
        )
    return regex(
        rng.choice(
            [
                r"\s+", r" +", r"\p{L}+|\p{N}", r"\d", r"[^\s\w]+|\s+(?!\S)", r"[aeiou]", r"\p{P}",
                r"^ ?a", r"^|b", r"x*", r"$", r"(?=a)",
                r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+",
            ]
        )
    )  # fmt: skip


def draw_normalizer(rng: random.Random, kind: str | None = None) -> Any:
    """Draw a normalizer."""
    n = reference("tokenizers").normalizers
    kind = kind or rng.choice(NORMALIZERS)
    if kind == "UnicodeForm":
        return getattr(n, rng.choice(["NFC", "NFD", "NFKC", "NFKD"]))()
    if kind == "Bert":
        return n.BertNormalizer(
            clean_text=rng.random() < 0.5,
            handle_chinese_chars=rng.random() < 0.5,
            strip_accents=rng.choice([None, True, False]),
            lowercase=rng.random() < 0.5,
        )
    if kind == "Strip":
        return n.Strip(left=rng.random() < 0.7, right=rng.random() < 0.7)
    if kind == "Prepend":
        return n.Prepend(rng.choice(["\u2581", "ab", letters(rng)]))
    if kind == "Replace":
        return n.Replace(pattern(rng), rng.choice(["", " ", "\u2581", "ab", letters(rng)]))
    if kind == "Precompiled":
        return n.Precompiled(charsmap(rng))
    if kind == "Sequence":
        return n.Sequence([draw_normalizer(rng) for _ in range(rng.randint(0, 3))])
    return getattr(n, kind)()


def draw_pre_tokenizer(rng: random.Random, kind: str | None = None) -> Any:
    """Draw a pre-tokenizer."""
    p = reference("tokenizers").pre_tokenizers
    kind = kind or rng.choice(PRE_TOKENIZERS)
    behavior = rng.choice(
        ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    )
    flip = rng.random() < 0.5
    if kind == "ByteLevel":
        return p.ByteLevel(
            add_prefix_space=flip, use_regex=rng.random() < 0.6, trim_offsets=rng.random() < 0.5
        )
    if kind == "Metaspace":
        return p.Metaspace(
            replacement=rng.choice(["\u2581", "\u2581", "_"]),
            prepend_scheme=rng.choice(["always", "first", "never"]),
            split=flip,
        )
    if kind == "Bert":
        return p.BertPreTokenizer()
    if kind == "Split":
        return p.Split(pattern(rng), behavior, invert=flip)
    if kind == "Punctuation":
        return p.Punctuation(behavior)
    if kind == "Digits":
        return p.Digits(individual_digits=flip)
    if kind == "CharDelimiterSplit":
        return p.CharDelimiterSplit(letters(rng))
    if kind == "FixedLength":
        return p.FixedLength(rng.randint(1, 5))
    if kind == "Sequence":
        return p.Sequence([draw_pre_tokenizer(rng) for _ in range(rng.randint(0, 3))])
    return getattr(p, kind)()


def draw_decoder(rng: random.Random, kind: str | None = None) -> Any:
    """Draw a decoder."""
    d = reference("tokenizers").decoders
    kind = kind or rng.choice(DECODERS)
    flip = rng.random() < 0.5
    if kind == "Metaspace":
        return d.Metaspace(
            replacement=rng.choice(["\u2581", "_"]),
            prepend_scheme=rng.choice(["always", "first", "never"]),
            split=flip,
        )
    if kind == "WordPiece":
        return d.WordPiece(prefix=rng.choice(["##", "a", "\u2581"]), cleanup=flip)
    if kind == "Replace":
        return d.Replace(pattern(rng), rng.choice(["", " ", "ab", letters(rng)]))
    if kind == "Strip":
        return d.Strip(rng.choice([" ", "a", "\u2581"]), rng.randint(0, 2), rng.randint(0, 2))
    if kind == "BPE":
        return d.BPEDecoder(suffix=rng.choice(["</w>", "a"]))
    if kind == "CTC":
        return d.CTC(rng.choice(["<pad>", "a"]), rng.choice(["|", " "]), cleanup=flip)
    if kind == "Sequence":
        return d.Sequence([draw_decoder(rng) for _ in range(rng.randint(0, 3))])
    return getattr(d, kind)()


NORMALIZERS = [
    "UnicodeForm", "Bert", "Lowercase", "Strip", "StripAccents", "Prepend", "Replace",
    "Precompiled", "Nmt", "ByteLevel", "Sequence",
]  # fmt: skip
PRE_TOKENIZERS = [
    "ByteLevel", "Metaspace", "Bert", "Split", "Punctuation", "Digits", "Whitespace",
    "WhitespaceSplit", "CharDelimiterSplit", "UnicodeScripts", "FixedLength", "Sequence",
]  # fmt: skip
DECODERS = [
    "ByteLevel", "Metaspace", "WordPiece", "ByteFallback", "Fuse", "Replace", "Strip", "BPE", "CTC",
    "Sequence",
]  # fmt: skip


def pipeline_of(tokenizer: Any) -> Pipeline:
    """Read a tokenizer of the library back as ours."""
    return Pipeline(hf.read(Source("tokenizer.json", tokenizer.to_str().encode()), {}).spec)


def every_character(normalizer: Any = None, pre_tokenizer: Any = None) -> Any:
    """Return a tokenizer of the library in which each character or word is one token."""
    tokenizers = reference("tokenizers")
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or tokenizers.pre_tokenizers.FixedLength(1)
    return tokenizer


# Generated tokenizers: post-processors, small models, added tokens, and all of it together.
# Everything is drawn from a seed, with the components of ``pipeline_cases``.


def draw_post_processor(rng: random.Random, kind: str | None = None) -> Any:
    """Draw a post-processor."""
    p = reference("tokenizers").processors
    kind = kind or rng.choice(POST_PROCESSORS)
    flip = rng.random() < 0.5
    if kind == "Template":
        single = rng.choice(["[CLS] $A [SEP]", "$A:1 [SEP]:2", "[CLS] [CLS] $A", "$A $A [X]:3"])
        pair = rng.choice(["[CLS] $A [SEP] $B:1 [SEP]:1", "$B:2 [X] $A", "[CLS] $A $B:1 $A:4"])
        tokens = [("[CLS]", 1), ("[SEP]", 2), {"id": "[X]", "ids": [4, 5], "tokens": ["x", "y"]}]
        return p.TemplateProcessing(single=single, pair=pair, special_tokens=tokens)
    if kind == "Bert":
        return p.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    if kind == "Roberta":
        return p.RobertaProcessing(
            ("[SEP]", 2), ("[CLS]", 1), trim_offsets=flip, add_prefix_space=rng.random() < 0.5
        )
    if kind == "ByteLevel":
        return p.ByteLevel(trim_offsets=flip, add_prefix_space=rng.random() < 0.5)
    return p.Sequence([draw_post_processor(rng) for _ in range(rng.randint(0, 3))])


POST_PROCESSORS = ["Template", "Bert", "Roberta", "ByteLevel", "Sequence"]

_PIECES = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[X]", "[Y]", "##a", "a", "b", "ab", "\u2581", " "]


def draw_vocabulary(rng: random.Random) -> dict[str, int]:
    """Draw a vocabulary of short pieces, the letters of the byte alphabet and byte tokens in it."""
    pieces = dict.fromkeys(_PIECES)
    for _ in range(rng.randint(10, 60)):
        pieces["".join(letters(rng) for _ in range(rng.randint(1, 3)))] = None
    for _ in range(rng.randint(0, 40)):
        pieces[chr(rng.randrange(0x100, 0x144))] = None
        pieces[f"<0x{rng.randrange(256):02X}>"] = None
    return {piece: number for number, piece in enumerate(pieces)}


def draw_model(rng: random.Random) -> Any:
    """Draw a model over a small vocabulary."""
    m = reference("tokenizers").models
    vocabulary = draw_vocabulary(rng)
    kind = rng.choice(["WordLevel", "WordPiece", "Unigram", "BPE"])
    if kind == "WordLevel":
        return m.WordLevel(vocabulary, unk_token="[UNK]")
    if kind == "WordPiece":
        return m.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=20)
    if kind == "Unigram":
        scored = [(piece, -rng.randint(1, 40) / 4) for piece in vocabulary]
        return m.Unigram(scored, unk_id=0, byte_fallback=rng.random() < 0.5)
    merges = []
    for piece in list(vocabulary):
        for at in range(1, len(piece)):
            if piece[:at] in vocabulary and piece[at:] in vocabulary:
                merges.append((piece[:at], piece[at:]))
    rng.shuffle(merges)
    return m.BPE(
        vocabulary,
        merges,
        unk_token=rng.choice(["[UNK]", None]),
        fuse_unk=rng.random() < 0.5,
        byte_fallback=rng.random() < 0.3,
        ignore_merges=rng.random() < 0.3,
    )


def draw_added_tokens(rng: random.Random) -> list[Any]:
    """Draw added tokens with all their options."""
    make = reference("tokenizers").AddedToken
    contents = ["<s>", "</s>", "[MASK]", "Hello", "world", "  ", "ab", "a", "[CLS]", "don't", "A"]
    contents += [letters(rng), letters(rng) + letters(rng)]
    drawn = []
    for content in rng.sample(contents, rng.randint(0, 5)):
        drawn.append(
            make(
                content,
                single_word=rng.random() < 0.2,
                lstrip=rng.random() < 0.3,
                rstrip=rng.random() < 0.3,
                normalized=rng.random() < 0.4,
                special=rng.random() < 0.5,
            )
        )
    return drawn


def normalized(tokenizer: Any, content: str) -> str:
    """Return a text as the tokenizer's normalizer leaves it, nothing where that fails."""
    if tokenizer.normalizer is None:
        return content
    found: str = answer(tokenizer.normalizer.normalize_str, content)
    return "" if found == "fails" else found


def draw_tokenizer(rng: random.Random, model: Any = None) -> Any:
    """Draw a whole tokenizer around a model, which is drawn where none is given."""
    tokenizers = reference("tokenizers")
    tokenizer = tokenizers.Tokenizer(draw_model(rng) if model is None else model)
    if rng.random() < 0.5:
        tokenizer.normalizer = draw_normalizer(rng)
    if rng.random() < 0.7:
        tokenizer.pre_tokenizer = draw_pre_tokenizer(rng)
    if rng.random() < 0.6:
        tokenizer.post_processor = draw_post_processor(rng)
    if rng.random() < 0.7:
        tokenizer.decoder = draw_decoder(rng)
    # A token that normalizing leaves nothing of makes the library cut everywhere or never end.
    # Of two that are the same once normalized, chance decides which one it finds.
    kept = {}
    for token in draw_added_tokens(rng):
        found_by = normalized(tokenizer, token.content) if token.normalized else token.content
        if found_by:
            kept.setdefault((token.normalized, found_by), token)
    tokenizer.add_tokens(list(kept.values()))
    if rng.random() < 0.3:
        answer(
            tokenizer.enable_truncation,
            rng.randint(8, 14),
            stride=rng.choice([0, 0, 0, 1]),
            strategy=rng.choice(["longest_first", "only_first", "only_second"]),
            direction=rng.choice(["left", "right"]),
        )
    if rng.random() < 0.2:
        tokenizer.enable_padding(
            direction=rng.choice(["left", "right"]),
            pad_id=3,
            pad_type_id=1,
            pad_token="[PAD]",
            length=rng.choice([None, 12]),
            pad_to_multiple_of=rng.choice([None, 4]),
        )
    # As read from its file: a token that is added twice leaves traces of the first in memory.
    return tokenizers.Tokenizer.from_str(tokenizer.to_str())
