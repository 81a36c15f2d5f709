"""The numbers of the program; ``python -m tools.generate`` makes native/tables/opcodes.hpp of them.

Another meaning of one is another version: ``PROGRAM_VERSION`` or ``DECODER_VERSION``.
"""

from __future__ import annotations

from enum import IntEnum

PROGRAM_VERSION = 7
DECODER_VERSION = 2
"""Of the section DECO."""


class ModelKind(IntEnum):
    """Models; GUARDED is added to one that may give OUTSIDE."""

    BPE = 1
    RANK_BPE = 2
    SCORE_BPE = 3
    UNIGRAM = 4
    WORD_PIECE = 5
    WORD_LEVEL = 6
    TRIE = 7
    CHARACTERS = 8
    SHORTEST_PATH = 9
    LOOSE_BPE = 10
    LATTICE_UNIGRAM = 11
    SECTION_BPE = 12
    GUARDED = 128


class NormalizerKind(IntEnum):
    """Steps of normalizers."""

    NOTHING = 0
    SEQUENCE = 2
    PREPEND = 3
    REPLACE = 4
    STRIP = 5
    DROP = 6
    MAP = 7
    BYTE_LEVEL = 8
    FORM = 9
    CHARSMAP = 10
    SPACES = 11


class PreTokenizerKind(IntEnum):
    """Steps of pre-tokenizers."""

    NOTHING = 0
    SEQUENCE = 2
    SPLIT = 3
    PREFIX_SPACE = 4
    MAP_BYTES = 5
    METASPACE = 6
    MARK_SPACES = 7
    FIXED_LENGTH = 8
    SCRIPTS = 9
    DIGIT_GROUPS = 10


class MatcherKind(IntEnum):
    """What is looked for."""

    TEXT = 1
    SET = 2
    WORD_RUNS = 3
    PATTERN = 4


class Behavior(IntEnum):
    """What becomes of a match."""

    REMOVED = 0
    ISOLATED = 1
    MERGED_WITH_PREVIOUS = 2
    MERGED_WITH_NEXT = 3
    CONTIGUOUS = 4
    GLUED_TO_PREVIOUS = 5


class Scheme(IntEnum):
    """Which parts Metaspace puts a mark in front of; the first by what it stands for."""

    ALWAYS = 0
    FIRST = 1
    NEVER = 2
    FIRST_BY_EXTENT = 3


class InvalidUtf8(IntEnum):
    """What bytes that are not valid UTF-8 become, see mtkit/unicode/utf8.py."""

    ERROR = 0
    REPLACE = 1
    KEEP = 2
    LOOSE = 3
    WIDE = 4


class Match(IntEnum):
    """Which added token counts where several do."""

    LEFTMOST_LONGEST = 0
    LONGEST_FIRST = 1
    FIRST_LISTED = 2


class TokenFlag(IntEnum):
    """What is to be known of an added token; VANISHED: it is nothing once normalized."""

    SINGLE_WORD = 1
    LSTRIP = 2
    RSTRIP = 4
    NORMALIZED = 8
    SPECIAL = 16
    VANISHED = 32


class Family(IntEnum):
    """How the tokens become text."""

    CHAIN = 0
    ROLES = 1
    SUBWORDS = 2
    AFTER_BOS = 3


class Spelling(IntEnum):
    """How a regular piece is spelled."""

    AS_IS = 0
    BYTES = 1
    LETTERS = 2
    MARKS = 3
    WORDS = 4


class IdFlag(IntEnum):
    """What a listed id is: not shown with special tokens, no token, a byte of a run, as it is."""

    HIDDEN = 1
    ABSENT = 2
    BYTE = 4
    PLAIN = 8


class DecoderKind(IntEnum):
    """Steps of decoders."""

    REPLACE = 1
    GLUE = 2
    CLEAN = 3
    BYTE_RUNS = 4
    JOIN = 5
    STRIP = 6
    DIFFERENT = 7
    NOT_EMPTY = 8
    BYTES = 9
    EACH_LETTER = 10
    EACH_BYTE = 11
    FIRST_SPACE = 12
    FIRST_MARK = 13
    ENDS = 14
    MATCHES = 15
    WHOLE = 16
    TEXT = 17


class Edge(IntEnum):
    """Which token a replacement spares."""

    NONE = 0
    FIRST = 1
    LAST = 2
