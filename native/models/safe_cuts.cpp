#include "models/safe_cuts.hpp"

#include <bit>

#include "models/spelling.hpp"
#include "text/paged.hpp"

namespace mtkit {

namespace {

// Shared bits for each piece, which has seldom more than a few pairs that are not ASCII; no more of
// them than stay in the processor's cache.
constexpr std::size_t BITS = 16;
constexpr std::size_t LEAST_BITS = 1U << 14;
constexpr std::size_t MOST_BITS = 1U << 19;

} // namespace

std::unique_ptr<SafeCuts> SafeCuts::of_bytes(const Vocabulary &vocabulary) {
    auto made = std::unique_ptr<SafeCuts>(new SafeCuts);
    made->bytes_.emplace(vocabulary);
    made->any_ = made->bytes_->any();
    return made;
}

std::unique_ptr<SafeCuts> SafeCuts::of_characters(const Vocabulary &vocabulary,
                                                  const Names &names) {
    auto made = std::unique_ptr<SafeCuts>(new SafeCuts);
    made->any_ = true;
    // Whether a piece has such a name as a part of it.
    const auto look = [&](std::string_view piece, const char *) {
        const bool longer = !names.unknown.empty() && piece.size() > names.unknown.size();
        if ((names.bytes && is_more_than_byte_name(piece)) ||
            (longer && piece.find(names.unknown) != piece.npos))
            made->any_ = false;
    };
    if (names.bytes || !names.unknown.empty()) vocabulary.words.each(look);
    if (!made->any_) return made;
    made->look_through(vocabulary);
    if (!names.unknown.empty()) made->find_known(vocabulary);
    return made;
}

void SafeCuts::look_through(const Vocabulary &vocabulary) {
    const std::size_t bits =
        std::clamp(BITS * std::bit_ceil(vocabulary.words.count()), LEAST_BITS, MOST_BITS);
    common_.resize(std::size_t{COMMON} * COMMON);
    others_.resize(bits / 64);
    shift_ = static_cast<unsigned>(64 - std::countr_zero(bits));
    const auto look = [common = common_.data(), others = others_.data(), shift = shift_,
                       this](std::string_view piece, const char *readable) {
        const auto byte = [](const char *at) { return static_cast<unsigned char>(*at); };
        const char *at = piece.data();
        const char *const end = at + piece.size();
        if (at == end) return;
        if (valid_prefix(piece) < piece.size()) // whatever its characters are
            for (std::size_t i = 1; i < piece.size(); ++i) {
                const bool marks = piece.substr(i).starts_with(MARK);
                const Character right = marks ? BLANK : byte(piece.data() + i);
                if (is_common(byte(at + i - 1), right)) common[entry(byte(at + i - 1), right)] = 1;
            }
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
                marks_behind_wide_ = marks_behind_wide_ || right == BLANK;
            }
            left = right;
        }
    };
    vocabulary.words.each(look);
}

void SafeCuts::find_known(const Vocabulary &vocabulary) {
    known_.resize(PAGED / 64);
    const auto find = [&](std::string_view piece) {
        return vocabulary.words.find(piece) < vocabulary.pieces.size();
    };
    vocabulary.words.each([&](std::string_view piece, const char *) {
        if (piece.empty()) return;
        const auto c = decode(piece, 0);
        if (c.size != piece.size() || c.value >= PAGED || is_stray(c.value) || !find(piece)) return;
        known_[c.value / 64] |= std::uint64_t{1} << c.value % 64;
    });
    mark_known_ = find(MARK);
    if (!mark_known_ || !find({"", 1})) known_[0] &= ~std::uint64_t{1}; // they share a number
}

} // namespace mtkit
