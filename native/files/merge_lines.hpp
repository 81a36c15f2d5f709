// The merges of a GGUF: lines of two parts; mtkit/formats/gguf/merges.py says what they mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtkit {

// Byte strings end to end; views that the caller keeps.
struct PackedTexts {
    std::string_view blob;
    std::span<const std::uint32_t> ends;
};

struct MergeLines {
    std::vector<std::uint32_t> pairs; // left and right in turn, each pair once
    std::string unlisted;             // parts that are no pieces, numbered behind the pieces
    std::vector<std::uint32_t> unlisted_ends;
    bool whole = true; // all that merging takes and makes is a piece
};

// Throws FormatError where texts do not lie in their blob.
MergeLines read_merge_lines(PackedTexts lines, PackedTexts pieces);

} // namespace mtkit
