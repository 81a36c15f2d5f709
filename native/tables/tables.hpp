// The flat tables of a tokenizer: little-endian arrays under four-letter tags.
//
// A table may be built in memory or lie in a mapped file; the engine uses it in place. Views are
// bounds-checked here, once; numbers inside tables are bounded where they are used, so that a
// damaged table can give wrong ids but never a read outside it, also where somebody else changes
// the file meanwhile. Programs and patterns are checked when they are read: they are copied.
//
//   PROG            the program: what to do, see program.py
//   PCSB PCSE       pieces: bytes, and u32 end of each
//   XTRB XTRE       parts of merges that are not token: they are symbols behind the pieces
//   WORD            u64 slots, a power of two: piece -> id; see WordTable
//   PAIR MRGD PBIT  u64 slots, a power of two: (left, right) -> rank; u32 symbol made, by rank; a
//                   bit for pairs that may merge, none: all; see PairTable
//   OWNW            a bit for each piece that is encoded as itself; none: nobody has looked
//   KIND            u8 type of each piece
//   RSVD            WORD of the pieces that segmentation never makes
//   RANK            u32 place of each piece in the order of scores; of each pair of a LooseBPE
//   RUNS            WORD of the pieces that stand for runs
//   TRIE OFRS       see trie.hpp; f64 what each piece counts
//   COST            i32 what each piece costs
//   PT00 PT01 ...   split patterns, see pattern.hpp
//   DECO            the way back, see decoder.hpp
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/compiler.hpp"
#include "base/errors.hpp"
#include "base/hash.hpp"
#include "tables/opcodes.hpp"

namespace mtkit {

using Bytes = std::span<const std::byte>;

// Types of pieces, as SentencePiece numbers them.
inline constexpr std::uint8_t NORMAL = 1;
inline constexpr std::uint8_t USER_DEFINED = 4;
inline constexpr std::uint8_t UNUSED = 5;

class Tables {
  public:
    void add(const std::string &tag, Bytes bytes);

    [[nodiscard]] bool has(const char *tag) const { return sections_.contains(tag); }

    // A section; empty where there is none.
    [[nodiscard]] Bytes bytes(const char *tag) const;
    [[nodiscard]] std::string_view text(const char *tag) const;

    // A copy of a section, which nobody else changes; as long as this lives.
    Bytes copy(const char *tag);

    // A section as numbers. One whose address is not aligned is copied (a file in a pipe).
    template <typename T> std::span<const T> numbers(const char *tag) {
        const Bytes raw = bytes(tag);
        const bool is_aligned = reinterpret_cast<std::uintptr_t>(raw.data()) % sizeof(T) == 0;
        return as_numbers<T>(is_aligned ? raw : copy(tag), tag);
    }
    template <typename T> std::span<const T> copied_numbers(const char *tag) {
        return as_numbers<T>(copy(tag), tag);
    }

  private:
    template <typename T> static std::span<const T> as_numbers(Bytes raw, const char *tag) {
        if (raw.size() % sizeof(T) != 0)
            throw FormatError("is " + std::to_string(raw.size()) + " bytes long", tag);
        return {reinterpret_cast<const T *>(raw.data()), raw.size() / sizeof(T)};
    }

    std::map<std::string, Bytes, std::less<>> sections_;
    std::vector<std::unique_ptr<std::uint64_t[]>> copies_;
};

// Byte strings by number: all their bytes, and where each ends.
class PieceTable {
  public:
    PieceTable() = default;
    PieceTable(std::string_view blob, std::span<const std::uint32_t> ends)
        : blob_(blob), ends_(ends) {}
    PieceTable(Tables &tables, const char *blob, const char *ends)
        : blob_(tables.text(blob)), ends_(tables.numbers<std::uint32_t>(ends)) {}

    [[nodiscard]] std::size_t size() const { return ends_.size(); }
    // Throws FormatError where a piece does not lie in `blob`.
    void require_inside() const;

    // Piece number `index`; empty for a number that is none and where the ends are damaged.
    [[nodiscard]] std::string_view operator[](std::size_t index) const {
        if (index >= ends_.size()) return {};
        const std::size_t end = ends_[index];
        const std::size_t start = index == 0 ? 0 : ends_[index - 1];
        if (start > end || end > blob_.size()) return {};
        return {blob_.data() + start, end - start};
    }

    // Take all of them in order; memory may be read as far as the end of their bytes. Those that
    // end where no piece can are left out.
    template <typename Take> void each(const Take &take) const {
        const auto blob = blob_;
        const char *const readable = blob.data() + blob.size();
        std::size_t start = 0;
        for (const std::size_t end : ends_) {
            if (start <= end && end <= blob.size())
                take(std::string_view(blob.data() + start, end - start), readable);
            start = end;
        }
    }

    // hash_bytes() of a piece that is one of these and not empty.
    [[nodiscard]] std::uint64_t hash_of(std::string_view piece) const {
        const auto readable = static_cast<std::size_t>(blob_.data() + blob_.size() - piece.data());
        if (piece.size() > SHORT_WORD || readable < SHORT_WORD) return hash_bytes(piece);
        return hash_short(piece.data(), piece.size());
    }

  private:
    std::string_view blob_;
    std::span<const std::uint32_t> ends_;
};

// The first of `count` pieces, from a number on, that is listed: a byte each, of which 0 says no;
// all are where there are no bytes. `count`: none is.
inline std::uint32_t next_listed(std::string_view listed, std::uint32_t number,
                                 std::uint32_t count) {
    if (listed.empty()) return number;
    constexpr std::uint32_t STEP = sizeof(std::uint64_t);
    const auto end = static_cast<std::uint32_t>(std::min<std::size_t>(listed.size(), count));
    while (number + STEP <= end && load64(listed.data() + number) == 0) number += STEP;
    while (number < end && listed[number] == 0) ++number;
    return number < end ? number : count;
}

// Byte string -> number of the first piece that equals it.
//
// Slot: low half number + 1 (0: free), high half the upper half of the hash; linear probing.
class WordTable {
  public:
    WordTable() = default;
    WordTable(std::span<const std::uint64_t> slots, PieceTable pieces, PieceTable extra);
    // WORD, with the pieces and the other parts of merges.
    explicit WordTable(Tables &tables)
        : WordTable(tables.numbers<std::uint64_t>("WORD"), {tables, "PCSB", "PCSE"},
                    {tables, "XTRB", "XTRE"}) {}

    [[nodiscard]] std::uint32_t find(std::string_view word) const {
        return slots_.empty() || word.size() > longest_ ? NONE : find(word, hash_bytes(word));
    }
    // With the hash of the word, where that is at hand.
    [[nodiscard]] std::uint32_t find(std::string_view word, std::uint64_t hash) const;

    // Length of the longest piece, for bounding searches.
    [[nodiscard]] std::size_t longest() const { return longest_; }

    [[nodiscard]] const PieceTable &pieces() const { return pieces_; }
    // How many strings there are numbers of; not all of them need be found.
    [[nodiscard]] std::size_t count() const { return pieces_.size() + extra_.size(); }

    // The string of a number.
    [[nodiscard]] std::string_view operator[](std::size_t index) const {
        return index < pieces_.size() ? pieces_[index] : extra_[index - pieces_.size()];
    }
    // Take all strings, see PieceTable.
    template <typename Take> void each(const Take &take) const {
        pieces_.each(take);
        extra_.each(take);
    }

  private:
    friend class WordFilter;
    // `same(data)`: whether a piece as long as the word is the word.
    template <typename Same>
    [[nodiscard]] std::uint32_t find(std::string_view word, std::uint64_t hash,
                                     const Same &same) const;

    std::span<const std::uint64_t> slots_;
    PieceTable pieces_;
    PieceTable extra_;
    std::size_t longest_ = 0;
};

// Which words may be in a WordTable: a bit each, by their hashes. Where few are, this stays in the
// processor's cache, which the table does not.
class WordFilter {
  public:
    explicit WordFilter(const WordTable &words);

    [[nodiscard]] bool may_have(std::uint64_t hash) const {
        const std::uint64_t bit = hash >> shift_;
        return (bits_[bit / 64] >> (bit % 64) & 1) != 0;
    }

  private:
    std::vector<std::uint64_t> bits_;
    unsigned shift_;
};

inline constexpr unsigned SYMBOL_BITS = 21;
inline constexpr std::uint32_t SYMBOL_LIMIT = (1U << SYMBOL_BITS) - 1;

// Pair of symbols -> rank of its merge, and rank -> symbol made.
//
// Slot: left, right, rank, 21 bits each from the top; all ones: free.
// Most pairs do not merge: their bits, a power of two of them, stay in the processor's cache where
// the slots do not fit.
class PairTable {
  public:
    explicit PairTable(Tables &tables);

    static std::uint64_t key(std::uint32_t left, std::uint32_t right) {
        return (static_cast<std::uint64_t>(left) << SYMBOL_BITS) | right;
    }
    static std::uint64_t place(std::uint64_t key) {
        key *= FACTOR;
        return key ^ (key >> 32);
    }

    // Shift of place() to the bit of a pair, of so many.
    static unsigned bit_shift(std::size_t bits) {
        return static_cast<unsigned>(64 - std::countr_zero(bits));
    }

    // Where a pair may be found: on its way into the processor's cache; NOWHERE: it does not merge.
    using Asked = std::uint64_t;
    static constexpr Asked NOWHERE = ~Asked{0};
    [[nodiscard]] Asked ask(std::uint32_t left, std::uint32_t right) const {
        const std::uint64_t at = place(key(left, right));
        const std::uint64_t bit = at >> bit_shift_;
        if ((bits_[bit / 64] >> (bit % 64) & 1) == 0) return NOWHERE;
        const std::uint64_t slot = at & (slots_.size() - 1);
        mtkit::prefetch(&slots_[slot]);
        return slot;
    }
    // Rank of its merge, NONE where there is none.
    [[nodiscard]] std::uint32_t rank(Asked asked, std::uint32_t left, std::uint32_t right) const {
        return asked == NOWHERE ? NONE : find(asked, key(left, right));
    }
    // The same, by its key.
    [[nodiscard]] std::uint32_t find(std::size_t at, std::uint64_t wanted) const {
        const std::size_t mask = slots_.size() - 1;
        for (std::size_t tries = 0; tries <= mask; ++tries, at = (at + 1) & mask) {
            const std::uint64_t slot = slots_[at];
            if (slot == FREE) return NONE;
            if (slot >> SYMBOL_BITS == wanted) {
                const auto found = static_cast<std::uint32_t>(slot & SYMBOL_LIMIT);
                if (found >= made_.size()) return NONE;
                if (!in_order_) mtkit::prefetch(made_.data() + found);
                return found;
            }
        }
        return NONE;
    }
    // The same of two symbols, which may be NONE.
    [[nodiscard]] std::uint32_t rank(std::uint32_t left, std::uint32_t right) const {
        if (left >= SYMBOL_LIMIT || right >= SYMBOL_LIMIT) return NONE;
        return rank(ask(left, right), left, right);
    }

    // Symbol that the merge of that rank makes. Mostly they have numbers in the order of their
    // ranks, and need not be read.
    [[nodiscard]] std::uint32_t made(std::uint32_t rank) const {
        return in_order_ ? first_made_ + rank : made_[rank];
    }

  private:
    static constexpr std::uint64_t FACTOR = 0x9E3779B97F4A7C15ULL;
    static constexpr std::uint64_t FREE = ~std::uint64_t{0};
    static constexpr std::uint64_t ALL[] = {~std::uint64_t{0}};
    static constexpr std::uint64_t NOTHING[] = {FREE};

    bool in_order_ = false;
    std::uint32_t first_made_ = 0;

    std::span<const std::uint64_t> slots_; // a power of two
    std::span<const std::uint32_t> made_;
    std::span<const std::uint64_t> bits_ = ALL;
    unsigned bit_shift_;
};

} // namespace mtkit
