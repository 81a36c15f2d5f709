// Chunks to ids.
#pragma once

#include <cstring>

#include "encode/chunk_steps.hpp"
#include "encode/ids.hpp"

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
        return remembered(chunk, false, [&](bool kept) {
            if (how_.images && from_images(chunk)) return true;
            // Ids need no head where a chunk becomes what it becomes at the beginning of a text.
            const bool behind = !how_.first && (how_.removed || chunk[0] == ' ');
            return put_new(chunk, {.behind = behind, .in_front = !how_.last}, kept);
        });
    }
    // Put one at an end of the text.
    bool put_first(std::string_view chunk, bool in_front, bool at_start) {
        const auto make = [&](bool kept) {
            return put_new(chunk, {.in_front = in_front, .at_start = at_start}, kept);
        };
        return at_start ? remembered(chunk, true, make) : make(false);
    }
    bool put_last(std::string_view chunk) { return put_new(chunk, {.behind = true}, false); }

    // How much there is, and taking back what came behind that.
    [[nodiscard]] std::size_t size() const { return out_.size(); }
    void cut(std::size_t size) { out_.cut(size); }

  private:
    // `make` is told whether what it puts is remembered.
    template <typename Make> bool remembered(std::string_view chunk, bool head, const Make &make) {
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
    // A chunk that is one word, of which every character is its image.
    bool from_images(std::string_view chunk) {
        auto &text = scratch_.chunk;
        text = how_.before;
        for (const char c : chunk) {
            const auto byte = static_cast<unsigned char>(c);
            const auto &image = how_.image[byte];
            const bool cuts = how_.kind[byte] == Chunks::SOLO && chunk.size() > 1;
            if (image.size == 0 || cuts) return false;
            text.append(image.bytes, image.size);
        }
        Ids ids(engine_, scratch_, out_);
        for (std::string_view rest = text; !rest.empty();) {
            const std::size_t end = engine_.word_end(rest, scratch_);
            ids.once(rest.substr(0, end), text.data() + text.size());
            rest.remove_prefix(end);
        }
        return true;
    }
    bool put_new(std::string_view chunk, const Ends &ends, bool kept) {
        Ids ids(engine_, scratch_, out_);
        const auto put = [&](std::string_view word, const Extent *, std::size_t, bool only) {
            const char *const readable = word.data() + word.size();
            // A word that is all of a chunk which is remembered need not be remembered as well.
            if (only && kept)
                ids.once(word, readable);
            else
                ids.parts(word, readable);
        };
        return words(chunk, ends, false, put);
    }

    IdList &out_;
    WordCache::Room room_;
};

} // namespace mtkit
