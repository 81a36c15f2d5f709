"""Decoders of every kind with a vocabulary that each of them finds something in, and ids."""

from __future__ import annotations

import random

from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    decoders,
    models,
    normalizers,
)
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.text import Regex, Text
from mtkit.spec.vocabulary import Vocabulary

PIECES = [
    *(b"<unk>", b"<s>", b"</s>"),
    *(b"<0x%02X>" % byte for byte in (0, 0x20, 0x41, 0xC3, 0xA9, 0xE2, 0x96, 0x81, 0xF0, 0xFF)),
    *(b"<0x+f>", b"<0x4>", b"<0x 1>", b"<0xzz>", b"<0xAb>", b"<0x41>x", b" <0x41>", b"<0x"),
    *(text.encode() for text in "ab.,?!'▁ĠĊÃ©"),
    *(" ", "▁a", "▁▁b", "a▁b▁", "##a", "##", "##▁b", "[x]", "[", " a", "  ", "n't", "'s", " 's"),
    *("do", "not", " do not", "'", " '", " ' ", "'ve", "re", "a</w>", "</w>", "</w>b</w>", "|"),
    *("<pad>", "a|b", "é", "Ġa", "Ġé", "Ġ▁", "漢", "aa", "x ", "xx", "xax", ".", "a .", "▁</w>"),
]
BROKEN = [b"\xe4", b"\xe4\xb8", b"a\xffb", b"\x96\x81", b"\xe2"]


def vocabulary(rng: random.Random, *, broken: bool) -> Vocabulary:
    pieces = [p if isinstance(p, bytes) else p.encode() for p in PIECES]
    pieces += BROKEN * broken
    types = [2, 3, 3, *(rng.choice((1, 1, 1, 6, 6)) for _ in range(18))]
    types += [rng.choice((1, 1, 1, 1, 1, 1, 3, 4, 5, 0)) for _ in pieces[len(types) :]]
    holes = [at for at in range(30, len(pieces)) if rng.random() < 0.04]
    for at in holes:
        pieces[at], types[at] = b"", 255
    return Vocabulary(Pieces.of(pieces), Numbers.of("B", types))


DECODERS: list[decoders.Decoder | None] = [
    None,
    decoders.ByteLevel(),
    decoders.Sequence((decoders.ByteLevel(), decoders.Fuse())),
    decoders.Metaspace(),
    decoders.Metaspace("a", "never"),
    decoders.WordPiece(),
    decoders.WordPiece("a", cleanup=False),
    decoders.ByteFallback(),
    decoders.Fuse(),
    decoders.Replace(Text("▁"), " "),
    decoders.Replace(Text("a"), "[é]"),
    decoders.Strip("x", 1, 0),
    decoders.Strip("x", 1, 1),
    decoders.Strip(" ", 0, 2),
    decoders.BPE(),
    decoders.CTC(),
    decoders.CTC("a", " ", cleanup=False),
    decoders.Sequence(
        (
            decoders.Replace(Text("▁"), " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        )
    ),
    *(  # the first makes names of tokens, the second of no token, others neither or for nobody
        decoders.Sequence((decoders.Replace(Text(old), new), decoders.ByteFallback(), *joined))
        for old, new in (("a", "<0x41>"), ("x4", "é"), ("é", "▁é"), ("a", ""))
        for joined in ((decoders.Fuse(),), (decoders.Fuse(), decoders.Strip("é", 1, 1)), ())
    ),
    decoders.Sequence((decoders.Replace(Text("▁"), " "), decoders.Fuse(), decoders.CTC())),
    decoders.Sequence((decoders.ByteFallback(), decoders.Metaspace())),
    decoders.Sequence((decoders.Fuse(), decoders.Replace(Text("a b"), "-"), decoders.BPE("b"))),
    *(
        decoders.Pieces(spelling, drop_first_space=drop)
        for spelling in ("marks", "byte_alphabet", "words", "plain", "bytes")
        for drop in (False, True)
    ),
    *(decoders.Subwords(drop_marks=drop) for drop in ("none", "first", "all")),
    decoders.AfterBos(),
    decoders.Bytewise((decoders.ByteLevel(),)),
    decoders.Bytewise((decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()), b"?"),
    decoders.Bytewise((decoders.Metaspace("▁", "never"), decoders.Strip(" ", 1, 1))),
    decoders.Bytewise((decoders.WordPiece(),)),
    decoders.Bytewise(
        (decoders.FirstMark(), decoders.Sequence((decoders.Replace(Text("a"), "b"),)))
    ),
    decoders.Replace(Regex("a+|[é漢]"), "b"),
    decoders.Replace(Regex("."), "<é>"),
    decoders.Replace(Regex("x*"), "-"),
    decoders.Replace(Text(""), "-"),
    decoders.Sequence((decoders.Fuse(), decoders.Replace(Regex(".."), "é"), decoders.Fuse())),
    decoders.Sequence((decoders.ByteFallback(), decoders.Fuse(), decoders.Metaspace())),
    decoders.Sequence((decoders.ByteLevel(), decoders.Strip("a", 1))),
    decoders.Sequence((decoders.ByteLevel(), decoders.Replace(Regex("[^a]"), "?"))),
    decoders.Sequence((decoders.Replace(Text("a"), "Ã"), decoders.ByteLevel(), decoders.CTC())),
    decoders.Sequence((decoders.Fuse(), decoders.ByteLevel(), decoders.ByteLevel())),
    decoders.Sequence((decoders.ByteFallback(), decoders.ByteLevel(), decoders.Metaspace("é"))),
    decoders.WordPiece(""),
    decoders.WordPiece("", cleanup=False),
    decoders.Strip("ax", 1, 1),
    decoders.Strip("", 1, 1),
    decoders.Strip("x", 2**40, 2**40),
    decoders.BPE(""),
    decoders.CTC("", "", cleanup=True),
    decoders.Metaspace(""),
    decoders.Sequence((decoders.Fuse(), decoders.BPE(""), decoders.Metaspace("", "never"))),
    decoders.Subwords(denormalizer=normalizers.Spaces()),
    decoders.Subwords(denormalizer=normalizers.Spaces(remove_extra_whitespaces=False, suffix=True)),
    decoders.Bytewise((decoders.Replace(Text(""), "-"), decoders.Fuse())),
    decoders.Bytewise((decoders.WordPiece(""),)),
    decoders.Bytewise((decoders.Metaspace(""), decoders.Strip("ab", 1, 1))),
]
CLEAN_UPS = ("none", "full", "contractions", "three_passes")
ADDED = AddedTokens(
    (
        AddedToken(1, b"<s>", special=True),
        AddedToken(40, b"Ab", normalized=True),
        AddedToken(41, "Ġé<x>".encode(), special=True, normalized=True),
        AddedToken(42, b" 's", special=True),
        AddedToken(200, b"<out>", special=True),
        AddedToken(201, b" a"),
        AddedToken(203, b""),
    )
)


def drawn_spec(
    rng: random.Random, decoder: decoders.Decoder | None, clean_up: str, **options: bool
) -> TokenizerSpec:
    """Draw a tokenizer that decodes with a decoder.

    Args:
        rng: What draws.
        decoder: The decoder.
        clean_up: The rule of ``clean_up_spaces``.
        options: broken: pieces that are not valid UTF-8; letters: the engine's table of pieces has
            bytes instead of letters of the byte alphabet.
    """
    letters = options.get("letters", False)
    return TokenizerSpec(
        vocabulary(rng, broken=options.get("broken", False)),
        models.RankBPE() if letters else models.WordLevel(unk=0),
        normalizer=rng.choice((None, normalizers.Lowercase())),
        pre_tokenizer=pre.ByteLevel() if letters else None,
        decoder=decoder,
        added_tokens=rng.choice((ADDED, AddedTokens())),
        clean_up_spaces=clean_up,
        join=rng.choice(("", " ", "▁")),
        special_ids=SpecialIds(bos=1, unk=0),
    )


def sequences(seed: int, size: int, count: int = 150) -> list[list[int]]:
    """Id sequences: any ids, runs of the same, neighbors, some outside."""
    rng = random.Random(seed)
    found: list[list[int]] = [[], [0], [size - 1], [size], [size + 7, 1], [-1], [2**40]]
    for _ in range(count):
        ids = [rng.randrange(size) for _ in range(rng.randrange(1, 12))]
        first = rng.randrange(size)
        ids += [(first + step) % size for step in range(rng.randrange(6))]
        ids += [rng.choice(ids)] * rng.randrange(3)
        found.append(ids)
    return found
