#include "search/piece_places.hpp"

#include <bitset>

#include "base/errors.hpp"

namespace mtkit {

std::vector<std::uint32_t> piece_places(std::string_view blob, std::span<const std::uint32_t> ends,
                                        const std::unordered_set<std::string_view> &wanted) {
    // Most pieces are none of them; their sizes and first bytes tell.
    std::bitset<1 << 16> likely;
    const auto sign = [](std::string_view piece) {
        const auto first = piece.empty() ? 0U : static_cast<unsigned char>(piece.front());
        return (piece.size() & 0xFF) << 8 | first;
    };
    for (const auto text : wanted) likely.set(sign(text));
    std::vector<std::uint32_t> found;
    std::size_t start = 0;
    for (std::uint32_t id = 0; id < ends.size(); ++id) {
        if (ends[id] < start || ends[id] > blob.size())
            throw FormatError("ends outside the texts", "pieces", id);
        const auto piece = blob.substr(start, ends[id] - start);
        if (likely[sign(piece)] && wanted.contains(piece)) found.push_back(id);
        start = ends[id];
    }
    return found;
}

} // namespace mtkit
