// The pieces of a SentencePiece model, which are nearly all of it, and the model without them.
//
// mtkit/formats/spm/message.py says what they mean. This takes what trainers write: of each piece
// its text, then its score, then its type. Whatever else a file has (damage above all) makes it
// give up, and the readable code reads it. It never takes what that refuses, but for equal pieces,
// which the caller looks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtkit {

struct SpmPieces {
    std::string blob; // texts by id
    std::vector<std::uint32_t> ends;
    std::vector<float> scores; // finite
    std::string types;         // u8 each
    std::string marks;         // u8 each: NO_SCORE, PLAIN_TYPE
    std::string rest;          // the other fields of the model

    static constexpr char NO_SCORE = 1;   // which means 0
    static constexpr char PLAIN_TYPE = 2; // the type is there although it is NORMAL

    // Nothing where it gives up.
    static std::optional<SpmPieces> read(std::string_view model);
};

} // namespace mtkit
