// Words that certainly start in blocks of 64 bytes: where the cache has them is on its way into the
// processor's cache while those of blocks in front are written.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/hash.hpp"
#include "steps/word_starts.hpp"
#include "tables/cache.hpp"

namespace mtkit {

class WordBlocks {
  public:
    static constexpr std::size_t BLOCK = 64;
    struct Block {
        const unsigned char *begin;
        const unsigned char *end; // of the last word
        std::uint64_t starts;     // where each but the first begins, and the last ends
        WordCache::Fast::Asked asked[BLOCK];
    };

    // Blocks of a text that ends at `stop`, begin at `last` at the latest, and have words that lie
    // in `cache`.
    WordBlocks(WordCache::Fast cache, WordStarts word_starts, const unsigned char *last,
               const unsigned char *stop)
        : cache_(cache), word_starts_(word_starts), last_(last), stop_(stop) {}

    // Eight bytes of ASCII: whether a block is worth looking at.
    static bool all_ascii(const unsigned char *at) {
        return (load64(reinterpret_cast<const char *>(at)) & HIGH_BITS) == 0;
    }

    // Whether words lie where they lay when they were asked for.
    [[nodiscard]] bool still_lie_in(const WordCache::Fast &cache) const { return cache == cache_; }

    // The block that begins somewhere, which is in turn now.
    const Block &turn_to(const unsigned char *place, const WordCache::Fast &cache) {
        if (turn_ == end_ || block(turn_).begin != place || !still_lie_in(cache)) {
            cache_ = cache;
            turn_ = end_ = 0;
            ask(place);
        }
        return block(turn_);
    }
    // The one behind it is in turn; where this one has no words, turn_to() begins anew.
    void go_on() {
        const Block &done = block(turn_);
        if (done.starts == 0) return;
        if (++turn_ == end_) ask(done.end);
    }

  private:
    static constexpr std::size_t COUNT = 2; // that in turn, and the next one

    Block &block(std::size_t number) { return blocks_[number % COUNT]; }
    void ask(const unsigned char *from) {
        Block &block = this->block(end_++);
        block.begin = block.end = from;
        block.starts = 0;
        if (from > last_ || !all_ascii(from)) return;
        const auto size_of_block = std::min(BLOCK, static_cast<std::size_t>(stop_ - from));
        block.starts = word_starts_(from, size_of_block) & ~std::uint64_t{1};
        auto *asked = block.asked;
        for (auto rest = block.starts; rest != 0; rest &= rest - 1) {
            const auto *const next = from + std::countr_zero(rest);
            const auto size = static_cast<std::size_t>(next - block.end);
            // A long one has the key of another, and is not looked for.
            *asked++ = cache_.ask(reinterpret_cast<const char *>(block.end),
                                  std::min(size, WordCache::SHORT), WordCache::WORD);
            block.end = next;
        }
    }

    Block blocks_[COUNT];
    std::size_t turn_ = 0; // those from here to the end are asked for
    std::size_t end_ = 0;
    WordCache::Fast cache_;
    WordStarts word_starts_;
    const unsigned char *last_;
    const unsigned char *stop_;
};

} // namespace mtkit
