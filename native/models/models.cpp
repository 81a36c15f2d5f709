#include "models/models.hpp"

#include <algorithm>

namespace mtkit {

std::string ByteIds::name_of(unsigned byte) {
    static constexpr const char *DIGITS = "0123456789ABCDEF";
    return {'<', '0', 'x', DIGITS[byte >> 4], DIGITS[byte & 15], '>'};
}

ByteIds ByteIds::literal(const Vocabulary &vocabulary) {
    ByteIds out;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        out.id[byte] = vocabulary.words.find({&c, 1});
    }
    return out;
}

bool ByteIds::complete() const {
    return std::find(std::begin(id), std::end(id), NONE) == std::end(id);
}

ByteIds ByteIds::named(const Vocabulary &vocabulary) {
    ByteIds out;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const std::uint32_t id = vocabulary.words.find(name_of(byte));
        out.id[byte] = id < vocabulary.pieces.size() ? id : NONE;
    }
    return out;
}

namespace {

// A model of which a text may need an id that is none.
class Guarded final : public Model {
  public:
    explicit Guarded(std::unique_ptr<Model> model) : model_(std::move(model)) {}

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        const auto first = static_cast<std::ptrdiff_t>(out.size());
        scratch.asked.take = nullptr;
        model_->encode(word, scratch, out);
        if (std::any_of(out.begin() + first, out.end(),
                        [](const Token &token) { return token.id == OUTSIDE; }))
            throw Deferred();
    }
    [[nodiscard]] bool is_local() const override { return model_->is_local(); }
    [[nodiscard]] std::uint32_t spelled_as_found() const override {
        return model_->spelled_as_found();
    }

  private:
    std::unique_ptr<Model> model_;
};

std::unique_ptr<Model> make_kind(std::uint8_t kind, Reader &program, Tables &tables,
                                 const Vocabulary &vocabulary) {
    switch (static_cast<ModelKind>(kind)) {
    case ModelKind::BPE:
        return make_bpe(program, tables, vocabulary);
    case ModelKind::RANK_BPE:
        return make_rank_bpe(program, vocabulary);
    case ModelKind::SCORE_BPE:
        return make_score_bpe(program, tables, vocabulary);
    case ModelKind::UNIGRAM:
        return make_unigram(program, tables, vocabulary);
    case ModelKind::CHARACTERS:
        return make_characters(program, tables, vocabulary);
    case ModelKind::TRIE:
        return make_trie(program, tables);
    case ModelKind::SHORTEST_PATH:
        return make_shortest_path(program, tables);
    case ModelKind::LOOSE_BPE:
        return make_loose_bpe(tables, vocabulary);
    case ModelKind::LATTICE_UNIGRAM:
        return make_lattice_unigram(program, tables);
    case ModelKind::SECTION_BPE:
        return make_section_bpe(program, tables, vocabulary);
    case ModelKind::WORD_PIECE:
        return make_word_piece(program, vocabulary);
    case ModelKind::WORD_LEVEL:
        return make_word_level(program, vocabulary);
    default:
        throw FormatError("is " + std::to_string(kind) + ", no model has that number", "model");
    }
}

} // namespace

std::unique_ptr<Model> make_model(Reader &program, Tables &tables, const Vocabulary &vocabulary) {
    const auto kind = program.scalar<std::uint8_t>("model");
    constexpr auto GUARDED = static_cast<std::uint8_t>(ModelKind::GUARDED);
    if (kind < GUARDED) return make_kind(kind, program, tables, vocabulary);
    const auto inner = static_cast<std::uint8_t>(kind - GUARDED);
    return std::make_unique<Guarded>(make_kind(inner, program, tables, vocabulary));
}

} // namespace mtkit
