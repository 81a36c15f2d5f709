// Chunks to ids, or to ids with the places of their tokens, in bytes of the text.
#pragma once

#include <algorithm>
#include <span>

#include "encode/chunk_steps.hpp"
#include "encode/finder.hpp"
#include "encode/ids.hpp"

namespace mtkit {

template <bool Placed> class Engine::ChunkOut : ChunkSteps {
  public:
    // `places`: two numbers for each id, where Placed.
    ChunkOut(const Engine &engine, const Chunks &how, Scratch &scratch, IdList &ids, IdList &places)
        : ChunkSteps(engine, how, scratch), ids_(ids), places_(places) {}

    // What is known of short chunks.
    static constexpr auto KIND = WordCache::with_places(WordCache::CHUNK, Placed);
    [[nodiscard]] const WordCache &known() const { return scratch_.model.cache; }
    // Chunks are put from another text from now on: of the text itself, `at` is where it begins.
    void begin(const char *at, std::size_t place) {
        begin_ = at;
        place_ = place;
    }
    // write() may be called from now on, or no longer.
    void resume() {
        room_ = ids_.room_for_words();
        if constexpr (!Placed) return;
        to_places_ = places_.room(2);
        left_ = std::min(static_cast<std::size_t>(room_.limit - room_.to), places_.left() / 2);
    }
    void pause() {
        ids_.end_at(room_.to);
        if constexpr (Placed) places_.end_at(to_places_);
    }
    // Put a chunk that is known.
    void write(const WordCache::Short &entry, const char *at) {
        if constexpr (Placed) {
            const auto found = known().ids_of(entry);
            if (found.size() / 2 <= left_) [[likely]] {
                left_ -= found.size() / 2;
                return copy(found, place(at));
            }
        } else if (room_.write(entry)) [[likely]] {
            return;
        }
        pause();
        put_known(known().ids_of(entry), at);
        resume();
    }
    // Put a chunk between two seams.
    bool put(std::string_view chunk) {
        return remember(chunk, KIND, [&](bool remembered) {
            if (from_images(chunk, remembered)) return true;
            // Ids need no head where a chunk becomes what it becomes at the beginning of a text;
            // what a step leaves of the first character may belong to the one in front of it.
            const bool behind = (Placed || !how_.first) && (how_.removed || chunk[0] == ' ');
            return put_new(chunk, {.behind = behind, .in_front = !how_.last}, remembered);
        });
    }
    // Put one at an end of the text.
    bool put_first(std::string_view chunk, bool in_front, bool at_start) {
        const auto make = [&](bool remembered) {
            return put_new(chunk, {.in_front = in_front, .at_start = at_start}, remembered);
        };
        return at_start
                   ? remember(chunk, WordCache::with_places(WordCache::FIRST_CHUNK, Placed), make)
                   : make(false);
    }
    bool put_last(std::string_view chunk) { return put_new(chunk, {.behind = true}, false); }

    // How much there is, and taking back what came behind that.
    [[nodiscard]] std::size_t size() const { return ids_.size(); }
    void truncate(std::size_t size) {
        ids_.truncate(size);
        if constexpr (Placed) places_.truncate(2 * size);
    }

  private:
    [[nodiscard]] std::uint32_t place(const char *at) const {
        return static_cast<std::uint32_t>(place_ + static_cast<std::size_t>(at - begin_));
    }
    // Write what is remembered of a chunk that begins at `start`; there is room.
    void copy(std::span<const std::uint32_t> found, std::uint32_t start) {
        for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
            *room_.to++ = found[i];
            *to_places_++ = start + WordCache::Placed::start(found[i + 1]);
            *to_places_++ = start + WordCache::Placed::end(found[i + 1]);
        }
    }
    void put_known(std::span<const std::uint32_t> found, const char *at) {
        if constexpr (!Placed) return ids_.append(found);
        room_.to = ids_.room(found.size() / 2);
        to_places_ = places_.room(found.size());
        copy(found, place(at));
        pause();
    }
    // Put what is remembered of a chunk, or what `make` puts, which is told whether that will be.
    template <typename Make>
    bool remember(std::string_view chunk, WordCache::Kind kind, const Make &make) {
        if (chunk.size() > WordCache::MOST_KEPT || !engine_.cacheable_) return make(false);
        auto &cache = scratch_.model.cache;
        const WordCache::Word asked(chunk, kind);
        std::size_t count = 0;
        if (const auto *found = cache.find(asked, count)) {
            put_known({found, count}, chunk.data());
            return true;
        }
        const std::size_t before = ids_.size();
        if (!make(true)) return false;
        const auto made = made_since(before, chunk);
        if (chunk.size() <= WordCache::ALWAYS_KEPT || cache.wants(asked, made.size()))
            cache.put(asked, made.data(), made.size());
        return true;
    }
    // What was put of a chunk, as it is remembered.
    std::span<const std::uint32_t> made_since(std::size_t before, std::string_view chunk) {
        const auto ids = ids_.ids().subspan(before);
        if constexpr (!Placed) return ids;
        auto &packed = scratch_.packed;
        packed.clear();
        const auto *places = places_.data() + 2 * before;
        const std::uint32_t start = place(chunk.data());
        for (const auto id : ids) {
            packed.push_back(id);
            packed.push_back(WordCache::Placed::place(places[0] - start, places[1] - start));
            places += 2;
        }
        return packed;
    }
    // A chunk of which every character is its image, whatever stands beside it. Images have no
    // places: those of new text gain less than 5 % by them.
    bool from_images(std::string_view chunk, bool remembered) {
        if (Placed || !how_.images) return false;
        const std::size_t before = ids_.size();
        const bool done = words_of_images(chunk, [&](std::string_view word) {
            return put_word(chunk, word, nullptr, 0, remembered);
        });
        if (!done) ids_.truncate(before);
        return done;
    }
    bool put_new(std::string_view chunk, const Ends &ends, bool remembered) {
        bool inside = true;
        const auto put = [&](std::string_view word, const Extent *extents, std::size_t shift) {
            inside = put_word(chunk, word, extents, shift, remembered) && inside;
        };
        return words(chunk, ends, Placed, put) && inside;
    }
    // Put a word of a chunk; `remembered`: what it is in is, and it need not be as well. Its
    // extents are bytes of the chunk, counted from `shift` on. False: a token reaches out of it.
    bool put_word(std::string_view chunk, std::string_view word, const Extent *extents,
                  std::size_t shift, bool remembered) {
        if constexpr (!Placed) {
            Ids ids(engine_, scratch_, ids_);
            const char *const readable = word.data() + word.size();
            if (remembered)
                ids.put_new(word, readable);
            else
                ids.put_parts(word, readable);
            return true;
        }
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
        Finder(engine_, scratch_).put(word, ids_, places_, start_of, end_of);
        return inside;
    }

    IdList &ids_;
    IdList &places_;
    const char *begin_ = nullptr;
    std::size_t place_ = 0;
    WordCache::Room room_;
    std::uint32_t *to_places_ = nullptr;
    std::size_t left_ = 0; // tokens that can be written with places
};

} // namespace mtkit
