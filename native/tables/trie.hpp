// A byte trie in a double array.
//
//   TRIE  u64 units, a multiple of 256 of them; unit 0 is the root. The child by a byte is the unit
//         at base ^ byte, if it carries that byte; no two nodes have the same base, but for 0, that
//         of nodes without children, where no unit carries a byte.
//         Low to high: 9 bits byte (256: none), 27 bits id of the piece that ends here (all ones:
//         none), 28 bits base.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tables/tables.hpp"

namespace mtkit {

class TrieTable {
  public:
    static constexpr std::uint64_t BLOCK = 256;
    static constexpr std::uint64_t BYTE_MASK = 511;
    static constexpr unsigned ID_SHIFT = 9;
    static constexpr unsigned BASE_SHIFT = 36;
    static constexpr std::uint64_t NO_BYTE = 256;
    static constexpr std::uint64_t NO_PIECE = (1U << 27) - 1;
    static constexpr std::uint64_t BASE_LIMIT = 1U << 28;
    static constexpr std::uint64_t FREE = NO_PIECE << ID_SHIFT | NO_BYTE;

    TrieTable() = default;
    explicit TrieTable(Tables &tables) : units_(tables.numbers<std::uint64_t>("TRIE")) {
        if (units_.empty() || units_.size() % BLOCK != 0)
            throw FormatError("has " + std::to_string(units_.size()) + " units", "TRIE");
    }

    // Call `found(end, id)` for each piece that begins at `at`, shortest first.
    template <typename Found>
    void prefixes(std::string_view text, std::size_t at, Found &&found) const {
        std::uint64_t base = units_[0] >> BASE_SHIFT;
        while (at < text.size()) {
            const auto byte = static_cast<unsigned char>(text[at++]);
            const std::uint64_t place = base ^ byte;
            if (place >= units_.size()) return;
            const std::uint64_t unit = units_[place];
            if ((unit & BYTE_MASK) != byte) return;
            const std::uint64_t id = unit >> ID_SHIFT & NO_PIECE;
            if (id != NO_PIECE) found(at, static_cast<std::uint32_t>(id));
            base = unit >> BASE_SHIFT;
        }
    }

  private:
    std::span<const std::uint64_t> units_;
};

// The units of a TrieTable of the pieces that are `listed`; of equal pieces the first counts.
std::vector<std::uint64_t> build_trie(const PieceTable &pieces, std::string_view listed);

} // namespace mtkit
