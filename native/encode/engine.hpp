// The engine: text to ids as the program says, with the tables.
//
// What an engine answers does not change after it is made; any number of threads may use it. Each
// call borrows working memory, with a cache of words: that of the call before, or from a pool.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "base/made_once.hpp"
#include "encode/added_tokens.hpp"
#include "encode/chunks.hpp"
#include "encode/id_list.hpp"
#include "models/models.hpp"
#include "steps/steps.hpp"
#include "steps/word_starts.hpp"
#include "tables/cache.hpp"
#include "tables/tables.hpp"
#include "text/text_map.hpp"
#include "text/utf8.hpp"

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
    bool valid = false;     // the text is known to be UTF-8
};

class Engine {
  public:
    // A cache takes about so many bytes at most. `know_words`: the first one begins with the words
    // of the vocabulary.
    explicit Engine(Tables tables, std::size_t cache_bytes = WordCache::USUAL_BYTES,
                    bool know_words = false);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    // Ids of one text.
    void encode(std::string_view text, const EncodeOptions &options, IdList &out) const;
    // The same of one text after another, with the same working memory.
    class Encoder;

    // Tokens of one text with their places; Deferred where the pipeline has to say.
    void encode_tokens(std::string_view text, const EncodeOptions &options, Tokens &out) const;
    // Ids of one text as encode gives them, and for each where its text starts and ends, in
    // characters; 0 and 0 for those that stand around the text. Deferred as encode_tokens.
    void encode_offsets(std::string_view text, const EncodeOptions &options, IdList &ids,
                        IdList &places) const;
    // Whether every step keeps places.
    [[nodiscard]] bool aligns() const;
    // Whether words are cut without a call for each of them: at a pattern, or, known once it is
    // warm, at seams.
    [[nodiscard]] bool cuts_at_pattern() const {
        return pattern_split_.pattern != nullptr || chunks_.get() != nullptr;
    }
    // Bytes of the caches that no call has; borrows the one used last to ask it.
    [[nodiscard]] std::size_t cached_bytes() const;
    // Make what is otherwise made when enough text was seen; whether words are cut.
    bool warm() const {
        if (in_chunks_) make_chunks();
        model_->warm();
        return is_cut_ && make_cuts()->any();
    }
    // The table OWNW; empty for a model that does not merge bytes.
    [[nodiscard]] std::vector<std::uint8_t> own_words() const;

  private:
    struct Scratch {
        Arena arena;
        ModelScratch model;
        explicit Scratch(std::size_t cache_bytes) { model.cache = WordCache(cache_bytes); }

        Arena arena_of_chunk;
        std::string chunk;
        struct Word {
            std::string_view text;
            const Extent *extents;
        };
        std::vector<Word> words;                    // of the chunk
        std::optional<Paged<Chunks::Image>> images; // of characters that are not ASCII
        bool learned = false; // the cache began with pieces, those that come most often
        std::size_t seen = 0; // bytes that Chunks might have cut
        std::vector<std::uint32_t> packed; // tokens with places, to be remembered
        std::vector<std::uint32_t> packed_word;
        TextMap map;                         // of the part that is being encoded, see run_mapped()
        std::vector<TextOrToken> raw_parts;  // between added tokens, and these
        std::vector<TextOrToken> late_parts; // the same of those that come after the normalizer
        std::vector<Token> tokens;
        std::vector<Token> stretch; // those of the one before, see encode_long()
        std::vector<std::uint32_t> ids;
        std::string valid;

        [[nodiscard]] std::size_t cached() const { return model.cache.bytes(); }
    };
    class ScratchLease;

    class Ids;
    template <typename Out> class Chunked;
    class ChunkMaker;
    class ChunkSteps;
    template <bool Placed> class ChunkOut;
    class Learner;
    class Finder;
    class Rows;
    class Places;
    class FoundPlaces;
    class AlignedPlaces;
    class SizedPlaces;

    void encode(std::string_view text, const EncodeOptions &options, Scratch &scratch,
                IdList &out) const;
    void one_text(std::string_view text, const EncodeOptions &options, Scratch &scratch,
                  IdList &out) const;
    bool places_in(std::string_view text, int parse_special, Scratch &scratch, IdList &ids,
                   IdList &places) const;
    // A text as its rule has it, and how its surrogates are read as long as it is.
    struct Checked {
        std::string_view text;
        SurrogatesAsCharacters surrogates;
    };
    Checked checked(std::string_view text, bool valid, Scratch &scratch) const;
    template <typename Make, typename Undo>
    void walk_text(std::string_view text, const EncodeOptions &options, Scratch &scratch,
                   const Make &make, const Undo &undo) const;
    // The way of a text to its words; see walk.hpp.
    template <typename Sink>
    void walk(const Part &whole, int parse_special, Scratch &scratch, Sink &&sink) const;
    template <typename Sink>
    void walk_piece(Part part, int parse_special, Scratch &scratch, Sink &sink) const;
    template <typename Sink> void walk_words(const Part &part, Scratch &scratch, Sink &sink) const;
    template <typename Sink> void split_words(const Part &part, Sink &sink) const;
    template <typename Sink> void unit(const Part &part, const char *readable, Sink &sink) const;
    // Whether there may be cuts in a word: of bytes only Han and the like are cut.
    [[nodiscard]] bool may_cut(std::string_view word) const {
        if (!is_cut_) return false;
        return merges_bytes_ ? word.size() >= 6 && has_wide(word) : word.size() > 1;
    }
    // Null: there are none, or not yet.
    const SafeCuts *find_cuts(std::string_view word, Scratch &scratch) const {
        if (!may_cut(word)) return nullptr;
        if (const auto *known = cuts_.get()) return known;
        scratch.model.uncut += word.size();
        return scratch.model.uncut < SafeCuts::WORTH ? nullptr : make_cuts();
    }
    // Put start and end of what the model is asked for one by one, and whether it is less than
    // the word; memory may be read as far as `readable`.
    template <typename Put>
    void parts(std::string_view word, const char *readable, Scratch &scratch,
               const Put &put) const {
        if (const auto *cuts = find_cuts(word, scratch))
            cuts->parts(word, readable, scratch.model.whole_characters, put);
        else
            put(0, word.size(), false);
    }
    // Put the words of a text without added tokens, and their extents where it has some.
    template <typename Put> void words_of(Part part, Arena &arena, const Put &put) const;
    void learn_vocabulary();
    const Chunks *make_chunks() const;
    // The words that the steps make of a text; none where a step needs extents, or the pipeline has
    // to say.
    std::vector<std::string> ask_steps(std::string_view text, Arena &arena) const;
    // Whether a character becomes that wherever it stands between letters and blanks.
    static bool becomes(std::string_view character, Chunks::Fate fate, const std::string &before,
                        const std::vector<std::string> &words);
    // What becomes of a character where blanks are removed, wherever it stands.
    Chunks::Fate find_fate(std::string_view character, const Chunks &how, Arena &arena) const;
    // The same of one that is not ASCII, wherever it stands.
    Chunks::Image find_image(std::string_view character, const Chunks &how, Scratch &scratch) const;
    [[nodiscard]] const Chunks *find_chunks(std::size_t size, Scratch &scratch) const;
    const SafeCuts *make_cuts() const {
        return cuts_.make([this] { return model_->make_cuts(); });
    }
    using Asked = ModelScratch::Asked;
    void encode_word(std::string_view word, const Asked &asked, Scratch &scratch) const;
    // Put the tokens of a word, or of a part of one, that has more than LONG bytes:
    // `put(text, start, tokens)`, one stretch of it after the other. It begins again after `undo`.
    using PutStretch = FunctionRef<std::string_view, std::size_t, std::span<const Token>>;
    static constexpr std::size_t LONG = 1U << 14;
    void encode_long(std::string_view word, bool part, Scratch &scratch, const PutStretch &put,
                     const FunctionRef<> &undo) const;
    bool encode_stretches(std::string_view word, bool part, Scratch &scratch,
                          const PutStretch &put) const;

    Tables tables_;
    Vocabulary vocabulary_;
    InvalidUtf8 invalid_utf8_ = InvalidUtf8::ERROR;
    bool cacheable_ = false;
    std::unique_ptr<AddedTokens> added_;
    std::unique_ptr<Normalizer> normalizer_;
    std::unique_ptr<PreTokenizer> pre_tokenizer_;
    bool needs_extents_ = false;       // what its steps say, asked once
    bool breaks_characters_ = false;   // the same of the normalizer's
    PatternSplit pattern_split_;       // where the pre-tokenizer is nothing else
    WordStarts word_starts_ = nullptr; // of its pattern
    std::unique_ptr<Model> model_;
    bool merges_bytes_ = false;
    bool looks_words_up_ = false;
    bool is_cut_ = false;
    std::vector<std::uint32_t> prefix_;
    Frame special_; // around a text
    Frame plain_;   // the same without special tokens

    MadeOnce<SafeCuts> cuts_;
    // Made when so many bytes were seen; null where a text is not to be cut at seams.
    static constexpr std::size_t SOME = 1U << 8;
    MadeOnce<Chunks> chunks_;
    bool in_chunks_ = false; // whether there may be seams

    std::size_t cache_bytes_;
    // Working memory that no call has: that of the last one, taken without a lock, and others, with
    // process_mutex<Engine>.
    mutable std::atomic<Scratch *> spare_ = nullptr;
    static constexpr std::size_t POOL = 16;
    static constexpr std::size_t POOL_BYTES = 32U << 20; // of caches, or four full ones
    mutable std::vector<std::unique_ptr<Scratch>> pool_;
    mutable std::size_t pooled_ = 0; // bytes of their caches
};

class Engine::Encoder {
  public:
    explicit Encoder(const Engine &engine);
    ~Encoder();
    Encoder(const Encoder &) = delete;
    Encoder &operator=(const Encoder &) = delete;
    void encode(std::string_view text, const EncodeOptions &options, IdList &out);

  private:
    const Engine &engine_;
    std::unique_ptr<ScratchLease> lease_;
};

} // namespace mtkit
