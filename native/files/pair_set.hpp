// A set of pairs of ids: whether merges list one twice.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/hash.hpp"

namespace mtkit {

class PairSet {
  public:
    // For so many of them at most.
    explicit PairSet(std::size_t count) : slots_(std::bit_ceil(2 * count + 2), FREE) {}

    // False where it is there already.
    bool add(std::uint32_t left, std::uint32_t right) {
        const std::uint64_t pair = std::uint64_t{left} << 32 | right;
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = mix(pair * 0xE7037ED1A0B428DBULL) & mask;
        for (; slots_[at] != FREE; at = (at + 1) & mask)
            if (slots_[at] == pair) return false;
        slots_[at] = pair;
        return true;
    }

  private:
    static constexpr std::uint64_t FREE = ~std::uint64_t{0}; // no ids
    std::vector<std::uint64_t> slots_;
};

} // namespace mtkit
