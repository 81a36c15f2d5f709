// A new chunk: through every step, or put together of the images of its characters.
#pragma once

#include <algorithm>

#include "base/compiler.hpp"
#include "encode/engine.hpp"
#include "encode/walk.hpp"
#include "text/alignment.hpp"
#include "text/utf8.hpp"

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
            part = own_part(text, true, first, at_start, arena);
            shift += first;
        }
        engine_.words_of(part, arena, [&](std::string_view word, const Extent *extents) {
            words.push_back({word, extents});
        });
        if (how_.whole) {
            const bool good = arena.grown() <= GROWTH * chunk.size() && words.size() < 2;
            const bool done = good && (words.empty() || put_inside(words[0], ends, shift, put));
            arena.reset();
            return done;
        }
        const std::size_t around = std::size_t{behind} + std::size_t{in_front};
        const bool fits = arena.grown() <= GROWTH * chunk.size() && words.size() >= around;
        for (std::size_t i = behind ? 1 : 0; fits && i + (in_front ? 1 : 0) < words.size(); ++i)
            put(words[i].text, words[i].extents, shift);
        arena.reset();
        return fits;
    }

    // Put what a word has between what `head` and `tail` became, the letter and U+2581.
    template <typename Put>
    static bool put_inside(const Scratch::Word &word, const Ends &ends, std::size_t shift,
                           const Put &put) {
        const auto text = word.text;
        const std::size_t from = ends.behind ? text.find('x') + 1 : 0;
        std::size_t to = text.size();
        if (ends.in_front) {
            if (!text.ends_with('x') || !text.substr(0, to - 1).ends_with(MARK)) return false;
            to -= MARK.size() + 1;
        }
        if (from > to) return false;
        const Extent *const extents = word.extents == nullptr ? nullptr : word.extents + from;
        if (from < to) put(text.substr(from, to - from), extents, shift);
        return true;
    }

    // Put the words of a chunk of which every character is its image: `put(word)` says whether to
    // go on. False where a character has none, or `put` says so; some words may have been put.
    template <typename Put>
    MTKIT_INLINE bool words_of_images(std::string_view chunk, const Put &put) {
        auto &text = scratch_.chunk;
        const std::size_t most = how_.before.size() + (chunk.size() + 1) * Chunks::Image::MOST;
        if (text.size() < most) text.resize(most);
        char *const start = std::ranges::copy(how_.before, text.data()).out;
        char *to = start; // of the word so far
        const auto end_word = [&] {
            const std::string_view word(text.data(), static_cast<std::size_t>(to - text.data()));
            const bool good = to == start || put(word);
            to = start;
            return good;
        };
        for (std::size_t at = 0; at < chunk.size();) {
            const auto byte = static_cast<unsigned char>(chunk[at]);
            if (byte >= 0x80) {
                const std::size_t end = how_.end_of_kept(chunk, at);
                if (end != at) {
                    to = std::copy(chunk.data() + at, chunk.data() + end, to);
                    at = end;
                    continue;
                }
            }
            const auto image = byte < 0x80 ? how_.image[byte] : image_of(chunk, at);
            if (image.is_blank()) {
                if (!end_word()) return false;
            } else if (image.is_none() || (how_.kind[byte] == Chunks::SOLO && chunk.size() > 1)) {
                return false;
            } else {
                to = image.write(to);
            }
            at += character_size(chunk[at]);
        }
        return end_word();
    }

    const Engine &engine_;
    const Chunks &how_;
    Scratch &scratch_;

  private:
    // The image of a character that is not ASCII, which the steps are asked for once; none of one
    // beyond PAGED.
    Chunks::Image image_of(std::string_view chunk, std::size_t at) {
        const auto c = decode_usual(chunk, at);
        if (c.value >= PAGED) return {};
        auto &images = scratch_.images;
        if (!images) images.emplace(Chunks::Image::unasked());
        const auto image = (*images)[c.value];
        return image.is_unasked() ? ask_image(chunk.substr(at, c.size), c.value) : image;
    }
    MTKIT_NOINLINE Chunks::Image ask_image(std::string_view character, char32_t value) {
        const auto image = engine_.find_image(character, how_, scratch_);
        scratch_.images->put(value, value + 1, image);
        return image;
    }

    // A chunk may become that many times as long, so that all of them stay below the limit.
    static constexpr std::size_t GROWTH = 24;
    static_assert(GROWTH < Arena::GROWTH_FACTOR);
};

} // namespace mtkit
