// Words to tokens with their places. Tokens are remembered for each part that cuts leave, and
// for the whole word.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "encode/engine.hpp"

namespace mtkit {

class Engine::Finder {
  public:
    Finder(const Engine &engine, Scratch &scratch) : engine_(engine), scratch_(scratch) {}

    // Call `put(text, start, tokens)` for each part of a word, or once for one that is remembered
    // as a whole. `size()` is how much there is, `truncate(size)` takes back what came behind that.
    template <typename Put, typename Size, typename CutTo>
    void find(std::string_view word, const Put &put, const Size &size, const CutTo &truncate) {
        const bool cuts = engine_.may_cut(word) && keeps(word);
        if (cuts && find_known(word, WordCache::WORD)) {
            put(word, 0, std::span<const Token>(scratch_.tokens));
            return;
        }
        auto &all = scratch_.packed_word;
        all.clear();
        bool cut = false;
        engine_.parts(
            word, word.data() + word.size(), scratch_,
            [&](std::size_t start, std::size_t end, bool part) {
                const auto text = word.substr(start, end - start);
                if (text.size() > LONG) {
                    const std::size_t before = size();
                    return engine_.encode_long(
                        text, part, scratch_,
                        [&](std::string_view stretch, std::size_t at,
                            std::span<const Token> tokens) { put(stretch, start + at, tokens); },
                        [&] { truncate(before); });
                }
                const auto kind = WordCache::word_or_part(part);
                if ((cuts && !part) || !keeps(text) || !find_known(text, kind))
                    find_new(text, part);
                put(text, start, std::span<const Token>(scratch_.tokens));
                cut = cuts && part;
                if (cut) pack(start, all);
            });
        if (cut) keep(word, WordCache::WORD, all);
    }

    // Put ids, and start and end of each: `start_of` and `end_of` turn places in the word into
    // them.
    template <typename StartOf, typename EndOf>
    void put(std::string_view word, IdList &ids, IdList &places, const StartOf &start_of,
             const EndOf &end_of) {
        find(
            word,
            [&](std::string_view part, std::size_t at, std::span<const Token> tokens) {
                auto *id = ids.room(tokens.size());
                auto *to = places.room(2 * tokens.size());
                for (const auto &token : tokens) {
                    const std::size_t first = std::min<std::size_t>(token.start, part.size() - 1);
                    const std::size_t end = std::min<std::size_t>(token.end, part.size());
                    *id++ = token.id;
                    const auto start = static_cast<std::uint32_t>(start_of(at + first));
                    const bool empty = token.start == token.end;
                    *to++ = start;
                    *to++ = empty
                                ? start
                                : static_cast<std::uint32_t>(end_of(at + std::max(end, first + 1)));
                }
                ids.advance(tokens.size());
                places.advance(2 * tokens.size());
            },
            [&] { return ids.size(); },
            [&](std::size_t size) {
                ids.truncate(size);
                places.truncate(2 * size);
            });
    }

  protected:
    const Engine &engine_;
    Scratch &scratch_;

  private:
    [[nodiscard]] bool keeps(std::string_view word) const {
        return engine_.cacheable_ && word.size() <= WordCache::ALWAYS_KEPT;
    }
    // Whether the tokens of a word are remembered.
    bool find_known(std::string_view word, WordCache::Kind kind) {
        std::size_t count = 0;
        const auto *numbers =
            scratch_.model.cache.find({word, WordCache::with_places(kind)}, count);
        if (numbers == nullptr) return false;
        auto &tokens = scratch_.tokens;
        tokens.clear();
        for (; count > 1; count -= 2, numbers += 2)
            tokens.push_back({numbers[0], WordCache::Placed::start(numbers[1]),
                              WordCache::Placed::end(numbers[1])});
        return true;
    }
    void find_new(std::string_view word, bool part) {
        scratch_.tokens.clear();
        engine_.encode_word(word, {.part = part}, scratch_);
        if (!keeps(word)) return;
        scratch_.packed.clear();
        pack(0, scratch_.packed);
        keep(word, WordCache::word_or_part(part), scratch_.packed);
    }
    // Add the tokens of a part that begins at `start`.
    void pack(std::size_t start, std::vector<std::uint32_t> &numbers) const {
        for (const auto &token : scratch_.tokens) {
            numbers.push_back(token.id);
            numbers.push_back(WordCache::Placed::place(start + token.start, start + token.end));
        }
    }
    // Remember them, where none reaches over the end of the word.
    void keep(std::string_view word, WordCache::Kind kind,
              const std::vector<std::uint32_t> &numbers) {
        for (std::size_t i = 1; i < numbers.size(); i += 2)
            if (WordCache::Placed::end(numbers[i]) > word.size()) return;
        scratch_.model.cache.put({word, WordCache::with_places(kind)}, numbers.data(),
                                 numbers.size());
    }
};

} // namespace mtkit
