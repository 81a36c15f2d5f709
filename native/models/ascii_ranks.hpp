// Ranks of merges of two bytes of ASCII, which most words begin with.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tables/tables.hpp"

namespace mtkit {

inline constexpr unsigned ASCII = 128;
using AsciiRanks = std::array<std::array<std::uint32_t, ASCII>, ASCII>;

// `byte_ids` are the symbols of bytes.
inline std::unique_ptr<AsciiRanks> make_ascii_ranks(const PairTable &pairs,
                                                    const std::uint32_t *byte_ids) {
    auto ranks = std::make_unique<AsciiRanks>();
    for (unsigned left = 0; left < ASCII; ++left)
        for (unsigned right = 0; right < ASCII; ++right)
            (*ranks)[left][right] = pairs.rank(byte_ids[left], byte_ids[right]);
    return ranks;
}

// The rank of the merge of a byte with the next one; null: it is not known here.
struct KnownRanks {
    const AsciiRanks *known; // null: none are
    std::string_view word;
    const std::uint32_t *operator()(std::uint32_t at) const {
        const auto left = static_cast<unsigned char>(word[at]);
        const auto right = static_cast<unsigned char>(word[at + 1]);
        const bool is_known = known != nullptr && (left | right) < ASCII;
        return is_known ? &(*known)[left][right] : nullptr;
    }
};

} // namespace mtkit
