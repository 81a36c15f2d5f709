// Chunks to ids with the places of their tokens, in bytes of the text.
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
        return remembered(chunk, false, {.behind = behind, .in_front = !how_.last});
    }
    bool put_first(std::string_view chunk, bool in_front, bool at_start) {
        const Ends ends{.in_front = in_front, .at_start = at_start};
        return at_start ? remembered(chunk, true, ends) : put_new(chunk, ends);
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
    bool remembered(std::string_view chunk, bool head, const Ends &ends) {
        const bool keeps = chunk.size() <= WordCache::LARGEST && engine_.cacheable_;
        if (!keeps) return put_new(chunk, ends);
        const WordCache::Word asked(chunk, head);
        std::size_t count = 0;
        if (const auto *found = scratch_.places_of_chunks.find(asked, count)) {
            put_known({found, count}, place(chunk.data()), is_few(chunk, count));
            return true;
        }
        const std::size_t before = ids_.size();
        if (!put_new(chunk, ends)) return false;
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
        const std::uint32_t start = place(chunk.data());
        bool inside = true;
        const auto put = [&](std::string_view word, const Extent *extents, std::size_t shift) {
            finder_.find(word, [&](std::string_view text, std::size_t at,
                                   std::span<const Token> tokens) {
                for (const auto &token : tokens) {
                    const std::size_t from = std::min<std::size_t>(token.start, text.size() - 1);
                    const std::size_t to = std::min<std::size_t>(token.end, text.size());
                    const auto first = extents[at + from].start;
                    const auto end = extents[at + std::max(to, from + 1) - 1].end;
                    inside =
                        inside && first >= shift && end >= first && end <= shift + chunk.size();
                    ids_.push_back(token.id);
                    places_.push_back(start + first - static_cast<std::uint32_t>(shift));
                    places_.push_back(start + end - static_cast<std::uint32_t>(shift));
                }
            });
        };
        return words(chunk, ends, true, put) && inside;
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
