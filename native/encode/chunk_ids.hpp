// Chunks to ids.
#pragma once

#include <algorithm>

#include "encode/chunk_steps.hpp"
#include "encode/ids.hpp"
#include "text/utf8.hpp"

namespace mtkit {

class Engine::ChunkIds : ChunkSteps {
  public:
    ChunkIds(const Engine &engine, const Chunks &how, Scratch &scratch, IdList &out)
        : ChunkSteps(engine, how, scratch), out_(out) {}

    // What is known of short chunks.
    [[nodiscard]] const WordCache &known() const { return scratch_.chunks; }
    // Chunks are put from another text from now on: of the text itself, `at` is where it begins.
    void begin(const char * /*at*/, std::size_t /*place*/) {}
    // write() may be called from now on, or no longer.
    void resume() { room_ = out_.room_for_words(); }
    void pause() { out_.end_at(room_.to); }
    // Put a chunk that is known.
    void write(const WordCache::Short &entry, const char * /*at*/) {
        if (room_.write(entry)) [[likely]]
            return;
        pause();
        out_.append(known().ids_of(entry));
        resume();
    }
    // Put a chunk between two seams.
    bool put(std::string_view chunk) {
        return remember(chunk, false, [&](bool remembered) {
            if (how_.images && from_images(chunk, remembered)) return true;
            // Ids need no head where a chunk becomes what it becomes at the beginning of a text.
            const bool behind = !how_.first && (how_.removed || chunk[0] == ' ');
            return put_new(chunk, {.behind = behind, .in_front = !how_.last}, remembered);
        });
    }
    // Put one at an end of the text.
    bool put_first(std::string_view chunk, bool in_front, bool at_start) {
        const auto make = [&](bool remembered) {
            return put_new(chunk, {.in_front = in_front, .at_start = at_start}, remembered);
        };
        return at_start ? remember(chunk, true, make) : make(false);
    }
    bool put_last(std::string_view chunk) { return put_new(chunk, {.behind = true}, false); }

    // How much there is, and taking back what came behind that.
    [[nodiscard]] std::size_t size() const { return out_.size(); }
    void cut(std::size_t size) { out_.cut(size); }

  private:
    // Put what is remembered of a chunk, or what `make` puts, which is told whether that will be.
    template <typename Make> bool remember(std::string_view chunk, bool head, const Make &make) {
        if (chunk.size() > WordCache::LARGEST || !engine_.cacheable_) return make(false);
        const WordCache::Word asked(chunk, head);
        std::size_t count = 0;
        if (const auto *ids = scratch_.chunks.find(asked, count)) {
            out_.append({ids, count});
            return true;
        }
        const std::size_t before = out_.size();
        if (!make(true)) return false;
        const auto ids = out_.ids().subspan(before);
        if (chunk.size() > WordCache::LONGEST && !scratch_.chunks.wants(asked, ids.size()))
            return true;
        scratch_.chunks.put(asked, ids.data(), ids.size());
        return true;
    }
    // A chunk of which every character is its image, whatever stands beside it.
    bool from_images(std::string_view chunk, bool remembered) {
        const std::size_t before = out_.size();
        auto &text = scratch_.chunk;
        const std::size_t most = how_.before.size() + (chunk.size() + 1) * Chunks::Image::MOST;
        if (text.size() < most) text.resize(most);
        char *const start = std::ranges::copy(how_.before, text.data()).out;
        char *to = start; // of the word so far
        Ids ids(engine_, scratch_, out_);
        const auto end_word = [&] {
            std::string_view rest(text.data(), static_cast<std::size_t>(to - text.data()));
            for (std::size_t end = 0; to != start && !rest.empty(); rest.remove_prefix(end)) {
                end = engine_.word_end(rest, scratch_);
                put_word(ids, rest.substr(0, end), remembered);
            }
            to = start;
        };
        for (std::size_t at = 0; at < chunk.size();) {
            const auto byte = static_cast<unsigned char>(chunk[at]);
            if (byte >= 0x80) {
                const std::size_t end = how_.end_of_kept(chunk, at);
                to = std::copy(chunk.data() + at, chunk.data() + end, to);
                if (end != at) {
                    at = end;
                    continue;
                }
            }
            const auto image = byte < 0x80 ? how_.image[byte] : image_of(chunk, at);
            if (image.is_blank()) {
                end_word();
            } else if (image.is_none() || (how_.kind[byte] == Chunks::SOLO && chunk.size() > 1)) {
                out_.cut(before);
                return false;
            } else {
                to = image.write(to);
            }
            at += character_size(chunk[at]);
        }
        end_word();
        return true;
    }
    // What becomes of a character that is not ASCII.
    Chunks::Image image_of(std::string_view chunk, std::size_t at) {
        const auto c = decode_usual(chunk, at);
        if (c.value >= PAGED) return {};
        auto &images = scratch_.images;
        if (!images) images.emplace(Chunks::Image::unasked());
        const auto image = (*images)[c.value];
        if (!image.is_unasked()) [[likely]]
            return image;
        return ask_image(chunk.substr(at, c.size), c.value);
    }
    [[gnu::noinline]] Chunks::Image ask_image(std::string_view character, char32_t value) {
        const auto image = engine_.find_image(character, how_, scratch_);
        scratch_.images->put(value, value + 1, image);
        return image;
    }
    bool put_new(std::string_view chunk, const Ends &ends, bool remembered) {
        Ids ids(engine_, scratch_, out_);
        return words(chunk, ends, false, [&](std::string_view word, const Extent *, std::size_t) {
            put_word(ids, word, remembered);
        });
    }
    // Put a word; `remembered`: what it is in is, and it need not be as well.
    static void put_word(Ids &ids, std::string_view word, bool remembered) {
        const char *const readable = word.data() + word.size();
        if (remembered)
            ids.once(word, readable);
        else
            ids.parts(word, readable);
    }

    IdList &out_;
    WordCache::Room room_;
};

} // namespace mtkit
