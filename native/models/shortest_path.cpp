// PLaMo-2: the path of least cost through the characters of a text, found from its end.
//
// Source: pfnet/plamo-2, tokenization_plamo.py; ggml-org/llama.cpp, llm_tokenizer_plamo2.
#include "models/models.hpp"
#include "tables/trie.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::int64_t UNKNOWN_COST = 10'000'000;
constexpr std::string_view BYTE_ORDER_MARK = "\xEF\xBB\xBF";

class ShortestPath final : public Model {
  public:
    ShortestPath(Reader &program, Tables &tables)
        : trie_(tables), costs_(tables.numbers<std::int32_t>("COST")),
          byte_ids_(read_numbers(program, "byte_ids")) {
        if (byte_ids_.size() != 256)
            throw FormatError("are " + std::to_string(byte_ids_.size()), "byte_ids");
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        const std::size_t first = word.starts_with(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.size() : 0;
        auto &steps = scratch.steps;
        steps.assign(word.size() + 1, {0, NONE, NONE});
        // Ends of steps tell where characters begin: a piece has to end there, too.
        steps.back().end = static_cast<std::uint32_t>(word.size());
        for (std::size_t at = word.size(); at > first;) {
            const std::size_t behind = at;
            at = previous(word, at);
            choose(word, at, behind, steps);
        }
        for (std::size_t at = first; at < word.size();) {
            const auto start = static_cast<std::uint32_t>(at);
            const auto [cost, id, end] = steps[at];
            if (id == NONE)
                for (std::size_t i = at; i < end; ++i)
                    out.push_back({byte_ids_[static_cast<unsigned char>(word[i])], start, end});
            else
                out.push_back({id, start, end});
            at = end;
        }
    }

  private:
    // The cheapest step from `at`: of equal ones the longest piece, an unknown character last.
    void choose(std::string_view word, std::size_t at, std::size_t behind,
                std::vector<ModelScratch::Step> &steps) const {
        auto &best = steps[at];
        for (auto piece = trie_.prefixes(word, at); piece.next();) {
            const auto &after = steps[piece.end()];
            if (after.end == NONE || piece.id() >= costs_.size()) continue;
            const std::int64_t cost = costs_[piece.id()] + after.cost;
            if (best.end != NONE && cost > best.cost) continue;
            best = {cost, piece.id(), static_cast<std::uint32_t>(piece.end())};
        }
        const std::int64_t unknown = UNKNOWN_COST + steps[behind].cost;
        if (best.end == NONE || unknown < best.cost)
            best = {unknown, NONE, static_cast<std::uint32_t>(behind)};
    }

    TrieTable trie_;
    std::span<const std::int32_t> costs_;
    std::vector<std::uint32_t> byte_ids_;
};

} // namespace

std::unique_ptr<Model> make_shortest_path(Reader &program, Tables &tables) {
    return std::make_unique<ShortestPath>(program, tables);
}

} // namespace mtkit
