// Unigram: the segmentation with the highest sum of scores; and greedy longest match over bytes.
//
// Source: google/sentencepiece, unigram_model.cc (EncodeOptimized); huggingface/tokenizers,
// models/unigram/model.rs; BlinkDL/RWKV-LM, rwkv_tokenizer.py.
#include <algorithm>

#include "spelling.hpp"
#include "trie.hpp"

namespace mtkit {

namespace {

// Sums are float or double, and compared as such: in float many segmentations are equal.
template <typename Sum> class Unigram final : public Model {
  public:
    Unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), trie_(tables), offers_(tables.numbers<double>("OFRS")),
          unk_(read_id(program, "unk")), byte_fallback_(read_flag(program, "byte_fallback")),
          fuse_unk_(read_flag(program, "fuse_unk")), any_(read_flag(program, "candidates")),
          unk_offer_(program.scalar<double>("unk_offer")),
          bytes_(Roles(tables, vocabulary).byte_ids(false)) {}

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        const std::size_t size = word.size();
        auto &nodes = scratch.nodes;
        nodes.assign(size + 1, {0, NONE, NONE});
        for (std::size_t start = 0; start < size;) {
            const double here = nodes[start].score;
            const auto from = static_cast<std::uint32_t>(start);
            const std::size_t next = std::min(start + character_size(word[start]), size);
            bool single = false;
            trie_.prefixes(word, start, [&](std::size_t end, std::uint32_t id) {
                const double offer =
                    static_cast<Sum>((id < offers_.size() ? offers_[id] : 0) + here);
                auto &node = nodes[end];
                if (node.from == NONE || offer > node.score) node = {offer, id, from};
                single = single || end == next;
            });
            if (!single) {
                const double offer = static_cast<Sum>(unk_offer_ + here);
                auto &node = nodes[next];
                if (node.from == NONE || offer > node.score) {
                    if (unk_ == NONE) throw NoToken(word.substr(start, next - start));
                    node = {offer, unk_, from};
                }
            }
            start = next;
        }
        spell_path(word, nodes, out);
    }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }

  private:
    void spell_path(std::string_view word, const std::vector<ModelScratch::Node> &nodes,
                    std::vector<Token> &out) const {
        std::vector<Stretch> parts;
        for (auto end = static_cast<std::uint32_t>(word.size()); end > 0;) {
            const auto &node = nodes[end];
            const std::uint32_t id = node.id == unk_ ? NONE : node.id;
            if (id == NONE && fuse_unk_ && !parts.empty() && parts.back().id == NONE)
                parts.back().start = node.from;
            else
                parts.push_back({node.from, end, id});
            end = node.from;
        }
        std::reverse(parts.begin(), parts.end());
        if (any_)
            // The reference looks the joined text up again: it can be a piece after all.
            for (auto &part : parts)
                if (part.id == NONE)
                    part.id =
                        vocabulary_.words.find(word.substr(part.start, part.end - part.start));
        spell(word, parts, unk_, byte_fallback_ ? &bytes_ : nullptr, fuse_unk_, out);
    }

    Vocabulary vocabulary_;
    TrieTable trie_;
    std::span<const double> offers_;
    std::uint32_t unk_;
    bool byte_fallback_;
    bool fuse_unk_;
    bool any_;
    double unk_offer_;
    ByteIds bytes_;
};

class Trie final : public Model {
  public:
    Trie(Reader &program, Tables &tables) : trie_(tables), unk_(read_id(program, "unk")) {}

    void encode(std::string_view word, ModelScratch &, std::vector<Token> &out) const override {
        for (std::size_t at = 0; at < word.size();) {
            std::size_t last = at + 1;
            std::uint32_t best = unk_;
            trie_.prefixes(word, at, [&](std::size_t end, std::uint32_t id) {
                last = end;
                best = id;
            });
            if (best == NONE) throw NoToken(word.substr(at, 1));
            out.push_back({best, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(last)});
            at = last;
        }
    }

  private:
    TrieTable trie_;
    std::uint32_t unk_;
};

} // namespace

std::unique_ptr<Model> make_unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary) {
    if (read_flag(program, "precision"))
        return std::make_unique<Unigram<float>>(program, tables, vocabulary);
    return std::make_unique<Unigram<double>>(program, tables, vocabulary);
}

std::unique_ptr<Model> make_trie(Reader &program, Tables &tables) {
    return std::make_unique<Trie>(program, tables);
}

} // namespace mtkit
