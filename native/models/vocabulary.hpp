// The pieces of a model, and its tokens for single bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tables/tables.hpp"

namespace mtkit {

// What every model may use.
struct Vocabulary {
    PieceTable pieces;
    WordTable words;
    std::span<const std::uint8_t> types;
    bool raw = false;                        // pieces and words are raw bytes
    std::span<const std::uint8_t> own_words; // OWNW

    // Whether a piece, as a word, is known to become itself.
    [[nodiscard]] bool is_own_word(std::uint32_t id) const {
        return id / 8 < own_words.size() && (own_words[id / 8] >> (id % 8) & 1) != 0;
    }
    // The piece that a word is known to become; NONE: the model has to say.
    [[nodiscard]] std::uint32_t own_word(std::string_view word) const {
        if (own_words.empty()) return NONE;
        const std::uint32_t id = words.find(word);
        return is_own_word(id) ? id : NONE;
    }
};

// Ids of byte tokens, by byte; NONE where there is none.
struct ByteIds {
    std::uint32_t id[256];

    // Tokens that are exactly that byte.
    static ByteIds literal(const Vocabulary &vocabulary);
    // Whether each byte has one.
    [[nodiscard]] bool complete() const;
    // Tokens called <0xHH>, and what a byte's is called.
    static ByteIds named(const Vocabulary &vocabulary);
    static std::string name_of(unsigned byte);
};

} // namespace mtkit
