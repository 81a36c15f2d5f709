"""Small tokenizers, one of each kind of model, for measuring how time grows."""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, Vocabulary, models, normalizers
from mtkit.spec import pre_tokenizers as pre

RUNS = 9
"""A repeated unit is a piece up to 2^8 times: the longest chains of merges."""


def small_models() -> list[tuple[str, TokenizerSpec]]:
    """Return a tokenizer for each kind of model, pieces of repeats in it, without words."""
    units = ["a", "b", "7", " ", "\u2581", "\n", "\u6f22", "\u0301", "'", "ab", "<|"]
    letters = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["<unk>", "<s>", *letters]
    pieces += dict.fromkeys(unit * (1 << n) for unit in units for n in range(RUNS))
    pieces += ["##" + piece for piece in pieces[258:]]
    pieces += [chr(c) for c in range(0x21, 0x7F) if chr(c) not in pieces]
    ids = {piece: number for number, piece in enumerate(pieces)}
    pairs = [
        ids[part]
        for n in range(RUNS - 1)
        for unit in units
        for part in (unit * (1 << n), unit * (1 << n))
    ]
    pairs = [ids["a"], ids["b"], *pairs]
    types = Numbers.of("B", [2, 3, *[6] * 256, *[1] * (len(pieces) - 258)])
    scores = Numbers.of("f", [-float(number % 97) for number in range(len(pieces))])
    vocabulary = Vocabulary(Pieces.of(piece.encode() for piece in pieces), types, scores)
    bpe = models.BPE(models.Merges(Numbers.of("I", pairs), Pieces.of([])), unk=0)
    made: dict[str, models.Model] = {
        "BPE": bpe,
        "LooseBPE": models.LooseBPE(
            Numbers.of("I", pairs), Numbers.of("I", list(range(len(pairs) // 2)))
        ),
        "ScoreBPE": models.ScoreBPE(unk=0),
        "Unigram": models.Unigram(unk=0),
        "LatticeUnigram": models.LatticeUnigram(unk=0, byte_fallback=True),
        "Characters": models.Characters(unk=0),
        "Words": models.Words(unk=0),
        "WordPiece": models.WordPiece(unk=0, max_chars=None),
        "WordLevel": models.WordLevel(unk=0),
        "Trie": models.Trie(unk=0),
        "ShortestPath": models.ShortestPath(),
        "SectionBPE": models.SectionBPE(bpe, pre.WhitespaceSplit(), ids["<|"], ids["7"], 0),
    }
    found = [(name, TokenizerSpec(vocabulary, model)) for name, model in made.items()]
    raw = Vocabulary(Pieces.of([bytes([byte]) for byte in range(256)]))
    found.append(("RankBPE", TokenizerSpec(_doubled(raw), models.RankBPE())))
    for form in ("NFC", "NFKD"):
        found.append(
            (
                f"{form} BPE",
                TokenizerSpec(
                    vocabulary,
                    bpe,
                    normalizer=normalizers.UnicodeForm(form),
                    pre_tokenizer=pre.ByteLevel(),
                ),
            )
        )
    return found


def _doubled(vocabulary: Vocabulary) -> Vocabulary:
    """Add repeats of the letters, in the order in which they are made."""
    letters = vocabulary.pieces
    pieces = [bytes(piece) for piece in letters]
    pieces += [piece * (1 << n) for n in range(1, RUNS) for piece in (b"a", b" ", b"7", b"\n")]
    from mtkit.unicode.utf8 import BYTE_LETTERS

    return Vocabulary(
        Pieces.of("".join(BYTE_LETTERS[byte] for byte in piece).encode() for piece in pieces)
    )
