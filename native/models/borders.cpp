#include "models/borders.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

namespace mtkit {

namespace {

constexpr std::uint32_t CHARACTERS = 1U << 16;
constexpr std::size_t MOST_CELLS = 1U << 22;

// The end or the beginning of a character: how many bytes of it, and their payload.
using Side = std::uint32_t;
constexpr Side WHOLE = 3 * CHARACTERS;

// Those of a character, the whole of it last.
using Sides = std::array<Side, 3>;
Sides ends(std::uint32_t c) {
    return {CHARACTERS | (c & 0x3F), 2 * CHARACTERS | (c & 0xFFF), WHOLE | c};
}
Sides beginnings(std::uint32_t c) {
    return {CHARACTERS | c >> 12, 2 * CHARACTERS | c >> 6, WHOLE | c};
}

struct Pair {
    Side left;
    Side right;
};

// Characters in classes: those with the same ones of some sides.
class Classes {
  public:
    void use(Side side) {
        if (numbers_.empty()) numbers_.resize(4 * CHARACTERS);
        if (numbers_[side] == 0) numbers_[side] = ++used_;
    }
    // The class of each character; 0: none of the sides.
    template <typename SidesOf> std::vector<std::uint16_t> make(const SidesOf &sides_of) {
        std::vector<std::uint16_t> out(CHARACTERS);
        if (used_ == 0) return out; // symbols of whole characters
        std::unordered_map<std::uint64_t, std::size_t> known;
        having_.resize(used_ + 1);
        const auto class_of = [&](const Sides &sides) -> std::uint16_t {
            std::uint64_t key = 0;
            for (const auto side : sides) key = key << 21 | numbers_[side];
            if (key == 0) return 0;
            const auto [place, added] = known.try_emplace(key, count_);
            if (added) {
                ++count_;
                for (const auto side : sides) having_[numbers_[side]].push_back(place->second);
            }
            return static_cast<std::uint16_t>(place->second);
        };
        // Of most, nobody asks for the whole: their class is that of their two bytes.
        constexpr std::uint16_t UNKNOWN = 0xFFFF;
        std::vector<std::uint16_t> of_two(CHARACTERS, UNKNOWN);
        for (std::uint32_t c = 0; c < CHARACTERS; ++c) {
            auto sides = sides_of(c);
            if (numbers_[sides[2]] != 0) {
                out[c] = class_of(sides);
                continue;
            }
            auto &found = of_two[sides[1] - 2 * CHARACTERS];
            if (found == UNKNOWN) {
                sides[2] = 0; // no side
                found = class_of(sides);
            }
            out[c] = found;
        }
        return out;
    }
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] const std::vector<std::size_t> &having(Side side) const {
        return having_[numbers_[side]];
    }

  private:
    std::vector<std::uint32_t> numbers_; // of each side; 0: none
    std::uint32_t used_ = 0;
    std::size_t count_ = 1;
    std::vector<std::vector<std::size_t>> having_;
};

bool continues(std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Add what a symbol has around its borders in front of three-byte characters.
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
            pair.left = CHARACTERS | payload(0);
        else if (!continues(symbol, at - 2))
            continue; // of a shorter character
        else if (at == 2)
            pair.left = 2 * CHARACTERS | payload(0) << 6 | payload(1);
        else if (begins(at - 3))
            pair.left =
                WHOLE | (payload(at - 3) & 15) << 12 | payload(at - 2) << 6 | payload(at - 1);
        else
            continue; // of a longer one
        const std::uint32_t first = payload(at) & 15;
        if (at + 1 == symbol.size())
            pair.right = CHARACTERS | first;
        else if (!continues(symbol, at + 1))
            continue;
        else if (at + 2 == symbol.size())
            pair.right = 2 * CHARACTERS | first << 6 | payload(at + 1);
        else if (continues(symbol, at + 2))
            pair.right = WHOLE | first << 12 | payload(at + 1) << 6 | payload(at + 2);
        else
            continue;
        out.push_back(pair);
    }
}

// Whether a symbol is longer than the name of a byte, <0xHH>, which is part of it.
bool has_name(std::string_view symbol) {
    constexpr std::string_view FRONT = "<0x";
    constexpr std::size_t SIZE = 6;
    if (symbol.size() <= SIZE) return false;
    for (auto at = symbol.find(FRONT); at != symbol.npos; at = symbol.find(FRONT, at + 1))
        if (at + SIZE <= symbol.size() && symbol[at + SIZE - 1] == '>') return true;
    return false;
}

} // namespace

Borders::Borders(const Vocabulary &vocabulary, bool named) {
    std::vector<Pair> pairs;
    bool spelled = true; // each symbol spells what it covers
    for (std::size_t i = 0; i < vocabulary.words.count(); ++i) {
        const auto word = vocabulary.words[i];
        bool wide = false;
        bool opens = false;
        for (const char c : word) {
            wide = wide || static_cast<unsigned char>(c) >= 0xE0;
            opens = opens || c == '<';
        }
        if (wide) add_pairs(word, pairs);
        if (opens && named && has_name(word)) spelled = false;
    }
    const auto is_whole = [](const Pair &pair) {
        return pair.left >= WHOLE && pair.right >= WHOLE;
    };
    Classes lefts;
    Classes rights;
    std::size_t whole = 0;
    for (const auto &pair : pairs) {
        if (is_whole(pair)) {
            ++whole;
            continue;
        }
        lefts.use(pair.left);
        rights.use(pair.right);
    }
    left_ = lefts.make(ends);
    right_ = rights.make(beginnings);
    columns_ = rights.count();
    whole_.resize(std::bit_ceil(whole + 1) / 2 + 1); // 32 bits and more for each
    whole_.resize(std::bit_ceil(whole_.size()));
    bits_ = 64 * whole_.size() - 1;
    const bool few =
        std::max(columns_, lefts.count()) <= PAIRED && columns_ * lefts.count() <= MOST_CELLS;
    any_ = few && spelled;
    if (!any_) { // more than a vocabulary made of texts has, or other symbols: all may be crossed
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
