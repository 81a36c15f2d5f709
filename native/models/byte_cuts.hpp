// Where models that merge bytes can be cut (see safe_cuts.hpp): between two characters of three
// bytes of which no symbol has the end of one and the beginning of the next side by side. A run of
// Han, kana or Hangul falls into short parts that come again and again. The payload of such a
// character is 16 bits.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/vocabulary.hpp"

namespace mtkit {

class ByteCuts {
  public:
    // Looks through all symbols once.
    explicit ByteCuts(const Vocabulary &vocabulary);

    // Whether there is any to cut at.
    [[nodiscard]] bool any() const { return any_; }

    // Put start and end of each part of a word, and whether it is less than the word.
    template <typename Put> void parts(std::string_view word, const Put &put) const {
        std::size_t start = 0;
        std::uint32_t before = NONE;
        for (std::size_t at = 0; at < word.size();) {
            const std::uint32_t c = three(word, at);
            if (before < NONE && c < NONE && !crossed(before, c)) {
                put(start, at, true);
                start = at;
            }
            before = c;
            at += c < NONE ? 3 : 1;
        }
        put(start, word.size(), start > 0);
    }

    // Whether a symbol may have both sides of the place between characters with such payloads.
    [[nodiscard]] bool crossed(std::uint32_t left, std::uint32_t right) const {
        const std::uint32_t before = left_[left];
        const std::uint32_t behind = right_[right];
        if (before == 0 || behind == 0) return false;
        if ((before & behind & PAIRED) != 0) {
            const auto bit = bit_of(left, right);
            if ((whole_[bit / 64] >> (bit % 64) & 1) != 0) return true;
        }
        return cells_[(before & ~PAIRED) * columns_ + (behind & ~PAIRED)] != 0;
    }

  private:
    // The payload of the three-byte character at `at`, NONE where there is none.
    static std::uint32_t three(std::string_view text, std::size_t at) {
        const auto byte = [&](std::size_t i) {
            return std::uint32_t{static_cast<unsigned char>(text[at + i])};
        };
        if (text.size() - at < 3 || (byte(0) & 0xF0) != 0xE0) return NONE;
        const std::uint32_t second = byte(1) ^ 0x80;
        const std::uint32_t third = byte(2) ^ 0x80;
        if ((second | third) >= 0x40) return NONE;
        return (byte(0) & 15) << 12 | second << 6 | third;
    }
    [[nodiscard]] std::uint64_t bit_of(std::uint32_t left, std::uint32_t right) const {
        return ((left << 16 | right) * 0x9E3779B97F4A7C15ULL) >> 32 & bits_;
    }

    bool any_ = false;
    // Pairs of whole characters, hashed: one that is not meant costs a cut and nothing else.
    std::vector<std::uint64_t> whole_;
    std::uint64_t bits_ = 0; // mask of their numbers
    // Ends of characters on the left, beginnings on the right, one of them at least not whole: what
    // stands side by side for a class on the left and one on the right. PAIRED: also the whole of
    // it stands beside another one.
    static constexpr std::uint32_t PAIRED = 1U << 15;
    std::vector<std::uint16_t> left_;
    std::vector<std::uint16_t> right_;
    std::size_t columns_ = 0;
    std::vector<std::uint8_t> cells_;
};

} // namespace mtkit
