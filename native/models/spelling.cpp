#include "models/spelling.hpp"

namespace mtkit {

std::vector<std::uint32_t> Roles::of_type(std::uint8_t type) const {
    const std::string_view all(reinterpret_cast<const char *>(types.data()), types.size());
    const char wanted = static_cast<char>(type);
    std::vector<std::uint32_t> ids;
    for (auto at = all.find(wanted); at != std::string_view::npos; at = all.find(wanted, at + 1))
        ids.push_back(static_cast<std::uint32_t>(at));
    return ids;
}

ByteIds Roles::byte_ids(bool singles) const {
    const auto any = [this](std::string_view text) {
        const std::uint32_t id = reserved.find(text);
        return id != NONE ? id : segmented.find(text);
    };
    ByteIds out{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        const char single = static_cast<char>(byte);
        out.id[byte] = any(ByteIds::name_of(byte));
        if (out.id[byte] == NONE && singles) out.id[byte] = any({&single, 1});
    }
    return out;
}

bool is_more_than_byte_name(std::string_view piece) {
    constexpr std::string_view FRONT = "<0x";
    constexpr std::size_t SIZE = 6;
    if (piece.size() <= SIZE) return false;
    for (auto at = piece.find(FRONT); at != piece.npos; at = piece.find(FRONT, at + 1))
        if (at + SIZE <= piece.size() && piece[at + SIZE - 1] == '>') return true;
    return false;
}

void spell(std::string_view word, const std::vector<Stretch> &stretches, std::uint32_t unk,
           const ByteIds *bytes, std::vector<Token> &out) {
    bool fusing = false;
    for (const auto &stretch : stretches) {
        if (stretch.id != NONE) {
            out.push_back({stretch.id, stretch.start, stretch.end});
            fusing = false;
            continue;
        }
        const bool unknown = spell_unknown(word, stretch, unk, bytes, true, out);
        if (unknown && fusing) {
            out.pop_back();
            out.back().end = stretch.end;
        }
        fusing = unknown;
    }
}

} // namespace mtkit
