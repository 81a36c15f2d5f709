// Making tables from a packed vocabulary. The result depends on the input alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tables/tables.hpp"

namespace mtkit {

// Pieces in the byte alphabet as the bytes they stand for; others stay as they are.
struct RawPieces {
    std::string blob;
    std::vector<std::uint32_t> ends;
    std::vector<std::uint8_t> mapped; // by number: whether every letter is in the byte alphabet
};
RawPieces raw_pieces(const PieceTable &pieces);

// Slots of a WordTable, behind the length of the longest piece.
// Empty pieces and those that `listed` (see next_listed) says nothing of are left out.
struct WordSlots {
    std::vector<std::uint64_t> slots;
    bool distinct; // no two of those taken are equal
};
WordSlots build_words(const PieceTable &pieces, const PieceTable &extra, std::string_view listed);

// Take a piece out of slots, behind the length; it must be there.
void remove_word(std::span<std::uint64_t> slots, const PieceTable &pieces, std::uint32_t number);

struct PairSlots {
    std::vector<std::uint64_t> slots;
    std::vector<std::uint32_t> made;
    std::vector<std::uint64_t> bits; // of pairs that may merge
};

// A PairTable from merges (left, right, left, right ...). The symbol made is the piece that reads
// like left and right together, without the first `prefix` bytes of the right one.
// `by_text`: parts are their texts, what is made need not be a symbol, of equal pairs the first
// counts; else parts are ids, what is made must be a piece, the last counts.
PairSlots build_pairs(std::span<const std::uint32_t> merges, const WordTable &words,
                      std::size_t symbols, std::size_t prefix, bool by_text);

// OWNW of a model that merges bytes (`raw`) or characters: the pieces of which merging is known to
// make nothing but themselves; empty where not each byte is a symbol. Merges as for build_pairs,
// not by text.
std::vector<std::uint8_t> build_own_words(std::span<const std::uint32_t> merges,
                                          const PairTable &pairs, const WordTable &words, bool raw);

// Place of each score in descending order, equal ones alike; NONE for those not above `floor`.
// Both of these throw UnsupportedError for NaN, which is neither above nor below another score.
std::vector<std::uint32_t> build_ranks(std::span<const double> scores, const double *floor);

// What each id counts in a Unigram, and what an unknown character counts (the last number).
// user_defined: 0: its score, 1: nothing, 2: it is preferred. `any`: every piece is tried.
std::vector<double> build_path_scores(const PieceTable &pieces, std::span<const double> scores,
                                      std::span<const std::uint8_t> types, int user_defined,
                                      bool any);

} // namespace mtkit
