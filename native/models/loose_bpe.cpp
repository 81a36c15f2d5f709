// Byte-pair encoding by pairs with ranks of their own, whose results are looked up as they come.
//
// Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (BPEModel::bpe), by its behavior.
#include "models/merging.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

using Symbol = ModelScratch::Symbol;

class LooseBpe final : public Model {
  public:
    LooseBpe(Tables &tables, const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), pairs_(tables), ranks_(tables.numbers<std::uint32_t>("RANK")),
          named_(ByteIds::named(vocabulary)), is_local_(named_.complete()) {
        for (std::uint32_t pair = 0; pair < ranks_.size(); ++pair)
            is_local_ = is_local_ && (ranks_[pair] == NONE || pairs_.made(pair) != NONE);
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        scratch.begin(word.size());
        start(word, scratch.symbols);
        merge_all(
            scratch,
            [&](const Symbol &l, const Symbol &r) {
                const std::uint32_t pair = pairs_.rank(l.id, r.id);
                return pair < ranks_.size() ? ranks_[pair] : NONE;
            },
            [&](Symbol &l, const Symbol &r) {
                const std::uint32_t made = pairs_.made(pairs_.rank(l.id, r.id));
                if (made == NONE) return false; // no token: the word stays as it is now
                l.id = made;
                l.end = r.end;
                return true;
            });
        for (const auto &symbol : scratch.symbols)
            out.push_back({symbol.id, symbol.start, symbol.end});
    }

    [[nodiscard]] bool is_local() const override { return is_local_; }

  private:
    // What is dropped counts as part of the symbol in front; what is in front of all is not there.
    static void add(std::vector<Symbol> &symbols, std::uint32_t id, std::uint32_t size) {
        const std::uint32_t at = symbols.empty() ? 0 : symbols.back().end;
        if (id != NONE)
            symbols.push_back({id, at, at + size, NONE, NONE, NONE, false});
        else if (!symbols.empty())
            symbols.back().end += size;
    }

    void start(std::string_view word, std::vector<Symbol> &symbols) const {
        for (std::size_t at = 0; at < word.size();) {
            const auto size = decode(word, at).size;
            const auto text = word.substr(at, size);
            const std::uint32_t id = vocabulary_.words.find(text);
            if (id != NONE)
                add(symbols, id, size);
            else
                for (const char c : text) add(symbols, named_.id[static_cast<unsigned char>(c)], 1);
            at += size;
        }
    }

    Vocabulary vocabulary_;
    PairTable pairs_;
    std::span<const std::uint32_t> ranks_; // by pair
    ByteIds named_;
    bool is_local_; // nothing is dropped, and no word stays as it is
};

} // namespace

std::unique_ptr<Model> make_loose_bpe(Tables &tables, const Vocabulary &vocabulary) {
    return std::make_unique<LooseBpe>(tables, vocabulary);
}

} // namespace mtkit
