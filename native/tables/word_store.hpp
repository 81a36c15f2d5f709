// Words of any length with their ids, in one block of memory that is given up as a whole.
//
// The block begins with a table of 8 bytes a word, which says where each lies: in eight places that
// are a line of the processor's cache. The words lie behind it, the last one first; their places
// are counted from the end, so that they hold when either part grows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.hpp"

namespace mtkit {

class WordStore {
  public:
    struct Key {
        std::string_view text;
        unsigned kind;
        std::uint64_t hash; // its upper bits tell words apart
    };

    // Null where it is not known; in place until the next put().
    [[nodiscard]] const std::uint32_t *find(const Key &key, std::size_t &count) const {
        if (buckets_ == 0) return nullptr;
        const std::uint32_t tag = tag_of(key.hash);
        for (const auto &slot : bucket(tag).slots) {
            if (slot.at == 0) return nullptr;
            if (slot.tag != tag) continue;
            const std::uint32_t *const entry = end() - slot.at;
            const std::uint32_t *const text = entry + HEAD;
            if (entry[0] != head_of(key)) continue;
            const auto *const bytes = reinterpret_cast<const char *>(text);
            if (!same_bytes(bytes, key.text.data(), key.text.size())) continue;
            count = entry[1];
            return text + numbers_in(key.text);
        }
        return nullptr;
    }

    // Keep a word of at least one id; it may take the place of another. False: there is no room for
    // it in `most_bytes`, or these are fewer than a first table takes, twice.
    bool put(const Key &key, const std::uint32_t *ids, std::size_t count, std::size_t most_bytes) {
        if (count == 0) return true;
        const std::uint32_t tag = tag_of(key.hash);
        const std::size_t most = most_bytes / sizeof(Bucket);
        if (2 * kept_ >= WAYS * buckets_) grow(most);
        if (buckets_ == 0) return false;
        // Where a bucket is too small, the next one would be lost, and then another to it.
        while (free_slot(tag) == nullptr && kept_ >= buckets_ && grow(most)) {
        }
        const std::size_t text = numbers_in(key.text);
        const std::size_t numbers = numbers_ + HEAD + text + count;
        if (!make_room(buckets_, numbers, most)) return false;
        numbers_ = numbers;
        Slot *const room = free_slot(tag);
        if (room != nullptr) ++kept_;
        Slot &slot = room != nullptr ? *room : bucket(tag).slots[0];
        slot = {tag, static_cast<std::uint32_t>(numbers)};
        std::uint32_t *const entry = end() - numbers;
        entry[0] = head_of(key);
        entry[1] = static_cast<std::uint32_t>(count);
        std::memcpy(entry + HEAD, key.text.data(), key.text.size());
        std::copy_n(ids, count, entry + HEAD + text);
        return true;
    }

    // Forget all of them, but keep the memory where it is no more than that.
    void clear(std::size_t most_bytes) {
        if (memory() > most_bytes) {
            *this = WordStore();
            return;
        }
        std::fill_n(block_.get(), buckets_, Bucket());
        numbers_ = kept_ = 0;
    }

    // Bytes in use, and bytes that it has.
    [[nodiscard]] std::size_t used() const {
        return buckets_ * sizeof(Bucket) + numbers_ * sizeof(std::uint32_t);
    }
    [[nodiscard]] std::size_t memory() const { return size_ * sizeof(Bucket); }

  private:
    static constexpr std::size_t FIRST_BUCKETS = 32;
    static constexpr std::size_t GROWTH = 4;
    static constexpr std::size_t WAYS = 8;
    static constexpr std::size_t HEAD = 2; // what it is, how many ids; the text and the ids follow
    struct Slot {
        std::uint32_t tag;
        std::uint32_t at; // in numbers from the end; 0: free
    };
    struct alignas(WAYS * sizeof(Slot)) Bucket {
        Slot slots[WAYS];
    };

    static std::uint32_t tag_of(std::uint64_t hash) {
        return static_cast<std::uint32_t>(hash >> 32);
    }
    static std::uint32_t head_of(const Key &key) {
        return static_cast<std::uint32_t>(key.text.size() << 4 | std::size_t{key.kind});
    }
    static std::size_t numbers_in(std::string_view text) { return (text.size() + 3) / 4; }
    // What numbers take of the block.
    static std::size_t lines_in(std::size_t numbers) {
        constexpr std::size_t LINE = sizeof(Bucket) / sizeof(std::uint32_t);
        return (numbers + LINE - 1) / LINE;
    }
    [[nodiscard]] Bucket &bucket(std::uint32_t tag) const { return block_[tag >> shift_]; }
    [[nodiscard]] std::uint32_t *end() const {
        return reinterpret_cast<std::uint32_t *>(block_.get() + size_);
    }

    // False where there is no room in `most` lines.
    bool make_room(std::size_t buckets, std::size_t numbers, std::size_t most) {
        const std::size_t lines = buckets + lines_in(numbers);
        if (lines <= size_) return true;
        if (lines > most) return false;
        move_to(std::min(GROWTH * lines, most));
        return true;
    }
    void move_to(std::size_t size) {
        auto larger = std::make_unique_for_overwrite<Bucket[]>(size);
        const std::size_t words = lines_in(numbers_);
        std::copy_n(block_.get(), buckets_, larger.get());
        std::copy_n(block_.get() + size_ - words, words, larger.get() + size - words);
        block_ = std::move(larger);
        size_ = size;
    }
    // A larger table: at most half of `most` lines. False where there is no room for it.
    bool grow(std::size_t most) {
        const std::size_t buckets = std::max(FIRST_BUCKETS, GROWTH * buckets_);
        if (2 * buckets > most || !make_room(buckets, numbers_, most)) return false;
        const std::vector<Bucket> before(block_.get(), block_.get() + buckets_);
        std::fill_n(block_.get(), buckets, Bucket());
        buckets_ = buckets;
        shift_ = static_cast<unsigned>(32 - std::countr_zero(buckets_));
        kept_ = 0;
        for (const auto &old : before) {
            for (const auto &slot : old.slots) {
                if (slot.at == 0) continue;
                if (Slot *const room = free_slot(slot.tag)) {
                    *room = slot;
                    ++kept_;
                }
            }
        }
        return true;
    }
    // Null where there is none for a word.
    Slot *free_slot(std::uint32_t tag) {
        for (auto &slot : bucket(tag).slots)
            if (slot.at == 0) return &slot;
        return nullptr;
    }

    std::unique_ptr<Bucket[]> block_; // not cleared
    std::size_t size_ = 0;            // of the block, in lines
    std::size_t buckets_ = 0;         // lines of the table, a power of two
    unsigned shift_ = 32;
    std::size_t numbers_ = 0; // of the words, from the end
    std::size_t kept_ = 0;
};

} // namespace mtkit
