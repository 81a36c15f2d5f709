// Text to tokens with their offsets and spellings.
#include <algorithm>
#include <span>

#include "encode/finder.hpp"
#include "encode/scratch_lease.hpp"
#include "encode/walk.hpp"
#include "text/alphabet.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Start of the character that the byte at `at` belongs to.
std::size_t character_start(std::string_view text, std::size_t at) {
    for (std::size_t back = 3; back > 0; --back)
        if (at >= back && decode(text, at - back).size > back) return at - back;
    return at;
}

} // namespace

// Takes ids, offsets and spellings.
class Engine::Rows : Finder {
  public:
    Rows(const Engine &engine, Scratch &scratch, Tokens &out)
        : Finder(engine, scratch), out_(out) {}

    void added(const TextOrToken &piece) {
        out_.spelled.push_back({out_.ids.size(), std::string(piece.part.text)});
        out_.ids.push_back(piece.id);
        out_.offsets.push_back(extent_of(piece.part));
    }

    void word(std::string_view word, const Extent *extents, const char *) {
        find(
            word,
            [&](std::string_view text, std::size_t start, std::span<const Token> tokens) {
                for (const auto &token : tokens) put(text, extents + start, token);
            },
            [&] { return out_.ids.size(); },
            [&](std::size_t size) {
                out_.ids.resize(size);
                out_.offsets.resize(size);
                while (!out_.spelled.empty() && out_.spelled.back().at >= size)
                    out_.spelled.pop_back();
            });
    }

  private:
    void put(std::string_view word, const Extent *extents, const Token &token) {
        const std::size_t last = word.size() - 1;
        const std::size_t first = std::min<std::size_t>(token.start, last);
        const std::size_t end = std::min<std::size_t>(token.end, word.size()) - 1;
        if (token.id == engine_.model_->spelled_as_found() && token.id != NONE)
            out_.spelled.push_back({out_.ids.size(), spelling(word, first, end)});
        out_.ids.push_back(token.id);
        const auto start = extents[first].start;
        out_.offsets.push_back({start, token.start == token.end ? start : extents[end].end});
    }

    // A part of a word as it stands there, in whole characters; `end` is its last byte.
    [[nodiscard]] std::string spelling(std::string_view word, std::size_t first,
                                       std::size_t end) const {
        std::string text;
        if (engine_.vocabulary_.raw) {
            for (const char c : word.substr(first, end + 1 - first))
                append(text, ALPHABET.letter[static_cast<unsigned char>(c)]);
            return text;
        }
        const std::size_t from = character_start(word, first);
        const std::size_t at = character_start(word, end);
        text = word.substr(from, at + decode(word, at).size - from);
        return text;
    }

    Tokens &out_;
};

bool Engine::aligns() const {
    return (!normalizer_ || normalizer_->aligns()) && (!pre_tokenizer_ || pre_tokenizer_->aligns());
}

void Engine::encode_tokens(std::string_view text, const EncodeOptions &options, Tokens &out) const {
    if (!aligns()) throw Deferred();
    ScratchLease lease(*this);
    Scratch &scratch = *lease;
    scratch.model.places = true;
    const auto [valid, surrogates] = checked(text, options.valid, scratch);
    const Part whole = own_part(valid, false, 0, true, scratch.arena);
    walk(whole, options.parse_special, scratch, Rows(*this, scratch, out));
}

} // namespace mtkit
