#include "steps/word_starts.hpp"

#include <bit>
#include <string_view>

#include "base/compiler.hpp"
#include "steps/byte_sets.hpp"

namespace mtkit {

namespace {

using Bits = std::uint64_t;

// Which of 64 bytes are what, as far as they are known.
struct Masks {
    Bits letters;
    Bits upper; // letters
    Bits digits;
    Bits spaces; // white space
    Bits breaks; // carriage returns and line feeds
    Bits blanks; // U+0020
    Bits quotes; // apostrophes
    Bits slashes;
};
// In sets of two, of which another set tells what is meant.
enum Set : std::size_t {
    LETTERS,
    UPPER_AND_DIGITS,
    SPACES,
    BREAKS_AND_SLASHES,
    BLANKS_AND_QUOTES,
    ASCII,
    WORD_SETS
};
constexpr ByteSets<WORD_SETS> SETS = [] {
    ByteSets<WORD_SETS> sets;
    const auto put = [&](Set set, std::string_view bytes) {
        for (const char c : bytes) sets.put(set, static_cast<unsigned char>(c));
    };
    for (unsigned char c = 0; c < 0x80; ++c) sets.put(ASCII, c);
    for (unsigned char c = 'A'; c <= 'Z'; ++c) {
        sets.put(LETTERS, c);
        sets.put(LETTERS, c | 0x20);
        sets.put(UPPER_AND_DIGITS, c);
    }
    put(UPPER_AND_DIGITS, "0123456789");
    put(SPACES, " \t\n\v\f\r");
    put(BREAKS_AND_SLASHES, "\n\r/");
    put(BLANKS_AND_QUOTES, " '");
    return sets;
}();

// Bits of `through` from which a bit of `to` is reached upwards without leaving `through`.
MTKIT_INLINE Bits reaching(Bits to, Bits through) {
    to &= through;
    for (unsigned step = 1; step < 64; step *= 2) {
        to |= through & to >> step;
        through &= through >> step;
    }
    return to;
}

// Bits of `through` that are reached upwards from a bit of `from` without leaving `through`, in
// steps of so many bits.
MTKIT_INLINE Bits reached(Bits from, Bits through, unsigned step = 1) {
    from &= through;
    for (; step < 64; step *= 2) {
        from |= through & from << step;
        through &= through << step;
    }
    return from;
}

MTKIT_INLINE unsigned first_of(Bits bits) {
    return static_cast<unsigned>(std::countr_zero(bits));
}
MTKIT_INLINE Bits bit(unsigned place) {
    return place < 64 ? Bits{1} << place : 0;
}

// How many bytes the contraction at an apostrophe has; 0: there is none.
MTKIT_INLINE unsigned contraction(const unsigned char *at, bool any_case) {
    const unsigned fold = any_case ? 0x20 : 0;
    const unsigned first = at[1] | fold;
    const unsigned second = at[2] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (second == 'e' && (first == 'r' || first == 'v')) return 3;
    return first == 'l' && second == 'l' ? 3 : 0;
}

// Starts with the words that contractions are; `quotes` are starts with a letter behind them.
MTKIT_INLINE Bits with_contractions(Bits starts, Bits quotes, const unsigned char *at,
                                    bool any_case) {
    for (; quotes != 0; quotes &= quotes - 1) {
        const unsigned place = first_of(quotes);
        // Where its letters are not all there, what starts with them is not known either.
        const unsigned size = place > 61 ? 3 : contraction(at + place, any_case);
        if (size != 0) starts = (starts & ~bit(place + 1)) | bit(place + size);
    }
    return starts;
}

// Starts with contractions as ends of words; `quotes` are starts behind a letter.
MTKIT_INLINE Bits with_endings(Bits starts, Bits quotes, Bits known, const unsigned char *at) {
    unsigned before = 0; // end of the last one: a word has one only
    for (; quotes != 0; quotes &= quotes - 1) {
        const unsigned place = first_of(quotes);
        if ((known & bit(place + 2)) == 0) return starts & (bit(place) - 1);
        const unsigned size = place == before ? 0 : contraction(at + place, true);
        if (size == 0) continue;
        before = place + size;
        starts = (starts & ~bit(place)) | bit(before);
    }
    return starts;
}

// '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
MTKIT_INLINE Bits plain_words(const Masks &is, Bits known, const unsigned char *at) {
    const Bits others = known & ~(is.letters | is.digits | is.spaces);
    const Bits goes_on = (is.letters & is.letters << 1) | (is.digits & is.digits << 1) |
                         (others & others << 1) | is.blanks << 1;
    // What follows the last byte is not known.
    const Bits last_spaces = is.spaces & ~(is.spaces >> 1) & known >> 1;
    const Bits starts = (~is.spaces & ~goes_on) | (is.spaces & ~(is.spaces << 1)) | last_spaces;
    const Bits quotes = is.quotes & starts & is.letters >> 1;
    return with_contractions(starts, quotes, at, false) & known;
}

enum class Contractions { NOWHERE, WORDS, ENDINGS };

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+ and its relatives: with \p{N} for \p{N}{1,3}; with capitals in front of
// small letters, [\r\n/]* behind others, and contractions as ends of words or none.
template <bool Threes, bool Cased, Contractions Contracted>
MTKIT_INLINE Bits led_words(const Masks &is, Bits known, const unsigned char *at) {
    const Bits all_others = known & ~(is.letters | is.digits | is.spaces);
    // What belongs to the others in front of it.
    const Bits taken = reached(is.breaks & all_others << 1, is.breaks | (Cased ? is.slashes : 0));
    const Bits others = all_others & ~taken;
    const Bits spaces = is.spaces & ~taken;
    // White space as far as its last line feed, and the rest of it, of which one stays in front of
    // what follows.
    const Bits lines = reaching(is.breaks, spaces);
    const Bits rest = spaces & ~lines;
    const Bits last_spaces = rest & ~(spaces >> 1) & known >> 1;
    const Bits space_starts = (spaces & ~(spaces << 1)) | (rest & lines << 1) | last_spaces;
    const Bits other_starts = others & ~(others << 1) & ~(is.blanks << 1);
    Bits letter_starts = is.letters & ~((is.letters | (spaces & ~is.breaks) | other_starts) << 1);
    if constexpr (Cased) letter_starts |= is.upper & (is.letters & ~is.upper) << 1;
    Bits digit_starts = is.digits;
    if constexpr (Threes) {
        const Bits whole = is.digits & is.digits << 1 & is.digits << 2 & is.digits << 3;
        const Bits first = is.digits & ~(is.digits << 1);
        digit_starts = first | reached(first << 3 & whole, whole, 3);
    }
    Bits starts = space_starts | other_starts | letter_starts | digit_starts;
    if constexpr (Contracted == Contractions::WORDS)
        starts = with_contractions(starts, is.quotes & other_starts & is.letters >> 1, at, true);
    if constexpr (Contracted == Contractions::ENDINGS)
        starts = with_endings(starts, is.quotes & other_starts & is.letters << 1, known, at);
    // White space that goes on to the end is known no further than where it starts.
    const Bits before = known & ~spaces;
    const Bits certain = before == 0 ? 0 : (Bits{2} << (63 - std::countl_zero(before))) - 1;
    return starts & known & (certain << 1 | 1);
}

template <PatternFamily Family>
MTKIT_INLINE Bits starts_of(const SetMasks<WORD_SETS> &sets, const unsigned char *at,
                            std::size_t size) {
    Bits known = sets[ASCII] & ~(sets[ASCII] + 1); // in front of the first other character
    if (size < 64) known &= (Bits{1} << size) - 1;
    if (known < 15) return 1; // nothing to gain
    const Bits letters = sets[LETTERS] & known;
    const Bits spaces = sets[SPACES] & known;
    const Masks is{.letters = letters,
                   .upper = sets[UPPER_AND_DIGITS] & letters,
                   .digits = sets[UPPER_AND_DIGITS] & known & ~letters,
                   .spaces = spaces,
                   .breaks = sets[BREAKS_AND_SLASHES] & spaces,
                   .blanks = sets[BLANKS_AND_QUOTES] & spaces,
                   .quotes = sets[BLANKS_AND_QUOTES] & known & ~spaces,
                   .slashes = sets[BREAKS_AND_SLASHES] & known & ~spaces};
    using enum Contractions;
    if constexpr (Family == PatternFamily::GPT2)
        return plain_words(is, known, at) | 1;
    else if constexpr (Family == PatternFamily::CL100K)
        return led_words<true, false, WORDS>(is, known, at) | 1;
    else if constexpr (Family == PatternFamily::QWEN)
        return led_words<false, false, WORDS>(is, known, at) | 1;
    else if constexpr (Family == PatternFamily::O200K)
        return led_words<true, true, ENDINGS>(is, known, at) | 1;
    else
        return led_words<false, true, NOWHERE>(is, known, at) | 1;
}

// One for each level and family.
#define MTKIT_WORD_STARTS(TARGET, LEVEL)                                                           \
    template <PatternFamily Family>                                                                \
    TARGET Bits starts_##LEVEL(const unsigned char *at, std::size_t size) {                        \
        return starts_of<Family>(masks_##LEVEL(SETS, at), at, size);                               \
    }
MTKIT_WORD_STARTS(, scalar)
#if defined(MTKIT_AVX)
MTKIT_WORD_STARTS(MTKIT_AVX2_CODE, avx2)
MTKIT_WORD_STARTS(MTKIT_AVX512_CODE, avx512)
#elif defined(MTKIT_NEON)
MTKIT_WORD_STARTS(, neon)
#endif

} // namespace

WordStarts word_starts(PatternFamily family) {
    switch (family) {
    case PatternFamily::GPT2:
        return MTKIT_BEST(starts_, <PatternFamily::GPT2>);
    case PatternFamily::CL100K:
        return MTKIT_BEST(starts_, <PatternFamily::CL100K>);
    case PatternFamily::QWEN:
        return MTKIT_BEST(starts_, <PatternFamily::QWEN>);
    case PatternFamily::O200K:
        return MTKIT_BEST(starts_, <PatternFamily::O200K>);
    case PatternFamily::TEKKEN:
        return MTKIT_BEST(starts_, <PatternFamily::TEKKEN>);
    default:
        return nullptr;
    }
}

} // namespace mtkit
