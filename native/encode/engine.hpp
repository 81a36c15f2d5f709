// The engine: text to ids as the program says, with the tables.
//
// An engine does not change after it is made; any number of threads may use it. Each call borrows
// working memory, with a cache of words, from a pool.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "encode/added_tokens.hpp"
#include "models/models.hpp"
#include "steps/split_points.hpp"
#include "steps/steps.hpp"
#include "tables/cache.hpp"
#include "tables/tables.hpp"

namespace mtkit {

// Tokens of one text, without those that a post-processor adds.
struct Tokens {
    // A token that is not spelled as its piece.
    struct Spelled {
        std::size_t at;
        std::string text;
    };
    std::vector<std::uint32_t> ids;
    std::vector<Extent> offsets; // in characters of the text
    std::vector<Spelled> spelled;
};

// Ids in the order of the result, NONE where the text is; nothing where a post-processor fails.
using Frame = std::optional<std::vector<std::uint32_t>>;

struct EncodeOptions {
    bool add_special_tokens = true;
    int parse_special = -1; // -1: as the program says
};

class Engine {
  public:
    explicit Engine(Tables tables);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    // Ids of one text.
    void encode(std::string_view text, const EncodeOptions &options,
                std::vector<std::uint32_t> &out) const;

    // Tokens of one text with their places; Deferred where the pipeline has to say.
    void encode_tokens(std::string_view text, int parse_special, Tokens &out) const;
    // Whether every step keeps places.
    [[nodiscard]] bool aligns() const;

  private:
    struct Scratch {
        Arena arena;
        ModelScratch model;
        WordCache cache;
        WordCache places; // id and size of each token
        std::vector<std::uint32_t> packed;
        std::vector<Segment> cut;
        std::vector<Segment> pieces;
        std::vector<Token> tokens;
        std::vector<std::uint32_t> ids;
        std::string valid;
    };
    class ScratchLease;

    class Ids;
    class Rows;

    void one_text(std::string_view text, int parse_special, Scratch &scratch,
                  std::vector<std::uint32_t> &out) const;
    std::string_view checked(std::string_view text, Scratch &scratch) const;
    static Part aligned(std::string_view text, Scratch &scratch);
    // The way of a text to its words; see walk.hpp.
    template <typename Sink>
    void walk(const Part &whole, int parse_special, Scratch &scratch, Sink &&sink) const;
    template <typename Sink> void unit(const Part &part, const Scratch &scratch, Sink &sink) const;
    // Where no token reaches over a border, what lies before it is a word of its own.
    [[nodiscard]] std::size_t word_end(std::string_view text, const Scratch &scratch) const {
        const bool cut = cut_at_marks_ && scratch.model.whole_characters;
        return cut ? split_points_.first(text) : text.size();
    }
    void encode_word(std::string_view word, Scratch &scratch) const;

    Tables tables_;
    Vocabulary vocabulary_;
    InvalidUtf8 invalid_utf8_ = InvalidUtf8::ERROR;
    bool cut_at_marks_ = false; // words can be cut at borders
    SplitPoints split_points_;
    bool cacheable_ = false;
    std::unique_ptr<AddedTokens> added_;
    std::unique_ptr<Normalizer> normalizer_;
    std::unique_ptr<PreTokenizer> pre_tokenizer_;
    std::unique_ptr<Model> model_;
    std::vector<std::uint32_t> prefix_;
    Frame special_; // around a text
    Frame plain_;   // the same without special tokens

    static constexpr std::size_t POOL = 16;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<Scratch>> pool_;
};

} // namespace mtkit
