// Which of 64 bytes are in sets of ASCII: a bit for each, the first the lowest.
//
// Source of the idea: Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019),
// section 3.1.2: a byte is in a set where the row of its lower half has the bit of its upper half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mtkit {

inline constexpr std::size_t BYTE_SETS = 3;

// Sets of ASCII.
class ByteSets {
  public:
    void put(std::size_t set, unsigned char byte) {
        rows[set][byte & 15U] |= static_cast<std::uint8_t>(1U << (byte >> 4));
    }

    alignas(16) std::array<std::array<std::uint8_t, 16>, BYTE_SETS> rows{};
};

using SetMasks = std::array<std::uint64_t, BYTE_SETS>;
using SetMasksOf = SetMasks (*)(const ByteSets &sets, const unsigned char *at);

// The fastest one of this machine; null where there is none.
SetMasksOf set_masks();

} // namespace mtkit
