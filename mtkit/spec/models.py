"""Models: a word to ids. ``Model`` is the closed union.

Each carries only what its algorithm needs besides the vocabulary.
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union

    from mtkit.base.packed import Numbers, Pieces
    from mtkit.spec.pre_tokenizers import PreTokenizer


class Merges(Record):
    """Merge list of a BPE model: rank = position, the lowest rank merges first.

    Attributes:
        pairs: left 0, right 0, left 1, … as ids, struct letter I; shape (2 * count,). A number
            from the vocabulary's size on is entry ``number - size`` of ``unlisted``.
        unlisted: Parts that are not tokens.
    """

    pairs: Numbers
    unlisted: Pieces

    def __len__(self) -> int:
        return len(self.pairs) // 2


class BPE(Record):
    """Byte-pair encoding by a merge list; of equal ranks the leftmost pair merges first.

    Attributes:
        unk: Token for a character that the vocabulary lacks; None: see ``missing``.
        fuse_unk: One unknown token for neighboring unknown characters.
        byte_fallback: Spell such a character with the ``<0xHH>`` tokens of its bytes.
        ignore_merges: A word that is a token is that token, whatever the merges say.
        continuing_subword_prefix: In front of each character but the first of a word.
        end_of_word_suffix: Behind the last character of a word.
        dropout: Chance to skip a merge; nobody can encode exactly with it.
        missing: When a character that is not a token is dealt with: ``before`` the merges, so that
            they never see it, or ``after`` them: it takes part in merges like any other, and what
            is still no token then is spelled byte by byte, bytes without a token being dropped.
        whole_newlines: A word of newlines only that is a token is that token.
        without_unk: What a character without any token is when there is no ``unk``, with
            ``missing`` before the merges: ``left_out``, or an ``error``.
    """

    merges: Merges
    unk: int | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    ignore_merges: bool = False
    continuing_subword_prefix: str = ""
    end_of_word_suffix: str = ""
    dropout: float | None = None
    missing: Literal["before", "after"] = "before"
    whole_newlines: bool = False
    without_unk: Literal["left_out", "error"] = "left_out"


class LooseBPE(Record):
    """Byte-pair encoding by a table of pairs that need not fit the vocabulary.

    The pair of the lowest rank merges, of equal ranks the leftmost; what it makes is looked up in
    the vocabulary, and where that is not a token the word is left as it is at that moment. A
    character that is not a token is spelled with the ``<0xHH>`` tokens of its bytes; those that do
    not exist are dropped.

    Attributes:
        pairs: left 0, right 0, left 1, … as ids, struct letter I; shape (2 * count,).
        ranks: Struct letter I; shape (count,), ascending.
    """

    pairs: Numbers
    ranks: Numbers


class RankBPE(Record):
    """Byte-pair encoding where any two neighbors may merge that make a token.

    The rank of a merge is the id of the token that it makes; a word that is a token is that token.
    Merging begins with the characters of the byte alphabet.
    """


class ScoreBPE(Record):
    """Byte-pair encoding by score: the neighbors whose union is the best-scored token merge first.

    Attributes:
        unk: Token for what the vocabulary lacks, one for neighboring ones.
        byte_fallback: Spell it with the ``<0xHH>`` tokens of its bytes instead.
        mergeable: Which tokens merging may make: ``listed`` ones (NORMAL, USER_DEFINED and UNUSED,
            the last split again afterwards) or ``any`` token's text.
        whole: User-defined pieces in the text are one symbol from the start.
        symbols: What a character is: as long as its ``first_byte`` says, or a byte with the
            ``continuation`` bytes behind it, at most four together.
        missing: When a character that is not a token is dealt with: ``after`` the merges, or
            ``before`` them: then it takes part as the texts of its byte tokens.
        score_above: Only tokens with a score above this are made; None: any score will do.
    """

    unk: int | None = None
    byte_fallback: bool = False
    mergeable: Literal["listed", "any"] = "listed"
    whole: bool = True
    symbols: Literal["first_byte", "continuation"] = "first_byte"
    missing: Literal["before", "after"] = "after"
    score_above: float | None = None


class Unigram(Record):
    """The segmentation with the highest sum of scores.

    Of segmentations with equal score the one with the longest last piece. An unknown character
    counts ten less than the lowest score (of NORMAL pieces unless ``candidates`` is ``any``).

    Attributes:
        unk: Token for a character that no piece covers.
        byte_fallback: Spell such a character with the ``<0xHH>`` tokens of its bytes instead.
        fuse_unk: One unknown token for neighboring unknown characters.
        candidates: Which pieces are tried: ``any`` (of equal ones the last); ``listed``: NORMAL,
            USER_DEFINED and UNUSED ones; ``used``: NORMAL and USER_DEFINED ones.
        user_defined: What a USER_DEFINED piece counts: its ``score``, ``zero``, or what makes it
            ``preferred``: a tenth for each byte after its first.
        precision: Float type in which sums of scores are kept; those of f32 begin again where they
            have grown beyond 100,000.
        byte_places: Where byte tokens lie: ``each`` on all of the neighboring unknown characters,
            or the ``last`` one of a character on it, and those before it, empty, in front of it.
    """

    unk: int | None = None
    byte_fallback: bool = False
    fuse_unk: bool = True
    candidates: Literal["any", "listed", "used"] = "any"
    user_defined: Literal["score", "zero", "preferred"] = "score"
    precision: Literal["f32", "f64"] = "f64"
    byte_places: Literal["each", "last"] = "each"


class LatticeUnigram(Record):
    """The segmentation of the bytes of a word with the highest sum of scores (f64).

    Of segmentations with equal score the one with the short last piece. ``<0xHH>`` tokens are
    pieces of one byte. Where nothing reaches, a character is spelled byte by byte, with id -1
    for a byte that has no token, or is ``unk`` at its own score, neighbors being one.

    Attributes:
        unk: The unknown token.
        byte_fallback: Whether ``<0xHH>`` tokens are used at all.
    """

    unk: int
    byte_fallback: bool = False


class Characters(Record):
    """A character is a token or unknown; user-defined pieces in the text are found whole.

    Attributes:
        unk: Token for unknown characters, one for neighboring ones.
        byte_fallback: Spell them with the ``<0xHH>`` tokens of their bytes instead.
    """

    unk: int | None = None
    byte_fallback: bool = False


class Words(Record):
    """The text is cut in front of every U+2581; such a word is a token or unknown.

    Attributes:
        unk: Token for unknown words, one for neighboring ones.
        byte_fallback: Spell them with the ``<0xHH>`` tokens of their bytes instead.
    """

    unk: int | None = None
    byte_fallback: bool = False


class WordPiece(Record):
    """Greedy longest match from the left of a word; a word with a gap is one unknown token.

    Attributes:
        prefix: In front of a piece that continues a word.
        max_chars: A longer word is unknown; None: there is no limit.
        unit: Whether ``max_chars`` counts characters or bytes.
        gap: What a place without a piece makes unknown: the whole ``word``, or its ``rest`` from
            there on.
        too_long: What a word beyond ``max_chars`` is: ``unk``, or ``nothing`` at all.
        restart: Where a word goes on with this text, what stands behind it is looked up like the
            beginning of a word, the text being part of the piece; empty: nothing does that.
    """

    unk: int | None
    prefix: str = "##"
    max_chars: int | None = 100
    unit: Literal["characters", "bytes"] = "characters"
    too_long: Literal["unk", "nothing"] = "unk"
    gap: Literal["word", "rest"] = "word"
    restart: str = ""


class WordLevel(Record):
    """A word is a token or unknown."""

    unk: int | None = None


class Trie(Record):
    """Greedy longest match over bytes, without words."""

    unk: int | None = None


class ShortestPath(Record):
    """PLaMo-2's path of least cost from the end of the text; unknown characters as BYTE tokens."""


class SectionBPE(Record):
    """Byte-pair encoding, and sections between two tokens that are cut into runs of six bytes.

    A section goes from the text of ``begin`` to the next text of ``end``, or to the end of the
    text. Its runs, in capitals, the last filled up with ``A``, are tokens with U+E000 behind them,
    or ``unknown``. The text between sections is split by ``words`` and encoded by ``bpe``.

    Attributes:
        words: Pre-tokenizer of the text between sections.
    """

    bpe: BPE
    words: PreTokenizer
    begin: int
    end: int
    unknown: int


if TYPE_CHECKING:
    Model = Union[
        BPE,
        LooseBPE,
        RankBPE,
        ScoreBPE,
        Unigram,
        LatticeUnigram,
        Characters,
        Words,
        WordPiece,
        WordLevel,
        Trie,
        ShortestPath,
        SectionBPE,
    ]
