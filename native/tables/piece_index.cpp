#include "tables/piece_index.hpp"

#include <algorithm>

#include "base/errors.hpp"

namespace mtkit {

PieceIndex::PieceIndex(PieceTable pieces) : pieces_(pieces) {
    pieces.require_inside();
    std::size_t empty = 0;
    for (std::uint32_t number = 0; number < pieces.size(); ++number)
        if (pieces[number].empty() && ++empty == 1) empty_ = number;
    auto built = build_words(pieces_, {}, {});
    slots_ = std::move(built.slots);
    words_ = {slots_, pieces_, {}};
    distinct_ = built.distinct && empty <= 1;
}

std::optional<std::size_t> PieceIndex::size_without(std::string_view listed) const {
    if (listed.empty()) return slots_.size();
    const auto count = static_cast<std::size_t>(
        std::count_if(listed.begin(), listed.end(), [](char mark) { return mark != 0; }));
    if (!distinct_ || listed.size() != pieces_.size() || count < pieces_.size() / 2)
        return std::nullopt;
    return slots_.size();
}

void PieceIndex::write_without(std::string_view listed, std::span<std::uint64_t> slots) const {
    std::ranges::copy(slots_, slots.begin());
    for (auto at = listed.find('\0'); at != std::string_view::npos; at = listed.find('\0', at + 1))
        if (!pieces_[at].empty()) remove_word(slots, pieces_, static_cast<std::uint32_t>(at));
}

} // namespace mtkit
