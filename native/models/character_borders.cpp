#include "models/character_borders.hpp"

#include <algorithm>
#include <bit>

#include "models/spelling.hpp"

namespace mtkit {

namespace {

// Shared bits for each piece, which has seldom more than a few pairs that are not ASCII; no more of
// them than stay in the processor's cache.
constexpr std::size_t BITS = 16;
constexpr std::size_t LEAST_BITS = 1U << 14;
constexpr std::size_t MOST_BITS = 1U << 19;

} // namespace

CharacterBorders::CharacterBorders(const Vocabulary &vocabulary, bool named) {
    const std::size_t bits =
        std::clamp(BITS * std::bit_ceil(vocabulary.words.count()), LEAST_BITS, MOST_BITS);
    others_.resize(bits / 64);
    shift_ = static_cast<unsigned>(64 - std::countr_zero(bits));
    any_ = true;
    for (std::size_t i = 0; i < vocabulary.words.count(); ++i) {
        const auto piece = vocabulary.words[i];
        if (named && is_more_than_byte_name(piece)) any_ = false;
        if (piece.empty()) continue;
        std::size_t at = 0;
        for (auto before = take(piece, at); at < piece.size();) {
            const auto next = take(piece, at);
            if (common(before, next)) {
                common_[entry(before, next)] = 1;
            } else {
                const auto bit = shared_bit(before, next);
                others_[bit / 64] |= std::uint64_t{1} << (bit % 64);
            }
            before = next;
        }
    }
}

} // namespace mtkit
