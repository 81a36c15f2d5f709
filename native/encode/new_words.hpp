// New words of a text, which are encoded together, see Model::encode_together(). Until then there
// is a gap where their ids go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "encode/id_list.hpp"
#include "models/models.hpp"
#include "tables/cache.hpp"

namespace mtkit {

class NewWords {
  public:
    static constexpr std::size_t MOST = Model::TOGETHER;

    // A short word, whose ids go behind the first `before` of those that are there.
    void add(std::string_view word, const WordCache::Key &key, std::size_t before) {
        std::size_t number = 0;
        while (number < count_ && !(words_[number].key == key)) ++number;
        if (number == count_) words_[count_++] = {key, word.data(), word.size()};
        gaps_[gap_count_++] = {before, number};
    }
    [[nodiscard]] bool any() const { return gap_count_ != 0; }
    // Whether there is no room for another.
    [[nodiscard]] bool full() const { return count_ == MOST || gap_count_ == MOST_GAPS; }

    // Each of them once.
    std::span<const std::string_view> texts(std::string_view (&room)[MOST]) const {
        for (std::size_t number = 0; number < count_; ++number) room[number] = text(number);
        return {room, count_};
    }
    // The ids of one, at most one for each byte.
    void put(std::size_t number, std::span<const std::uint32_t> ids) {
        std::ranges::copy(ids, ids_[number]);
        sizes_[number] = ids.size();
    }
    // Put them where they belong. There are none left.
    void fill_gaps(IdList &out) {
        std::size_t added = 0;
        for (std::size_t i = 0; i < gap_count_; ++i) added += sizes_[gaps_[i].word];
        std::uint32_t *const end = out.room(added);
        std::uint32_t *const ids = end - out.size();
        std::uint32_t *to = end + added; // from the last one on, what is behind it moves first
        std::size_t moved = out.size();
        for (std::size_t i = gap_count_; i-- > 0;) {
            const auto &[before, word] = gaps_[i];
            to -= moved - before;
            std::memmove(to, ids + before, (moved - before) * sizeof *ids);
            to -= sizes_[word];
            std::copy_n(ids_[word], sizes_[word], to);
            moved = before;
        }
        out.advance(added);
        count_ = gap_count_ = 0;
    }

  private:
    static constexpr std::size_t MOST_GAPS = 4 * MOST;
    // Plain structs, left uninitialised.
    struct Word {
        WordCache::Key key;
        const char *data;
        std::size_t size;
    };
    struct Gap {
        std::size_t before;
        std::size_t word;
    };
    [[nodiscard]] std::string_view text(std::size_t number) const {
        return {words_[number].data, words_[number].size};
    }

    Word words_[MOST];
    std::size_t count_ = 0;
    Gap gaps_[MOST_GAPS];
    std::size_t gap_count_ = 0;
    std::uint32_t ids_[MOST][WordCache::SHORT];
    std::size_t sizes_[MOST];
};

} // namespace mtkit
