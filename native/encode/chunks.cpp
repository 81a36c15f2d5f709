// Which seams a program has: its steps say whether there are any, a look at what they do to each
// character of ASCII says the rest.
#include "encode/chunks.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "encode/walk.hpp"
#include "steps/seams.hpp"

namespace mtkit {

namespace {

constexpr std::array<bool, 256> every(std::size_t first, std::size_t last, bool value) {
    std::array<bool, 256> out{};
    for (std::size_t i = first; i <= last; ++i) out[i] = value;
    return out;
}

// First bytes of characters that are letters or ideographs all through: nothing that joins what is
// beside it, no blank, no control (U+00C0 to U+02FF, U+0380 to U+047F, U+5000 to U+9FFF).
std::array<bool, 256> plain() {
    auto out = every(0xC3, 0xCB, true);
    for (std::size_t byte = 0xCE; byte <= 0xD1; ++byte) out[byte] = true;
    for (std::size_t byte = 0xE5; byte <= 0xE9; ++byte) out[byte] = true;
    return out;
}

// A character between letters, at both ends of a word, and alone.
std::string around(std::string_view character) {
    const std::string here(character);
    return "x x" + here + "x  " + here + "x x" + here + " " + here + " x";
}

} // namespace

std::vector<std::string> Engine::ask_steps(std::string_view text, Arena &arena) const {
    std::vector<std::string> words;
    arena.begin(text.size());
    try {
        words_of({text, nullptr, {0, 0}, true, true}, arena,
                 [&](std::string_view word, const Extent *) { words.emplace_back(word); });
    } catch (const NeedsExtents &) {
        words.clear();
    } catch (const Deferred &) {
        words.clear();
    }
    arena.reset();
    return words;
}

// The first word stands at the start of the text, where other rules may hold.
bool Engine::becomes(std::string_view character, Chunks::Fate fate, const std::string &before,
                     const std::vector<std::string> &words) {
    const std::string text = around(character);
    std::vector<std::string> wanted(1);
    const auto end_word = [&] {
        if (!wanted.back().empty()) wanted.emplace_back();
    };
    for (std::size_t at = 0; at < text.size();) {
        const bool asked = text.compare(at, character.size(), character) == 0;
        const bool solo = asked && fate.kind == Chunks::SOLO;
        if (solo) end_word();
        if (asked ? fate.image.is_blank() : text[at] == ' ') {
            end_word();
        } else {
            auto &word = wanted.back();
            if (word.empty()) word = before;
            word += asked ? fate.image.text() : "x";
        }
        if (solo) end_word();
        at += asked ? character.size() : 1;
    }
    return !words.empty() &&
           std::equal(words.begin() + 1, words.end(), wanted.begin() + 1, wanted.end());
}

// U+2581 has no fate where a word that begins with it gets no other mark in front.
Chunks::Fate Engine::find_fate(std::string_view character, const Chunks &how, Arena &arena) const {
    const auto words = ask_steps(around(character), arena);
    if (words.size() < 3) return {};
    const auto own = std::string_view(words[words.size() - 2]);
    const auto spelled = own.starts_with(how.before) ? own.substr(how.before.size()) : "";
    for (const Chunks::Fate fate : {Chunks::Fate{Chunks::BLANK, Chunks::Image::blank()},
                                    Chunks::Fate{Chunks::WORD, Chunks::Image(spelled)},
                                    Chunks::Fate{Chunks::SOLO, Chunks::Image(spelled)}})
        if (!fate.image.is_none() && becomes(character, fate, how.before, words)) return fate;
    return {};
}

Chunks::Image Engine::find_image(std::string_view character, const Chunks &how,
                                 Scratch &scratch) const {
    const char32_t value = decode(character, 0).value;
    if (how.unchanged) return character == MARK ? Chunks::Image() : Chunks::Image(character);
    if (!how.removed || (normalizer_ && !normalizer_->takes_alone(value)) ||
        (pre_tokenizer_ && !pre_tokenizer_->takes_alone()))
        return {};
    const auto fate = find_fate(character, how, scratch.arena_of_chunk);
    return fate.kind == Chunks::SOLO ? Chunks::Image() : fate.image;
}

// Asks what the steps do to ASCII, between letters and blanks.
class Engine::ChunkMaker {
  public:
    ChunkMaker(const Engine &engine, const Seams &seams) : engine_(engine), seams_(seams) {
        if (engine_.is_cut_ && !engine_.model_->keeps_whole_words()) cuts_ = engine_.make_cuts();
        made_->removed = seams.removed;
        made_->whole = !seams.removed && !seams.marked;
    }

    // Null: texts are not to be cut at seams.
    std::unique_ptr<Chunks> make() {
        if (made_->whole && (cuts_ == nullptr || seams_.blank != MARK)) return nullptr;
        if (made_->whole && !cuts_->before_mark('x')) return nullptr;
        if (!knows_a_letter()) return nullptr;
        set_ends();
        for (unsigned c = 1; c < 0x80; ++c) {
            if (!seams_.free[c])
                made_->left[c] = seams_.left[c] && seams_.removed;
            else if (seams_.removed)
                ask_where_removed(c);
            else
                ask_where_kept(c);
        }
        if (made_->kind[' '] != Chunks::BLANK) return nullptr;
        set_wide();
        set_masks_of_kinds();
        return std::move(made_);
    }

  private:
    // The words that the steps make of a text; where they make one of all, it is cut in front of
    // U+2581.
    std::vector<std::string> ask(const std::string &text) {
        auto words = engine_.ask_steps(text, arena_);
        if (!made_->whole || words.size() != 1) return words;
        const std::string whole = std::move(words[0]);
        words.clear();
        for (std::size_t start = 0; start < whole.size();) {
            std::size_t at = start;
            while (whole.compare(at, MARK.size(), MARK) == 0) at += MARK.size();
            const std::size_t end = std::min(whole.find(MARK, at), whole.size());
            words.push_back(whole.substr(start, end - start));
            start = end;
        }
        return words;
    }
    // Whether a letter ends a word in front of a blank, and stays itself beside another:
    // characters are asked about between such letters.
    bool knows_a_letter() {
        const auto is_ours = [&](const std::string &word) { return word.ends_with(LETTER); };
        const auto alone = ask(LETTER);
        const auto twice = ask("x x");
        if (alone.size() != 1 || twice.size() != 2 || twice[0] != alone[0] || !is_ours(twice[0]) ||
            !is_ours(twice[1]))
            return false;
        front_ = alone[0];
        behind_blank_ = twice[1];
        // What the letter in front of a chunk becomes is told by the letter itself.
        if (made_->whole && front_ != LETTER && front_ != std::string(MARK) + LETTER) return false;
        return ask("xx x") == std::vector{front_ + LETTER, behind_blank_} &&
               ask("x xx") == std::vector{front_, behind_blank_ + LETTER};
    }
    void set_ends() {
        made_->first = seams_.first;
        made_->last = seams_.last;
        made_->clusters = seams_.clusters;
        made_->head = seams_.removed ? "x " : "x";
        made_->tail = " x";
        if (seams_.removed) made_->before = behind_blank_.substr(0, behind_blank_.size() - 1);
        made_->images = seams_.known && (!seams_.marked || seams_.removed);
        made_->unchanged = made_->whole && made_->images && !seams_.changes;
        if (!made_->unchanged && !(made_->images && seams_.removed)) return;
        made_->kept = ALL_PAGES;
        made_->kept.remove(decode(MARK, 0).value, decode(MARK, 0).value + 1);
        if (seams_.removed && engine_.normalizer_) engine_.normalizer_->keep_pages(made_->kept);
        if (seams_.removed && engine_.pre_tokenizer_)
            engine_.pre_tokenizer_->keep_pages(made_->kept);
        for (unsigned byte = 0xE0; byte < 0xF0; ++byte)
            made_->kept_row[byte] = made_->kept.has_row(static_cast<unsigned char>(byte));
    }
    void ask_where_removed(unsigned c) {
        const char here = static_cast<char>(c);
        const auto fate = engine_.find_fate({&here, 1}, *made_, arena_);
        const bool cuts = fate.kind == Chunks::SOLO || fate.kind == Chunks::BLANK;
        const bool allowed = fate.kind != Chunks::SOLO || (seams_.alone && seams_.known);
        // A mark may make a word's character of what cuts words; where a step in between adds to
        // what stands beside a blank, it has no fate.
        if (allowed && !(cuts && seams_.joins[c])) {
            made_->kind[c] = fate.kind;
            made_->image[c] = fate.image;
        }
        made_->left[c] = seams_.left[c] && (made_->kind[c] != Chunks::OTHER || !seams_.known);
    }
    void ask_where_kept(unsigned c) {
        const char here = static_cast<char>(c);
        auto &kind = made_->kind[c];
        auto &image = made_->image[c];
        const auto words = ask(LETTER + here + LETTER);
        if (words.size() == 1 && words[0].starts_with(front_) && words[0].ends_with(LETTER)) {
            const std::size_t size = words[0].size() - front_.size();
            if (size > 0) image = Chunks::Image(words[0].substr(front_.size(), size - 1));
            if (!image.is_none()) kind = Chunks::WORD;
        } else if (c == ' ' && !seams_.joins[c] && words.size() == 2 && words[0] == front_) {
            image = Chunks::Image(words[1].substr(0, words[1].size() - 1));
            if (!image.is_none()) kind = Chunks::BLANK;
        }
        const bool itself = image.text() == std::string_view(&here, 1);
        made_->left[c] = seams_.left[c] && itself && c > ' ' &&
                         (!made_->whole || cuts_->before_mark(static_cast<unsigned char>(c)));
    }
    void set_wide() {
        const bool crossed = made_->whole && !cuts_->before_mark_behind_wide();
        if (seams_.removed && !seams_.clusters)
            made_->wide = every(0xC2, 0xF4, true);
        else if (seams_.wide && (seams_.removed || !(seams_.changes || crossed)))
            made_->wide = plain();
        for (unsigned byte = 0xE5; byte <= 0xE9 && seams_.han && seams_.removed; ++byte)
            made_->kind[byte] = Chunks::HAN;
        for (unsigned c = 'a'; c <= 'z'; ++c)
            made_->letters = made_->letters && made_->kind[c] == Chunks::WORD &&
                             made_->kind[c - 'a' + 'A'] == Chunks::WORD;
    }
    void set_masks_of_kinds() {
        if (seams_.removed) made_->masks = MTKIT_BEST(masks_, <Chunks::SETS>);
        constexpr Chunks::Kind IN_SETS[Chunks::SETS] = {Chunks::WORD, Chunks::SOLO, Chunks::BLANK};
        for (unsigned c = 0; c < 0x80; ++c)
            for (std::size_t set = 0; set < Chunks::SETS; ++set)
                if (made_->kind[c] == IN_SETS[set])
                    made_->sets.put(set, static_cast<unsigned char>(c));
    }

    static inline const std::string LETTER = "x";
    const Engine &engine_;
    const Seams &seams_;
    const SafeCuts *cuts_ = nullptr;
    Arena arena_;
    std::unique_ptr<Chunks> made_ = std::make_unique<Chunks>();
    std::string front_;        // the letter at the start of a text
    std::string behind_blank_; // and behind a blank, with what is written for that
};

const Chunks *Engine::make_chunks() const {
    return chunks_.make([this]() -> std::unique_ptr<Chunks> {
        Seams seams;
        if (normalizer_ && !normalizer_->keeps(seams)) return nullptr;
        if (pre_tokenizer_ && !pre_tokenizer_->keeps(seams)) return nullptr;
        return ChunkMaker(*this, seams).make();
    });
}

const Chunks *Engine::find_chunks(std::size_t size, Scratch &scratch) const {
    if (!in_chunks_ || !scratch.model.whole_characters) return nullptr;
    if (const auto *ready = chunks_.get()) return ready;
    scratch.seen += size + 64;
    return scratch.seen < SOME ? nullptr : make_chunks();
}

} // namespace mtkit
