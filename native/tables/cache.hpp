// Ids of words seen before. Bounded; an entry may be overwritten at any time.
//
// Short words (up to 15 bytes) with up to three ids are 32 bytes in a direct-mapped table that
// grows with use to 2 MB; longer ones lie in a second table that is wiped when its 1 MB is full.
// Belongs to one call at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hash.hpp"

namespace mtkit {

class WordCache {
  public:
    static constexpr std::size_t LONGEST = 255;

    // Ids of a word, in place until the next put(); null when it is not known.
    const std::uint32_t *find(std::string_view word, std::size_t &count) {
        if (word.size() <= 15) {
            key_ = key_of(word);
            hash_ = mix((key_.low ^ (key_.high * 0x9E3779B97F4A7C15ULL)) * 0xE7037ED1A0B428DBULL);
            if (!short_.empty()) {
                const auto &entry = short_[hash_ & (short_.size() - 1)];
                if (entry.key == key_) {
                    count = entry.count;
                    return entry.ids;
                }
            }
        } else {
            hash_ = hash_bytes(word);
        }
        if (long_.empty()) return nullptr;
        const auto &entry = long_[hash_ & (long_.size() - 1)];
        if (entry.hash != hash_ || entry.size != word.size() || entry.size == 0) return nullptr;
        if (std::memcmp(bytes_.data() + entry.bytes, word.data(), word.size()) != 0) return nullptr;
        count = entry.count;
        return ids_.data() + entry.ids;
    }

    // Remember the ids of the word that was last asked for.
    void put(std::string_view word, const std::uint32_t *ids, std::size_t count) {
        if (word.size() <= 15 && count <= 3) {
            if (short_.empty() || (inserted_ > short_.size() && short_.size() < MOST)) grow();
            ++inserted_;
            Short entry{key_, static_cast<std::uint32_t>(count), {}};
            std::copy_n(ids, count, entry.ids);
            short_[hash_ & (short_.size() - 1)] = entry;
            return;
        }
        if (long_.empty() || bytes_.size() + 4 * (ids_.size() + count) + word.size() > POOL) {
            long_.assign(LONG_SLOTS, {});
            bytes_.clear();
            ids_.clear();
        }
        long_[hash_ & (long_.size() - 1)] = {hash_, static_cast<std::uint32_t>(bytes_.size()),
                                             static_cast<std::uint32_t>(ids_.size()),
                                             static_cast<std::uint32_t>(word.size()),
                                             static_cast<std::uint32_t>(count)};
        bytes_.append(word);
        ids_.insert(ids_.end(), ids, ids + count);
    }

  private:
    static constexpr std::size_t FIRST = 1U << 10;
    static constexpr std::size_t MOST = 1U << 16;
    static constexpr std::size_t LONG_SLOTS = 1U << 14;
    static constexpr std::size_t POOL = 1U << 20;

    struct Key {
        std::uint64_t low;
        std::uint64_t high; // length in the top byte, so that no word has key 0
        bool operator==(const Key &) const = default;
    };
    struct Short {
        Key key;
        std::uint32_t count;
        std::uint32_t ids[3];
    };
    struct Long {
        std::uint64_t hash;
        std::uint32_t bytes;
        std::uint32_t ids;
        std::uint32_t size;
        std::uint32_t count;
    };

    static Key key_of(std::string_view word) {
        const std::size_t head = word.size() < 8 ? word.size() : 8;
        return {load_up_to_8(word.data(), head),
                load_up_to_8(word.data() + head, word.size() - head) |
                    (static_cast<std::uint64_t>(word.size()) << 56)};
    }

    void grow() {
        std::vector<Short> old(short_.empty() ? FIRST : 4 * short_.size());
        old.swap(short_);
        for (const auto &entry : old)
            if (entry.key.high != 0) {
                const auto hash = mix((entry.key.low ^ (entry.key.high * 0x9E3779B97F4A7C15ULL)) *
                                      0xE7037ED1A0B428DBULL);
                short_[hash & (short_.size() - 1)] = entry;
            }
    }

    std::vector<Short> short_;
    std::size_t inserted_ = 0;
    std::vector<Long> long_;
    std::string bytes_;
    std::vector<std::uint32_t> ids_;
    Key key_{};
    std::uint64_t hash_ = 0;
};

} // namespace mtkit
