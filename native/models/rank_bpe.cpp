// Byte-pair encoding by the ids of what merging makes.
//
// Source: openai/tiktoken, byte_pair_merge.
#include "models/merging.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

using Symbol = ModelScratch::Symbol;

class RankBpe final : public Model {
  public:
    explicit RankBpe(const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), words_(vocabulary.words), raw_(vocabulary.raw),
          complete_(ByteIds::literal(vocabulary).complete()) {}

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        if (word.empty()) return;
        const auto size = static_cast<std::uint32_t>(word.size());
        const auto id = scratch.asked.part ? vocabulary_.own_word(word) : words_.find(word);
        if (id != NONE) {
            out.push_back({id, 0, size});
            return;
        }
        scratch.begin(word.size());
        for (std::uint32_t at = 0; at < size;) {
            const std::uint32_t end = at + (raw_ ? 1 : decode(word, at).size);
            const std::uint32_t symbol = words_.find(word.substr(at, end - at));
            if (symbol == NONE) throw NoToken(word.substr(at, end - at));
            scratch.symbols.push_back({symbol, at, end, NONE, NONE, NONE, false});
            at = end;
        }
        merge_all(
            scratch,
            [&](const Symbol &l, const Symbol &r) {
                return words_.find(word.substr(l.start, r.end - l.start));
            },
            [&](Symbol &l, const Symbol &r) {
                l.id = l.rank;
                l.end = r.end;
                return true;
            });
        for (const auto &symbol : scratch.symbols)
            out.push_back({symbol.id, symbol.start, symbol.end});
    }
    [[nodiscard]] bool merges_bytes() const override { return raw_ && complete_; }
    [[nodiscard]] bool is_local() const override { return true; }
    [[nodiscard]] bool looks_words_up() const override { return true; }
    [[nodiscard]] bool is_cut() const override { return merges_bytes(); }
    [[nodiscard]] std::unique_ptr<SafeCuts> make_cuts() const override {
        return SafeCuts::of_bytes(vocabulary_);
    }

  private:
    Vocabulary vocabulary_;
    WordTable words_;
    bool raw_;
    bool complete_;
};

} // namespace

std::unique_ptr<Model> make_rank_bpe(Reader &, const Vocabulary &vocabulary) {
    return std::make_unique<RankBpe>(vocabulary);
}

} // namespace mtkit
