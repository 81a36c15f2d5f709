// Steps on text: what normalizers and pre-tokenizers are compiled to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "base/reader.hpp"
#include "tables/opcodes.hpp"
#include "tables/tables.hpp"
#include "text/paged.hpp"
#include "text/part.hpp"

namespace mtkit {

class CodePointSet;
class Pattern;
class TextMap;
struct Seams;

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

// Splits a text at a pattern, end to end; see pattern_walk.hpp. Nothing where `pattern` is null.
struct PatternSplit {
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
    // What it does, where it splits at a pattern and does nothing else.
    [[nodiscard]] virtual PatternSplit pattern_split() const { return {}; }
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
