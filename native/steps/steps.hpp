// Steps on text: what normalizers and pre-tokenizers are compiled to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.hpp"
#include "base/function_ref.hpp"
#include "base/reader.hpp"
#include "tables/opcodes.hpp"
#include "tables/tables.hpp"
#include "text/paged.hpp"

namespace mtkit {

class CodePointSet;
class Pattern;
class TextMap;
struct Seams;

// A stretch of the original text, in characters; of a chunk, in its bytes.
struct Extent {
    std::uint32_t start;
    std::uint32_t end;
    [[nodiscard]] bool empty() const { return start == end; }
    bool operator==(const Extent &) const = default;
};

// A stretch of text on its way to the model.
struct Part {
    std::string_view text;
    const Extent *extents = nullptr; // what each byte stands for; null: nobody asks
    Extent origin{0, 0};             // what it was cut out of, where there are extents
    bool at_start = false;           // it was cut out of the very start of the input
    bool head_at_start = false;      // its first character stands for the first one of the input

    // Bytes start to end as a part of their own.
    [[nodiscard]] Part cut(std::size_t start, std::size_t end) const {
        const bool first = head_at_start && start == 0;
        Part out{text.substr(start, end - start), extents, {0, 0}, first, first};
        if (extents != nullptr) {
            out.extents += start;
            out.origin = start < end ? Extent{extents[start].start, extents[end - 1].end}
                                     : Extent{origin.start, origin.start};
            out.at_start = out.origin.start == 0;
        }
        return out;
    }
};

// Strings or vectors that live until the end of a call; their memory is reused by the next.
template <typename T> class Pool {
  public:
    T &fresh() {
        if (used_ == all_.size()) all_.push_back(std::make_unique<T>());
        auto &out = *all_[used_++];
        out.clear();
        return out;
    }

    void reset() {
        for (std::size_t i = 0; i < used_; ++i)
            if (all_[i]->capacity() > LARGE) T().swap(*all_[i]);
        if (all_.size() > MANY) all_.resize(MANY);
        used_ = 0;
    }

  private:
    static constexpr std::size_t LARGE = 1U << 20;
    static constexpr std::size_t MANY = 1024;
    std::vector<std::unique_ptr<T>> all_;
    std::size_t used_ = 0;
};

// Working memory of the steps, and how much longer they may make a text in all.
class Arena {
  public:
    // As in mtkit/pipeline/normalizers/growth.py.
    static constexpr std::size_t GROWTH_BYTES = 1U << 20;
    static constexpr std::size_t GROWTH_FACTOR = 64;

    // A text of that size comes.
    void begin(std::size_t bytes) { left_ = most_ = std::max(GROWTH_BYTES, bytes * GROWTH_FACTOR); }
    // A text of `before` bytes is `after` bytes long as far as it is written.
    void check(std::size_t before, std::size_t after, const char *step) const {
        if (after > before && after - before > left_) too_long(step);
    }
    // The same of a text that is written to its end.
    void grow(std::size_t before, std::size_t after, const char *step) {
        check(before, after, step);
        if (after > before) left_ -= after - before;
    }
    // By how much it was made longer so far.
    [[nodiscard]] std::size_t grown() const { return most_ - left_; }
    std::string &fresh() { return strings_.fresh(); }
    std::vector<Extent> &fresh_extents() { return extents_.fresh(); }
    void reset() {
        strings_.reset();
        extents_.reset();
    }

  private:
    [[noreturn]] void too_long(const char *step) const {
        throw ResourceError("the text becomes more than " + std::to_string(most_) + " bytes longer",
                            step);
    }

    Pool<std::string> strings_;
    Pool<std::vector<Extent>> extents_;
    std::size_t most_ = GROWTH_BYTES;
    std::size_t left_ = GROWTH_BYTES;
};

// Text to text.
class Normalizer {
  public:
    virtual ~Normalizer() = default;
    // Change the part; new text goes to `arena`.
    virtual void run(Part &part, Arena &arena) const = 0;
    // The same of a part without extents; the map says where its new text comes from. False: the
    // step cannot tell, and did nothing.
    virtual bool run_mapped(Part &, Arena &, TextMap &) const { return false; }
    // Whether it changes the extents of a part as well.
    [[nodiscard]] virtual bool aligns() const { return false; }
    // Whether UTF-8 may be none afterwards.
    [[nodiscard]] virtual bool may_break_characters() const { return false; }
    // Whether it keeps seams, with its conditions.
    virtual bool keeps(Seams &) const { return false; }
    // Leave pages of which it takes every character alone, and keeps it as it is.
    virtual void keep_pages(PageSet &pages) const { pages = {}; }
    // Whether what it makes of a character that is not ASCII does not depend on those beside it,
    // where that holds of these as well.
    [[nodiscard]] virtual bool takes_alone(char32_t) const { return false; }
};

// Cuts a text at a pattern, end to end; see pattern_walk.hpp. Nothing where `pattern` is null.
struct PatternCut {
    const Pattern *pattern = nullptr;
    bool matches = true; // are kept
    bool others = true;  // are kept: what lies between them

    // Put start and end of each part; empty ones are left out. `pass(start)` takes matches itself
    // and gives the place behind them.
    template <typename Pass, typename Put>
    void run(std::string_view text, const Pass &pass, const Put &put) const;
    template <typename Put> void run(std::string_view text, const Put &put) const {
        run(
            text, [](std::size_t start) { return start; }, put);
    }
};

// Takes the parts of a text one after the other: they are encoded as they are cut, so that those
// of a long text never lie in memory together.
using PutPart = FunctionRef<const Part &>;

// Parts to parts.
class PreTokenizer {
  public:
    virtual ~PreTokenizer() = default;
    // Put what becomes of one part; empty parts are left out.
    virtual void run(const Part &part, Arena &arena, const PutPart &put) const = 0;
    // Whether it writes extents, or only cuts.
    [[nodiscard]] virtual bool aligns() const { return false; }
    // What it does, where it is a cut at a pattern and nothing else.
    [[nodiscard]] virtual PatternCut pattern_cut() const { return {}; }
    // Whether what it does depends on extents, even where only ids are wanted.
    [[nodiscard]] virtual bool needs_extents() const { return false; }
    // Whether words end at seams, or nothing is done to them.
    virtual bool keeps(Seams &) const { return false; }
    // As those of a normalizer; takes_alone() is about every character.
    virtual void keep_pages(PageSet &pages) const { pages = {}; }
    [[nodiscard]] virtual bool takes_alone() const { return false; }
};

std::unique_ptr<Normalizer> make_normalizer(Reader &program, Tables &tables);
std::unique_ptr<PreTokenizer> make_pre_tokenizer(Reader &program, Tables &tables);
std::unique_ptr<PreTokenizer> make_scripts(Reader &program);
std::unique_ptr<PreTokenizer> make_digit_groups(Reader &program);
std::unique_ptr<Normalizer> make_form(Reader &program);
std::unique_ptr<Normalizer> make_drop(Reader &program);
std::unique_ptr<Normalizer> make_map(Reader &program);
std::unique_ptr<Normalizer> make_charsmap(Reader &program);
std::unique_ptr<Normalizer> make_spaces(Reader &program);

// Write each byte as its letter of the byte alphabet.
void write_letters(Part &part, Arena &arena);

// Takes matches one after the other: start and end.
using PutMatch = FunctionRef<std::size_t, std::size_t>;

// Finds matches in a text, left to right, not overlapping.
class Matcher {
  public:
    virtual ~Matcher() = default;
    virtual void find(std::string_view text, const PutMatch &put) const = 0;
    // The pattern, where it looks for one and nothing else.
    [[nodiscard]] virtual const Pattern *pattern() const { return nullptr; }
    // The text, where it looks for one.
    [[nodiscard]] virtual std::string_view literal() const { return {}; }
    // The set, where it looks for characters of one.
    [[nodiscard]] virtual const CodePointSet *set() const { return nullptr; }
};

std::unique_ptr<Matcher> make_matcher(Reader &program, Tables &tables);

} // namespace mtkit
