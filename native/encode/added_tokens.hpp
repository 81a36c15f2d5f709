// Added tokens: found in the text before the model sees it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/reader.hpp"
#include "tables/opcodes.hpp"
#include "text/part.hpp"
#include "text/prefix_finder.hpp"
#include "text/sets.hpp"

namespace mtkit {

// Text between added tokens, or an added token.
struct TextOrToken {
    Part part;
    std::uint32_t id = NONE;
};

class AddedTokens {
  public:
    explicit AddedTokens(Reader &program, unsigned depth = 0);

    // Whether it is certain that take_out() would leave a text whole, as it does with most.
    [[nodiscard]] bool leaves_whole(std::string_view text) const {
        return !first_ && raw_.next(text, 0) == text.size();
    }
    // Take out the tokens that are looked for in the raw text: what lies between them, and they.
    void take_out(const Part &part, int parse_special, std::vector<TextOrToken> &out) const;
    // Whether some are looked for in the normalized text, or fail there.
    [[nodiscard]] bool late() const { return vanished_ || !late_.empty(); }
    // Whether it is certain that take_out_late() would leave a text whole.
    [[nodiscard]] bool leaves_whole_late(std::string_view text) const {
        return !vanished_ && late_.next(text, 0) == text.size();
    }
    // Take out those that are looked for in the normalized text.
    void take_out_late(const Part &part, int parse_special, std::vector<TextOrToken> &out) const;

  private:
    struct Token {
        std::uint32_t id;
        std::uint8_t flags;
        std::string_view text;
    };

    void split(const Part &part, const PrefixFinder &finder, bool parses,
               std::vector<TextOrToken> &out) const;
    void one_by_one(const Part &part, bool parses, std::vector<TextOrToken> &out) const;
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
