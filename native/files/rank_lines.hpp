// The lines of a .tiktoken file: base64 of a token, a blank, its rank.
//
// mtkit/formats/tiktoken.py says what they mean. This takes files in which every line is that, no
// token and no rank comes twice and no byte is without a token. With any other it gives up, and the
// readable code reads it. It never takes what that refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtkit {

struct RankLines {
    std::string blob; // tokens by rank, in the byte alphabet; nothing at a rank that none has
    std::vector<std::uint32_t> ends;
    std::string present; // u8 each: whether there is one

    // Nothing where it gives up.
    static std::optional<RankLines> read(std::string_view file);
};

} // namespace mtkit
