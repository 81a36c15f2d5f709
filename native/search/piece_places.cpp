#include "search/piece_places.hpp"

#include <bitset>

namespace mtkit {

std::vector<std::uint32_t> piece_places(const PieceTable &pieces,
                                        const std::unordered_set<std::string_view> &wanted) {
    // Most pieces are none of them; their sizes and first bytes tell.
    std::bitset<1 << 16> likely;
    const auto sign = [](std::string_view piece) {
        const auto first = piece.empty() ? 0U : static_cast<unsigned char>(piece.front());
        return (piece.size() & 0xFF) << 8 | first;
    };
    for (const auto text : wanted) likely.set(sign(text));
    pieces.require_inside();
    std::vector<std::uint32_t> found;
    for (std::uint32_t id = 0; id < pieces.size(); ++id)
        if (likely[sign(pieces[id])] && wanted.contains(pieces[id])) found.push_back(id);
    return found;
}

} // namespace mtkit
