// Questions about the pieces of a vocabulary that need no index of them in Python.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace mtkit {

// Ids of the pieces that are one of `wanted`, rising; pieces end in `blob` where `ends` says.
// Throws FormatError where they reach beyond it.
std::vector<std::uint32_t> piece_places(std::string_view blob, std::span<const std::uint32_t> ends,
                                        const std::unordered_set<std::string_view> &wanted);

} // namespace mtkit
