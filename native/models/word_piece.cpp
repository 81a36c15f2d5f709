// WordPiece: greedy longest match from the left; WordLevel: the whole word.
//
// Source: huggingface/tokenizers, models/wordpiece and models/wordlevel.
#include <memory>

#include "base/made_once.hpp"
#include "models/models.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

class WordPiece final : public Model {
  public:
    WordPiece(Reader &program, const Vocabulary &vocabulary)
        : words_(vocabulary.words), unk_(read_id(program, "unk")),
          prefix_(read_text(program, "prefix")),
          max_chars_(program.scalar<std::uint32_t>("max_chars")),
          bytes_(read_flag(program, "unit")), nothing_(read_flag(program, "too_long")),
          rest_(read_flag(program, "gap")), restart_(read_text(program, "restart")) {}

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        const std::size_t before = out.size();
        if (word.empty()) return;
        const auto *filter = filter_.get();
        if (filter == nullptr && ++scratch.words > MANY_WORDS) filter = make_filter();
        bool known = max_chars_ == NONE || length(word) <= max_chars_;
        if (!known && nothing_) return;
        for (std::size_t at = 0; known && at < word.size();) {
            // The longest piece bounds the search, so that a long word stays linear.
            const bool again =
                at != 0 && !restart_.empty() && word.substr(at).starts_with(restart_);
            const std::string_view prefix = at == 0 || again ? std::string_view() : prefix_;
            const std::size_t from = again ? at + restart_.size() : at;
            const std::size_t head = prefix.size();
            const std::size_t most = words_.longest() > head ? words_.longest() - head : 0;
            std::size_t end = word.size() - from > most ? from + most : word.size();
            while (end > from && end < word.size() && is_continuation(word[end])) --end;
            auto longest = word.substr(from, end - from);
            if (head != 0) {
                scratch.key = prefix;
                longest = scratch.key += longest;
            }
            std::uint32_t id = NONE;
            while (end > from) {
                const auto key = longest.substr(0, head + end - from);
                const std::uint64_t hash = hash_bytes(key);
                if (filter == nullptr || filter->may_have(hash)) id = words_.find(key, hash);
                if (id != NONE) break;
                end = previous(word, end);
            }
            known = id != NONE;
            if (known)
                out.push_back(
                    {id, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
            at = end;
        }
        if (known) return;
        if (unk_ == NONE) throw NoToken(word);
        std::uint32_t start = 0;
        if (rest_ && out.size() > before)
            start = out.back().end;
        else
            out.resize(before);
        out.push_back({unk_, start, static_cast<std::uint32_t>(word.size())});
    }

    [[nodiscard]] bool looks_words_up() const override { return true; }
    void warm() const override { make_filter(); }

  private:
    const WordFilter *make_filter() const {
        return filter_.make([this] { return std::make_unique<WordFilter>(words_); });
    }
    [[nodiscard]] std::size_t length(std::string_view word) const {
        if (bytes_) return word.size();
        std::size_t count = 0;
        for (std::size_t at = 0; at < word.size(); at += decode(word, at).size) ++count;
        return count;
    }

    WordTable words_;
    std::uint32_t unk_;
    std::string_view prefix_;
    std::uint32_t max_chars_;
    bool bytes_;
    bool nothing_;
    bool rest_;
    std::string_view restart_;
    MadeOnce<WordFilter> filter_;
    static constexpr std::uint32_t MANY_WORDS = 256; // take longer than it takes to make
};

class WordLevel final : public Model {
  public:
    WordLevel(Reader &program, const Vocabulary &vocabulary)
        : words_(vocabulary.words), unk_(read_id(program, "unk")) {}

    void encode(std::string_view word, ModelScratch &, std::vector<Token> &out) const override {
        std::uint32_t id = words_.find(word);
        if (id == NONE) id = unk_;
        if (id == NONE) throw NoToken(word);
        out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
    }

  private:
    WordTable words_;
    std::uint32_t unk_;
};

} // namespace

std::unique_ptr<Model> make_word_piece(Reader &program, const Vocabulary &vocabulary) {
    return std::make_unique<WordPiece>(program, vocabulary);
}

std::unique_ptr<Model> make_word_level(Reader &program, const Vocabulary &vocabulary) {
    return std::make_unique<WordLevel>(program, vocabulary);
}

} // namespace mtkit
