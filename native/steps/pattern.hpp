// Split patterns: walks the tables that mtkit/patterns/matcher.py makes and describes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "tables/tables.hpp"

namespace mtkit {

class Pattern {
  public:
    // The tables are used in place; throws FormatError where they do not fit together.
    explicit Pattern(std::span<const std::uint32_t> tables);

    // Put start and end of each match from left to right, in bytes.
    void find(std::string_view text, const FunctionRef<std::size_t, std::size_t> &put) const;

  private:
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
    class Direct;
    class Prepared;

    template <typename Columns>
    void walk(const Columns &columns, std::size_t length,
              const FunctionRef<std::size_t, std::size_t> &put) const;
    template <typename T>
    std::span<const T> part(std::size_t at, std::size_t count, const char *field) const;
    [[nodiscard]] Automaton automaton(std::size_t at) const;
    [[nodiscard]] std::uint32_t symbol(char32_t c) const;
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
};

} // namespace mtkit
