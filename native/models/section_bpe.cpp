// Byte-pair encoding with sections of another alphabet: runs of six bytes that are tokens.
//
// Source: ggml-org/llama.cpp, llama-vocab.cpp, llm_tokenizer_hybriddna_session.
#include <algorithm>

#include "models/models.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"

namespace mtkit {

namespace {

constexpr std::size_t RUN_BYTES = 6;
constexpr char FILL = 'A';
constexpr std::string_view RUN_END = "\xEE\x80\x80"; // U+E000, behind a run in the vocabulary

class SectionBpe final : public Model {
  public:
    SectionBpe(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : begin_(read_id(program, "begin")), begin_text_(read_text(program, "begin_text")),
          end_(read_id(program, "end")), end_text_(read_text(program, "end_text")),
          unknown_(read_id(program, "unknown")),
          runs_(tables.numbers<std::uint64_t>("RUNS"), vocabulary.pieces, {}),
          words_(make_pre_tokenizer(program, tables)) {
        if (begin_text_.empty() || end_text_.empty()) throw FormatError("is empty", "begin, end");
        bpe_ = make_bpe(program, tables, vocabulary);
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        for (std::size_t at = 0; at < word.size();) {
            const std::size_t start = std::min(word.find(begin_text_, at), word.size());
            put_plain(word, at, start, scratch, out);
            if (start == word.size()) break;
            const std::size_t inside = start + begin_text_.size();
            put(begin_, start, inside, out);
            const std::size_t stop = std::min(word.find(end_text_, inside), word.size());
            put_runs(word, inside, stop, out);
            if (stop == word.size()) break;
            at = stop + end_text_.size();
            put(end_, stop, at, out);
        }
    }

  private:
    static void put(std::uint32_t id, std::size_t start, std::size_t end, std::vector<Token> &out) {
        out.push_back({id, static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(end)});
    }

    // The text between sections. Its steps keep places in bytes instead of characters.
    void put_plain(std::string_view word, std::size_t first, std::size_t last,
                   ModelScratch &scratch, std::vector<Token> &out) const {
        if (first == last) return;
        const auto text = word.substr(first, last - first);
        Arena arena;
        Part whole{text, nullptr, {0, 0}, true, true};
        if (scratch.places || (words_ && words_->needs_extents()))
            whole = own_part(text, true, 0, true, arena);
        std::vector<Token> tokens;
        const auto encode_part = [&](const Part &part) {
            tokens.clear();
            bpe_->encode(part.text, scratch, tokens);
            for (const auto &token : tokens) put_token(part, token, first, out);
        };
        if (words_)
            words_->run(whole, arena, encode_part);
        else
            encode_part(whole);
    }

    static void put_token(const Part &part, const Token &token, std::size_t first,
                          std::vector<Token> &out) {
        if (part.extents == nullptr) { // nobody asks
            put(token.id, first, first + 1, out);
            return;
        }
        const std::size_t size = part.text.size();
        const auto start = part.extents[std::min<std::size_t>(token.start, size - 1)].start;
        const auto end = part.extents[std::min<std::size_t>(token.end, size) - 1].end;
        if (start >= end) throw Deferred(); // inserted text that stands for nothing
        put(token.id, first + start, first + end, out);
    }

    // A section: each run in capitals, the last one filled up.
    void put_runs(std::string_view word, std::size_t first, std::size_t last,
                  std::vector<Token> &out) const {
        for (std::size_t at = first; at < last; at += RUN_BYTES) {
            const auto run = word.substr(at, std::min(RUN_BYTES, last - at));
            std::string key(run);
            for (char &c : key)
                if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
            key.resize(RUN_BYTES, FILL);
            key += RUN_END;
            const std::uint32_t id = runs_.find(key);
            put(id == NONE ? unknown_ : id, at, at + run.size(), out);
        }
    }

    std::uint32_t begin_;
    std::string_view begin_text_;
    std::uint32_t end_;
    std::string_view end_text_;
    std::uint32_t unknown_;
    WordTable runs_;
    std::unique_ptr<PreTokenizer> words_;
    std::unique_ptr<Model> bpe_;
};

} // namespace

std::unique_ptr<Model> make_section_bpe(Reader &program, Tables &tables,
                                        const Vocabulary &vocabulary) {
    return std::make_unique<SectionBpe>(program, tables, vocabulary);
}

} // namespace mtkit
