// Cuts: places of a word where cutting is certain to change no id.
//
// Merging builds nothing but symbols, and a path through a lattice is made of pieces. Where none of
// them has the character in front of a place and the one behind it side by side, what stands on
// either side becomes what it becomes alone: a word of code, of Chinese, or a whole text falls into
// parts that come again and again, and no step takes longer than its parts. One class answers for
// all models; of those that merge bytes byte_cuts.hpp knows more.
//
// Pairs of ASCII have an entry each; others share bits: where one is set that is not meant, a cut
// is missed and nothing else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "models/byte_cuts.hpp"
#include "models/vocabulary.hpp"
#include "text/utf8.hpp"

namespace mtkit {

class SafeCuts {
  public:
    // Bytes of words that were seen before cuts are looked for: making them looks through all
    // pieces.
    static constexpr std::size_t WORTH = 16U << 10;

    // Of a model that merges bytes, in any text.
    static std::unique_ptr<SafeCuts> of_bytes(const Vocabulary &vocabulary);
    // Of one that merges characters of UTF-8, or chooses pieces of them.
    struct Names {
        bool bytes = false;       // those of bytes merge by their names, <0xHH>
        std::string_view unknown; // characters that are no piece become this one, together
    };
    static std::unique_ptr<SafeCuts> of_characters(const Vocabulary &vocabulary,
                                                   const Names &names);

    // Whether there is any.
    [[nodiscard]] bool any() const { return any_; }
    // Those of bytes; null: there are others.
    [[nodiscard]] const ByteCuts *bytes() const { return bytes_ ? &*bytes_ : nullptr; }

    // Put start and end of each part of a word that is not empty, and whether it is less than the
    // word; memory may be read as far as `readable`. `valid`: it is UTF-8.
    template <typename Put>
    void parts(std::string_view word, const char *readable, bool valid, const Put &put) const {
        if (bytes_)
            bytes_->parts(word, put);
        else if (!any_)
            put(0, word.size(), false);
        else if (valid)
            parts_of_characters(word, readable, put);
        else
            parts_of_broken(word, put);
    }
    // Whether there is a cut between a character of ASCII and U+2581.
    [[nodiscard]] bool before_mark(unsigned char c) const {
        return any_ && !crossed(c, BLANK) && (mark_known_ || known_beside(c, BLANK));
    }
    // Whether there is one between each character that is not ASCII and U+2581.
    [[nodiscard]] bool before_mark_behind_wide() const {
        return any_ && !marks_behind_wide_ && (mark_known_ || known_.empty());
    }

  private:
    // A character as its bytes, the first one lowest; U+2581, which stands for blanks, shares 0
    // with U+0000.
    using Character = std::uint32_t;
    static constexpr Character MARK_BYTES = 0x8196E2;
    static constexpr Character BLANK = 0;
    // Those with entries of their own.
    static constexpr Character COMMON = 128;
    static bool is_common(Character left, Character right) { return (left | right) < COMMON; }

    SafeCuts() = default;
    void look_through(const Vocabulary &vocabulary);
    void find_known(const Vocabulary &vocabulary);

    template <typename Put>
    void parts_of_characters(std::string_view word, const char *readable, const Put &put) const {
        const char *const begin = word.data();
        const char *const end = begin + word.size();
        const char *at = begin; // behind `left`
        auto left = take(at, readable);
        for (const char *start = begin; start < end;) {
            const char *place = at;
            while (place < end) {
                const auto right = take(at, readable);
                const bool cut = !crossed(left, right) && known_beside(left, right);
                left = right;
                if (cut) break;
                place = at;
            }
            place = std::min(place, end);
            put(static_cast<std::size_t>(start - begin), static_cast<std::size_t>(place - begin),
                start > begin || place < end);
            start = place;
        }
    }

    // In a word that is not UTF-8, behind ASCII and in front of ASCII or U+2581, where no character
    // reaches over, however long a model takes one to be.
    template <typename Put> void parts_of_broken(std::string_view word, const Put &put) const {
        std::size_t start = 0;
        for (std::size_t at = 1; at < word.size(); ++at) {
            const Character left = static_cast<unsigned char>(word[at - 1]);
            const bool marks = word.substr(at).starts_with(MARK);
            const Character right = marks ? BLANK : static_cast<unsigned char>(word[at]);
            if (!is_common(left, right) || crossed(left, right) || may_be_inside(word, at))
                continue;
            // The character in front may be longer than its last byte.
            if (!known_.empty() && (!is_known(left) || may_be_inside(word, at - 1))) continue;
            put(start, at, true);
            start = at;
        }
        put(start, word.size(), start > 0);
    }

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
            return bytes == MARK_BYTES ? BLANK : bytes;
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
    // Where unknown characters become one token together: whether one of two is known.
    [[nodiscard]] bool known_beside(Character left, Character right) const {
        return known_.empty() || is_known(left) || is_known(right);
    }
    [[nodiscard]] bool is_known(Character c) const {
        const auto text = std::string_view(reinterpret_cast<const char *>(&c), sizeof c);
        const char32_t value = decode(text, 0).value;
        return value < 64 * known_.size() && (known_[value / 64] >> value % 64 & 1) != 0;
    }

    bool any_ = false;
    bool marks_behind_wide_ = false; // a piece has U+2581 behind a character that is not ASCII
    bool mark_known_ = false;        // U+2581 is, where it is asked
    std::optional<ByteCuts> bytes_;
    unsigned shift_ = 63;
    std::vector<std::uint8_t> common_;
    std::vector<std::uint64_t> others_;
    std::vector<std::uint64_t> known_; // empty: nobody asks
};

} // namespace mtkit
