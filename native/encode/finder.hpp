// Words to tokens that know where they are, with a cache.
#pragma once

#include <string_view>
#include <vector>

#include "encode/engine.hpp"

namespace mtkit {

// Finds the tokens of words, with a cache.
class Engine::Finder {
  public:
    Finder(const Engine &engine, Scratch &scratch) : engine_(engine), scratch_(scratch) {}

    // The tokens of each part of a word, in the scratch memory, for `put`, with its place.
    template <typename Put> void find(std::string_view word, const Put &put) {
        engine_.parts(word, word.data() + word.size(), scratch_,
                      [&](std::size_t start, std::size_t end, bool part) {
                          const auto text = word.substr(start, end - start);
                          find_tokens(text, part);
                          for (const auto &token : scratch_.tokens) put(text, start, token);
                      });
    }

  protected:
    const Engine &engine_;
    Scratch &scratch_;

  private:
    // Tokens end to end are remembered as id and size in one number.
    static constexpr unsigned ID_BITS = 24;
    static_assert(WordCache::LONGEST < 1U << (32 - ID_BITS));

    static bool pack(std::string_view word, const std::vector<Token> &tokens,
                     std::vector<std::uint32_t> &packed) {
        packed.clear();
        std::uint32_t at = 0;
        for (const auto &token : tokens) {
            if (token.start != at || token.end > word.size() || token.id >> ID_BITS != 0)
                return false;
            packed.push_back((token.end - at) << ID_BITS | token.id);
            at = token.end;
        }
        return true;
    }

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
};

} // namespace mtkit
