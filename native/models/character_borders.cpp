#include "models/character_borders.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "models/spelling.hpp"

namespace mtkit {

namespace {

// Bits for each pair that shares them.
constexpr std::size_t BITS = 8;
constexpr std::size_t LEAST_BITS = 1U << 14;

} // namespace

CharacterBorders::CharacterBorders(const Vocabulary &vocabulary, bool named) {
    std::vector<std::pair<char32_t, char32_t>> pairs;
    any_ = true;
    for (std::size_t i = 0; i < vocabulary.words.count(); ++i) {
        const auto piece = vocabulary.words[i];
        if (named && is_more_than_byte_name(piece)) any_ = false;
        if (piece.empty()) continue;
        std::size_t at = 0;
        for (auto before = take(piece, at); at < piece.size();) {
            const auto next = take(piece, at);
            if (common(before, next))
                common_[entry(before, next)] = 1;
            else
                pairs.emplace_back(before, next);
            before = next;
        }
    }
    others_.resize(std::bit_ceil(std::max(LEAST_BITS, BITS * pairs.size())) / 64);
    shift_ = static_cast<unsigned>(64 - std::countr_zero(64 * others_.size()));
    for (const auto &[left, right] : pairs) {
        const auto bit = shared_bit(left, right);
        others_[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
}

} // namespace mtkit
