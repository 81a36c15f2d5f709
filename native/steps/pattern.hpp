// Split patterns: walks the tables that mtkit/patterns/matcher.py makes and describes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "steps/word_starts.hpp"
#include "tables/tables.hpp"

namespace mtkit {

class Pattern {
  public:
    // The tables are used in place; throws FormatError where they do not fit together.
    explicit Pattern(std::span<const std::uint32_t> tables);

    // Put start and end of each match from left to right, in bytes; see pattern_walk.hpp.
    // `pass(start)` takes matches itself, as many as it likes, and gives the place behind them.
    template <typename Pass, typename Put>
    void find(std::string_view text, const Pass &pass, const Put &put) const;
    template <typename Put> void find(std::string_view text, const Put &put) const {
        find(
            text, [](std::size_t start) { return start; }, put);
    }

    // What the states do: where the next state's row begins; where there is none, whether a match
    // ends in front. A row has a cell for each byte (those that are not ASCII go nowhere), then one
    // for each class.
    static constexpr std::uint32_t MATCH = 1;
    static constexpr std::uint32_t ROW = 512;
    static constexpr std::uint32_t BY_CLASS = 256;
    struct Rows {
        std::vector<std::uint32_t> cells; // empty where the character in front of a match counts
        std::uint32_t start = 0;          // row of the state at the start of a match
        // From here on, rows go back to themselves with a blank; then those that do so with each
        // letter of ASCII, and where they do not go back to themselves, a match ends in front.
        std::uint32_t blanks = 0;
        std::uint32_t letters = 0;
        std::vector<std::uint32_t> states; // of each row
        bool empty = false;                // a match may be empty
    };
    [[nodiscard]] const Rows &rows() const { return rows_; }
    [[nodiscard]] PatternFamily family() const { return family_; }
    // The class of a character.
    [[nodiscard]] std::uint32_t symbol(char32_t c) const {
        return std::min<std::uint32_t>(
            blocks_[(static_cast<std::size_t>(numbers_[c >> 8]) << 8) | (c & 255)], classes_);
    }
    // The cell of a row for the end of the text.
    [[nodiscard]] std::uint32_t end_of_text() const { return BY_CLASS + classes_; }
    // The class of 64 characters of at most three bytes, MIXED where they have not one.
    static constexpr std::uint8_t MIXED = 255;
    [[nodiscard]] std::uint8_t page(std::uint32_t c) const { return pages_[c >> 6]; }
    // Whether a character of three bytes begins here whose page has this class, which is not MIXED.
    // Of the text, which is UTF-8, two bytes can be read.
    [[nodiscard]] bool is_of_class(const unsigned char *at, std::uint8_t page_class) const {
        const unsigned lead = at[0] - 0xE0U;
        return lead < 16 && pages_[lead << 6 | (at[1] & 63U)] == page_class;
    }
    // Whether a match ends in front of a byte of ASCII that the row goes on with.
    [[nodiscard]] bool ends_in_front(std::size_t row, unsigned char byte) const {
        return (main_.step(rows_.states[row / ROW], ascii_[byte]) & 1) != 0;
    }
    // Where the match at `place` ends, `row` being reached at `at`; `place` itself where the
    // general search has to say.
    [[nodiscard]] std::size_t quick(std::string_view text, std::size_t place, std::size_t from,
                                    std::size_t row) const;

  private:
    static constexpr std::size_t LONG_LOOK = 64;
    static constexpr auto NOWHERE = static_cast<std::size_t>(-1);

    struct Automaton {
        std::uint32_t states = 0;
        std::uint32_t stride = 0;
        bool backward = false;
        std::span<const std::uint16_t> starts;
        std::span<const std::uint32_t> table;

        // What a state does with a column: next << 1 | match; 0 for what is outside the table.
        [[nodiscard]] std::uint32_t step(std::uint32_t state, std::uint32_t column) const {
            const std::size_t at = static_cast<std::size_t>(state) * stride + column;
            return at < table.size() ? table[at] : 0;
        }
    };
    struct Step {
        std::uint32_t column; // of the symbol with the oracles' answers
        std::uint32_t size;   // of the character in bytes
    };
    class Failed;
    class Direct;
    class Prepared;
    template <typename Columns> class Search;

    [[nodiscard]] std::size_t last_match(std::string_view text, std::size_t place,
                                         std::size_t end) const;
    enum class Kind : std::uint8_t { PLAIN, BLANKS, LETTERS };
    [[nodiscard]] Kind kind(std::uint32_t state) const;
    void make_rows();
    [[nodiscard]] std::uint64_t digest() const;
    [[nodiscard]] Prepared prepared(std::string_view text) const;
    template <typename T>
    std::span<const T> part(std::size_t at, std::size_t count, const char *field) const;
    [[nodiscard]] Automaton automaton(std::size_t at) const;
    static void run(const Automaton &oracle, std::uint32_t unit, std::uint32_t bit,
                    std::vector<std::uint32_t> &columns, const std::vector<std::uint32_t> &symbols);

    std::span<const std::byte> bytes_;
    std::uint32_t classes_ = 0;
    bool ignore_empty_ = false;
    std::span<const std::uint16_t> numbers_;
    std::span<const std::uint8_t> blocks_;
    std::vector<Automaton> oracles_;
    Automaton main_;
    std::uint32_t ascii_[128] = {};
    Rows rows_;
    PatternFamily family_ = PatternFamily::OTHER;
    std::array<std::uint8_t, 1024> pages_{};
};

} // namespace mtkit
