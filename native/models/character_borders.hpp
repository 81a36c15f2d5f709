// Borders for models that merge characters: where no piece has two of them side by side, what
// stands before and what stands behind merge as if they were alone.
//
// A word of code or of Chinese falls into parts that come again and again. Pairs of ASCII have an
// entry each; others share bits: where one is set that is not meant, a cut is missed and nothing
// else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "models/models.hpp"
#include "text/utf8.hpp"

namespace mtkit {

class CharacterBorders {
  public:
    // Looks through all pieces once. `named`: those of bytes merge by their names, <0xHH>.
    CharacterBorders(const Vocabulary &vocabulary, bool named);

    // Whether there is any to cut at.
    [[nodiscard]] bool any() const { return any_; }

    // Put start and end of each part of a word that is UTF-8 and not empty, and whether it is less
    // than the word; memory may be read as far as `readable`.
    template <typename Put>
    void parts(std::string_view word, const char *readable, const Put &put) const {
        const char *const begin = word.data();
        const char *const end = begin + word.size();
        const char *at = begin; // behind `left`
        auto left = any_ ? take(at, readable) : 0;
        for (const char *start = begin; start < end;) {
            const char *border = any_ ? at : end;
            while (border < end) {
                const auto right = take(at, readable);
                const bool cut = !crossed(left, right);
                left = right;
                if (cut) break;
                border = at;
            }
            border = std::min(border, end);
            put(static_cast<std::size_t>(start - begin), static_cast<std::size_t>(border - begin),
                start > begin || border < end);
            start = border;
        }
    }

  private:
    // A character as its bytes, the first one lowest; U+2581, which stands for blanks, shares 0
    // with U+0000.
    using Character = std::uint32_t;
    static constexpr Character BLANK = 0x8196E2;
    // Those with entries of their own.
    static constexpr Character COMMON = 128;
    static bool is_common(Character left, Character right) { return (left | right) < COMMON; }

    // The character at `at`, which moves behind it. One that the end of a piece cuts off takes
    // bytes of the next: that marks a pair too many.
    static Character take(const char *&at, const char *readable) {
        const auto first = static_cast<unsigned char>(*at);
        if (first < COMMON) [[likely]] {
            ++at;
            return first;
        }
        Character bytes;
        const auto left = static_cast<std::size_t>(readable - at);
        if (left >= sizeof bytes) [[likely]]
            std::memcpy(&bytes, at, sizeof bytes);
        else
            bytes = static_cast<Character>(load_up_to_8(at, left));
        if (first - 0xE0U < 16) [[likely]] {
            at += 3;
            bytes &= 0xFFFFFF;
            return bytes == BLANK ? 0 : bytes;
        }
        const std::size_t size = character_size(*at);
        at += size;
        return bytes & ~Character{0} >> (8 * (sizeof bytes - size));
    }
    static std::size_t entry(Character left, Character right) { return left * COMMON + right; }
    static std::uint64_t shared_bit(Character left, Character right, unsigned shift) {
        return ((std::uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15ULL) >> shift;
    }
    // Whether a piece may have both characters side by side.
    [[nodiscard]] bool crossed(Character left, Character right) const {
        if (is_common(left, right)) return common_[entry(left, right)] != 0;
        const auto bit = shared_bit(left, right, shift_);
        return (others_[bit / 64] >> (bit % 64) & 1) != 0;
    }

    bool any_ = false;
    unsigned shift_;
    std::vector<std::uint8_t> common_ = std::vector<std::uint8_t>(std::size_t{COMMON} * COMMON);
    std::vector<std::uint64_t> others_;
};

} // namespace mtkit
