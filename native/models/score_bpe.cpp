// Byte-pair encoding by score.
//
// Source: google/sentencepiece, bpe_model.cc; karpathy/llama2.c, run.c (encode);
// ggml-org/llama.cpp, llm_tokenizer_spm_session.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/hash.hpp"
#include "models/merging.hpp"
#include "models/spelling.hpp"
#include "text/prefix_finder.hpp"
#include "text/utf8.hpp"

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
        if (!any_) has_unused_ = !roles_.of_type(UNUSED).empty();
        if (whole_ && !continuation_)
            for (const auto id : roles_.of_type(USER_DEFINED)) {
                const auto piece = vocabulary.pieces[id];
                breaks_ = breaks_ || valid_prefix(piece) != piece.size();
                user_defined.push_back({piece, id});
            }
        user_defined_.build(std::move(user_defined));
        if (before_ || has_unused_) return;
        made_.resize(ranks_.size(), NONE);
        is_simple_ = user_defined_.empty() && !continuation_;
        for (std::uint32_t id = 0; id < ranks_.size(); ++id) {
            const std::uint32_t rank = ranks_[id];
            if (rank == NONE) continue;
            if (rank >= made_.size()) {
                is_simple_ = false;
                continue;
            }
            auto &made = made_[rank];
            made = made == NONE ? id : SEVERAL;
        }
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        if (is_simple_ && merge_characters(word, scratch, out)) return;
        scratch.begin(word.size());
        start(word, scratch.symbols);
        Halves halves;
        merge_all(
            scratch,
            [&](const Symbol &l, const Symbol &r) { return rank(word, l, r, scratch, halves); },
            [&](Symbol &l, const Symbol &r) {
                l.id = before_ ? made(word, l, r, scratch) : made_by(l.rank);
                l.end = r.end;
                return true;
            });
        if (before_) {
            for (const auto &s : scratch.symbols) out.push_back({s.id, s.start, s.end});
            return;
        }
        auto &parts = scratch.stretches;
        parts.clear();
        for (const auto &s : scratch.symbols) {
            if (s.id < SEVERAL)
                parts.push_back({s.start, s.end, s.id});
            else
                split(word, s.start, s.end, halves, parts);
        }
        spell(word, parts, unk_, byte_fallback_ ? &bytes_ : nullptr, out);
    }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }
    [[nodiscard]] bool is_local() const override { return !has_unused_; }
    [[nodiscard]] bool is_cut() const override {
        const bool has_unknown = !before_ && !vocabulary_.pieces[unk_].empty();
        return !vocabulary_.raw && !has_unused_ && !breaks_ && (spells_all() || has_unknown);
    }
    [[nodiscard]] std::unique_ptr<SafeCuts> make_cuts() const override {
        const auto unknown = spells_all() ? std::string_view() : vocabulary_.pieces[unk_];
        return SafeCuts::of_characters(vocabulary_, {before_, unknown});
    }

  private:
    // Whether what is no piece becomes byte tokens.
    [[nodiscard]] bool spells_all() const { return byte_fallback_ && bytes_.complete(); }

    // Union that is an UNUSED piece -> bytes of its left half, as last found.
    using Halves = std::unordered_map<std::string_view, std::uint32_t>;

    [[nodiscard]] std::uint32_t find(std::string_view text) const {
        return any_ ? vocabulary_.words.find(text) : roles_.find(text);
    }

    struct Unasked {};

    // A word of few characters; false where it is another.
    bool merge_characters(std::string_view word, ModelScratch &scratch,
                          std::vector<Token> &out) const {
        if (word.empty() || word.size() > 4 * FEW_SYMBOLS) return false;
        std::uint32_t ids[FEW_SYMBOLS]; // of merges; else SEVERAL
        std::uint32_t starts[FEW_SYMBOLS + 1];
        const auto size = static_cast<std::uint32_t>(word.size());
        std::uint32_t count = 0;
        for (std::uint32_t at = 0; at < size; ++count) {
            if (count == FEW_SYMBOLS) return false;
            ids[count] = SEVERAL;
            starts[count] = at;
            at = std::min(size, at + static_cast<std::uint32_t>(character_size(word[at])));
        }
        starts[count] = size;
        char bytes[4 * FEW_SYMBOLS + SHORT_WORD]; // so many more can be read behind each text
        std::memcpy(bytes, word.data(), size);
        std::memset(bytes + size, 0, SHORT_WORD);
        const auto hash_of = [&](std::string_view text) {
            return text.size() <= SHORT_WORD ? hash_short(text.data(), text.size())
                                             : hash_bytes(text);
        };
        auto &parts = scratch.stretches;
        parts.clear();
        const auto text_of = [&](std::uint32_t at, std::uint32_t end) {
            return std::string_view(bytes + starts[at], starts[end] - starts[at]);
        };
        const auto rank_of = [&](std::uint32_t at, std::uint32_t end) {
            const auto text = text_of(at, end);
            const std::uint32_t id =
                text.size() > vocabulary_.words.longest() ? NONE : joined(text, hash_of(text));
            return id < ranks_.size() ? ranks_[id] : NONE;
        };
        merge_few(
            count, [&](std::uint32_t at) { return rank_of(at, at + 2); },
            // Most texts are told from pieces by the filter: few wait for memory.
            [](std::uint32_t, std::uint32_t, std::uint32_t) { return Unasked(); },
            [&](Unasked, std::uint32_t at, std::uint32_t, std::uint32_t end) {
                return rank_of(at, end);
            },
            [&](std::uint32_t at, std::uint32_t rank) { ids[at] = made_by(rank); },
            [&](std::uint32_t at, std::uint32_t end) {
                std::uint32_t id = ids[at];
                if (id >= SEVERAL) { // no piece is UNUSED here, as find() would ask
                    const auto text = text_of(at, end);
                    id = vocabulary_.words.find(text, hash_of(text));
                }
                parts.push_back({starts[at], starts[end], id});
            });
        spell(word, parts, unk_, byte_fallback_ ? &bytes_ : nullptr, out);
        return true;
    }

    // The piece of a text that may be one.
    [[nodiscard]] std::uint32_t joined(std::string_view word, std::uint32_t start,
                                       std::uint32_t end) const {
        const auto text = word.substr(start, end - start);
        if (text.size() > vocabulary_.words.longest()) return NONE;
        return joined(text, hash_bytes(text));
    }
    [[nodiscard]] std::uint32_t joined(std::string_view text, std::uint64_t hash) const {
        return filter_.may_have(hash) ? vocabulary_.words.find(text, hash) : NONE;
    }

    [[nodiscard]] std::uint32_t made(std::string_view word, const Symbol &l, const Symbol &r,
                                     ModelScratch &scratch) const {
        if (!before_) return joined(word, l.start, r.end);
        scratch.key = vocabulary_.pieces[l.id];
        scratch.key += vocabulary_.pieces[r.id];
        return vocabulary_.words.find(scratch.key);
    }

    // The piece that the merge of that rank makes, where it is known to be but one.
    [[nodiscard]] std::uint32_t made_by(std::uint32_t rank) const {
        return rank < made_.size() ? made_[rank] : SEVERAL;
    }

    std::uint32_t rank(std::string_view word, const Symbol &l, const Symbol &r,
                       ModelScratch &scratch, Halves &halves) const {
        if (l.frozen || r.frozen) return NONE;
        const std::uint32_t id = made(word, l, r, scratch);
        if (id >= ranks_.size() || ranks_[id] == NONE) return NONE;
        if (has_unused_ && roles_.is_unused(id))
            halves[word.substr(l.start, r.end - l.start)] = l.end - l.start;
        return ranks_[id];
    }

    void split(std::string_view word, std::uint32_t start, std::uint32_t end, const Halves &halves,
               std::vector<Stretch> &out) const {
        if (!has_unused_) {
            out.push_back({start, end, find(word.substr(start, end - start))});
            return;
        }
        std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting{{start, end}};
        while (!waiting.empty()) {
            const auto [from, to] = waiting.back();
            waiting.pop_back();
            const auto text = word.substr(from, to - from);
            const std::uint32_t id = find(text);
            if (id == NONE)
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
        while (end < word.size() && end - at < 4 && is_continuation(word[end])) ++end;
        return end;
    }

    void start(std::string_view word, std::vector<Symbol> &symbols) const {
        const auto size = static_cast<std::uint32_t>(word.size());
        PrefixFinder::Places user_defined(user_defined_, word);
        for (std::size_t at = 0; at < word.size();) {
            const auto *const whole = user_defined.at(at);
            const bool frozen = whole != nullptr;
            const std::size_t end = frozen          ? at + whole->text.size()
                                    : continuation_ ? continuation_end(word, at)
                                                    : at + character_size(word[at]);
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

    static constexpr std::uint32_t SEVERAL = NONE - 1;

    Vocabulary vocabulary_;
    WordFilter filter_{vocabulary_.words};
    Roles roles_;
    std::span<const std::uint32_t> ranks_;
    std::vector<std::uint32_t> made_; // by rank
    std::uint32_t unk_;
    bool byte_fallback_;
    bool any_;
    bool whole_;
    bool continuation_;
    bool before_;
    bool has_unused_ = false;
    bool breaks_ = false;    // what is user-defined may be less than a character
    bool is_simple_ = false; // symbols are characters; none is user-defined, no piece UNUSED
    ByteIds bytes_;
    PrefixFinder user_defined_;
};

} // namespace

std::unique_ptr<Model> make_score_bpe(Reader &program, Tables &tables,
                                      const Vocabulary &vocabulary) {
    return std::make_unique<ScoreBpe>(program, tables, vocabulary);
}

} // namespace mtkit
