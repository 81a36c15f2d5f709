// Byte-pair encoding by score.
//
// Source: google/sentencepiece, bpe_model.cc; karpathy/llama2.c, run.c (encode);
// ggml-org/llama.cpp, llm_tokenizer_spm_session.
#include <unordered_map>

#include "encode/added_tokens.hpp"
#include "models/merging.hpp"
#include "models/spelling.hpp"

namespace mtkit {

namespace {

using Symbol = ModelScratch::Symbol;

class ScoreBpe final : public Model {
  public:
    ScoreBpe(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), roles_(tables, vocabulary),
          ranks_(tables.numbers<std::uint32_t>("RANK")), unk_(read_id(program, "unk")),
          byte_fallback_(read_flag(program, "byte_fallback")),
          any_(read_flag(program, "mergeable")), whole_(read_flag(program, "whole")),
          continuation_(read_flag(program, "symbols")), before_(read_flag(program, "missing")),
          bytes_(roles_.byte_ids(any_)) {
        std::vector<PrefixFinder::Entry> user_defined;
        for (std::uint32_t id = 0; id < vocabulary.types.size(); ++id) {
            has_unused_ = has_unused_ || (vocabulary.types[id] == UNUSED && !any_);
            if (vocabulary.types[id] == USER_DEFINED && whole_ && !continuation_)
                user_defined.push_back({vocabulary.pieces[id], id});
        }
        user_defined_.build(std::move(user_defined));
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        scratch.begin(word.size());
        start(word, scratch.symbols);
        Halves halves;
        merge_all(
            scratch,
            [&](const Symbol &l, const Symbol &r) { return rank(word, l, r, scratch, halves); },
            [&](Symbol &l, const Symbol &r) {
                if (before_) l.id = made(word, l, r, scratch);
                l.end = r.end;
                return true;
            });
        if (before_) {
            for (const auto &s : scratch.symbols) out.push_back({s.id, s.start, s.end});
            return;
        }
        std::vector<Stretch> parts;
        for (const auto &s : scratch.symbols) split(word, s.start, s.end, halves, parts);
        spell(word, parts, unk_, byte_fallback_ ? &bytes_ : nullptr, true, out);
    }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }
    [[nodiscard]] bool cuts_at_borders() const override {
        return !vocabulary_.raw && !has_unused_ && byte_fallback_ && bytes_.complete();
    }
    [[nodiscard]] bool merges_byte_names() const override { return before_; }

  private:
    // Union that is an UNUSED piece -> bytes of its left half, as last found.
    using Halves = std::unordered_map<std::string_view, std::uint32_t>;

    [[nodiscard]] std::uint32_t find(std::string_view text) const {
        return any_ ? vocabulary_.words.find(text) : roles_.find(text);
    }

    [[nodiscard]] std::uint32_t made(std::string_view word, const Symbol &l, const Symbol &r,
                                     ModelScratch &scratch) const {
        if (!before_) return vocabulary_.words.find(word.substr(l.start, r.end - l.start));
        scratch.key = vocabulary_.pieces[l.id];
        scratch.key += vocabulary_.pieces[r.id];
        return vocabulary_.words.find(scratch.key);
    }

    std::uint32_t rank(std::string_view word, const Symbol &l, const Symbol &r,
                       ModelScratch &scratch, Halves &halves) const {
        if (l.frozen || r.frozen) return NONE;
        const std::uint32_t id = made(word, l, r, scratch);
        if (id >= ranks_.size() || ranks_[id] == NONE) return NONE;
        if (has_unused_ && vocabulary_.types[id] == UNUSED)
            halves[word.substr(l.start, r.end - l.start)] = l.end - l.start;
        return ranks_[id];
    }

    void split(std::string_view word, std::uint32_t start, std::uint32_t end, const Halves &halves,
               std::vector<Stretch> &out) const {
        std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting{{start, end}};
        while (!waiting.empty()) {
            const auto [from, to] = waiting.back();
            waiting.pop_back();
            const auto text = word.substr(from, to - from);
            const std::uint32_t id = find(text);
            if (has_unused_ && id == NONE)
                if (const auto half = halves.find(text); half != halves.end()) {
                    waiting.emplace_back(from + half->second, to);
                    waiting.emplace_back(from, from + half->second);
                    continue;
                }
            out.push_back({from, to, id});
        }
    }

    static std::size_t continuation_end(std::string_view word, std::size_t at) {
        std::size_t end = at + 1;
        while (end < word.size() && end - at < 4 &&
               (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80)
            ++end;
        return end;
    }

    void start(std::string_view word, std::vector<Symbol> &symbols) const {
        const auto size = static_cast<std::uint32_t>(word.size());
        for (std::size_t at = 0; at < word.size();) {
            std::size_t end = 0;
            if (!user_defined_.empty())
                user_defined_.at(word, at, [&](const PrefixFinder::Entry &entry) {
                    end = at + entry.text.size();
                });
            const bool frozen = end != 0;
            if (!frozen)
                end = continuation_ ? continuation_end(word, at) : at + character_size(word[at]);
            const auto from = static_cast<std::uint32_t>(at);
            const auto to = std::min(static_cast<std::uint32_t>(end), size);
            at = to;
            if (before_)
                start_as_ids(word, from, to, frozen, symbols);
            else
                symbols.push_back({NONE, from, to, NONE, NONE, NONE, frozen});
        }
    }

    void start_as_ids(std::string_view word, std::uint32_t from, std::uint32_t to, bool frozen,
                      std::vector<Symbol> &symbols) const {
        const auto text = word.substr(from, to - from);
        const std::uint32_t id = vocabulary_.words.find(text);
        if (id != NONE) {
            symbols.push_back({id, from, to, NONE, NONE, NONE, frozen});
        } else if (byte_fallback_) {
            for (std::uint32_t at = from; at < to; ++at) {
                const std::uint32_t byte = bytes_.id[static_cast<unsigned char>(word[at])];
                if (byte == NONE) throw NoToken(text);
                symbols.push_back({byte, at, at + 1, NONE, NONE, NONE, false});
            }
        } else if (unk_ != NONE) {
            symbols.push_back({unk_, from, to, NONE, NONE, NONE, false});
        } else {
            throw NoToken(text);
        }
    }

    Vocabulary vocabulary_;
    Roles roles_;
    std::span<const std::uint32_t> ranks_;
    std::uint32_t unk_;
    bool byte_fallback_;
    bool any_;
    bool whole_;
    bool continuation_;
    bool before_;
    bool has_unused_ = false;
    ByteIds bytes_;
    PrefixFinder user_defined_;
};

} // namespace

std::unique_ptr<Model> make_score_bpe(Reader &program, Tables &tables,
                                      const Vocabulary &vocabulary) {
    return std::make_unique<ScoreBpe>(program, tables, vocabulary);
}

} // namespace mtkit
