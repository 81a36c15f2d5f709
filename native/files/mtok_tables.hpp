// Vocabulary and merges of a .mtok base file; mtkit/formats/mtok/model_reader.py says what they
// are.
//
// Both tables are searched by bisection by the loader they are made for, so in one that is not
// sorted some entries are never found. Every id is checked against the number of entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tables/tables.hpp"

namespace mtkit {

struct MtokVocab {
    std::string blob;                // pieces by id
    std::vector<std::uint32_t> ends; // where each ends in the blob
    std::vector<double> scores;      // by id; empty without scores
    std::vector<std::uint32_t> hidden;
    std::size_t end = 0; // offset behind the last entry
};

struct MtokMerges {
    std::vector<std::uint32_t> pairs; // left, right by rank
    std::vector<std::uint32_t> ranks;
    bool regular = false; // all ranks differ and every merge makes a token
};

// `count` entries that begin at `offset`. Throws FormatError.
MtokVocab parse_mtok_vocab(std::span<const std::byte> data, std::size_t offset, std::uint64_t count,
                           bool with_score);

// `count` merges that begin at `offset`, over the pieces of a vocabulary. Throws FormatError.
MtokMerges parse_mtok_merges(std::span<const std::byte> data, std::size_t offset,
                             std::uint64_t count, const PieceTable &pieces,
                             std::span<const std::uint32_t> hidden);

} // namespace mtkit
