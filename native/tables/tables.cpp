#include "tables/tables.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.hpp"

namespace mtkit {

void Tables::add(const std::string &tag, Bytes bytes) {
    sections_[tag] = bytes;
}

Bytes Tables::bytes(const char *tag) const {
    const auto found = sections_.find(tag);
    return found == sections_.end() ? Bytes{} : found->second;
}

std::string_view Tables::text(const char *tag) const {
    const Bytes raw = bytes(tag);
    return {reinterpret_cast<const char *>(raw.data()), raw.size()};
}

Bytes Tables::copy(const char *tag) {
    const Bytes raw = bytes(tag);
    auto copy = std::make_unique<std::uint64_t[]>(raw.size() / 8 + 1);
    if (!raw.empty()) std::memcpy(copy.get(), raw.data(), raw.size());
    const Bytes moved{reinterpret_cast<const std::byte *>(copy.get()), raw.size()};
    copies_.push_back(std::move(copy));
    return moved;
}

void PieceTable::require_inside() const {
    std::size_t start = 0;
    for (std::size_t number = 0; number < ends_.size(); start = ends_[number++])
        if (ends_[number] < start || ends_[number] > blob_.size())
            throw FormatError("ends outside the texts", "pieces", number);
}

WordTable::WordTable(std::span<const std::uint64_t> slots, PieceTable pieces, PieceTable extra)
    : slots_(slots), pieces_(pieces), extra_(extra) {
    // Slot 0 is the length of the longest piece, the others are the table.
    if (slots.empty()) return;
    if (!std::has_single_bit(slots.size() - 1))
        throw FormatError("has " + std::to_string(slots.size()) + " slots", "WORD");
    longest_ = static_cast<std::size_t>(slots[0]);
    slots_ = slots.subspan(1);
}

template <typename Same>
std::uint32_t WordTable::find(std::string_view word, std::uint64_t hash, const Same &same) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    for (std::size_t tries = 0; tries <= mask; ++tries, at = (at + 1) & mask) {
        const std::uint64_t slot = slots_[at];
        const auto number = static_cast<std::uint32_t>(slot);
        if (number == 0) return NONE;
        if (slot >> 32 != hash >> 32) continue;
        const auto piece = (*this)[number - 1];
        if (piece.size() == word.size() && same(piece.data())) return number - 1;
    }
    return NONE;
}

std::uint32_t WordTable::find(std::string_view word, std::uint64_t hash) const {
    constexpr std::size_t STEP = sizeof(std::uint64_t);
    const std::size_t size = word.size();
    if (slots_.empty()) return NONE;
    // Most are short: they are compared without a call, their own bytes read once.
    if (size < STEP)
        return find(word, hash, [size, bytes = load_up_to_8(word.data(), size)](const char *piece) {
            return load_up_to_8(piece, size) == bytes;
        });
    if (size <= 2 * STEP)
        return find(word, hash,
                    [size, first = load64(word.data()),
                     last = load64(word.data() + size - STEP)](const char *piece) {
                        return load64(piece) == first && load64(piece + size - STEP) == last;
                    });
    return find(word, hash, [word](const char *piece) {
        return std::memcmp(piece, word.data(), word.size()) == 0;
    });
}

WordFilter::WordFilter(const WordTable &words)
    : bits_(std::max<std::size_t>(1, words.slots_.size() / 16)),
      shift_(static_cast<unsigned>(64 - std::countr_zero(64 * bits_.size()))) {
    for (const std::uint64_t slot : words.slots_) {
        const std::uint64_t bit = slot >> shift_; // of the hash, whose upper half is there
        bits_[bit / 64] |= static_cast<std::uint64_t>(slot != 0) << (bit % 64);
    }
}

PairTable::PairTable(Tables &tables)
    : slots_(tables.numbers<std::uint64_t>("PAIR")), made_(tables.numbers<std::uint32_t>("MRGD")) {
    if (slots_.empty()) slots_ = NOTHING;
    if (!std::has_single_bit(slots_.size()))
        throw FormatError("has " + std::to_string(slots_.size()) + " slots", "PAIR");
    const auto bits = tables.numbers<std::uint64_t>("PBIT");
    if (!bits.empty()) {
        if (!std::has_single_bit(bits.size()))
            throw FormatError("has " + std::to_string(bits.size()) + " words", "PBIT");
        bits_ = bits;
    }
    bit_shift_ = bit_shift(64 * bits_.size());
    if (made_.empty()) return;
    first_made_ = made_[0];
    in_order_ = std::ranges::all_of(
        made_, [next = first_made_](std::uint32_t id) mutable { return id == next++; });
}

} // namespace mtkit
