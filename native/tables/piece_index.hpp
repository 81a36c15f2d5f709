// Where each piece of a vocabulary is, which of them are wanted, and the tables made of that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tables/build.hpp"

namespace mtkit {

// The table of all pieces, made once for what asks for them by their texts: readers that look for
// tokens with a role, checks, and WORD.
class PieceIndex {
  public:
    // The pieces are not copied. Throws FormatError where they reach beyond their texts.
    explicit PieceIndex(PieceTable pieces);

    PieceIndex(const PieceIndex &) = delete; // words_ lies in slots_
    PieceIndex &operator=(const PieceIndex &) = delete;

    // Whether no two of them are equal.
    [[nodiscard]] bool distinct() const { return distinct_; }

    // Number of the first piece that reads so; NONE: none does.
    [[nodiscard]] std::uint32_t find(std::string_view text) const {
        return text.empty() ? empty_ : words_.find(text);
    }

    // How large WORD is without those that `listed` (see next_listed) says nothing of; nothing
    // where it has to be built anew: pieces are equal, or few are listed.
    [[nodiscard]] std::optional<std::size_t> size_without(std::string_view listed) const;
    // WORD of that size.
    void write_without(std::string_view listed, std::span<std::uint64_t> slots) const;

  private:
    PieceTable pieces_;
    std::vector<std::uint64_t> slots_;
    WordTable words_;
    std::uint32_t empty_ = NONE;
    bool distinct_;
};

} // namespace mtkit
