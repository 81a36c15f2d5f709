// Models without segmentation: every character, or every word, is a token or unknown.
//
// Source: google/sentencepiece, char_model.cc, word_model.cc, model_interface.cc.
#include <algorithm>

#include "models/spelling.hpp"
#include "text/prefix_finder.hpp"

namespace mtkit {

namespace {

class Characters final : public Model {
  public:
    Characters(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : roles_(tables, vocabulary), by_word_(read_flag(program, "words")),
          unk_(read_id(program, "unk")), byte_fallback_(read_flag(program, "byte_fallback")),
          bytes_(roles_.byte_ids(false)) {
        std::vector<PrefixFinder::Entry> user_defined;
        for (std::uint32_t id = 0; id < vocabulary.types.size(); ++id)
            if (vocabulary.types[id] == USER_DEFINED && !by_word_)
                user_defined.push_back({vocabulary.pieces[id], id});
        user_defined_.build(std::move(user_defined));
    }

    void encode(std::string_view word, ModelScratch &, std::vector<Token> &out) const override {
        std::vector<Stretch> parts;
        PrefixFinder::Places user_defined(user_defined_, word);
        for (std::size_t at = 0; at < word.size();) {
            const std::size_t end = std::min(
                by_word_ ? word_end(word, at) : character_end(word, at, user_defined), word.size());
            parts.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end),
                             roles_.find(word.substr(at, end - at))});
            at = end;
        }
        spell(word, parts, unk_, byte_fallback_ ? &bytes_ : nullptr, out);
    }
    [[nodiscard]] bool is_local() const override { return true; }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }

  private:
    static std::size_t word_end(std::string_view word, std::size_t at) {
        const std::size_t next = word.find(MARK, at + 1);
        return std::min(next, word.size());
    }

    static std::size_t character_end(std::string_view word, std::size_t at,
                                     PrefixFinder::Places &user_defined) {
        const auto *const whole = user_defined.at(at);
        return at + (whole != nullptr ? whole->text.size() : character_size(word[at]));
    }

    Roles roles_;
    bool by_word_;
    std::uint32_t unk_;
    bool byte_fallback_;
    ByteIds bytes_;
    PrefixFinder user_defined_;
};

} // namespace

std::unique_ptr<Model> make_characters(Reader &program, Tables &tables,
                                       const Vocabulary &vocabulary) {
    return std::make_unique<Characters>(program, tables, vocabulary);
}

} // namespace mtkit
