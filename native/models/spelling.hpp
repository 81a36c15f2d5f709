// What stands for text that is not a piece: byte tokens or the unknown token.
#pragma once

#include <algorithm>

#include "models/models.hpp"

namespace mtkit {

// Segmented and reserved pieces of a vocabulary with types.
struct Roles {
    WordTable segmented;
    WordTable reserved;
    std::span<const std::uint8_t> types;

    Roles(Tables &tables, const Vocabulary &vocabulary)
        : segmented(vocabulary.words),
          reserved(tables.numbers<std::uint64_t>("RSVD"), vocabulary.pieces, {}),
          types(vocabulary.types) {}

    // The ids of a type: most vocabularies have few of any but NORMAL.
    [[nodiscard]] std::vector<std::uint32_t> of_type(std::uint8_t type) const;

    [[nodiscard]] bool is_unused(std::uint32_t id) const {
        return id < types.size() && types[id] == UNUSED;
    }
    // The id of a text; reserved and UNUSED pieces are never found.
    [[nodiscard]] std::uint32_t find(std::string_view text) const {
        const std::uint32_t id = segmented.find(text);
        return is_unused(id) ? NONE : id;
    }
    // <0xHH> tokens by byte; with `singles` the token of the byte itself where there is none.
    [[nodiscard]] ByteIds byte_ids(bool singles) const;
};

// Whether a piece is longer than the name of a byte, <0xHH>, which is part of it.
bool is_more_than_byte_name(std::string_view piece);

// Append what stands for a stretch of a word that is no piece, and say whether that is the unknown
// token: byte tokens where `bytes` is given and has them all, the last one (`last`) or each of them
// covering all of it.
inline bool spell_unknown(std::string_view word, const Stretch &stretch, std::uint32_t unk,
                          const ByteIds *bytes, bool last, std::vector<Token> &out) {
    const auto text = word.substr(stretch.start, stretch.end - stretch.start);
    const auto id = [&](char c) { return bytes->id[static_cast<unsigned char>(c)]; };
    if (bytes != nullptr &&
        std::all_of(text.begin(), text.end(), [&](char c) { return id(c) != NONE; })) {
        for (const char c : text)
            out.push_back({id(c), stretch.start, last ? stretch.start : stretch.end});
        out.back().end = stretch.end;
        return false;
    }
    if (unk == NONE) throw NoToken(text);
    out.push_back({unk, stretch.start, stretch.end});
    return true;
}
// Append tokens for stretches in order, as sentencepiece places them: the last byte token covers
// what it ends, those before it nothing; neighbors that are unknown become one.
void spell(std::string_view word, const std::vector<Stretch> &stretches, std::uint32_t unk,
           const ByteIds *bytes, std::vector<Token> &out);

} // namespace mtkit
