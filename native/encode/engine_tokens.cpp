// Text to tokens with their offsets.
#include <algorithm>

#include "base/scratch_lease.hpp"
#include "text/alphabet.hpp"
#include "text/utf8.hpp"
#include "walk.hpp"

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

// Takes ids, offsets and spellings.
class Engine::Rows {
  public:
    Rows(const Engine &engine, Scratch &scratch, Tokens &out)
        : engine_(engine), scratch_(scratch), out_(out) {}

    void added(const Segment &piece) {
        const auto &part = piece.part;
        const auto size = part.text.size();
        out_.spelled.push_back({out_.ids.size(), std::string(part.text)});
        out_.ids.push_back(piece.id);
        out_.offsets.push_back(
            size == 0 ? nowhere(part) : Extent{part.extents[0].start, part.extents[size - 1].end});
    }

    void word(std::string_view word, const Extent *extents, const char *) {
        engine_.parts(word, scratch_, [&](std::size_t start, std::size_t end, bool part) {
            const auto text = word.substr(start, end - start);
            find_tokens(text, part);
            for (const auto &token : scratch_.tokens) put(text, extents + start, token);
        });
    }

  private:
    // The tokens of a word, in the scratch memory.
    void find_tokens(std::string_view word, bool part) {
        auto &tokens = scratch_.tokens;
        tokens.clear();
        if (!engine_.cacheable_ || word.size() > WordCache::LONGEST) {
            engine_.encode_word(word, part, scratch_);
            return;
        }
        const WordCache::Word asked(word, part);
        std::size_t count = 0;
        if (const auto *packed = scratch_.places.find(asked, count)) {
            std::uint32_t at = 0;
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t end = at + (packed[i] >> ID_BITS);
                tokens.push_back({packed[i] & ((1U << ID_BITS) - 1), at, end});
                at = end;
            }
            return;
        }
        engine_.encode_word(word, part, scratch_);
        if (pack(word, tokens, scratch_.packed))
            scratch_.places.put(asked, scratch_.packed.data(), scratch_.packed.size());
    }

    void put(std::string_view word, const Extent *extents, const Token &token) {
        const std::size_t last = word.size() - 1;
        const std::size_t first = std::min<std::size_t>(token.start, last);
        const std::size_t end = std::min<std::size_t>(token.end, word.size()) - 1;
        if (token.id == engine_.model_->spelled_as_found() && token.id != NONE)
            out_.spelled.push_back({out_.ids.size(), spelling(word, first, end)});
        out_.ids.push_back(token.id);
        out_.offsets.push_back({extents[first].start, extents[end].end});
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

    const Engine &engine_;
    Scratch &scratch_;
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
    walk(aligned(checked(text, options.valid, scratch), scratch), options.parse_special, scratch,
         Rows(*this, scratch, out));
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

} // namespace mtkit
