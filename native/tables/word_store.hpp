// Words of any length with their ids, in one block of memory that is given up as a whole.
//
// A table of 8 bytes a word says where each lies: in eight places that are a line of the
// processor's cache.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace mtkit {

class WordStore {
  public:
    // What is kept is a word, or part of one that is encoded in another way.
    struct Key {
        std::string_view text;
        bool part;
        std::uint64_t hash; // its upper bits tell words apart
    };

    // Null where it is not known; in place until the next put().
    [[nodiscard]] const std::uint32_t *find(const Key &key, std::size_t &count) const {
        if (buckets_.empty()) return nullptr;
        const std::uint32_t tag = tag_of(key.hash);
        for (const auto &slot : buckets_[tag >> shift_].slots) {
            if (slot.at == 0) return nullptr;
            if (slot.tag != tag) continue;
            const std::uint32_t *const entry = numbers_.data() + slot.at;
            const std::uint32_t *const text = entry + HEAD;
            if (entry[0] != head_of(key)) continue;
            if (std::memcmp(text, key.text.data(), key.text.size()) != 0) continue;
            count = entry[1];
            return text + numbers_in(key.text);
        }
        return nullptr;
    }

    // Keep a word of at least one id; it may take the place of another. `most_bytes` is what the
    // caller lets it grow to: beyond is at most one word.
    void put(const Key &key, const std::uint32_t *ids, std::size_t count, std::size_t most_bytes) {
        if (count == 0) return;
        const auto can_grow = [&] {
            return 2 * GROWTH * table_bytes() <= most_bytes &&
                   GROWTH * table_bytes() + 4 * numbers_.capacity() <= most_bytes;
        };
        if (2 * kept_ >= WAYS * buckets_.size() && (buckets_.empty() || can_grow())) grow();
        Slot *room = free_slot(tag_of(key.hash));
        // Where eight are not enough, the next one would be lost, and then another to it.
        while (room == nullptr && 8 * kept_ >= WAYS * buckets_.size() && can_grow()) {
            grow();
            room = free_slot(tag_of(key.hash));
        }
        if (room != nullptr) ++kept_;
        Slot &slot = room != nullptr ? *room : buckets_[tag_of(key.hash) >> shift_].slots[0];
        const std::size_t text = numbers_in(key.text);
        const std::size_t at = numbers_.size();
        const std::size_t end = at + HEAD + text + count;
        if (end > numbers_.capacity()) {
            const std::size_t most = (most_bytes - std::min(most_bytes, table_bytes())) / 4;
            numbers_.reserve(std::max(std::min(GROWTH * end, most), end));
        }
        slot = {tag_of(key.hash), static_cast<std::uint32_t>(at)};
        numbers_.resize(end);
        std::uint32_t *const entry = numbers_.data() + at;
        entry[0] = head_of(key);
        entry[1] = static_cast<std::uint32_t>(count);
        std::memcpy(entry + HEAD, key.text.data(), key.text.size());
        std::copy_n(ids, count, entry + HEAD + text);
    }

    // Forget all of them, but keep the memory where it is no more than that.
    void clear(std::size_t most_bytes) {
        if (memory() > most_bytes) {
            *this = WordStore();
            return;
        }
        std::fill(buckets_.begin(), buckets_.end(), Bucket());
        numbers_.resize(std::min<std::size_t>(numbers_.size(), 1));
        kept_ = 0;
    }

    // Bytes in use, and bytes that it has.
    [[nodiscard]] std::size_t used() const { return table_bytes() + 4 * numbers_.size(); }
    [[nodiscard]] std::size_t memory() const {
        return buckets_.capacity() * sizeof(Bucket) + 4 * numbers_.capacity();
    }

  private:
    static constexpr std::size_t FIRST_BUCKETS = 32;
    static constexpr std::size_t GROWTH = 4;
    static constexpr std::size_t WAYS = 8;
    static constexpr std::size_t HEAD = 2; // what it is, how many ids; the text and the ids follow
    struct Slot {
        std::uint32_t tag;
        std::uint32_t at; // among the numbers; 0: free
    };
    struct alignas(WAYS * sizeof(Slot)) Bucket {
        Slot slots[WAYS];
    };

    static std::uint32_t tag_of(std::uint64_t hash) {
        return static_cast<std::uint32_t>(hash >> 32);
    }
    static std::uint32_t head_of(const Key &key) {
        return static_cast<std::uint32_t>(key.text.size() << 1 | std::size_t{key.part});
    }
    static std::size_t numbers_in(std::string_view text) { return (text.size() + 3) / 4; }
    [[nodiscard]] std::size_t table_bytes() const { return buckets_.size() * sizeof(Bucket); }

    void grow() {
        std::vector<Bucket> before(std::max(FIRST_BUCKETS, GROWTH * buckets_.size()));
        before.swap(buckets_);
        shift_ = static_cast<unsigned>(32 - std::countr_zero(buckets_.size()));
        if (numbers_.empty()) numbers_.push_back(0); // nothing lies at 0
        kept_ = 0;
        for (const auto &bucket : before) {
            for (const auto &slot : bucket.slots) {
                if (slot.at == 0) continue;
                if (Slot *const room = free_slot(slot.tag)) {
                    *room = slot;
                    ++kept_;
                }
            }
        }
    }
    // Null where there is none for a word.
    Slot *free_slot(std::uint32_t tag) {
        for (auto &slot : buckets_[tag >> shift_].slots)
            if (slot.at == 0) return &slot;
        return nullptr;
    }

    std::vector<Bucket> buckets_; // a power of two
    unsigned shift_ = 32;
    std::vector<std::uint32_t> numbers_;
    std::size_t kept_ = 0;
};

} // namespace mtkit
