// Chunks to ids.
#pragma once

#include "encode/chunk_steps.hpp"
#include "encode/ids.hpp"

namespace mtkit {

class Engine::ChunkIds : ChunkSteps {
  public:
    ChunkIds(const Engine &engine, const Chunks &how, Scratch &scratch, IdList &out)
        : ChunkSteps(engine, how, scratch), out_(out) {}

    // What is known of short chunks.
    static constexpr auto KIND = WordCache::CHUNK;
    [[nodiscard]] const WordCache &known() const { return scratch_.model.cache; }
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
        const WordCache::Word asked(chunk, head ? WordCache::HEAD : KIND);
        std::size_t count = 0;
        if (const auto *ids = scratch_.model.cache.find(asked, count)) {
            out_.append({ids, count});
            return true;
        }
        const std::size_t before = out_.size();
        if (!make(true)) return false;
        const auto ids = out_.ids().subspan(before);
        if (chunk.size() > WordCache::LONGEST && !scratch_.model.cache.wants(asked, ids.size()))
            return true;
        scratch_.model.cache.put(asked, ids.data(), ids.size());
        return true;
    }
    // A chunk of which every character is its image, whatever stands beside it.
    bool from_images(std::string_view chunk, bool remembered) {
        const std::size_t before = out_.size();
        Ids ids(engine_, scratch_, out_);
        const auto image_of = [&](std::size_t at) {
            const auto byte = static_cast<unsigned char>(chunk[at]);
            if (byte < 0x80) return how_.image[byte];
            return known_image(scratch_.images, chunk, at, [&](std::string_view character) {
                return engine_.find_image(character, how_, scratch_);
            });
        };
        const auto wrote = [](std::size_t, std::size_t, std::size_t) {};
        const bool done = words_of_images(chunk, image_of, wrote, [&](std::string_view word) {
            put_word(ids, word, remembered);
            return true;
        });
        if (!done) out_.cut(before);
        return done;
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
