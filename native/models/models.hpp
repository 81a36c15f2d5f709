// Models: a word to tokens. Each algorithm has a file of its own.
//
// A word is bytes: UTF-8 in general; for byte-level models the raw bytes, with pieces to match.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "base/reader.hpp"
#include "models/safe_cuts.hpp"
#include "models/vocabulary.hpp"
#include "tables/cache.hpp"
#include "tables/opcodes.hpp"

namespace mtkit {

// An id and the bytes of the word that it covers. Where the model spells single bytes, tokens are
// laid end to end, which may reach over the end of the word.
struct Token {
    std::uint32_t id;
    std::uint32_t start;
    std::uint32_t end;
};

// A stretch of a word with its id; NONE: no piece.
struct Stretch {
    std::uint32_t start;
    std::uint32_t end;
    std::uint32_t id;
};

// Working memory of one call; reused, so that words cost no allocation.
struct ModelScratch {
    struct Symbol {
        std::uint32_t id;
        std::uint32_t start;
        std::uint32_t end;
        std::uint32_t previous;
        std::uint32_t next;
        std::uint32_t rank; // of the merge with the next symbol
        bool frozen;
    };
    template <typename Sum> struct Node {
        Sum score = -std::numeric_limits<Sum>::infinity();
        Sum rival = -std::numeric_limits<Sum>::infinity(); // the next best score
        std::uint32_t id = NONE;
        std::uint32_t from = NONE;
    };
    // From a place of the text to the next one.
    struct Step {
        std::int64_t cost; // of the whole way to the end
        std::uint32_t id;
        std::uint32_t end;
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> heap;
    std::vector<Stretch> stretches;
    std::vector<Node<double>> nodes;
    std::vector<Node<float>> small_nodes;
    std::vector<Step> steps;
    std::string key;
    std::vector<std::uint32_t> ids;
    WordCache cache;     // of the engine, and of Unigram's segments: how sure each is, its tokens
    bool places = false; // the places of tokens are wanted, not only their ids
    bool whole_characters = false; // the text is UTF-8, and stays it
    std::uint32_t words = 0;       // for which a model has not made what it does well with
    std::size_t uncut = 0;         // bytes of words for which there are no cuts yet

    // What is encoded.
    struct Asked {
        bool part = false;       // it is less than a word, see safe_cuts.hpp
        bool not_seeded = false; // the cache began with all pieces, and has not this one
        bool begun = false;      // something of the word is in front of it
        bool goes_on = false;    // or behind it
        const FunctionRef<std::vector<Token> &> *take = nullptr; // takes tokens, and leaves none
    };
    Asked asked;
    // Have many tokens taken that nothing changes any more.
    void give(std::vector<Token> &tokens) const {
        if (asked.take != nullptr && tokens.size() >= MANY_TOKENS) (*asked.take)(tokens);
    }
    static constexpr std::size_t MANY_TOKENS = 1U << 12;

    // Start with no symbols and room for as many as a word of so many bytes can have: growing
    // step by step would touch twice the memory.
    void begin(std::size_t bytes) {
        symbols.clear();
        symbols.reserve(bytes);
    }
};

class Model {
  public:
    virtual ~Model() = default;

    // Append the tokens of one word.
    virtual void encode(std::string_view word, ModelScratch &scratch,
                        std::vector<Token> &out) const = 0;

    // Make what is otherwise made when many words were encoded.
    virtual void warm() const {}

    // Whether it merges bytes, symbols that spell what they cover.
    [[nodiscard]] virtual bool merges_bytes() const { return false; }
    // Whether words can be cut: make_cuts() is asked for the cuts once that is worth it.
    [[nodiscard]] virtual bool is_cut() const { return false; }
    [[nodiscard]] virtual std::unique_ptr<SafeCuts> make_cuts() const { return nullptr; }

    // Whether a word can be encoded in stretches, see long_words.cpp. Where that is false, `give`
    // is called if it can be.
    [[nodiscard]] virtual bool is_local() const { return false; }
    // Whether it looks a word up in the vocabulary first.
    [[nodiscard]] virtual bool looks_words_up() const { return false; }
    // Whether a word may become another than merging makes of it, which no part of one does.
    [[nodiscard]] virtual bool keeps_whole_words() const { return false; }

    // The token that is spelled as it stands in the word; NONE: tokens are spelled as pieces.
    [[nodiscard]] virtual std::uint32_t spelled_as_found() const { return NONE; }
};

// Reads the model's part of the program.
std::unique_ptr<Model> make_model(Reader &program, Tables &tables, const Vocabulary &vocabulary);

std::unique_ptr<Model> make_bpe(Reader &program, Tables &tables, const Vocabulary &vocabulary);
std::unique_ptr<Model> make_rank_bpe(Reader &program, const Vocabulary &vocabulary);
std::unique_ptr<Model> make_score_bpe(Reader &program, Tables &tables,
                                      const Vocabulary &vocabulary);
std::unique_ptr<Model> make_unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary);
std::unique_ptr<Model> make_characters(Reader &program, Tables &tables,
                                       const Vocabulary &vocabulary);
std::unique_ptr<Model> make_trie(Reader &program, Tables &tables);
std::unique_ptr<Model> make_shortest_path(Reader &program, Tables &tables);
std::unique_ptr<Model> make_loose_bpe(Tables &tables, const Vocabulary &vocabulary);
std::unique_ptr<Model> make_lattice_unigram(Reader &program, Tables &tables);
std::unique_ptr<Model> make_section_bpe(Reader &program, Tables &tables,
                                        const Vocabulary &vocabulary);
std::unique_ptr<Model> make_word_piece(Reader &program, const Vocabulary &vocabulary);
std::unique_ptr<Model> make_word_level(Reader &program, const Vocabulary &vocabulary);

} // namespace mtkit
