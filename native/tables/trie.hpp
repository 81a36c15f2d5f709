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

    // The pieces that begin at a place of a text, one after the other, shortest first.
    class Prefixes {
      public:
        // Go to the next one; false: there is none.
        bool next() {
            while (at_ < text_.size()) {
                const auto byte = static_cast<unsigned char>(text_[at_++]);
                const std::uint64_t place = base_ ^ byte;
                if (place >= units_.size()) return false;
                const std::uint64_t unit = units_[place];
                if ((unit & BYTE_MASK) != byte) return false;
                base_ = unit >> BASE_SHIFT;
                id_ = unit >> ID_SHIFT & NO_PIECE;
                if (id_ != NO_PIECE) return true;
            }
            return false;
        }
        [[nodiscard]] std::size_t end() const { return at_; } // of it, in the text
        [[nodiscard]] std::uint32_t id() const { return static_cast<std::uint32_t>(id_); }

      private:
        friend class TrieTable;
        Prefixes(std::span<const std::uint64_t> units, std::string_view text, std::size_t at)
            : units_(units), text_(text), at_(at), base_(units[0] >> BASE_SHIFT) {}
        std::span<const std::uint64_t> units_;
        std::string_view text_;
        std::size_t at_;
        std::uint64_t base_;
        std::uint64_t id_ = NO_PIECE;
    };
    [[nodiscard]] Prefixes prefixes(std::string_view text, std::size_t at) const {
        return {units_, text, at};
    }

  private:
    std::span<const std::uint64_t> units_;
};

// The units of a TrieTable of the pieces that are `listed`; of equal pieces the first counts.
std::vector<std::uint64_t> build_trie(const PieceTable &pieces, std::string_view listed);

} // namespace mtkit
