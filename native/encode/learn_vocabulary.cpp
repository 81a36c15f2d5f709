// What caches begin with: the short words of a vocabulary, which are most of those that a text has.
#include <string>
#include <vector>

#include "encode/scratch_lease.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::size_t DEEPEST_INDENTATION = 48; // that is learned, in blanks

} // namespace

// Puts words into a cache, some together, so that what they wait for is on its way for all.
class Engine::Learner {
  public:
    Learner(const Engine &engine, Scratch &scratch)
        : engine_(engine), scratch_(scratch), cache_(scratch.model.cache),
          left_(cache_.make_room_for_seeds()) {}
    ~Learner() { put_all(); }
    Learner(const Learner &) = delete;
    Learner &operator=(const Learner &) = delete;

    [[nodiscard]] bool has_room() const { return left_ > 0; }

    // A piece as a word of the model, as part of one, or of a chunk, and the text that the cache is
    // asked for.
    void add(std::uint32_t piece, std::string_view text, WordCache::Kind kind) {
        if (left_ == 0 || text.empty() || text.size() > WordCache::SHORT) return;
        pieces_.push_back(piece);
        parts_.push_back(kind == WordCache::PART);
        asked_.emplace_back(text, kind);
        cache_.prefetch_short(asked_.back());
        --left_;
        if (pieces_.size() == TOGETHER) put_all();
    }

    // A word of any length, as if it had been met.
    void meet(std::string_view word) {
        encode(word, false);
        cache_.put({word, WordCache::WORD}, ids_.data(), ids_.size());
    }

  private:
    static constexpr std::size_t TOGETHER = 64;
    void encode(std::string_view word, bool part) {
        scratch_.tokens.clear();
        ids_.clear();
        engine_.encode_word(word, {.part = part}, scratch_);
        for (const auto &token : scratch_.tokens) ids_.push_back(token.id);
    }
    void put_all() {
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            const std::uint32_t piece = pieces_[i];
            if (engine_.vocabulary_.is_own_word(piece))
                ids_.assign(1, piece);
            else
                encode(engine_.vocabulary_.pieces[piece], parts_[i]);
            cache_.seed(asked_[i], ids_.data(), ids_.size());
        }
        pieces_.clear();
        parts_.clear();
        asked_.clear();
    }

    const Engine &engine_;
    Scratch &scratch_;
    WordCache &cache_;
    std::size_t left_;
    std::vector<std::uint32_t> pieces_;
    std::vector<bool> parts_;
    std::vector<WordCache::Word> asked_; // short ones, which need their text no more
    std::vector<std::uint32_t> ids_;
};

void Engine::learn_vocabulary() {
    if (!cacheable_ || !looks_words_up_ || cache_bytes_ < WordCache::USUAL_BYTES) return;
    if (is_cut_) make_cuts();
    model_->warm();
    const auto *const chunks = in_chunks_ ? make_chunks() : nullptr;
    ScratchLease lease(*this);
    Scratch &scratch = *lease;
    scratch.model.places = false;
    const auto &pieces = vocabulary_.pieces; // what comes first is most frequent
    if (pattern_split_.pattern != nullptr && merges_bytes_) {
        Learner learner(*this, scratch);
        // Line ends with an indentation are words of GPT-2's pattern; others do not ask for them.
        for (const std::string ends : {"\n", "\n\n"})
            for (std::size_t count = 1; count <= DEEPEST_INDENTATION; ++count)
                learner.meet(ends + std::string(count, ' '));
        for (std::uint32_t id = 0; id < pieces.size() && learner.has_room(); ++id) {
            const auto piece = pieces[id];
            if (valid_prefix(piece) != piece.size()) continue;
            learner.add(id, piece, WordCache::WORD);
            if (!is_ascii(piece)) learner.add(id, piece, WordCache::PART);
        }
        scratch.learned = true;
    } else if (chunks != nullptr && chunks->images) {
        Learner learner(*this, scratch);
        std::string text;
        for (std::uint32_t id = 0; id < pieces.size() && learner.has_room(); ++id)
            if (chunks->text_of(pieces[id], text)) learner.add(id, text, WordCache::CHUNK);
    }
}

} // namespace mtkit
