// The walk of a text: added tokens, normalizer, pre-tokenizer, words.
//
// A sink takes what comes out, in order: `added(piece)` for a token that was found in the text,
// `word(text, extents, readable)` for what the model has to encode (extents only where the part has
// them; memory may be read as far as `readable`). One that takes ids alone has `words(text, start)`
// besides, which takes words off the front of what is cut at a pattern. `take_part(part)`, where a
// sink has it, may take all of a part before any step; false: it took nothing.
#pragma once

#include <functional>

#include "encode/engine.hpp"
#include "steps/pattern_walk.hpp"
#include "text/alignment.hpp"

namespace mtkit {

// How far memory may be read where a word lies: as far as the text, if it is in it.
inline const char *end_of(std::string_view text, std::string_view word) {
    const bool inside = !std::less<>()(word.data(), text.data()) &&
                        !std::less<>()(text.data() + text.size(), word.data() + word.size());
    const auto whole = inside ? text : word;
    return whole.data() + whole.size();
}

template <typename Sink>
void Engine::walk(const Part &whole, int parse_special, Scratch &scratch, Sink &&sink) const {
    if (added_->leaves_whole(whole.text)) {
        walk_piece(whole.slice(0, whole.text.size()), parse_special, scratch, sink);
        return;
    }
    auto &parts = scratch.raw_parts;
    parts.clear();
    added_->take_out(whole, parse_special, parts);
    for (const auto &raw : parts) {
        if (raw.id != NONE)
            sink.added(raw);
        else
            walk_piece(raw.part, parse_special, scratch, sink);
    }
}

// What lies between added tokens.
template <typename Sink>
void Engine::walk_piece(Part part, int parse_special, Scratch &scratch, Sink &sink) const {
    if (part.text.empty()) return; // no reference gives tokens for nothing
    if constexpr (requires { sink.take_part(part); })
        if (sink.take_part(part)) return;
    if (normalizer_) normalizer_->run(part, scratch.arena);
    if (added_->leaves_whole_late(part.text)) {
        walk_words(part.slice(0, part.text.size()), scratch, sink);
        return;
    }
    auto &pieces = scratch.late_parts;
    pieces.clear();
    added_->take_out_late(part, parse_special, pieces);
    for (const auto &piece : pieces) {
        if (piece.id != NONE)
            sink.added(piece);
        else
            walk_words(piece.part, scratch, sink);
    }
}

// Normalized text without added tokens.
template <typename Sink>
void Engine::walk_words(const Part &part, Scratch &scratch, Sink &sink) const {
    if (pattern_split_.pattern != nullptr)
        split_words(part, sink);
    else if (pre_tokenizer_)
        pre_tokenizer_->run(part, scratch.arena, [&](const Part &word) {
            unit(word, end_of(part.text, word.text), sink);
        });
    else
        unit(part, part.text.data() + part.text.size(), sink);
}

template <typename Sink> void Engine::split_words(const Part &part, Sink &sink) const {
    const char *const text = part.text.data();
    const char *const readable = text + part.text.size();
    if (part.extents == nullptr) {
        pattern_split_.run(
            part.text,
            [&](std::size_t start) {
                if constexpr (requires { sink.words(part.text, start); })
                    return sink.words(part.text, start);
                else
                    return start;
            },
            [&](std::size_t start, std::size_t end) {
                sink.word({text + start, end - start}, nullptr, readable);
            });
        return;
    }
    pattern_split_.run(part.text, [&](std::size_t start, std::size_t end) {
        const Part word = part.slice(start, end);
        if (vocabulary_.raw) require_whole(word);
        sink.word(word.text, word.extents, readable);
    });
}

template <typename Sink>
void Engine::unit(const Part &part, const char *readable, Sink &sink) const {
    // The last step, which writes letters for bytes, is in the tables; it changes the whole word.
    if (vocabulary_.raw) require_whole(part);
    if (!part.text.empty()) sink.word(part.text, part.extents, readable);
}

template <typename Put> void Engine::words_of(Part part, Arena &arena, const Put &put) const {
    if (normalizer_) normalizer_->run(part, arena);
    part = part.slice(0, part.text.size());
    const auto put_word = [&](const Part &word) {
        if (!word.text.empty()) put(word.text, word.extents);
    };
    if (pre_tokenizer_)
        pre_tokenizer_->run(part, arena, put_word);
    else
        put_word(part);
}

} // namespace mtkit
