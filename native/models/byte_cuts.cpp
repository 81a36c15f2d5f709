#include "models/byte_cuts.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::uint32_t CHARACTERS = 1U << 16;
constexpr std::size_t MOST_CELLS = 1U << 22;

// The end or the beginning of a character: its first byte or its last, two of them, or the whole;
// with their payload.
using Side = std::uint32_t;
constexpr Side TWO = 1U << 6;
constexpr Side WHOLE = TWO + (1U << 12);

struct Pair {
    Side left;
    Side right;
};

// Puts characters into classes: two of one class have the same sides, of those that symbols have.
// So a table of classes says what stands side by side, where one of characters would have 2^32
// cells. `Ends`: sides are ends of characters in front of a place; else beginnings of those behind
// it.
template <bool Ends> class Classes {
  public:
    void use(Side side) {
        auto &number = numbers_[side];
        if (number != 0) return;
        number = ++used_;
        if (side >= WHOLE) wholes_.push_back(side - WHOLE);
    }
    // The class of each character; 0: none of the sides.
    std::vector<std::uint16_t> make() {
        std::vector<std::uint16_t> out(CHARACTERS);
        if (used_ == 0) return out; // symbols of whole characters
        having_.resize(used_ + 1);
        // Of most, nobody asks for the whole: their class is that of their two bytes.
        if constexpr (Ends) {
            constexpr std::uint32_t BLOCK = 1U << 12;
            for (std::uint32_t c = 0; c < BLOCK; ++c) out[c] = class_of(one(c), two(c), 0);
            for (std::uint32_t c = BLOCK; c < CHARACTERS; c += BLOCK)
                std::copy_n(out.begin(), BLOCK, out.begin() + c);
        } else {
            constexpr std::uint32_t BLOCK = 1U << 6;
            for (std::uint32_t c = 0; c < CHARACTERS; c += BLOCK)
                std::fill_n(out.begin() + c, BLOCK, class_of(one(c), two(c), 0));
        }
        for (const auto c : wholes_) out[c] = class_of(one(c), two(c), numbers_[WHOLE + c]);
        return out;
    }
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] const std::vector<std::size_t> &having(Side side) const {
        return having_[numbers_[side]];
    }

  private:
    [[nodiscard]] std::uint32_t one(std::uint32_t c) const {
        return numbers_[Ends ? c & 0x3F : c >> 12];
    }
    [[nodiscard]] std::uint32_t two(std::uint32_t c) const {
        return numbers_[TWO + (Ends ? c & 0xFFF : c >> 6)];
    }
    std::uint16_t class_of(std::uint64_t one, std::uint64_t two, std::uint64_t whole) {
        const std::uint64_t key = (one << 21 | two) << 21 | whole;
        if (key == 0) return 0;
        const auto [place, added] = known_.try_emplace(key, count_);
        if (added) {
            ++count_;
            for (const auto number : {one, two, whole}) having_[number].push_back(place->second);
        }
        return static_cast<std::uint16_t>(place->second);
    }

    std::vector<std::uint32_t> numbers_ = std::vector<std::uint32_t>(WHOLE + CHARACTERS); // 0: none
    std::uint32_t used_ = 0;
    std::vector<std::uint32_t> wholes_; // characters
    std::unordered_map<std::uint64_t, std::size_t> known_;
    std::size_t count_ = 1;
    std::vector<std::vector<std::size_t>> having_;
};

bool continues(std::string_view text, std::size_t at) {
    return at < text.size() && is_continuation(text[at]);
}

// Add what a symbol has around each place in front of three-byte characters.
void add_pairs(std::string_view symbol, std::vector<Pair> &out) {
    const auto payload = [&](std::size_t at) {
        return std::uint32_t{static_cast<unsigned char>(symbol[at])} & 0x3F;
    };
    const auto begins = [&](std::size_t at) {
        return (static_cast<unsigned char>(symbol[at]) & 0xF0) == 0xE0;
    };
    for (std::size_t at = 1; at < symbol.size(); ++at) {
        if (!begins(at) || !continues(symbol, at - 1)) continue;
        Pair pair{};
        if (at == 1)
            pair.left = payload(0);
        else if (!continues(symbol, at - 2))
            continue; // of a shorter character
        else if (at == 2)
            pair.left = TWO + (payload(0) << 6 | payload(1));
        else if (begins(at - 3))
            pair.left =
                WHOLE + ((payload(at - 3) & 15) << 12 | payload(at - 2) << 6 | payload(at - 1));
        else
            continue; // of a longer one
        const std::uint32_t first = payload(at) & 15;
        if (at + 1 == symbol.size())
            pair.right = first;
        else if (!continues(symbol, at + 1))
            continue;
        else if (at + 2 == symbol.size())
            pair.right = TWO + (first << 6 | payload(at + 1));
        else if (continues(symbol, at + 2))
            pair.right = WHOLE + (first << 12 | payload(at + 1) << 6 | payload(at + 2));
        else
            continue;
        out.push_back(pair);
    }
}

} // namespace

ByteCuts::ByteCuts(const Vocabulary &vocabulary) {
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < vocabulary.words.count(); ++i) {
        const auto word = vocabulary.words[i];
        if (!is_ascii(word)) add_pairs(word, pairs);
    }
    const auto is_whole = [](const Pair &pair) {
        return pair.left >= WHOLE && pair.right >= WHOLE;
    };
    Classes<true> lefts;
    Classes<false> rights;
    std::size_t whole = 0;
    for (const auto &pair : pairs) {
        if (is_whole(pair)) {
            ++whole;
            continue;
        }
        lefts.use(pair.left);
        rights.use(pair.right);
    }
    left_ = lefts.make();
    right_ = rights.make();
    columns_ = rights.count();
    whole_.resize(std::bit_ceil(whole + 1) / 2 + 1); // 32 bits and more for each
    whole_.resize(std::bit_ceil(whole_.size()));
    bits_ = 64 * whole_.size() - 1;
    any_ = std::max(columns_, lefts.count()) <= PAIRED && columns_ * lefts.count() <= MOST_CELLS;
    if (!any_) { // more than a vocabulary made of texts has: all may be crossed
        left_.assign(CHARACTERS, 1);
        right_.assign(CHARACTERS, 1);
        cells_.assign(columns_ + 2, 1);
        return;
    }
    cells_.resize(columns_ * lefts.count());
    for (const auto &pair : pairs) {
        if (is_whole(pair)) {
            const auto bit = bit_of(pair.left - WHOLE, pair.right - WHOLE);
            whole_[bit / 64] |= std::uint64_t{1} << (bit % 64);
            left_[pair.left - WHOLE] |= PAIRED;
            right_[pair.right - WHOLE] |= PAIRED;
            continue;
        }
        for (const auto row : lefts.having(pair.left))
            for (const auto column : rights.having(pair.right)) cells_[row * columns_ + column] = 1;
    }
}

} // namespace mtkit
