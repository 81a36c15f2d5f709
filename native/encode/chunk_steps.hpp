// A chunk through every step, where it is new.
#pragma once

#include "encode/engine.hpp"
#include "text/alignment.hpp"
#include "walk.hpp"

namespace mtkit {

class Engine::ChunkSteps {
  protected:
    ChunkSteps(const Engine &engine, const Chunks &how, Scratch &scratch)
        : engine_(engine), how_(how), scratch_(scratch) {}

    // Where a chunk stands: behind a seam, in front of one, at the start of the input.
    struct Ends {
        bool behind = false;
        bool in_front = false;
        bool at_start = false;
    };

    // Put the words of a chunk. With `places` they have extents: in bytes of the chunk, behind
    // `shift`. False where the text has to go the usual way.
    template <typename Put>
    bool words(std::string_view chunk, const Ends &ends, bool places, const Put &put) {
        const auto [behind, in_front, at_start] = ends;
        auto &text = scratch_.chunk;
        text = behind ? how_.head : std::string_view();
        std::size_t shift = text.size();
        text += chunk;
        if (in_front) text += how_.tail;
        auto &arena = scratch_.arena_of_chunk;
        auto &words = scratch_.words;
        arena.begin(text.size());
        words.clear();
        Part part{text, nullptr, {0, 0}, at_start, at_start};
        if (places) { // what stands for the first byte of a text is at its start
            const std::uint32_t first = at_start ? 0 : 1;
            part.extents = own_bytes(text, first, arena.fresh_extents());
            part.origin = {first, first + static_cast<std::uint32_t>(text.size())};
            shift += first;
        }
        engine_.words_of(part, arena, scratch_, [&](std::string_view word, const Extent *extents) {
            words.push_back({word, extents});
        });
        const std::size_t around = std::size_t{behind} + std::size_t{in_front};
        const bool fits = arena.grown() <= GROWTH * chunk.size() && words.size() >= around;
        for (std::size_t i = behind ? 1 : 0; fits && i + (in_front ? 1 : 0) < words.size(); ++i)
            put(words[i].text, words[i].extents, shift);
        arena.reset();
        return fits;
    }

    const Engine &engine_;
    const Chunks &how_;
    Scratch &scratch_;

  private:
    // A chunk may become that many times as long, so that all of them stay below the limit.
    static constexpr std::size_t GROWTH = 24;
    static_assert(GROWTH < Arena::GROWTH_FACTOR);
};

} // namespace mtkit
