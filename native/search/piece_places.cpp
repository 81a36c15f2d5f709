#include "search/piece_places.hpp"

#include <bit>
#include <bitset>

#include "base/errors.hpp"
#include "base/hash.hpp"

namespace mtkit {

namespace {

// Takes each piece with its id.
template <typename Take>
void each_piece(std::string_view blob, std::span<const std::uint32_t> ends, const Take &take) {
    std::size_t start = 0;
    for (std::uint32_t id = 0; id < ends.size(); ++id) {
        if (ends[id] < start || ends[id] > blob.size())
            throw FormatError("ends outside the texts", "pieces", id);
        take(id, blob.substr(start, ends[id] - start));
        start = ends[id];
    }
}

} // namespace

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
    each_piece(blob, ends, [&](std::uint32_t id, std::string_view piece) {
        if (likely[sign(piece)] && wanted.contains(piece)) found.push_back(id);
    });
    return found;
}

bool are_distinct(std::string_view blob, std::span<const std::uint32_t> ends) {
    // The upper half of a hash, and the number of the piece and one.
    std::vector<std::uint64_t> table(std::bit_ceil(2 * ends.size() + 2));
    bool distinct = true;
    const auto text = [&](std::size_t id) {
        const std::size_t start = id == 0 ? 0 : ends[id - 1];
        return blob.substr(start, ends[id] - start);
    };
    each_piece(blob, ends, [&](std::uint32_t id, std::string_view piece) {
        const std::uint64_t hash = hash_bytes(piece);
        std::size_t at = hash & (table.size() - 1);
        for (; table[at] != 0; at = (at + 1) & (table.size() - 1)) {
            if (table[at] >> 32 != hash >> 32) continue;
            if (text(static_cast<std::uint32_t>(table[at]) - 1) != piece) continue;
            distinct = false;
            return; // a file of equal pieces would fill one run of slots
        }
        table[at] = hash >> 32 << 32 | (std::uint64_t{id} + 1);
    });
    return distinct;
}

} // namespace mtkit
