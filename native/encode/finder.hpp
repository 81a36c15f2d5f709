// Words to tokens with their places. Tokens are remembered for each part that cuts leave, and
// for the whole word.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "encode/engine.hpp"

namespace mtkit {

class Engine::Finder {
  public:
    Finder(const Engine &engine, Scratch &scratch) : engine_(engine), scratch_(scratch) {}

    // Call `put(text, start, tokens)` for each part of a word, or once for one that is remembered
    // as a whole.
    template <typename Put> void find(std::string_view word, const Put &put) {
        const bool cuts = engine_.may_cut(word) && keeps(word);
        if (cuts && find_known(word, false)) {
            put(word, 0, std::span<const Token>(scratch_.tokens));
            return;
        }
        Packed all(scratch_.packed_word);
        bool cut = false;
        engine_.parts(word, word.data() + word.size(), scratch_,
                      [&](std::size_t start, std::size_t end, bool part) {
                          const auto text = word.substr(start, end - start);
                          if ((cuts && !part) || !keeps(text) || !find_known(text, part))
                              find_new(text, part);
                          put(text, start, std::span<const Token>(scratch_.tokens));
                          cut = cuts && part;
                          if (cut) all.add(text, start, scratch_.tokens);
                      });
        if (cut) all.keep(word, false, scratch_.places);
    }

    // Put ids, and start and end of each: `start_of` and `end_of` turn places in the word into
    // them.
    template <typename StartOf, typename EndOf>
    void put(std::string_view word, IdList &ids, IdList &places, const StartOf &start_of,
             const EndOf &end_of) {
        find(word, [&](std::string_view part, std::size_t at, std::span<const Token> tokens) {
            auto *id = ids.room(tokens.size());
            auto *to = places.room(2 * tokens.size());
            for (const auto &token : tokens) {
                const std::size_t first = std::min<std::size_t>(token.start, part.size() - 1);
                const std::size_t end = std::min<std::size_t>(token.end, part.size());
                *id++ = token.id;
                const auto start = static_cast<std::uint32_t>(start_of(at + first));
                const bool empty = token.start == token.end;
                *to++ = start;
                *to++ = empty ? start
                              : static_cast<std::uint32_t>(end_of(at + std::max(end, first + 1)));
            }
            ids.advance(tokens.size());
            places.advance(2 * tokens.size());
        });
    }

  protected:
    const Engine &engine_;
    Scratch &scratch_;

  private:
    // Tokens end to end, one number each: size and id. Size 0: the same bytes as the token before,
    // as the byte tokens of one character may have; EMPTY: none, as those but the last may.
    class Packed {
      public:
        explicit Packed(std::vector<std::uint32_t> &numbers) : numbers_(numbers) {
            numbers_.clear();
        }
        // Those of a part that begins at `start`.
        void add(std::string_view part, std::size_t start, const std::vector<Token> &tokens) {
            for (const auto &token : tokens) {
                const std::size_t begin = start + token.start;
                const std::size_t end = start + token.end;
                const bool same = begin == begin_ && end == end_;
                const bool empty = begin == end;
                const std::uint32_t size = empty ? EMPTY : same ? 0 : token.end - token.start;
                fits_ = fits_ && (same || begin == end_) && (empty || size < EMPTY) &&
                        token.end <= part.size() && token.id >> ID_BITS == 0;
                numbers_.push_back(size << ID_BITS | token.id);
                begin_ = begin;
                end_ = end;
            }
        }
        // Remember them where they are such numbers.
        void keep(std::string_view word, bool part, WordCache &known) const {
            if (fits_) known.put({word, part}, numbers_.data(), numbers_.size());
        }

      private:
        std::vector<std::uint32_t> &numbers_;
        std::size_t begin_ = 0; // of the last token
        std::size_t end_ = 0;
        bool fits_ = true;
    };
    static constexpr unsigned ID_BITS = 24;
    static constexpr std::uint32_t EMPTY = (1U << (32 - ID_BITS)) - 1;
    static_assert(WordCache::LONGEST <= EMPTY);

    [[nodiscard]] bool keeps(std::string_view word) const {
        return engine_.cacheable_ && word.size() <= WordCache::LONGEST;
    }
    // Whether the tokens of a word are remembered.
    bool find_known(std::string_view word, bool part) {
        std::size_t count = 0;
        const auto *packed = scratch_.places.find({word, part}, count);
        if (packed == nullptr) return false;
        auto &tokens = scratch_.tokens;
        tokens.clear();
        std::uint32_t start = 0;
        std::uint32_t end = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t size = packed[i] >> ID_BITS;
            if (size == EMPTY)
                start = end;
            else if (size != 0)
                start = std::exchange(end, end + size);
            tokens.push_back({packed[i] & ((1U << ID_BITS) - 1), start, end});
        }
        return true;
    }
    void find_new(std::string_view word, bool part) {
        scratch_.tokens.clear();
        engine_.encode_word(word, part, scratch_);
        if (!keeps(word)) return;
        Packed packed(scratch_.packed);
        packed.add(word, 0, scratch_.tokens);
        packed.keep(word, part, scratch_.places);
    }
};

} // namespace mtkit
