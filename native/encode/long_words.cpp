// Long words, encoded in stretches: no word takes more memory than its tokens.
//
// A stretch may end anywhere, and what it ends with is not certain. The next one begins in front of
// that, where a token begins, and has to begin with the same token. What merges, merges of the
// lowest rank first, and of equal ranks the leftmost: what becomes of the text of two neighbors
// depends on nothing else while nothing of it merges with what is beside it. So where no token
// reaches over a place in one stretch, and what follows in all of the word begins with the token
// that it begins with there, none does in all of the word. The last stretch ends with the word:
// from there to the first one, each of them is certain. The same holds where tokens are found from
// left to right.
#include <algorithm>

#include "encode/engine.hpp"

namespace mtkit {

namespace {

// The last token that has `behind` bytes and begins with a character, behind another one; 0: none
// does.
std::size_t find_next(std::string_view text, std::span<const Token> tokens, std::size_t behind) {
    for (std::size_t i = tokens.size(); i-- > 1;) {
        const auto &[id, start, end] = tokens[i];
        const auto &before = tokens[i - 1];
        if (start + behind <= text.size() && before.start < start && before.end == start &&
            !is_continuation(text[start]))
            return i;
    }
    return 0;
}

} // namespace

void Engine::encode_long(std::string_view word, bool part, Scratch &scratch, const PutStretch &put,
                         const FunctionRef<> &undo) const {
    auto &tokens = scratch.tokens;
    tokens.clear();
    if (model_->is_local()) {
        if (encode_stretches(word, part, scratch, put)) return;
        undo();
        tokens.clear();
        encode_word(word, {.part = part}, scratch);
    } else {
        const auto take = [&](std::vector<Token> &ready) {
            put(word, 0, ready);
            ready.clear();
        };
        const FunctionRef<std::vector<Token> &> taking(take);
        encode_word(word, {.part = part, .take = &taking}, scratch);
    }
    put(word, 0, tokens);
}

bool Engine::encode_stretches(std::string_view word, bool part, Scratch &scratch,
                              const PutStretch &put) const {
    // A piece may be looked for as far as it is long.
    const std::size_t behind = std::max(LONG / 8, vocabulary_.words.longest());
    auto &tokens = scratch.tokens;
    const auto encode = [&](std::size_t start, std::size_t size) {
        std::size_t end = std::min(start + size, word.size());
        for (int i = 0; i < 3 && end < word.size() && is_continuation(word[end]); ++i) ++end;
        const bool goes_on = end < word.size();
        tokens.clear();
        encode_word(word.substr(start, end - start),
                    {.part = part || start > 0 || goes_on, .begun = start > 0, .goes_on = goes_on},
                    scratch);
        return end;
    };
    auto &before = scratch.stretch; // that of which the next one is looked for
    Token first{NONE, 0, 0};        // what it has to begin with
    const auto begins_with = [](const std::vector<Token> &stretch, const Token &token) {
        return stretch.size() > 1 && stretch[0].id == token.id &&
               stretch[0].end == token.end - token.start;
    };
    std::size_t size = 8 * behind;
    std::size_t start = 0;
    std::size_t end = encode(start, size);
    while (end < word.size()) {
        const std::size_t next = find_next(word.substr(start, end - start), tokens, behind);
        before.swap(tokens);
        if (next != 0) {
            const std::size_t from = before[next].start;
            const std::size_t next_end = encode(start + from, 8 * behind);
            if (begins_with(tokens, before[next])) {
                put(word.substr(start, from), start, std::span(before).first(next));
                first = before[next];
                start += from;
                end = next_end;
                size = 8 * behind;
                continue;
            }
        }
        size *= 2;
        end = encode(start, size);
        if (start > 0 && !begins_with(tokens, first)) return false;
    }
    put(word.substr(start), start, tokens);
    return true;
}

} // namespace mtkit
