// Text to ids with the places of their tokens, and nothing else.
#include <algorithm>
#include <cstdint>

#include "encode/chunk_out.hpp"
#include "encode/chunked.hpp"
#include "encode/finder.hpp"
#include "encode/ids.hpp"
#include "encode/scratch_lease.hpp"
#include "encode/walk.hpp"
#include "text/character_places.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// Takes ids, and places in bytes of a text whose words are all parts of it; NeedsExtents where one
// is not.
class Engine::Places {
  public:
    void added(const TextOrToken &piece) {
        const auto &text = piece.part.text;
        if (text.empty()) throw NeedsExtents();
        const std::size_t at = place(text);
        ids_.push_back(piece.id);
        put(at, at + text.size());
    }

  protected:
    Places(std::string_view whole, IdList &ids, IdList &places)
        : ids_(ids), places_(places), whole_(whole) {}

    // Addresses are compared as numbers: those of different texts have no order.
    [[nodiscard]] std::size_t place(std::string_view text) const {
        const auto from = reinterpret_cast<std::uintptr_t>(whole_.data());
        const auto at = reinterpret_cast<std::uintptr_t>(text.data());
        if (at < from || at - from > whole_.size() || text.size() > whole_.size() - (at - from))
            throw NeedsExtents();
        return at - from;
    }
    void put(std::size_t start, std::size_t end) {
        auto *const place = places_.room(2);
        place[0] = static_cast<std::uint32_t>(start);
        place[1] = static_cast<std::uint32_t>(end);
        places_.advance(2);
    }

    IdList &ids_;
    IdList &places_;

  private:
    std::string_view whole_;
};

// Of a model that says where its tokens are.
class Engine::FoundPlaces : public Places, Finder {
  public:
    FoundPlaces(const Engine &engine, Scratch &scratch, std::string_view whole, IdList &ids,
                IdList &places)
        : Places(whole, ids, places), Finder(engine, scratch) {}

    // Take the whole part in chunks, or normalized with a map back to its text; whether that can
    // be.
    bool take_part(const Part &part) {
        const auto *how = engine_.find_chunks(part.text.size(), scratch_);
        if (how == nullptr) return mapped(part);
        if (how->clusters && !begins_whole(part.text)) return false;
        const ChunkOut<true> out(engine_, *how, scratch_, ids_, places_);
        return Chunked(*how, scratch_, out).run(part, place(part.text));
    }
    void word(std::string_view word, const Extent *, const char *) {
        const auto in_text = [from = place(word)](std::size_t at) { return from + at; };
        Finder::put(word, ids_, places_, in_text, in_text);
    }

  private:
    // False: the normalizer has no map, or another step follows.
    bool mapped(const Part &part) {
        if (!engine_.normalizer_ || engine_.pre_tokenizer_ || engine_.added_->late()) return false;
        auto normal = part;
        if (!engine_.normalizer_->run_mapped(normal, scratch_.arena, scratch_.map)) return false;
        const auto text = normal.text;
        const std::size_t from = place(part.text);
        TextMap::Cursor old_place(scratch_.map);
        // A token stands for whole characters.
        const auto start_of = [&](std::size_t at) {
            while (at > 0 && is_continuation(text[at])) --at;
            return from + old_place(static_cast<std::uint32_t>(at));
        };
        const auto end_of = [&](std::size_t at) {
            while (at < text.size() && is_continuation(text[at])) ++at;
            return from + old_place(static_cast<std::uint32_t>(at));
        };
        if (!text.empty()) Finder::put(text, ids_, places_, start_of, end_of);
        return true;
    }

    // Whether nothing is left out at the very beginning. The reference forgets characters that a
    // map of clusters leaves out there, in the places of all that follows.
    [[nodiscard]] bool begins_whole(std::string_view text) const {
        constexpr std::size_t CLUSTER = 5; // bytes of the longest that is looked up as a whole
        auto &arena = scratch_.arena_of_chunk;
        bool whole = true;
        try {
            for (std::size_t end = 0; whole && end < text.size();) {
                end += decode(text, end).size;
                if (end > CLUSTER) break;
                Part part{text.substr(0, end), nullptr, {0, 0}, false, false};
                arena.reset();
                arena.begin(end);
                engine_.normalizer_->run(part, arena);
                whole = !part.text.empty();
            }
        } catch (const std::exception &) { // the whole has one of its own
            whole = false;
        }
        arena.reset();
        return whole;
    }
};

// Of a model that merges bytes: tokens lie end to end and are as long as their pieces.
class Engine::SizedPlaces : public Places {
  public:
    SizedPlaces(const Engine &engine, Scratch &scratch, std::string_view whole, IdList &ids,
                IdList &places)
        : Places(whole, ids, places), pieces_(engine.vocabulary_.words),
          words_(engine, scratch, ids) {}

    void word(std::string_view word, const Extent *extents, const char *readable) {
        const std::size_t from = place(word);
        const std::size_t before = ids_.size();
        words_.word(word, extents, readable);
        put_sizes(from, from + word.size(), before);
    }
    std::size_t words(std::string_view text, std::size_t start) {
        const std::size_t from = place(text);
        const std::size_t before = ids_.size();
        const std::size_t end = words_.words(text, start);
        put_sizes(from + start, from + end, before);
        return end;
    }

  private:
    void put_sizes(std::size_t start, std::size_t end, std::size_t before) {
        const auto ids = ids_.ids().subspan(before);
        auto *to = places_.room(2 * ids.size());
        for (const auto id : ids) {
            *to++ = static_cast<std::uint32_t>(start);
            start += pieces_[id].size();
            *to++ = static_cast<std::uint32_t>(start);
        }
        if (start != end) throw NeedsExtents();
        places_.advance(2 * ids.size());
    }

    const WordTable &pieces_;
    Ids words_;
};

// Of words that may be anything, with extents.
class Engine::AlignedPlaces : Finder {
  public:
    AlignedPlaces(const Engine &engine, Scratch &scratch, IdList &ids, IdList &places)
        : Finder(engine, scratch), ids_(ids), places_(places) {}

    void added(const TextOrToken &piece) {
        const auto [start, end] = extent_of(piece.part);
        ids_.push_back(piece.id);
        places_.push_back(start);
        places_.push_back(end);
    }
    void word(std::string_view word, const Extent *extents, const char *) {
        const auto start_of = [&](std::size_t at) { return extents[at].start; };
        const auto end_of = [&](std::size_t at) { return extents[at - 1].end; };
        Finder::put(word, ids_, places_, start_of, end_of);
    }

  private:
    IdList &ids_;
    IdList &places_;
};

bool Engine::places_in(std::string_view text, int parse_special, Scratch &scratch, IdList &ids,
                       IdList &places) const {
    const std::size_t before = ids.size();
    const std::size_t from = places.size();
    if (!scratch.model.whole_characters || needs_extents_) return false;
    try {
        const Part whole{text, nullptr, {0, 0}, true, true};
        if (merges_bytes_)
            walk(whole, parse_special, scratch, SizedPlaces(*this, scratch, text, ids, places));
        else
            walk(whole, parse_special, scratch, FoundPlaces(*this, scratch, text, ids, places));
    } catch (const NeedsExtents &) {
        ids.truncate(before);
        places.truncate(from);
        scratch.arena.begin(text.size());
        return false;
    }
    to_characters(text, {places.data() + from, places.size() - from});
    return true;
}

void Engine::encode_offsets(std::string_view text, const EncodeOptions &options, IdList &ids,
                            IdList &places) const {
    const Frame &frame = options.add_special_tokens ? special_ : plain_;
    if (!aligns() || !frame || std::count(frame->begin(), frame->end(), NONE) != 1)
        throw Deferred();
    ScratchLease lease(*this);
    Scratch &scratch = *lease;
    scratch.model.places = true;
    const auto add = [&](std::uint32_t id) {
        ids.push_back(id);
        places.push_back(0);
        places.push_back(0);
    };
    for (const auto around : *frame) {
        if (around != NONE) {
            add(around);
            continue;
        }
        for (const auto id : prefix_) add(id);
        const auto [valid, surrogates] = checked(text, options.valid, scratch);
        if (places_in(valid, options.parse_special, scratch, ids, places)) continue;
        const Part whole = own_part(valid, false, 0, true, scratch.arena);
        walk(whole, options.parse_special, scratch, AlignedPlaces(*this, scratch, ids, places));
    }
}

} // namespace mtkit
