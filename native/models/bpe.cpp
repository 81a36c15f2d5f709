// Byte-pair encoding by a merge list.
//
// Source: huggingface/tokenizers, models/bpe (merge_word, merge_all).
#include <memory>

#include "models/merging.hpp"
#include "text/alphabet.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

using Symbol = ModelScratch::Symbol;

bool only_newlines(std::string_view word) {
    return word.find_first_not_of('\n') == std::string_view::npos;
}

class Bpe final : public Model {
  public:
    Bpe(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), pairs_(tables), unk_(read_id(program, "unk")),
          fuse_unk_(read_flag(program, "fuse_unk")),
          byte_fallback_(read_flag(program, "byte_fallback")),
          ignore_merges_(read_flag(program, "ignore_merges")),
          after_(read_flag(program, "missing")),
          whole_newlines_(read_flag(program, "whole_newlines")),
          refuses_(read_flag(program, "without_unk")),
          prefix_(read_text(program, "continuing_subword_prefix")),
          suffix_(read_text(program, "end_of_word_suffix")), literal_(ByteIds::literal(vocabulary)),
          named_(ByteIds::named(vocabulary)),
          bytes_alone_(vocabulary.raw && prefix_.empty() && suffix_.empty() && !after_ &&
                       literal_.complete()),
          characters_alone_(!vocabulary_.raw && prefix_.empty() && suffix_.empty() && !after_ &&
                            byte_fallback_ && named_.complete()) {}

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        if (word.empty()) return;
        const std::uint32_t id = whole(word, scratch);
        if (id != NONE) {
            out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
            return;
        }
        if (bytes_alone_ && word.size() <= FEW) {
            merge_bytes(word, out);
            return;
        }
        if (characters_alone_ && merge_characters(word, out)) return;
        scratch.begin(word.size());
        if (vocabulary_.raw && prefix_.empty() && suffix_.empty())
            split_bytes(word, scratch);
        else
            split_characters(word, scratch);
        merge_all(
            scratch, [&](const Symbol &l, const Symbol &r) { return pairs_.rank(l.id, r.id); },
            [&](Symbol &l, const Symbol &r) {
                l.id = pairs_.made(l.rank);
                l.end = r.end;
                return true;
            });
        for (const auto &symbol : scratch.symbols) emit(word, symbol, out);
    }
    [[nodiscard]] bool merges_bytes() const override { return bytes_alone_; }
    // Symbols lie as the text has them, none is left out, and each is one token in the end.
    [[nodiscard]] bool is_local() const override {
        return bytes_alone_ || characters_alone_ ||
               (!after_ && !byte_fallback_ && (refuses_ || unk_ != NONE));
    }
    [[nodiscard]] bool looks_words_up() const override {
        return ignore_merges_ || !vocabulary_.own_words.empty();
    }
    [[nodiscard]] bool keeps_whole_words() const override {
        return ignore_merges_ || whole_newlines_;
    }
    // A character without any token has to be one: where it is left out, its neighbors meet.
    [[nodiscard]] bool is_cut() const override {
        const bool as_it_stands = !vocabulary_.raw && prefix_.empty() && suffix_.empty() && !after_;
        return bytes_alone_ || characters_alone_ ||
               (as_it_stands && !vocabulary_.pieces[unk_].empty());
    }
    [[nodiscard]] std::unique_ptr<SafeCuts> make_cuts() const override {
        if (bytes_alone_) return SafeCuts::of_bytes(vocabulary_);
        const auto unknown = characters_alone_ ? std::string_view() : vocabulary_.pieces[unk_];
        return SafeCuts::of_characters(vocabulary_, {byte_fallback_, unknown});
    }

  private:
    static constexpr std::uint32_t FEW = FEW_SYMBOLS;

    // The piece that a word becomes as a whole; NONE: it is merged.
    [[nodiscard]] std::uint32_t whole(std::string_view word, const ModelScratch &scratch) const {
        const auto own = scratch.asked.not_seeded ? NONE : vocabulary_.own_word(word);
        if (own != NONE) return own;
        if (scratch.asked.part || !(ignore_merges_ || (whole_newlines_ && only_newlines(word))))
            return NONE;
        const std::uint32_t id = vocabulary_.words.find(word);
        return id < vocabulary_.pieces.size() ? id : NONE;
    }

    // A short word in which every byte is a symbol.
    void merge_bytes(std::string_view word, std::vector<Token> &out) const {
        std::uint32_t ids[FEW];
        for (std::size_t i = 0; i < word.size(); ++i)
            ids[i] = literal_.id[static_cast<unsigned char>(word[i])];
        merge(
            ids, static_cast<std::uint32_t>(word.size()), [](std::uint32_t at) { return at; }, out);
    }

    // A word of few characters, or bytes of unknown ones; false where it is another.
    bool merge_characters(std::string_view word, std::vector<Token> &out) const {
        if (word.size() > 4 * FEW) return false;
        std::uint32_t ids[FEW];
        std::uint32_t starts[FEW + 1];
        std::uint32_t count = 0;
        for (std::uint32_t at = 0; at < word.size();) {
            const auto size = static_cast<std::uint32_t>(decode(word, at).size);
            const std::string_view text = word.substr(at, size);
            const std::uint32_t id = size == 1 ? literal_.id[static_cast<unsigned char>(text[0])]
                                               : vocabulary_.words.find(text);
            const bool known = id < vocabulary_.pieces.size();
            if (count + (known ? 1 : size) > FEW) return false;
            for (std::uint32_t i = 0; i < (known ? 1 : size); ++i) {
                ids[count] = known ? id : named_.id[static_cast<unsigned char>(text[i])];
                starts[count++] = at + i;
            }
            at += size;
        }
        starts[count] = static_cast<std::uint32_t>(word.size());
        merge(
            ids, count, [&](std::uint32_t at) { return starts[at]; }, out);
        return true;
    }

    // `start_of` says where a symbol begins in the word.
    template <typename StartOf>
    void merge(std::uint32_t *ids, std::uint32_t count, const StartOf &start_of,
               std::vector<Token> &out) const {
        PairTable::Asked begun[FEW];
        for (std::uint32_t i = 0; i + 1 < count; ++i) begun[i] = pairs_.ask(ids[i], ids[i + 1]);
        merge_few(
            count, [&](std::uint32_t at) { return pairs_.rank(begun[at], ids[at], ids[at + 1]); },
            [&](std::uint32_t at, std::uint32_t next, std::uint32_t) {
                return pairs_.ask(ids[at], ids[next]);
            },
            [&](PairTable::Asked asked, std::uint32_t at, std::uint32_t next, std::uint32_t) {
                return pairs_.rank(asked, ids[at], ids[next]);
            },
            [&](std::uint32_t at, std::uint32_t rank) { ids[at] = pairs_.made(rank); },
            [&](std::uint32_t at, std::uint32_t end) {
                out.push_back({ids[at], start_of(at), start_of(end)});
            });
    }

    // Symbols lie end to end, in the order of the reference: where byte tokens overtake an unknown
    // character, not as the text has them.
    static void add(std::vector<Symbol> &symbols, std::uint32_t id, std::uint32_t size) {
        const std::uint32_t start = symbols.empty() ? 0 : symbols.back().end;
        symbols.push_back({id, start, start + size, NONE, NONE, NONE, false});
    }

    // Byte-level: a character of the byte alphabet is a byte.
    void split_bytes(std::string_view word, ModelScratch &scratch) const {
        std::uint32_t unknown = 0;
        for (const char c : word) {
            const std::uint32_t id = literal_.id[static_cast<unsigned char>(c)];
            if (id != NONE || after_) {
                flush(unknown, scratch.symbols);
                add(scratch.symbols, id, 1);
            } else {
                put_unknown(unknown, {&c, 1}, 1, scratch);
            }
        }
        flush(unknown, scratch.symbols);
    }

    void split_characters(std::string_view word, ModelScratch &scratch) const {
        std::uint32_t unknown = 0;
        for (std::size_t at = 0; at < word.size();) {
            const auto size = decode(word, at).size;
            const std::size_t end = at + size;
            std::string_view text = word.substr(at, size);
            const bool first = at == 0 && !scratch.asked.begun;
            const bool last = end == word.size() && !scratch.asked.goes_on;
            if (after_) {
                // Characters merge as text, whatever stands around them in the vocabulary.
            } else if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
                scratch.key = first ? std::string_view() : prefix_;
                scratch.key += text;
                if (last) scratch.key += suffix_;
                text = scratch.key;
            }
            const std::uint32_t id = text.size() == 1
                                         ? literal_.id[static_cast<unsigned char>(text[0])]
                                         : vocabulary_.words.find(text);
            if (after_ || id < vocabulary_.pieces.size()) {
                flush(unknown, scratch.symbols);
                add(scratch.symbols, id, size);
            } else if (!spell(text, scratch)) {
                put_unknown(unknown, text, size, scratch);
            }
            at = end;
        }
        flush(unknown, scratch.symbols);
    }

    // An unknown character waits for its neighbors; byte tokens overtake it, as in the reference.
    // `unknown` has the bytes that wait.
    void put_unknown(std::uint32_t &unknown, std::string_view text, std::uint32_t size,
                     ModelScratch &scratch) const {
        if (unk_ == NONE) {
            if (refuses_) throw NoToken(text);
            // What follows moves up, in the bytes of the pipeline's word.
            if (scratch.places && (vocabulary_.raw || byte_fallback_)) throw Deferred();
            return;
        }
        if (!fuse_unk_) flush(unknown, scratch.symbols);
        unknown += size;
    }

    void flush(std::uint32_t &unknown, std::vector<Symbol> &symbols) const {
        if (unknown != 0) add(symbols, unk_, unknown);
        unknown = 0;
    }

    bool spell(std::string_view text, ModelScratch &scratch) const {
        if (!byte_fallback_) return false;
        for (const char c : text)
            if (named_.id[static_cast<unsigned char>(c)] == NONE) return false;
        // An affix has bytes of its own, and what follows may lie beyond the word.
        if (scratch.places && !(prefix_.empty() && suffix_.empty())) throw Deferred();
        for (const char c : text) add(scratch.symbols, named_.id[static_cast<unsigned char>(c)], 1);
        return true;
    }

    void emit(std::string_view word, const Symbol &symbol, std::vector<Token> &out) const {
        if (!after_ || symbol.id < vocabulary_.pieces.size()) {
            out.push_back({symbol.id, symbol.start, symbol.end});
            return;
        }
        for (std::uint32_t at = symbol.start; at < symbol.end; ++at) {
            const auto byte = static_cast<unsigned char>(word[at]);
            // Other bytes are two in the pipeline's word, none of them a token.
            if (vocabulary_.raw && ALPHABET.letter[byte] >= 0x80) continue;
            const std::uint32_t id = (byte_fallback_ ? named_ : literal_).id[byte];
            // A part of merges that is not a token has a number behind those of the tokens.
            if (id < vocabulary_.pieces.size()) out.push_back({id, at, at + 1});
        }
    }

    Vocabulary vocabulary_;
    PairTable pairs_;
    std::uint32_t unk_;
    bool fuse_unk_;
    bool byte_fallback_;
    bool ignore_merges_;
    bool after_;
    bool whole_newlines_;
    bool refuses_; // a character without any token is an error
    std::string_view prefix_;
    std::string_view suffix_;
    ByteIds literal_;
    ByteIds named_;
    bool bytes_alone_;      // every byte is a symbol, and nothing else is at first
    bool characters_alone_; // every character is one, or the names of its bytes are
};

} // namespace

std::unique_ptr<Model> make_bpe(Reader &program, Tables &tables, const Vocabulary &vocabulary) {
    return std::make_unique<Bpe>(program, tables, vocabulary);
}

} // namespace mtkit
