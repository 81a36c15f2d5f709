// What a component looks for: a text, characters of a set, runs of two sets, a pattern.
#include "base/reader.hpp"
#include "steps/pattern_walk.hpp"
#include "steps/steps.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

class TextMatcher final : public Matcher {
  public:
    explicit TextMatcher(Reader &program) : text_(read_text(program, "text")) {}
    void find(std::string_view text, const PutMatch &put) const override {
        if (text_.empty()) return;
        for (std::size_t at = text.find(text_); at != std::string_view::npos;
             at = text.find(text_, at + text_.size()))
            put(at, at + text_.size());
    }
    [[nodiscard]] std::string_view literal() const override { return text_; }

  private:
    std::string_view text_;
};

class SetMatcher final : public Matcher {
  public:
    explicit SetMatcher(Reader &program) : set_(program) {}
    void find(std::string_view text, const PutMatch &put) const override {
        for (std::size_t at = set_.next(text, 0); at < text.size();) {
            const std::size_t end = at + decode(text, at).size;
            put(at, end);
            at = set_.next(text, end);
        }
    }
    [[nodiscard]] const CodePointSet *set() const override { return &set_; }

  private:
    CodePointSet set_;
};

// Runs of word characters, and runs of characters that are neither word nor white space.
class WordRuns final : public Matcher {
  public:
    explicit WordRuns(Reader &program) : word_(program), space_(program) {}
    void find(std::string_view text, const PutMatch &put) const override {
        int before = 0;
        std::size_t start = 0;
        for (std::size_t at = 0; at < text.size();) {
            const auto c = decode(text, at);
            const int kind = word_.has(c.value) ? 1 : space_.has(c.value) ? 0 : 2;
            if (kind != before) {
                if (before != 0) put(start, at);
                start = at;
            }
            before = kind;
            at += c.size;
        }
        if (before != 0) put(start, text.size());
    }

  private:
    CodePointSet word_;
    CodePointSet space_;
};

class PatternMatcher final : public Matcher {
  public:
    PatternMatcher(Reader &program, Tables &tables) : pattern_(tables_of(program, tables)) {}
    void find(std::string_view text, const PutMatch &put) const override {
        pattern_.find(text, put);
    }
    [[nodiscard]] const Pattern *pattern() const override { return &pattern_; }

  private:
    // Patterns lie in sections PT00, PT01 ...
    static std::span<const std::uint32_t> tables_of(Reader &program, Tables &tables) {
        const auto number = program.scalar<std::uint32_t>("pattern");
        if (number > 99) throw FormatError("is " + std::to_string(number), "pattern");
        const char tag[] = {'P', 'T', static_cast<char>('0' + number / 10),
                            static_cast<char>('0' + number % 10), 0};
        return tables.copied_numbers<std::uint32_t>(tag);
    }

    Pattern pattern_;
};

} // namespace

std::unique_ptr<Matcher> make_matcher(Reader &program, Tables &tables) {
    const auto kind = program.scalar<std::uint8_t>("matcher");
    switch (static_cast<MatcherKind>(kind)) {
    case MatcherKind::TEXT:
        return std::make_unique<TextMatcher>(program);
    case MatcherKind::SET:
        return std::make_unique<SetMatcher>(program);
    case MatcherKind::WORD_RUNS:
        return std::make_unique<WordRuns>(program);
    case MatcherKind::PATTERN:
        return std::make_unique<PatternMatcher>(program, tables);
    default:
        throw FormatError("is " + std::to_string(kind) + ", no matcher has that number", "matcher");
    }
}

} // namespace mtkit
