// What a cache begins with: the short words of a vocabulary, which are most of those that a text
// has; and the borders of characters, which it needs for others.
#include <algorithm>
#include <string>
#include <vector>

#include "base/scratch_lease.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Line ends with the indentation behind them, which are words of GPT-2's pattern.
std::vector<std::string> indentations() {
    std::vector<std::string> out;
    for (const std::string ends : {"\n", "\n\n"})
        for (std::size_t count = 1; ends.size() + count <= WordCache::SHORT; ++count)
            out.push_back(ends + std::string(count, ' '));
    return out;
}

} // namespace

void Engine::learn_vocabulary() {
    if (cut_.pattern == nullptr || !cacheable_ || !merges_bytes_ || !looks_words_up_ ||
        cache_bytes_ < WordCache::USUAL_BYTES)
        return;
    if (cuts_at_borders_) make_borders();
    ScratchLease lease(*this);
    Scratch &scratch = *lease;
    scratch.model.places = false;
    const std::size_t most = scratch.cache.make_room_for_seeds();
    const auto blanks = indentations();
    std::vector<std::string_view> words(blanks.begin(), blanks.end());
    // What comes first in a vocabulary is most frequent.
    for (std::size_t id = 0; id < vocabulary_.pieces.size() && words.size() < most; ++id) {
        const auto piece = vocabulary_.pieces[id];
        if (!piece.empty() && piece.size() <= WordCache::SHORT && is_ascii(piece))
            words.push_back(piece);
    }
    std::vector<WordCache::Word> asked;
    std::vector<std::uint32_t> ids;
    for (std::size_t at = 0; at < words.size(); at += WordTable::TOGETHER) {
        const auto some =
            std::span(words).subspan(at).first(std::min(WordTable::TOGETHER, words.size() - at));
        asked.clear();
        for (const auto word : some) {
            asked.emplace_back(word, false);
            scratch.cache.prefetch_short(asked.back());
        }
        vocabulary_.words.prefetch(some);
        for (std::size_t i = 0; i < some.size(); ++i) {
            scratch.tokens.clear();
            ids.clear();
            encode_word(some[i], false, scratch);
            for (const auto &token : scratch.tokens) ids.push_back(token.id);
            if (ids.size() <= WordCache::FEW) scratch.cache.seed(asked[i], ids.data(), ids.size());
        }
    }
}

} // namespace mtkit
