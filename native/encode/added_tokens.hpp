// Added tokens: found in the text before the model sees it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/reader.hpp"
#include "steps/steps.hpp"
#include "text/sets.hpp"

namespace mtkit {

// A stretch of text, or an added token.
struct Segment {
    Part part;
    std::uint32_t id = NONE;
};

// Finds which of many texts begin at a place, by narrowing a sorted list byte by byte.
class PrefixFinder {
  public:
    struct Entry {
        std::string_view text;
        std::uint32_t number;
    };

    void build(std::vector<Entry> entries);
    [[nodiscard]] bool empty() const { return entries_.empty(); }

    // The first place from `at` on where a text may begin.
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t at) const {
        if (entries_.empty()) return text.size();
        if (only_) return std::min(text.find(entries_[0].text[0], at), text.size());
        while (at < text.size() && !first_[static_cast<unsigned char>(text[at])]) ++at;
        return at;
    }

    // Call `found(entry)` for each text that begins at `at`, shortest first.
    template <typename Found> void at(std::string_view text, std::size_t at, Found &&found) const {
        follow(text, at, found);
    }

    // Length of the longest beginning that any text shares with what stands at `at`.
    [[nodiscard]] std::size_t path(std::string_view text, std::size_t at) const {
        const auto ignore = [](const Entry &) {};
        return follow(text, at, ignore);
    }

  private:
    template <typename Found>
    std::size_t follow(std::string_view text, std::size_t at, Found &found) const {
        if (!first_[static_cast<unsigned char>(text[at])]) return 0;
        auto low = entries_.begin();
        auto high = entries_.end();
        for (std::size_t depth = 0;; ++depth) {
            while (low < high && low->text.size() == depth) found(*low++);
            if (low == high || at + depth == text.size()) return depth;
            const auto byte = static_cast<unsigned char>(text[at + depth]);
            const auto key = [depth](const Entry &e) {
                return static_cast<unsigned char>(e.text[depth]);
            };
            const auto from = std::lower_bound(
                low, high, byte, [&](const Entry &e, unsigned char b) { return key(e) < b; });
            const auto to = std::upper_bound(
                from, high, byte, [&](unsigned char b, const Entry &e) { return b < key(e); });
            if (from == to) return depth;
            low = from;
            high = to;
        }
    }

    std::vector<Entry> entries_;
    std::array<bool, 256> first_{};
    bool only_ = false; // they all begin with the same byte
};

class AddedTokens {
  public:
    explicit AddedTokens(Reader &program, unsigned depth = 0);

    // Whether it is certain that cut() would leave a text whole, as it does with most.
    [[nodiscard]] bool cuts_nothing(std::string_view text) const {
        return !first_ && raw_.next(text, 0) == text.size();
    }
    // Cut the tokens that are looked for in the raw text.
    void cut(const Part &part, int parse_special, std::vector<Segment> &out) const;
    // Whether some are looked for in the normalized text, or fail there.
    [[nodiscard]] bool late() const { return vanished_ || !late_.empty(); }
    // Whether it is certain that cut_normalized() would leave a text whole.
    [[nodiscard]] bool cuts_nothing_late(std::string_view text) const {
        return !vanished_ && late_.next(text, 0) == text.size();
    }
    // Cut those that are looked for in the normalized text.
    void cut_normalized(const Part &part, int parse_special, std::vector<Segment> &out) const;

  private:
    struct Token {
        std::uint32_t id;
        std::uint8_t flags;
        std::string_view text;
    };

    void split(const Part &part, const PrefixFinder &finder, bool parses,
               std::vector<Segment> &out) const;
    void one_by_one(const Part &part, bool parses, std::vector<Segment> &out) const;
    [[nodiscard]] bool inside_word(std::string_view text, std::size_t first,
                                   std::size_t last) const;
    [[nodiscard]] std::size_t strip_left(std::string_view text, std::size_t first,
                                         std::size_t limit) const;
    [[nodiscard]] std::size_t strip_right(std::string_view text, std::size_t last,
                                          std::size_t limit) const;

    Match match_;
    bool parses_;
    bool vanished_ = false; // a token is nothing once normalized: the pipeline says what is wrong
    CodePointSet space_;
    CodePointSet word_;
    std::vector<Token> tokens_;
    PrefixFinder raw_;
    PrefixFinder late_;
    std::unique_ptr<AddedTokens> first_;
};

} // namespace mtkit
