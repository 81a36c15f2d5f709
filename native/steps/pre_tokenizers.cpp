// Pre-tokenizers: splitting, and the two that write into the words.
//
// Source: huggingface/tokenizers, tokenizer/normalizer.rs (split), pre_tokenizers/.
#include "base/reader.hpp"
#include "steps/pattern_walk.hpp"
#include "steps/seams.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Stretches end to end, joined or dropped as the behavior says.
class Stretches {
  public:
    Stretches(const Part &part, Behavior behavior, const PutPart &put)
        : part_(part), behavior_(behavior), put_(put) {}

    void add(std::size_t end, bool found) {
        if (!joins(found)) {
            flush();
            start_ = end_;
        }
        end_ = end;
        before_ = found;
    }
    void flush() const {
        if (start_ < end_ && !(before_ && behavior_ == Behavior::REMOVED))
            put_(part_.slice(start_, end_));
    }
    [[nodiscard]] std::size_t end() const { return end_; }

  private:
    [[nodiscard]] bool joins(bool found) const {
        switch (behavior_) {
        case Behavior::MERGED_WITH_PREVIOUS:
            return found && !before_;
        case Behavior::MERGED_WITH_NEXT:
            return !found && before_;
        case Behavior::CONTIGUOUS:
            return found == before_;
        case Behavior::GLUED_TO_PREVIOUS:
            return found;
        default:
            return false;
        }
    }

    const Part &part_;
    Behavior behavior_;
    const PutPart &put_;
    std::size_t start_ = 0;
    std::size_t end_ = 0;
    bool before_ = false;
};

class Split final : public PreTokenizer {
  public:
    Split(Reader &program, Tables &tables) : matcher_(make_matcher(program, tables)) {
        const auto behavior = program.scalar<std::uint8_t>("behavior");
        if (behavior > static_cast<std::uint8_t>(Behavior::GLUED_TO_PREVIOUS))
            throw FormatError("is " + std::to_string(behavior), "behavior");
        behavior_ = static_cast<Behavior>(behavior);
        invert_ = read_flag(program, "invert");
        if (behavior_ != Behavior::ISOLATED && behavior_ != Behavior::REMOVED) return;
        const bool removes = behavior_ == Behavior::REMOVED;
        split_ = {matcher_->pattern(), !removes || invert_, !removes || !invert_};
    }
    void run(const Part &part, Arena &, const PutPart &put) const override {
        if (split_.pattern != nullptr) {
            split_.run(part.text,
                       [&](std::size_t start, std::size_t end) { put(part.slice(start, end)); });
            return;
        }
        Stretches stretches(part, behavior_, put);
        matcher_->find(part.text, [&](std::size_t start, std::size_t end) {
            if (stretches.end() != start) stretches.add(start, invert_);
            stretches.add(end, !invert_);
        });
        if (stretches.end() != part.text.size()) stretches.add(part.text.size(), invert_);
        stretches.flush();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    [[nodiscard]] PatternSplit pattern_split() const override { return split_; }
    bool keeps(Seams &seams) const override {
        // Blanks that the normalizer left none of are not found.
        if (matcher_->literal() == " " && seams.blank != " " && !seams.written[' ']) return true;
        const bool cuts = matcher_->set() != nullptr && !invert_;
        if (seams.removed) { // words are cut already
            const bool alone = cuts && behavior_ == Behavior::ISOLATED;
            seams.alone = seams.alone || alone;
            seams.known = seams.known && alone;
            return true;
        }
        seams.removed = seams.blank == " " && cuts && behavior_ == Behavior::REMOVED &&
                        matcher_->set()->has(' ');
        return seams.removed;
    }
    void keep_pages(PageSet &pages) const override {
        pages.keep(takes_alone() ? matcher_->set()->empty_pages() : PageSet());
    }
    [[nodiscard]] bool takes_alone() const override {
        return matcher_->set() != nullptr && !invert_ && behavior_ == Behavior::REMOVED;
    }

  private:
    std::unique_ptr<Matcher> matcher_;
    Behavior behavior_;
    bool invert_;
    PatternSplit split_;
};

// A text with `prefix` in front and `mark` for each blank.
Part written(const Part &part, std::string_view prefix, std::string_view mark, Arena &arena,
             const char *step) {
    Part out = part;
    Rewrite text(out, arena, step);
    if (!prefix.empty()) text.add(prefix, text.at(0));
    for (std::size_t at = part.text.find(' '); at != std::string_view::npos;
         at = part.text.find(' ', at + 1))
        text.replace(at, at + 1, mark, text.at(at));
    text.give();
    return out;
}

// A space in front of a part that does not begin with one.
class PrefixSpace final : public PreTokenizer {
  public:
    void run(const Part &part, Arena &arena, const PutPart &put) const override {
        if (part.text.empty()) return;
        put(part.text.front() == ' ' ? part : written(part, " ", " ", arena, "ByteLevel"));
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override { return seams.removed; }
};

class MapBytes final : public PreTokenizer {
  public:
    void run(const Part &part, Arena &arena, const PutPart &put) const override {
        Part out = part;
        write_letters(out, arena);
        put(out);
    }
    [[nodiscard]] bool aligns() const override { return true; }
};

class Metaspace final : public PreTokenizer {
  public:
    explicit Metaspace(Reader &program)
        : mark_(read_text(program, "replacement")),
          scheme_(static_cast<Scheme>(program.scalar<std::uint8_t>("prepend_scheme"))),
          split_(read_flag(program, "split")) {}
    void run(const Part &part, Arena &arena, const PutPart &put) const override {
        if (part.text.empty()) return;
        const bool marked = part.text.front() == ' ' || part.text.starts_with(mark_);
        const bool wanted = scheme_ == Scheme::ALWAYS || (at_start_alone() && part.at_start);
        const Part whole = written(part, wanted && !marked ? mark_ : std::string_view(), mark_,
                                   arena, "Metaspace");
        if (!split_) {
            put(whole);
            return;
        }
        std::size_t start = 0;
        for (std::size_t at = whole.text.find(mark_, 1); at != std::string_view::npos;
             at = whole.text.find(mark_, at + 1)) {
            put(whole.slice(start, at));
            start = at;
        }
        if (start < whole.text.size()) put(whole.slice(start, whole.text.size()));
    }
    [[nodiscard]] bool aligns() const override { return true; }
    [[nodiscard]] bool needs_extents() const override {
        // Parts of what the first character became can stand apart here, each of them first.
        return scheme_ == Scheme::FIRST_BY_EXTENT;
    }
    bool keeps(Seams &seams) const override {
        if (!seams.removed) {
            if (mark_ != MARK || (seams.blank != " " && seams.blank != MARK)) return false;
            seams.blank = MARK;
            seams.marked = seams.marked || split_;
            seams.first = false;
        }
        seams.first = seams.first && !at_start_alone();
        return true;
    }
    void keep_pages(PageSet &pages) const override {
        if (mark_ != MARK) pages = {};
        pages.remove(decode(MARK, 0).value, decode(MARK, 0).value + 1);
    }
    [[nodiscard]] bool takes_alone() const override { return mark_ == MARK; }

  private:
    [[nodiscard]] bool at_start_alone() const {
        return scheme_ == Scheme::FIRST || scheme_ == Scheme::FIRST_BY_EXTENT;
    }

    std::string_view mark_;
    Scheme scheme_;
    bool split_;
};

class MarkSpaces final : public PreTokenizer {
  public:
    explicit MarkSpaces(Reader &program)
        : mark_(read_text(program, "replacement")), prefix_(read_flag(program, "prefix")) {}
    void run(const Part &part, Arena &arena, const PutPart &put) const override {
        const bool wanted = prefix_ && !part.text.empty() && !part.text.starts_with(' ');
        put(written(part, wanted ? mark_ : std::string_view(), mark_, arena, "MarkSpaces"));
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        if (seams.removed || mark_ != MARK || seams.blank != " ") return false;
        seams.blank = MARK;
        seams.first = seams.first && !prefix_;
        return true;
    }

  private:
    std::string_view mark_;
    bool prefix_;
};

class FixedLength final : public PreTokenizer {
  public:
    explicit FixedLength(Reader &program) : length_(program.scalar<std::uint32_t>("length")) {}
    void run(const Part &part, Arena &, const PutPart &put) const override {
        std::size_t start = 0;
        std::size_t count = 0;
        for (std::size_t at = 0; at < part.text.size();) {
            at += decode(part.text, at).size;
            if (++count != length_) continue;
            put(part.slice(start, at));
            start = at;
            count = 0;
        }
        if (start < part.text.size()) put(part.slice(start, part.text.size()));
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    std::uint32_t length_;
};

class PreTokenizerSequence final : public PreTokenizer {
  public:
    PreTokenizerSequence(Reader &program, Tables &tables) {
        const auto count = program.count(program.scalar<std::uint32_t>("steps"), 1, "steps");
        for (std::size_t i = 0; i < count; ++i) {
            require_step<PreTokenizerKind>(program);
            steps_.push_back(make_pre_tokenizer(program, tables));
        }
    }
    void run(const Part &part, Arena &arena, const PutPart &put) const override {
        run_from(0, part, arena, put);
    }
    [[nodiscard]] bool aligns() const override {
        return std::all_of(steps_.begin(), steps_.end(), [](const auto &s) { return s->aligns(); });
    }
    [[nodiscard]] bool needs_extents() const override {
        return std::any_of(steps_.begin(), steps_.end(),
                           [](const auto &s) { return s->needs_extents(); });
    }
    bool keeps(Seams &seams) const override {
        return std::all_of(steps_.begin(), steps_.end(),
                           [&](const auto &s) { return s->keeps(seams); });
    }
    void keep_pages(PageSet &pages) const override {
        for (const auto &step : steps_) step->keep_pages(pages);
    }
    [[nodiscard]] bool takes_alone() const override {
        return std::all_of(steps_.begin(), steps_.end(),
                           [](const auto &s) { return s->takes_alone(); });
    }

  private:
    void run_from(std::size_t step, const Part &part, Arena &arena, const PutPart &put) const {
        if (step == steps_.size())
            put(part);
        else
            steps_[step]->run(part, arena,
                              [&](const Part &p) { run_from(step + 1, p, arena, put); });
    }

    std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

} // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(Reader &program, Tables &tables) {
    const auto kind = program.scalar<std::uint8_t>("pre_tokenizer");
    switch (static_cast<PreTokenizerKind>(kind)) {
    case PreTokenizerKind::NOTHING:
        return nullptr;
    case PreTokenizerKind::SEQUENCE:
        return std::make_unique<PreTokenizerSequence>(program, tables);
    case PreTokenizerKind::SPLIT:
        return std::make_unique<Split>(program, tables);
    case PreTokenizerKind::PREFIX_SPACE:
        return std::make_unique<PrefixSpace>();
    case PreTokenizerKind::MAP_BYTES:
        return std::make_unique<MapBytes>();
    case PreTokenizerKind::METASPACE:
        return std::make_unique<Metaspace>(program);
    case PreTokenizerKind::MARK_SPACES:
        return std::make_unique<MarkSpaces>(program);
    case PreTokenizerKind::FIXED_LENGTH:
        return std::make_unique<FixedLength>(program);
    case PreTokenizerKind::SCRIPTS:
        return make_scripts(program);
    case PreTokenizerKind::DIGIT_GROUPS:
        return make_digit_groups(program);
    default:
        throw FormatError("is " + std::to_string(kind) + ", no step has that number",
                          "pre_tokenizer");
    }
}

} // namespace mtkit
