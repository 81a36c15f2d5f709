// Trie: greedy longest match over bytes.
//
// Source: BlinkDL/RWKV-LM, rwkv_tokenizer.py.
#include "models/models.hpp"
#include "tables/trie.hpp"

namespace mtkit {

namespace {

class Trie final : public Model {
  public:
    Trie(Reader &program, Tables &tables) : trie_(tables), unk_(read_id(program, "unk")) {}

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        for (std::size_t at = 0; at < word.size();) {
            std::size_t last = at + 1;
            std::uint32_t best = unk_;
            for (auto piece = trie_.prefixes(word, at); piece.next();) {
                last = piece.end();
                best = piece.id();
            }
            if (best == NONE) throw NoToken(word.substr(at, 1));
            out.push_back({best, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(last)});
            scratch.give(out);
            at = last;
        }
    }

  private:
    TrieTable trie_;
    std::uint32_t unk_;
};

} // namespace

std::unique_ptr<Model> make_trie(Reader &program, Tables &tables) {
    return std::make_unique<Trie>(program, tables);
}

} // namespace mtkit
