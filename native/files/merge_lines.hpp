// The merges of a GGUF: lines of two parts; mtkit/formats/gguf/vocabulary.py says what they mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tables/tables.hpp"

namespace mtkit {

struct MergeLines {
    std::vector<std::uint32_t> pairs; // left and right in turn, each pair once
    std::string unlisted;             // parts that are no pieces, numbered behind the pieces
    std::vector<std::uint32_t> unlisted_ends;
    bool whole = true; // all that merging takes and makes is a piece
};

// Throws FormatError where texts do not lie in their blob.
MergeLines read_merge_lines(const PieceTable &lines, const PieceTable &pieces);

} // namespace mtkit
