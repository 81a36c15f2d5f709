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
    static constexpr auto KIND =
        static_cast<WordCache::Kind>(WordCache::CHUNK | WordCache::WITH_PLACES);
    [[nodiscard]] const WordCache &known() const { return scratch_.model.cache; }
    void begin(const char *at, std::size_t place) {
        begin_ = at;
        place_ = place;
    }
    void resume() {
        to_ = ids_.room(1);
        to_places_ = places_.room(2);
        left_ = std::min(ids_.left(), places_.left() / 2);
    }
    void pause() {
        ids_.end_at(to_);
        places_.end_at(to_places_);
    }
    void write(const WordCache::Short &entry, const char *at) {
        const auto found = known().ids_of(entry);
        const std::size_t count = found.size() / 2;
        if (count > left_) [[unlikely]] {
            pause();
            put_known(found, place(at));
            resume();
            return;
        }
        copy(found, place(at));
        left_ -= count;
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
    [[nodiscard]] std::uint32_t place(const char *at) const {
        return static_cast<std::uint32_t>(place_ + static_cast<std::size_t>(at - begin_));
    }
    // Write what is remembered of a chunk that begins at `start`; there is room.
    void copy(std::span<const std::uint32_t> found, std::uint32_t start) {
        for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
            *to_++ = found[i];
            *to_places_++ = start + WordCache::Placed::start(found[i + 1]);
            *to_places_++ = start + WordCache::Placed::end(found[i + 1]);
        }
    }
    void put_known(std::span<const std::uint32_t> found, std::uint32_t start) {
        to_ = ids_.room(found.size() / 2);
        to_places_ = places_.room(found.size());
        copy(found, start);
        pause();
    }
    // Put what is remembered of a chunk, or what `make` puts.
    template <typename Make> bool remembered(std::string_view chunk, bool head, const Make &make) {
        const bool keeps = chunk.size() <= WordCache::LARGEST && engine_.cacheable_;
        if (!keeps) return make();
        auto &known = scratch_.model.cache;
        const WordCache::Word asked(chunk, head ? WordCache::with_places(WordCache::HEAD) : KIND);
        std::size_t count = 0;
        if (const auto *found = known.find(asked, count)) {
            put_known({found, count}, place(chunk.data()));
            return true;
        }
        const std::size_t before = ids_.size();
        if (!make()) return false;
        auto &packed = scratch_.packed;
        packed.clear();
        const auto *places = places_.data() + 2 * before;
        const std::uint32_t start = place(chunk.data());
        for (const auto id : ids_.ids().subspan(before)) {
            packed.push_back(id);
            packed.push_back(WordCache::Placed::place(places[0] - start, places[1] - start));
            places += 2;
        }
        if (chunk.size() <= WordCache::LONGEST || known.wants(asked, packed.size()))
            known.put(asked, packed.data(), packed.size());
        return true;
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
    std::size_t left_ = 0; // tokens that can be written there
};

} // namespace mtkit
