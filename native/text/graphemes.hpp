// Grapheme clusters: what a reader takes for one character.
//
// Source: Unicode Standard Annex 29, extended grapheme clusters; the program carries the data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/paged.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

class Graphemes {
  public:
    // Parts in a cluster, in the order in which program code numbers them.
    enum Kind : std::uint8_t {
        OTHER,
        CR,
        LF,
        CONTROL,
        EXTEND,
        ZWJ,
        LINKER,
        SPACING_MARK,
        PREPEND,
        L,
        V,
        T,
        LV,
        LVT,
        REGIONAL_INDICATOR,
        PICTOGRAPHIC,
        CONSONANT,
    };

    // Runs: start << 8 | kind, ascending.
    explicit Graphemes(Reader &program) : runs_(read_numbers(program, "graphemes")) {
        if (!std::is_sorted(runs_.begin(), runs_.end()))
            throw FormatError("is not ascending", "graphemes");
        for (std::size_t run = 0; run < runs_.size(); ++run) {
            const auto kind = static_cast<Kind>(runs_[run] & 0xFF);
            const std::uint32_t end = run + 1 < runs_.size() ? runs_[run + 1] >> 8 : PAGED;
            if (kind != OTHER) kinds_.put(runs_[run] >> 8, end, kind);
        }
    }

    // Whether the character is a cluster by itself between others of which that is true.
    [[nodiscard]] bool stands_alone(char32_t c) const {
        const auto kind = kind_of(c);
        return kind == OTHER || kind == LF || kind == CONTROL;
    }
    // Whether all characters of a page are.
    [[nodiscard]] bool page_stands_alone(unsigned page) const { return kinds_.is_usual(page); }

    // End of the cluster that begins at `at`.
    [[nodiscard]] std::size_t end(std::string_view text, std::size_t at) const {
        State state;
        while (at < text.size()) {
            const auto c = decode(text, at);
            const auto kind = kind_of(c.value);
            if (state.started && !state.joins(kind)) break;
            state.take(kind);
            at += c.size;
        }
        return at;
    }

  private:
    // What is known of the cluster so far. No rule looks at what stands before a cluster: a break
    // there ends every chain that could be joined.
    struct State {
        bool started = false;
        Kind before = OTHER;
        bool picture = false;
        bool consonant = false;
        bool linked = false;
        unsigned flags = 0;

        static bool extends(Kind k) { return k == EXTEND || k == ZWJ || k == LINKER; }
        [[nodiscard]] bool joins(Kind k) const {
            if (before == CR && k == LF) return true;
            if (before == CR || before == LF || before == CONTROL) return false;
            if (k == CR || k == LF || k == CONTROL) return false;
            return extends(k) || k == SPACING_MARK || before == PREPEND ||
                   (before == L && (k == L || k == V || k == LV || k == LVT)) ||
                   ((before == LV || before == V) && (k == V || k == T)) ||
                   ((before == LVT || before == T) && k == T) ||
                   (before == ZWJ && picture && k == PICTOGRAPHIC) ||
                   (consonant && linked && k == CONSONANT) ||
                   (k == REGIONAL_INDICATOR && flags % 2 == 1);
        }
        void take(Kind k) {
            flags = k == REGIONAL_INDICATOR ? flags + 1 : 0;
            if (k == PICTOGRAPHIC || !extends(k)) picture = k == PICTOGRAPHIC;
            if (!extends(k)) {
                consonant = k == CONSONANT;
                linked = false;
            } else if (k == LINKER) {
                linked = true;
            }
            before = k;
            started = true;
        }
    };

    [[nodiscard]] Kind kind_of(char32_t c) const {
        if (c < PAGED) return kinds_[c];
        const auto above = std::upper_bound(runs_.begin(), runs_.end(), (c << 8) | 0xFF);
        return above == runs_.begin() ? OTHER : static_cast<Kind>(above[-1] & 0xFF);
    }

    std::vector<std::uint32_t> runs_;
    Paged<Kind> kinds_{OTHER};
};

} // namespace mtkit
