// The best segmentation of a word over its bytes, byte tokens being pieces like any other.
//
// Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (UnigramModel::encode), by its
// behavior.
#include <algorithm>

#include "models/models.hpp"
#include "tables/trie.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

class LatticeUnigram final : public Model {
  public:
    LatticeUnigram(Reader &program, Tables &tables)
        : trie_(tables), scores_(tables.numbers<double>("OFRS")), unk_(read_id(program, "unk")),
          unk_score_(program.scalar<double>("unk_score")),
          byte_fallback_(read_flag(program, "byte_fallback")),
          byte_ids_(read_numbers(program, "byte_ids")) {
        if (byte_ids_.size() != 256)
            throw FormatError("are " + std::to_string(byte_ids_.size()), "byte_ids");
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        const std::size_t size = word.size();
        auto &nodes = scratch.nodes;
        nodes.assign(size + 1, {0});
        std::size_t character = 0; // around `start`
        std::size_t behind = 0;
        for (std::size_t start = 0; start < size; ++start) {
            const std::size_t before = character;
            const bool begins = start == behind;
            if (begins) {
                character = start;
                behind = start + decode(word, start).size;
            }
            if (start != 0 && nodes[start].from == NONE) {
                if (byte_fallback_)
                    offer(nodes, start - 1, start, NONE, 0);
                else if (begins)
                    offer(nodes, before, start, unk_, unk_score_);
                else
                    continue;
            }
            const std::uint32_t byte = byte_ids_[static_cast<unsigned char>(word[start])];
            if (byte_fallback_ && byte != NONE) offer(nodes, start, start + 1, byte, score(byte));
            for (auto piece = trie_.prefixes(word, start); piece.next();)
                offer(nodes, start, piece.end(), piece.id(), score(piece.id()));
        }
        if (size != 0 && nodes[size].from == NONE)
            offer(nodes, byte_fallback_ ? size - 1 : character, size, byte_fallback_ ? NONE : unk_,
                  0);
        write_path(nodes, out);
    }

  private:
    using Nodes = std::vector<ModelScratch::Node<double>>;

    [[nodiscard]] double score(std::uint32_t id) const {
        return id < scores_.size() ? scores_[id] : 0;
    }

    // Of equal sums the last offer, the shortest last piece, counts.
    static void offer(Nodes &nodes, std::size_t start, std::size_t end, std::uint32_t id,
                      double more) {
        const double sum = nodes[start].score + more;
        auto &node = nodes[end];
        if (node.from == NONE || sum >= node.score)
            node = {sum, node.rival, id, static_cast<std::uint32_t>(start)};
    }

    void write_path(const Nodes &nodes, std::vector<Token> &out) const {
        const std::size_t first = out.size();
        for (auto end = static_cast<std::uint32_t>(nodes.size() - 1); end > 0;) {
            const auto &node = nodes[end];
            if (out.size() > first && node.id == unk_ && out.back().id == unk_)
                out.back().start = node.from;
            else
                out.push_back({node.id, node.from, end});
            end = node.from;
        }
        std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
    }

    TrieTable trie_;
    std::span<const double> scores_;
    std::uint32_t unk_;
    double unk_score_;
    bool byte_fallback_;
    std::vector<std::uint32_t> byte_ids_;
};

} // namespace

std::unique_ptr<Model> make_lattice_unigram(Reader &program, Tables &tables) {
    return std::make_unique<LatticeUnigram>(program, tables);
}

} // namespace mtkit
