// Borders for models that merge characters: where no piece has two of them side by side, what
// stands before and what stands behind merge as if they were alone.
//
// A word of code or of Chinese falls into parts that come again and again. Pairs of ASCII have an
// entry each; others share bits: where one is set that is not meant, a cut is missed and nothing
// else.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

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
    // than the word.
    template <typename Put> void parts(std::string_view word, const Put &put) const {
        std::size_t start = 0;
        if (any_) {
            std::size_t at = 0;
            for (auto before = take(word, at); at < word.size();) {
                const std::size_t border = at;
                const auto next = take(word, at);
                if (!crossed(before, next)) {
                    put(start, border, true);
                    start = border;
                }
                before = next;
            }
        }
        put(start, word.size(), start > 0);
    }

  private:
    // Those with entries of their own. U+2581, which stands for blanks, shares them with U+0000.
    static constexpr char32_t COMMON = 128;
    static bool common(char32_t left, char32_t right) { return (left | right) < COMMON; }

    // The character at `at`, which moves behind it.
    static char32_t take(std::string_view text, std::size_t &at) {
        const auto first = static_cast<unsigned char>(text[at]);
        if (first < COMMON) [[likely]] {
            ++at;
            return first;
        }
        const auto [value, size] = decode_usual(text, at);
        at += size;
        return value == 0x2581 ? 0 : value;
    }
    static std::size_t entry(char32_t left, char32_t right) { return left * COMMON + right; }
    [[nodiscard]] std::uint64_t shared_bit(char32_t left, char32_t right) const {
        return ((std::uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15ULL) >> shift_;
    }
    // Whether a piece may have both characters side by side.
    [[nodiscard]] bool crossed(char32_t left, char32_t right) const {
        if (common(left, right)) [[likely]]
            return common_[entry(left, right)] != 0;
        const auto bit = shared_bit(left, right);
        return (others_[bit / 64] >> (bit % 64) & 1) != 0;
    }

    bool any_ = false;
    unsigned shift_;
    std::vector<std::uint8_t> common_ = std::vector<std::uint8_t>(std::size_t{COMMON} * COMMON);
    std::vector<std::uint64_t> others_;
};

} // namespace mtkit
