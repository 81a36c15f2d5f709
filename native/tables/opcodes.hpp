// The numbers of the program: versions, kinds of steps, flags.
//
// Made from mtkit/engine/opcodes.py by `python -m tools.generate`; change it there.
#pragma once

#include <cstdint>

namespace mtkit {

inline constexpr std::uint32_t PROGRAM_VERSION = 7;
inline constexpr std::uint32_t DECODER_VERSION = 2;

// Models; GUARDED is added to one that may give OUTSIDE.
enum class ModelKind : std::uint8_t {
    BPE = 1,
    RANK_BPE = 2,
    SCORE_BPE = 3,
    UNIGRAM = 4,
    WORD_PIECE = 5,
    WORD_LEVEL = 6,
    TRIE = 7,
    CHARACTERS = 8,
    SHORTEST_PATH = 9,
    LOOSE_BPE = 10,
    LATTICE_UNIGRAM = 11,
    SECTION_BPE = 12,
    GUARDED = 128,
};

// Steps of normalizers.
enum class NormalizerKind : std::uint8_t {
    NOTHING = 0,
    SEQUENCE = 2,
    PREPEND = 3,
    REPLACE = 4,
    STRIP = 5,
    DROP = 6,
    MAP = 7,
    BYTE_LEVEL = 8,
    FORM = 9,
    CHARSMAP = 10,
    SPACES = 11,
};

// Steps of pre-tokenizers.
enum class PreTokenizerKind : std::uint8_t {
    NOTHING = 0,
    SEQUENCE = 2,
    SPLIT = 3,
    PREFIX_SPACE = 4,
    MAP_BYTES = 5,
    METASPACE = 6,
    MARK_SPACES = 7,
    FIXED_LENGTH = 8,
    SCRIPTS = 9,
    DIGIT_GROUPS = 10,
};

// What is looked for.
enum class MatcherKind : std::uint8_t {
    TEXT = 1,
    SET = 2,
    WORD_RUNS = 3,
    PATTERN = 4,
};

// What becomes of a match.
enum class Behavior : std::uint8_t {
    REMOVED = 0,
    ISOLATED = 1,
    MERGED_WITH_PREVIOUS = 2,
    MERGED_WITH_NEXT = 3,
    CONTIGUOUS = 4,
    GLUED_TO_PREVIOUS = 5,
};

// Which parts Metaspace puts a mark in front of; the first by what it stands for.
enum class Scheme : std::uint8_t {
    ALWAYS = 0,
    FIRST = 1,
    NEVER = 2,
    FIRST_BY_EXTENT = 3,
};

// What bytes that are not valid UTF-8 become, see mtkit/unicode/utf8.py.
enum class InvalidUtf8 : std::uint8_t {
    ERROR = 0,
    REPLACE = 1,
    KEEP = 2,
    LOOSE = 3,
    WIDE = 4,
};

// Which added token counts where several do.
enum class Match : std::uint8_t {
    LEFTMOST_LONGEST = 0,
    LONGEST_FIRST = 1,
    FIRST_LISTED = 2,
};

// What is to be known of an added token; VANISHED: it is nothing once normalized.
enum class TokenFlag : std::uint8_t {
    SINGLE_WORD = 1,
    LSTRIP = 2,
    RSTRIP = 4,
    NORMALIZED = 8,
    SPECIAL = 16,
    VANISHED = 32,
};

// How the tokens become text.
enum class Family : std::uint8_t {
    CHAIN = 0,
    ROLES = 1,
    SUBWORDS = 2,
    AFTER_BOS = 3,
};

// How a regular piece is spelled.
enum class Spelling : std::uint8_t {
    AS_IS = 0,
    BYTES = 1,
    LETTERS = 2,
    MARKS = 3,
    WORDS = 4,
};

// What a listed id is: not shown with special tokens, no token, a byte of a run, as it is.
enum class IdFlag : std::uint8_t {
    HIDDEN = 1,
    ABSENT = 2,
    BYTE = 4,
    PLAIN = 8,
};

// Steps of decoders.
enum class DecoderKind : std::uint8_t {
    REPLACE = 1,
    GLUE = 2,
    CLEAN = 3,
    BYTE_RUNS = 4,
    JOIN = 5,
    STRIP = 6,
    DIFFERENT = 7,
    NOT_EMPTY = 8,
    BYTES = 9,
    EACH_LETTER = 10,
    EACH_BYTE = 11,
    FIRST_SPACE = 12,
    FIRST_MARK = 13,
    ENDS = 14,
    MATCHES = 15,
    WHOLE = 16,
    TEXT = 17,
};

// Which token a replacement spares.
enum class Edge : std::uint8_t {
    NONE = 0,
    FIRST = 1,
    LAST = 2,
};

// No id.
inline constexpr std::uint32_t NONE = 0xffffffff;
// An id that is none: where a text needs it, the pipeline says what is wrong.
inline constexpr std::uint32_t OUTSIDE = 0xfffffffe;

} // namespace mtkit
