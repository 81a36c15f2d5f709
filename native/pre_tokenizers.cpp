// Pre-tokenizers: splitting, and the two that write into the words.
//
// Source: huggingface/tokenizers, tokenizer/normalizer.rs (split), pre_tokenizers/.
#include "alignment.hpp"
#include "models.hpp"
#include "sets.hpp"
#include "steps.hpp"
#include "utf8.hpp"

namespace mtkit {

namespace {

enum class Behavior : std::uint8_t {
    REMOVED,
    ISOLATED,
    MERGED_WITH_PREVIOUS,
    MERGED_WITH_NEXT,
    CONTIGUOUS,
    GLUED_TO_PREVIOUS,
};

struct Stretch {
    std::size_t start;
    std::size_t end;
    bool found;
};

void put(const Part &part, std::size_t start, std::size_t end, std::vector<Part> &out) {
    if (start < end) out.push_back(part.cut(start, end));
}

// Matches and the stretches between them, joined or dropped as the behaviour says.
void split(const Part &part, const std::vector<Span> &matches, Behavior behavior, bool invert,
           std::vector<Part> &out) {
    std::vector<Stretch> stretches;
    stretches.reserve(2 * matches.size() + 1);
    std::size_t done = 0;
    for (const auto &[start, end] : matches) {
        if (done != start) stretches.push_back({done, start, invert});
        stretches.push_back({start, end, !invert});
        done = end;
    }
    if (done != part.text.size()) stretches.push_back({done, part.text.size(), invert});
    if (behavior == Behavior::REMOVED || behavior == Behavior::ISOLATED) {
        for (const auto &s : stretches)
            if (behavior == Behavior::ISOLATED || !s.found) put(part, s.start, s.end, out);
        return;
    }
    const bool backwards = behavior == Behavior::MERGED_WITH_NEXT;
    std::vector<Span> parts;
    bool before = false;
    for (std::size_t i = 0; i < stretches.size(); ++i) {
        const auto &s = stretches[backwards ? stretches.size() - 1 - i : i];
        const bool joins = behavior == Behavior::CONTIGUOUS
                               ? s.found == before
                               : s.found && (!before || behavior == Behavior::GLUED_TO_PREVIOUS);
        before = s.found;
        if (!joins || parts.empty())
            parts.emplace_back(s.start, s.end);
        else if (backwards)
            parts.back().first = s.start;
        else
            parts.back().second = s.end;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto &[start, end] = parts[backwards ? parts.size() - 1 - i : i];
        put(part, start, end, out);
    }
}

class Split final : public PreTokenizer {
  public:
    Split(Reader &program, Tables &tables) : matcher_(make_matcher(program, tables)) {
        const auto behavior = program.scalar<std::uint8_t>("behavior");
        if (behavior > static_cast<std::uint8_t>(Behavior::GLUED_TO_PREVIOUS))
            throw FormatError("is " + std::to_string(behavior), "behavior");
        behavior_ = static_cast<Behavior>(behavior);
        invert_ = read_flag(program, "invert");
    }
    void run(const Part &part, Arena &, std::vector<Part> &out) const override {
        std::vector<Span> matches;
        matcher_->find(part.text, matches);
        split(part, matches, behavior_, invert_, out);
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    std::unique_ptr<Matcher> matcher_;
    Behavior behavior_;
    bool invert_;
};

// A text with `prefix` in front and `mark` for each blank.
Part written(const Part &part, std::string_view prefix, std::string_view mark, Arena &arena) {
    Part out = part;
    if (part.extents != nullptr) {
        AlignedText text(arena);
        if (!prefix.empty()) text.add(prefix, part.extents[0]);
        std::size_t done = 0;
        for (std::size_t at = part.text.find(' '); at != std::string_view::npos;
             at = part.text.find(' ', done)) {
            text.copy(part, done, at);
            text.add(mark, part.extents[at]);
            done = at + 1;
        }
        text.copy(part, done, part.text.size());
        text.give(out);
        return out;
    }
    auto &text = arena.fresh();
    text.reserve(part.text.size() + part.text.size() / 2 + prefix.size());
    text += prefix;
    for (const char c : part.text) {
        if (c == ' ')
            text += mark;
        else
            text.push_back(c);
    }
    out.text = text;
    return out;
}

// A space in front of a part that does not begin with one.
class PrefixSpace final : public PreTokenizer {
  public:
    void run(const Part &part, Arena &arena, std::vector<Part> &out) const override {
        if (part.text.empty()) return;
        out.push_back(part.text.front() == ' ' ? part : written(part, " ", " ", arena));
    }
    [[nodiscard]] bool aligns() const override { return true; }
};

class MapBytes final : public PreTokenizer {
  public:
    void run(const Part &part, Arena &arena, std::vector<Part> &out) const override {
        out.push_back(part);
        write_letters(out.back(), arena);
    }
    [[nodiscard]] bool aligns() const override { return true; }
};

class Metaspace final : public PreTokenizer {
  public:
    explicit Metaspace(Reader &program)
        : mark_(read_text(program, "replacement")),
          scheme_(program.scalar<std::uint8_t>("prepend_scheme")),
          split_(read_flag(program, "split")) {}
    void run(const Part &part, Arena &arena, std::vector<Part> &out) const override {
        if (part.text.empty()) return;
        const bool marked = part.text.front() == ' ' || part.text.starts_with(mark_);
        const bool first = scheme_ == FIRST || scheme_ == FIRST_BY_EXTENT;
        const bool wanted = scheme_ == ALWAYS || (first && part.at_start);
        const Part whole =
            written(part, wanted && !marked ? mark_ : std::string_view(), mark_, arena);
        if (!split_) {
            out.push_back(whole);
            return;
        }
        std::size_t start = 0;
        for (std::size_t at = whole.text.find(mark_, 1); at != std::string_view::npos;
             at = whole.text.find(mark_, at + 1)) {
            put(whole, start, at, out);
            start = at;
        }
        put(whole, start, whole.text.size(), out);
    }
    [[nodiscard]] bool aligns() const override { return true; }
    [[nodiscard]] bool needs_extents() const override { return scheme_ == FIRST_BY_EXTENT; }

  private:
    static constexpr std::uint8_t ALWAYS = 0;
    static constexpr std::uint8_t FIRST = 1;
    // Parts of what the first character became can stand apart here, each of them first.
    static constexpr std::uint8_t FIRST_BY_EXTENT = 3;
    std::string_view mark_;
    std::uint8_t scheme_;
    bool split_;
};

class MarkSpaces final : public PreTokenizer {
  public:
    explicit MarkSpaces(Reader &program)
        : mark_(read_text(program, "replacement")), prefix_(read_flag(program, "prefix")) {}
    void run(const Part &part, Arena &arena, std::vector<Part> &out) const override {
        const bool wanted = prefix_ && !part.text.empty() && !part.text.starts_with(' ');
        out.push_back(written(part, wanted ? mark_ : std::string_view(), mark_, arena));
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    std::string_view mark_;
    bool prefix_;
};

class FixedLength final : public PreTokenizer {
  public:
    explicit FixedLength(Reader &program) : length_(program.scalar<std::uint32_t>("length")) {}
    void run(const Part &part, Arena &, std::vector<Part> &out) const override {
        std::size_t start = 0;
        std::size_t count = 0;
        for (std::size_t at = 0; at < part.text.size();) {
            at += decode(part.text, at).size;
            if (++count != length_) continue;
            put(part, start, at, out);
            start = at;
            count = 0;
        }
        put(part, start, part.text.size(), out);
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    std::uint32_t length_;
};

class Sequence final : public PreTokenizer {
  public:
    Sequence(Reader &program, Tables &tables) {
        const auto count = program.count(program.scalar<std::uint32_t>("steps"), 1, "steps");
        for (std::size_t i = 0; i < count; ++i)
            steps_.push_back(make_pre_tokenizer(program, tables));
    }
    void run(const Part &part, Arena &arena, std::vector<Part> &out) const override {
        std::vector<Part> now{part};
        std::vector<Part> next;
        for (const auto &step : steps_) {
            next.clear();
            for (const auto &p : now) step->run(p, arena, next);
            now.swap(next);
        }
        out.insert(out.end(), now.begin(), now.end());
    }
    [[nodiscard]] bool aligns() const override {
        return std::all_of(steps_.begin(), steps_.end(), [](const auto &s) { return s->aligns(); });
    }
    [[nodiscard]] bool needs_extents() const override {
        return std::any_of(steps_.begin(), steps_.end(),
                           [](const auto &s) { return s->needs_extents(); });
    }

  private:
    std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

} // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(Reader &program, Tables &tables) {
    // program.py has the same numbers.
    const auto kind = program.scalar<std::uint8_t>("pre_tokenizer");
    switch (kind) {
    case 0:
        return nullptr;
    case 2:
        return std::make_unique<Sequence>(program, tables);
    case 3:
        return std::make_unique<Split>(program, tables);
    case 4:
        return std::make_unique<PrefixSpace>();
    case 5:
        return std::make_unique<MapBytes>();
    case 6:
        return std::make_unique<Metaspace>(program);
    case 7:
        return std::make_unique<MarkSpaces>(program);
    case 8:
        return std::make_unique<FixedLength>(program);
    case 9:
        return make_scripts(program);
    case 10:
        return make_digit_groups(program);
    default:
        throw FormatError("is " + std::to_string(kind) + ", no step has that number",
                          "pre_tokenizer");
    }
}

} // namespace mtkit
