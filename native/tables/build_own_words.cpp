#include "tables/build.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// How each symbol comes about by merging its own text. Where no part is made later than the whole,
// what is merged inside of it comes in the order of ranks.
class OwnWords {
  public:
    OwnWords(const PairTable &pairs, std::size_t symbols) : pairs_(pairs), made_(symbols) {}

    void add_first(std::uint32_t symbol) { made_[symbol] = {symbol, symbol, 0}; }

    // The merges have to come in the order of their ranks.
    void add(std::uint32_t left, std::uint32_t right, std::uint32_t rank) {
        if (!has(left) || !has(right) || pairs_.rank(left, right) != rank) return;
        const std::uint32_t symbol = pairs_.made(rank);
        if (symbol < made_.size() && !has(symbol) && meet(left, right))
            made_[symbol] = {left, right, rank + 1};
    }

    // Whether its text is known to merge to it.
    [[nodiscard]] bool has(std::uint32_t symbol) const {
        return symbol < made_.size() && made_[symbol].order != NONE;
    }

  private:
    struct Made {
        std::uint32_t left = NONE;
        std::uint32_t right = NONE;
        std::uint32_t order = NONE; // its rank and one; 0: it is there before any merge
    };

    // Whether two symbols come about side by side: nothing merges over the border between them.
    // What stands at the border is followed back in time: what was made last is parted first, and
    // whatever met before it was made would have merged if its rank were lower. Of equal ranks the
    // leftmost comes first. As is_valid_token_pair of github/rust-gems, bpe.
    [[nodiscard]] bool meet(std::uint32_t left, std::uint32_t right) const {
        while (true) {
            const std::uint32_t made_left = made_[left].order;
            const std::uint32_t made_right = made_[right].order;
            std::uint32_t last = 0; // what has this order or a lower one is too early
            if (made_left > made_right) {
                last = made_left - 1;
                left = made_[left].right;
            } else {
                if (made_right == 0) return true;
                last = made_right;
                right = made_[right].left;
            }
            const std::uint32_t rank = pairs_.rank(left, right);
            if (rank != NONE && rank + 1 <= last) return false;
        }
    }

    const PairTable &pairs_;
    std::vector<Made> made_;
};

} // namespace

std::vector<std::uint8_t> build_own_words(std::span<const std::uint32_t> merges,
                                          const PairTable &pairs, const WordTable &words,
                                          bool raw) {
    const std::size_t pieces = words.pieces().size();
    OwnWords own(pairs, words.count());
    for (unsigned byte = 0; raw && byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        const std::uint32_t symbol = words.find({&c, 1});
        if (symbol == NONE) return {};
        own.add_first(symbol);
    }
    for (std::uint32_t symbol = 0; !raw && symbol < pieces; ++symbol) {
        const auto piece = words[symbol];
        if (piece.empty()) continue;
        const auto c = decode(piece, 0); // a stray byte may be a part of another character
        const bool single = c.size == piece.size() && !is_stray(c.value);
        if (single && words.find(piece) == symbol) own.add_first(symbol);
    }
    for (std::size_t rank = 0; rank < merges.size() / 2; ++rank)
        own.add(merges[2 * rank], merges[2 * rank + 1], static_cast<std::uint32_t>(rank));
    std::vector<std::uint8_t> bits((pieces + 7) / 8);
    for (std::uint32_t id = 0; id < pieces; ++id)
        if (own.has(id)) bits[id / 8] |= static_cast<std::uint8_t>(1U << (id % 8));
    return bits;
}

} // namespace mtkit
