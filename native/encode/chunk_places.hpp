// Chunks to ids with the places of their tokens, in bytes of the text. One whose characters all
// have images is encoded without the steps.
#pragma once

#include <algorithm>
#include <span>

#include "encode/chunk_steps.hpp"
#include "encode/finder.hpp"

namespace mtkit {

class Engine::ChunkPlaces : ChunkSteps {
  public:
    ChunkPlaces(const Engine &engine, const Chunks &how, Scratch &scratch, IdList &ids,
                IdList &places)
        : ChunkSteps(engine, how, scratch), finder_(engine, scratch), ids_(ids), places_(places) {}

    // As those of ChunkIds.
    [[nodiscard]] const WordCache &known() const { return scratch_.places_of_chunks; }
    void begin(const char *at, std::size_t place) {
        begin_ = at;
        place_ = place;
    }
    void resume() {
        to_ = ids_.room(WordCache::READ_IDS);
        to_places_ = places_.room(2 * WordCache::READ_IDS);
        left_ = std::min(ids_.left(), places_.left() / 2) - WordCache::READ_IDS;
    }
    void pause() {
        ids_.end_at(to_);
        places_.end_at(to_places_);
    }
    void write(const WordCache::Short &entry, const char *at) {
        const std::uint32_t start = place(at);
        for (std::size_t i = 0; i < WordCache::FEW; ++i) unpack(entry.ids[i], start, i);
        const std::size_t count = entry.count();
        if (count <= WordCache::FEW && count <= left_) [[likely]] {
            to_ += count;
            to_places_ += 2 * count;
            left_ -= count;
            return;
        }
        pause();
        put_known(known().ids_of(entry), start, count <= WordCache::FEW);
        resume();
    }
    bool put(std::string_view chunk) {
        // What a step leaves of the first character may belong to the one in front of it.
        const bool behind = how_.removed || chunk[0] == ' ';
        return remembered(chunk, false, [&] {
            return from_images(chunk) || put_new(chunk, {.behind = behind, .in_front = !how_.last});
        });
    }
    bool put_first(std::string_view chunk, bool in_front, bool at_start) {
        const Ends ends{.in_front = in_front, .at_start = at_start};
        const auto make = [&] { return put_new(chunk, ends); };
        return at_start ? remembered(chunk, true, make) : make();
    }
    bool put_last(std::string_view chunk) { return put_new(chunk, {.behind = true}); }

    [[nodiscard]] std::size_t size() const { return ids_.size(); }
    void cut(std::size_t size) {
        ids_.cut(size);
        places_.cut(2 * size);
    }

  private:
    // A few tokens of a short chunk are a number each: the id, which is not kept where it is too
    // large, and where it starts and ends in the chunk. Others are two: the id, and both places.
    static constexpr unsigned ID_BITS = 24;
    static constexpr unsigned PLACE_BITS = 4;
    static constexpr std::uint32_t ID_LIMIT = 1U << ID_BITS;
    static constexpr std::uint32_t PLACE_LIMIT = 1U << PLACE_BITS;
    static_assert(WordCache::SHORT < PLACE_LIMIT);
    static_assert(WordCache::LARGEST < 1U << 16);

    [[nodiscard]] std::uint32_t place(const char *at) const {
        return static_cast<std::uint32_t>(place_ + static_cast<std::size_t>(at - begin_));
    }
    void unpack(std::uint32_t packed, std::uint32_t start, std::size_t i) {
        to_[i] = packed % ID_LIMIT;
        to_places_[2 * i] = start + (packed >> ID_BITS) % PLACE_LIMIT;
        to_places_[2 * i + 1] = start + (packed >> (ID_BITS + PLACE_BITS));
    }

    static bool is_few(std::string_view chunk, std::size_t count) {
        return chunk.size() <= WordCache::SHORT && count <= WordCache::FEW;
    }
    // Put what is remembered of a chunk, or what `make` puts.
    template <typename Make> bool remembered(std::string_view chunk, bool head, const Make &make) {
        const bool keeps = chunk.size() <= WordCache::LARGEST && engine_.cacheable_;
        if (!keeps) return make();
        const WordCache::Word asked(chunk, head);
        std::size_t count = 0;
        if (const auto *found = scratch_.places_of_chunks.find(asked, count)) {
            put_known({found, count}, place(chunk.data()), is_few(chunk, count));
            return true;
        }
        const std::size_t before = ids_.size();
        if (!make()) return false;
        keep(chunk, asked, before);
        return true;
    }
    void put_known(std::span<const std::uint32_t> found, std::uint32_t start, bool few) {
        const std::size_t count = few ? found.size() : found.size() / 2;
        to_ = ids_.room(count);
        to_places_ = places_.room(2 * count);
        for (std::size_t i = 0; i < count; ++i) {
            if (few) {
                unpack(found[i], start, i);
            } else {
                to_[i] = found[2 * i];
                to_places_[2 * i] = start + (found[2 * i + 1] & 0xFFFF);
                to_places_[2 * i + 1] = start + (found[2 * i + 1] >> 16);
            }
        }
        ids_.advance(count);
        places_.advance(2 * count);
    }
    // Remember what was put last, from id number `before` on.
    void keep(std::string_view chunk, const WordCache::Word &asked, std::size_t before) {
        const std::uint32_t start = place(chunk.data());
        auto &packed = scratch_.packed;
        packed.clear();
        const auto ids = ids_.ids().subspan(before);
        const bool few = is_few(chunk, ids.size());
        const auto *places = places_.data() + 2 * before;
        for (const auto id : ids) {
            const std::uint32_t from = *places++ - start;
            const std::uint32_t to = *places++ - start;
            if (few) {
                if (id >= ID_LIMIT) return;
                packed.push_back(to << (ID_BITS + PLACE_BITS) | from << ID_BITS | id);
            } else {
                packed.push_back(id);
                packed.push_back(to << 16 | from);
            }
        }
        auto &known = scratch_.places_of_chunks;
        if (chunk.size() <= WordCache::LONGEST || known.wants(asked, packed.size()))
            known.put(asked, packed.data(), packed.size());
    }
    bool put_new(std::string_view chunk, const Ends &ends) {
        bool inside = true;
        const auto put = [&](std::string_view word, const Extent *extents, std::size_t shift) {
            inside = put_word(chunk, word, extents, shift) && inside;
        };
        return words(chunk, ends, true, put) && inside;
    }
    // Put the tokens of a word; `extents` are bytes of the chunk, counted from `shift` on. False:
    // one reaches out of the chunk.
    bool put_word(std::string_view chunk, std::string_view word, const Extent *extents,
                  std::size_t shift) {
        const std::size_t start = place(chunk.data()) - shift;
        bool inside = true;
        std::size_t first = 0; // of the token
        const auto start_of = [&](std::size_t at) {
            first = extents[at].start;
            inside = inside && first >= shift;
            return start + first;
        };
        const auto end_of = [&](std::size_t at) {
            const std::size_t end = extents[at - 1].end;
            inside = inside && end >= first && end <= shift + chunk.size();
            return start + end;
        };
        finder_.put(word, ids_, places_, start_of, end_of);
        return inside;
    }
    // A chunk of which every character is its image, which stands for it alone.
    bool from_images(std::string_view chunk) {
        // A longer chunk is not remembered, and its extents would take 24 bytes a byte.
        if (!how_.placed || chunk.size() > WordCache::LARGEST) return false;
        const std::size_t before = ids_.size();
        const std::size_t front = how_.before.size();
        auto &extents = scratch_.extents;
        const std::size_t most = front + (chunk.size() + 1) * Chunks::Image::MOST;
        if (extents.size() < most) extents.resize(most);
        const auto image_of = [&](std::size_t at) {
            return known_image(scratch_.placed, chunk, at, [&](std::string_view character) {
                return engine_.find_placed_image(character, how_, scratch_);
            });
        };
        // What is written for a character stands for it, and so does what stands in front of the
        // first of a word.
        const auto wrote = [&](std::size_t to, std::size_t at, std::size_t size) {
            const Extent own{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + size)};
            if (to == 0) std::fill_n(extents.data(), front, own);
            std::fill_n(extents.data() + front + to, Chunks::Image::MOST, own);
        };
        const auto put = [&](std::string_view word) {
            return put_word(chunk, word, extents.data(), 0);
        };
        const bool done = words_of_images(chunk, image_of, wrote, put);
        if (!done) cut(before);
        return done;
    }

    Finder finder_;
    IdList &ids_;
    IdList &places_; // two for each id
    const char *begin_ = nullptr;
    std::size_t place_ = 0;
    std::uint32_t *to_ = nullptr;
    std::uint32_t *to_places_ = nullptr;
    std::size_t left_ = 0; // tokens that can be written there, and READ_IDS more
};

} // namespace mtkit
