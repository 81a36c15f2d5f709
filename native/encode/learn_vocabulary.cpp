// What caches begin with: the short words of a vocabulary, which are most of those that a text has.
#include <string>
#include <vector>

#include "base/scratch_lease.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// Puts words into a cache, some together, so that what they wait for is on its way for all.
class Engine::Learner {
  public:
    Learner(const Engine &engine, Scratch &scratch, WordCache &cache)
        : engine_(engine), scratch_(scratch), cache_(cache), left_(cache.make_room_for_seeds()) {}
    ~Learner() { put_all(); }
    Learner(const Learner &) = delete;
    Learner &operator=(const Learner &) = delete;

    [[nodiscard]] bool has_room() const { return left_ > 0; }

    // A word of the model, and the text that the cache is asked for.
    void add(std::string_view word, std::string_view text) {
        if (text.empty() || text.size() > WordCache::SHORT) return;
        words_.push_back(word);
        asked_.emplace_back(text, false);
        cache_.prefetch_short(asked_.back());
        --left_;
        if (words_.size() == WordTable::TOGETHER) put_all();
    }

  private:
    void put_all() {
        engine_.vocabulary_.words.prefetch(words_);
        for (std::size_t i = 0; i < words_.size(); ++i) {
            scratch_.tokens.clear();
            ids_.clear();
            engine_.encode_word(words_[i], false, scratch_);
            for (const auto &token : scratch_.tokens) ids_.push_back(token.id);
            if (ids_.size() <= WordCache::FEW) cache_.seed(asked_[i], ids_.data(), ids_.size());
        }
        words_.clear();
        asked_.clear();
    }

    const Engine &engine_;
    Scratch &scratch_;
    WordCache &cache_;
    std::size_t left_;
    std::vector<std::string_view> words_;
    std::vector<WordCache::Word> asked_; // short ones, which need their text no more
    std::vector<std::uint32_t> ids_;
};

void Engine::learn_vocabulary() {
    if (!cacheable_ || !looks_words_up_ || cache_bytes_ < WordCache::USUAL_BYTES) return;
    if (cuts_at_borders_) make_borders();
    model_->warm();
    const auto *const chunks = in_chunks_ ? make_chunks() : nullptr;
    ScratchLease lease(*this);
    Scratch &scratch = *lease;
    scratch.model.places = false;
    const auto &pieces = vocabulary_.pieces; // what comes first is most frequent
    if (cut_.pattern != nullptr && merges_bytes_) {
        std::vector<std::string> indentations; // line ends with them are words of GPT-2's pattern
        for (const std::string ends : {"\n", "\n\n"})
            for (std::size_t count = 1; ends.size() + count <= WordCache::SHORT; ++count)
                indentations.push_back(ends + std::string(count, ' '));
        Learner learner(*this, scratch, scratch.cache);
        for (const auto &word : indentations) learner.add(word, word);
        for (std::size_t id = 0; id < pieces.size() && learner.has_room(); ++id)
            if (is_ascii(pieces[id])) learner.add(pieces[id], pieces[id]);
        scratch.learned = learner.has_room() && !model_->takes_words_whole();
    } else if (chunks != nullptr && chunks->images) {
        Learner learner(*this, scratch, scratch.chunks);
        std::string text;
        for (std::size_t id = 0; id < pieces.size() && learner.has_room(); ++id)
            if (chunks->text_of(pieces[id], text)) learner.add(pieces[id], text);
    }
}

} // namespace mtkit
