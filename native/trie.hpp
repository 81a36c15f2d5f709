// A byte trie in one hash table.
//
//   TRIE  u64 slots, a power of two: high half node << 8 | byte, low half child + 1 (0: free)
//   TRID  u32 id of each node's piece, NONE where no piece ends; node 0 is the root
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "hash.hpp"
#include "tables.hpp"

namespace mtkit {

class TrieTable {
  public:
    TrieTable() = default;
    explicit TrieTable(Tables &tables)
        : slots_(tables.numbers<std::uint64_t>("TRIE")),
          ids_(tables.numbers<std::uint32_t>("TRID")) {
        if (!std::has_single_bit(slots_.size()))
            throw FormatError("has " + std::to_string(slots_.size()) + " slots", "TRIE");
    }

    static std::uint64_t place(std::uint64_t key) { return mix(key * 0x9E3779B97F4A7C15ULL); }

    // The node reached from a node by a byte, NONE where there is none.
    [[nodiscard]] std::uint32_t step(std::uint32_t node, char byte) const {
        const std::uint64_t key =
            (static_cast<std::uint64_t>(node) << 8) | static_cast<unsigned char>(byte);
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = place(key) & mask;
        for (std::size_t tries = 0; tries <= mask; ++tries, at = (at + 1) & mask) {
            const std::uint64_t slot = slots_[at];
            const auto child = static_cast<std::uint32_t>(slot);
            if (child == 0) return NONE;
            if (slot >> 32 == key) return child <= ids_.size() ? child - 1 : NONE;
        }
        return NONE;
    }

    [[nodiscard]] std::uint32_t id(std::uint32_t node) const { return ids_[node]; }

    // Call `found(end, id)` for each piece that begins at `at`, shortest first.
    template <typename Found>
    void prefixes(std::string_view text, std::size_t at, Found &&found) const {
        std::uint32_t node = 0;
        while (at < text.size()) {
            node = step(node, text[at++]);
            if (node == NONE) return;
            if (ids_[node] != NONE) found(at, ids_[node]);
        }
    }

  private:
    std::span<const std::uint64_t> slots_;
    std::span<const std::uint32_t> ids_;
};

struct TrieSlots {
    std::vector<std::uint64_t> slots;
    std::vector<std::uint32_t> ids;
};

// A TrieTable of the pieces marked in `listed` (empty: all); of equal pieces the first counts.
TrieSlots build_trie(const PieceTable &pieces, const std::vector<bool> &listed);

} // namespace mtkit
