#include "tables/build.hpp"

#include <algorithm>
#include <bit>

#include "base/hash.hpp"
#include "text/alphabet.hpp"
#include "text/utf8.hpp"

namespace mtkit {

RawPieces raw_pieces(const PieceTable &pieces) {
    RawPieces out;
    out.ends.reserve(pieces.size());
    out.mapped.resize(pieces.size());
    for (std::size_t number = 0; number < pieces.size(); ++number) {
        const auto piece = pieces[number];
        const std::size_t start = out.blob.size();
        bool mapped = true;
        for (std::size_t at = 0; at < piece.size() && mapped;) {
            const auto c = decode(piece, at);
            const int byte = ALPHABET.byte_of(c.value);
            mapped = byte >= 0;
            out.blob.push_back(static_cast<char>(byte));
            at += c.size;
        }
        if (!mapped) {
            out.blob.resize(start);
            out.blob += piece;
        }
        out.mapped[number] = mapped;
        out.ends.push_back(static_cast<std::uint32_t>(out.blob.size()));
    }
    return out;
}

namespace {

// A third of them is free at least: the tables of most are larger than the processor's caches.
std::size_t slots_for(std::size_t entries) {
    return std::bit_ceil(entries + entries / 2 + 1);
}

} // namespace

WordSlots build_words(const PieceTable &pieces, const PieceTable &extra, std::string_view listed) {
    listed = listed.substr(0, pieces.size());
    const std::size_t count = pieces.size() + extra.size();
    const auto left_out = std::count(listed.begin(), listed.end(), '\0');
    const std::size_t size = slots_for(count - static_cast<std::size_t>(left_out));
    const std::size_t mask = size - 1;
    WordSlots out{std::vector<std::uint64_t>(size + 1), true};
    const auto slots = std::span(out.slots).subspan(1);
    const auto piece_of = [&](std::size_t number) {
        return number < pieces.size() ? pieces[number] : extra[number - pieces.size()];
    };
    const auto put = [&](std::uint32_t number, std::uint64_t hash) {
        std::size_t at = hash & mask;
        for (; slots[at] != 0; at = (at + 1) & mask) {
            if (slots[at] >> 32 != hash >> 32) continue;
            if (piece_of(static_cast<std::uint32_t>(slots[at]) - 1) == piece_of(number)) {
                out.distinct = false;
                return; // equal ones would fill one run of slots
            }
        }
        slots[at] = (hash >> 32 << 32) | (std::uint64_t{number} + 1);
    };
    std::size_t longest = 0;
    const auto own = static_cast<std::uint32_t>(pieces.size());
    const auto taken_from = [&](std::uint32_t number) {
        return number < own ? next_listed(listed, number, own) : number;
    };
    for (auto number = taken_from(0); number < count; number = taken_from(number + 1)) {
        const auto piece = piece_of(number);
        if (piece.empty()) continue;
        longest = std::max(longest, piece.size());
        put(number, (number < own ? pieces : extra).hash_of(piece));
    }
    out.slots[0] = longest;
    return out;
}

void remove_word(std::span<std::uint64_t> slots, const PieceTable &pieces, std::uint32_t number) {
    slots = slots.subspan(1);
    const std::size_t mask = slots.size() - 1;
    const auto home = [&](std::uint64_t slot) {
        return hash_bytes(pieces[static_cast<std::uint32_t>(slot) - 1]) & mask;
    };
    std::size_t hole = hash_bytes(pieces[number]) & mask;
    for (std::size_t tries = 0; static_cast<std::uint32_t>(slots[hole]) != number + 1; ++tries) {
        if (tries > mask) return; // somebody has changed the pieces
        hole = (hole + 1) & mask;
    }
    // What would no longer be found behind the hole moves into it.
    for (std::size_t at = (hole + 1) & mask; slots[at] != 0; at = (at + 1) & mask) {
        if (((at - home(slots[at])) & mask) < ((at - hole) & mask)) continue;
        slots[hole] = slots[at];
        hole = at;
    }
    slots[hole] = 0;
}

PairSlots build_pairs(std::span<const std::uint32_t> merges, const WordTable &words,
                      std::size_t symbols, std::size_t prefix, bool by_text) {
    const std::size_t count = merges.size() / 2;
    if (count >= SYMBOL_LIMIT || symbols >= SYMBOL_LIMIT)
        throw UnsupportedError("the native core takes less than 2^21 symbols and merges");
    const std::size_t size = slots_for(count);
    const std::size_t mask = size - 1;
    constexpr std::size_t WORD = 64;
    const std::size_t words_of_bits = std::max<std::size_t>(1, 4 * size / WORD);
    const unsigned shift = PairTable::bit_shift(WORD * words_of_bits);
    PairSlots out{std::vector<std::uint64_t>(size, ~std::uint64_t{0}),
                  std::vector<std::uint32_t>(count, NONE),
                  std::vector<std::uint64_t>(words_of_bits)};
    std::string joined;
    for (std::size_t rank = 0; rank < count; ++rank) {
        std::uint32_t left = merges[2 * rank];
        std::uint32_t right = merges[2 * rank + 1];
        if (left >= symbols || right >= symbols)
            throw FormatError("merge " + std::to_string(rank) + " joins " + std::to_string(left) +
                                  " and " + std::to_string(right) + ", there are only " +
                                  std::to_string(symbols) + " parts",
                              "model.merges");
        const auto tail = words[right];
        joined = words[left];
        joined += tail.substr(std::min(prefix, tail.size()));
        out.made[rank] = words.find(joined);
        if (by_text) {
            // Of pieces that read the same the first one is the symbol.
            left = words.find(words[left]);
            right = words.find(words[right]);
            if (left == NONE || right == NONE) continue;
        } else if (out.made[rank] == NONE) {
            continue;
        }
        const std::uint64_t key = PairTable::key(left, right);
        const std::uint64_t place = PairTable::place(key);
        const std::uint64_t bit = place >> shift;
        out.bits[bit / WORD] |= std::uint64_t{1} << (bit % WORD);
        std::size_t at = place & mask;
        while (out.slots[at] != ~std::uint64_t{0} && out.slots[at] >> SYMBOL_BITS != key)
            at = (at + 1) & mask;
        if (out.slots[at] == ~std::uint64_t{0} || !by_text)
            out.slots[at] = (key << SYMBOL_BITS) | rank;
    }
    return out;
}

} // namespace mtkit
