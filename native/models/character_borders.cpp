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
    const auto look = [common = common_.data(), others = others_.data(),
                       shift = shift_](std::string_view piece, const char *readable) {
        const auto byte = [](const char *at) { return static_cast<unsigned char>(*at); };
        const char *at = piece.data();
        const char *const end = at + piece.size();
        if (at == end) return;
        for (auto left = take(at, readable); at < end;) {
            if (left < COMMON) { // usually a run of ASCII
                for (; at < end && byte(at) < COMMON; ++at) {
                    common[entry(left, byte(at))] = 1;
                    left = byte(at);
                }
                if (at == end) return;
            }
            const auto right = take(at, readable);
            if (is_common(left, right)) {
                common[entry(left, right)] = 1;
            } else {
                const auto bit = shared_bit(left, right, shift);
                others[bit / 64] |= std::uint64_t{1} << (bit % 64);
            }
            left = right;
        }
    };
    vocabulary.words.each(look);
    if (!named) return;
    vocabulary.words.each([this](std::string_view piece, const char *) {
        if (is_more_than_byte_name(piece)) any_ = false;
    });
}

} // namespace mtkit
