// Text to tokens with their places: the walk of engine.cpp with extents.
#include <algorithm>

#include "base/scratch_lease.hpp"
#include "text/alignment.hpp"
#include "text/alphabet.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Tokens end to end are remembered as id and size in one number.
constexpr unsigned ID_BITS = 24;
static_assert(WordCache::LONGEST < 1U << (32 - ID_BITS));

bool pack(std::string_view word, const std::vector<Token> &tokens,
          std::vector<std::uint32_t> &packed) {
    packed.clear();
    std::uint32_t at = 0;
    for (const auto &token : tokens) {
        if (token.start != at || token.end > word.size() || token.id >> ID_BITS != 0) return false;
        packed.push_back((token.end - at) << ID_BITS | token.id);
        at = token.end;
    }
    return true;
}

// Start of the character that the byte at `at` belongs to.
std::size_t character_start(std::string_view text, std::size_t at) {
    for (std::size_t back = 3; back > 0; --back)
        if (at >= back && decode(text, at - back).size > back) return at - back;
    return at;
}

} // namespace

bool Engine::aligns() const {
    return (!normalizer_ || normalizer_->aligns()) && (!pre_tokenizer_ || pre_tokenizer_->aligns());
}

void Engine::encode_tokens(std::string_view text, int parse_special, Tokens &out) const {
    if (!aligns()) throw Deferred();
    Borrowed borrowed(*this);
    Scratch &scratch = *borrowed;
    scratch.model.places = true;
    text_tokens(aligned(checked(text, scratch), scratch), parse_special, scratch, out);
}

// A text that stands for itself.
Part Engine::aligned(std::string_view text, Scratch &scratch) {
    auto &extents = scratch.arena.fresh_extents();
    extents.resize(text.size() + 1);
    std::uint32_t character = 0;
    for (std::size_t at = 0; at < text.size(); ++character) {
        const std::size_t size = decode(text, at).size;
        std::fill_n(extents.begin() + static_cast<std::ptrdiff_t>(at), size,
                    Extent{character, character + 1});
        at += size;
    }
    return {text, extents.data(), {0, character}, true, true};
}

void Engine::text_tokens(const Part &whole, int parse_special, Scratch &scratch,
                         Tokens &out) const {
    auto &cut = scratch.cut;
    cut.clear();
    added_->cut(whole, parse_special, cut);
    for (const auto &raw : cut) {
        if (raw.id != NONE) {
            put_added(raw, out);
            continue;
        }
        Part part = raw.part;
        if (part.text.empty()) continue; // no reference gives tokens for nothing
        if (normalizer_) normalizer_->run(part, scratch.arena);
        auto &pieces = scratch.pieces;
        pieces.clear();
        added_->cut_normalized(part, parse_special, pieces);
        for (const auto &piece : pieces) {
            if (piece.id != NONE)
                put_added(piece, out);
            else
                part_tokens(piece.part, scratch, out);
        }
    }
}

void Engine::part_tokens(const Part &part, Scratch &scratch, Tokens &out) const {
    if (!pre_tokenizer_) {
        unit_tokens(part, scratch, out);
        return;
    }
    pre_tokenizer_->run(part, scratch.arena,
                        [&](const Part &word) { unit_tokens(word, scratch, out); });
}

void Engine::unit_tokens(const Part &word, Scratch &scratch, Tokens &out) const {
    // The last step, which writes letters for bytes, is in the tables; it changes the whole word.
    if (vocabulary_.raw) require_whole(word);
    auto text = word.text;
    for (const Extent *extents = word.extents; !text.empty();) {
        const std::size_t end = word_end(text, scratch);
        word_tokens(text.substr(0, end), extents, scratch, out);
        text.remove_prefix(end);
        extents += end;
    }
}

// The tokens of a word, in the scratch memory.
void Engine::find_tokens(std::string_view word, Scratch &scratch) const {
    auto &tokens = scratch.tokens;
    tokens.clear();
    // A model that is asked for ids alone may give any places.
    const bool cached = cacheable_ && scratch.model.places && word.size() <= WordCache::LONGEST;
    std::size_t count = 0;
    if (cached) {
        if (const auto *packed = scratch.places.find(word, count)) {
            std::uint32_t at = 0;
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t end = at + (packed[i] >> ID_BITS);
                tokens.push_back({packed[i] & ((1U << ID_BITS) - 1), at, end});
                at = end;
            }
            return;
        }
    }
    encode_word(word, scratch);
    if (cached && pack(word, tokens, scratch.packed))
        scratch.places.put(word, scratch.packed.data(), scratch.packed.size());
}

void Engine::word_tokens(std::string_view word, const Extent *extents, Scratch &scratch,
                         Tokens &out) const {
    find_tokens(word, scratch);
    for (const auto &token : scratch.tokens) put_token(word, extents, token, out);
}

void Engine::put_token(std::string_view word, const Extent *extents, const Token &token,
                       Tokens &out) const {
    const std::size_t last = word.size() - 1;
    const std::size_t first = std::min<std::size_t>(token.start, last);
    const std::size_t end = std::min<std::size_t>(token.end, word.size()) - 1;
    if (token.id == model_->spelled_as_found() && token.id != NONE) {
        const std::size_t from = character_start(word, first);
        const std::size_t at = character_start(word, end);
        std::string text(word.substr(from, at + decode(word, at).size - from));
        if (vocabulary_.raw) {
            text.clear();
            for (const char c : word.substr(first, end + 1 - first))
                append(text, ALPHABET.letter[static_cast<unsigned char>(c)]);
        }
        out.spelled.push_back({out.ids.size(), std::move(text)});
    }
    out.ids.push_back(token.id);
    out.offsets.push_back({extents[first].start, extents[end].end});
}

void Engine::put_added(const Piece &piece, Tokens &out) {
    const auto &part = piece.part;
    const auto size = part.text.size();
    out.spelled.push_back({out.ids.size(), std::string(part.text)});
    out.ids.push_back(piece.id);
    out.offsets.push_back(size == 0 ? nowhere(part)
                                    : Extent{part.extents[0].start, part.extents[size - 1].end});
}

} // namespace mtkit
