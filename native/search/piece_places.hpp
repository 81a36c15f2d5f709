// Questions about the pieces of a vocabulary that need no index of them in Python.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tables/tables.hpp"

namespace mtkit {

// Ids of the pieces that are one of `wanted`, rising. Throws FormatError where pieces reach beyond
// their texts.
std::vector<std::uint32_t> piece_places(const PieceTable &pieces,
                                        const std::unordered_set<std::string_view> &wanted);

} // namespace mtkit
