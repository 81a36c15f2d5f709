// The search of mtkit/patterns/matcher.py.
//
// A match is looked for at one place after the other: the automaton is followed until it goes
// nowhere, and the last match on the way counts. Most are found by rows, a load for each byte.
#pragma once

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/compiler.hpp"
#include "steps/pattern.hpp"
#include "steps/steps.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// Places and states from which no match comes, remembered after a long look that came to nothing.
// Mostly there is one state a place, in a flat array; the others go into a set.
class Pattern::Failed {
  public:
    // The last of the places.
    [[nodiscard]] std::size_t end() const { return end_; }
    [[nodiscard]] bool has(std::size_t place, std::uint32_t state) const {
        if (first_[place] == state) return true;
        return !more_.empty() && more_.contains(key(place, state));
    }
    void add(std::size_t place, std::uint32_t state, std::size_t length) {
        if (first_.empty()) first_.resize(length + 1);
        end_ = std::max(end_, place);
        if (first_[place] == 0)
            first_[place] = state;
        else if (first_[place] != state)
            more_.insert(key(place, state));
    }

  private:
    static std::uint64_t key(std::size_t place, std::uint32_t state) {
        return (static_cast<std::uint64_t>(place) << 24) ^ state;
    }
    std::vector<std::uint32_t> first_; // 0: none; nothing comes from state 0 anyhow
    std::unordered_set<std::uint64_t> more_;
    std::size_t end_ = 0;
};

// Columns read off the text on the way: places are bytes.
class Pattern::Direct {
  public:
    Direct(const Pattern &pattern, std::string_view text) : pattern_(pattern), text_(text) {}
    [[nodiscard]] Step at(std::size_t place) const {
        if (place == text_.size()) return {pattern_.classes_, 1};
        const auto byte = static_cast<unsigned char>(text_[place]);
        if (byte < 128) return {pattern_.ascii_[byte], 1};
        const auto c = decode(text_, place);
        return {pattern_.symbol(c.value), c.size};
    }
    [[nodiscard]] std::size_t byte(std::size_t place) const { return place; }
    [[nodiscard]] std::size_t size() const { return text_.size(); }

  private:
    const Pattern &pattern_;
    std::string_view text_;
};

// Columns prepared for every character: places are characters.
class Pattern::Prepared {
  public:
    Prepared(std::vector<std::uint32_t> columns, std::vector<std::uint32_t> bytes)
        : columns_(std::move(columns)), bytes_(std::move(bytes)) {}
    [[nodiscard]] Step at(std::size_t place) const { return {columns_[place], 1}; }
    [[nodiscard]] std::size_t byte(std::size_t place) const { return bytes_[place]; }
    [[nodiscard]] std::size_t size() const { return columns_.size() - 1; }

  private:
    std::vector<std::uint32_t> columns_;
    std::vector<std::uint32_t> bytes_;
};

// A search on its way; places are what the columns count in.
template <typename Columns> class Pattern::Search {
  public:
    Search(const Pattern &pattern, const Columns &columns)
        : pattern_(pattern), columns_(columns), before_(pattern.classes_) {}

    // Find the next match; false: there is none.
    bool next(std::size_t &start, std::size_t &end);

    // How far something is remembered.
    [[nodiscard]] std::size_t remembered() const { return failed_.end(); }
    // The matches as far as here were found.
    void pass(std::size_t end) {
        if (end > place_) place_ = behind_ = end;
    }

  private:
    struct Look {
        std::size_t last;     // where the match ends, or NOWHERE
        std::uint32_t symbol; // in front of it
    };
    Look look();

    const Pattern &pattern_;
    const Columns &columns_;
    Failed failed_;
    std::uint32_t before_; // symbol in front of the place
    std::size_t place_ = 0;
    std::size_t behind_ = NOWHERE; // where the last match ended
};

template <typename Columns>
typename Pattern::Search<Columns>::Look Pattern::Search<Columns>::look() {
    const auto &main = pattern_.main_;
    const std::size_t length = columns_.size();
    std::size_t at = place_;
    std::uint32_t state = main.starts[before_];
    std::uint32_t accepted = state;
    std::uint32_t symbol = before_; // in front of `at`
    Look out{NOWHERE, before_};
    while (true) {
        const auto next = columns_.at(at);
        const std::uint32_t step = main.step(state, next.column);
        if ((step & 1) != 0) {
            out = {at, symbol};
            accepted = state;
        }
        state = step >> 1;
        if (state == 0 || at == length) break;
        at += next.size;
        symbol = next.column % (pattern_.classes_ + 1);
        if (place_ < failed_.end() && failed_.has(at, state)) break;
    }
    const std::size_t looked = out.last == NOWHERE ? place_ : out.last;
    if (at - looked > LONG_LOOK) {
        // A look beyond the match that came to nothing is not gone again.
        for (std::size_t passed = looked; passed < at;) {
            const auto next = columns_.at(passed);
            accepted = main.step(accepted, next.column) >> 1;
            passed += next.size;
            failed_.add(passed, accepted, length);
        }
    }
    return out;
}

template <typename Columns>
bool Pattern::Search<Columns>::next(std::size_t &start, std::size_t &end) {
    while (place_ <= columns_.size()) {
        const auto [last, symbol] = look();
        start = place_;
        if (last != NOWHERE && last != place_) {
            end = place_ = behind_ = last;
            before_ = symbol;
            return true;
        }
        const bool found = last == place_ && last != behind_ && !pattern_.ignore_empty_;
        const auto passed = columns_.at(place_);
        before_ = passed.column % (pattern_.classes_ + 1);
        place_ += passed.size;
        if (found) {
            end = start;
            return true;
        }
    }
    return false;
}

inline std::size_t Pattern::quick(std::string_view text, std::size_t place, std::size_t from,
                                  std::size_t reached) const {
    const auto *const begin = reinterpret_cast<const unsigned char *>(text.data());
    const auto *const end = begin + text.size();
    const auto *at = begin + from;
    const auto *const rows = rows_.cells.data();
    const auto *row = rows + reached;
    std::uint32_t cell = 0;
    while (true) {
        // Eight bytes without a look at the end; what is not ASCII stops as what goes nowhere.
        if (static_cast<std::size_t>(end - at) >= 8) [[likely]] {
            std::size_t passed = 0;
            MTKIT_UNROLL_8
            for (; passed < 8; ++passed) {
                cell = row[at[passed]];
                if (cell <= MATCH) break;
                row = rows + cell;
            }
            at += passed;
            if (passed == 8) continue;
        } else {
            cell = at == end ? row[end_of_text()] : row[*at];
            if (at == end) break;
        }
        if (cell > MATCH) {
            row = rows + cell;
            ++at;
            continue;
        }
        if (*at < 0x80) break;
        do {
            const auto c = decode_usual(text, static_cast<std::size_t>(at - begin));
            cell = row[BY_CLASS + symbol(c.value)];
            if (cell <= MATCH) break;
            row = rows + cell;
            at += c.size;
        } while (at != end && *at >= 0x80);
        if (cell <= MATCH) break;
    }
    const auto stopped = static_cast<std::size_t>(at - begin);
    return cell == MATCH ? stopped : last_match(text, place, stopped);
}

template <typename Pass, typename Put>
void Pattern::find(std::string_view text, const Pass &pass, const Put &put) const {
    std::size_t start = 0;
    std::size_t end = 0;
    if (!oracles_.empty()) {
        const Prepared columns = prepared(text);
        Search search(*this, columns);
        while (search.next(start, end)) put(columns.byte(start), columns.byte(end));
        return;
    }
    const Direct columns(*this, text);
    Search search(*this, columns);
    // Where matches are looked for by rows again; the character in front does not count there.
    std::size_t quick_from = rows_.cells.empty() ? NOWHERE : 0;
    while (true) {
        start = end;
        if (start >= quick_from && start < text.size()) [[likely]] {
            start = pass(start);
            if (start == text.size() && !rows_.empty) break; // not even an empty match is left
            end = start < text.size() ? quick(text, start, start, rows_.start) : start;
        }
        if (start == end) [[unlikely]] {
            search.pass(start);
            if (!search.next(start, end)) break;
            if (!rows_.cells.empty()) quick_from = search.remembered();
        }
        put(start, end);
    }
}

template <typename Pass, typename Put>
void PatternSplit::run(std::string_view text, const Pass &pass, const Put &put) const {
    std::size_t done = 0;
    const auto pass_all = [&](std::size_t start) {
        if (done == start && matches) done = start = pass(start);
        return start;
    };
    pattern->find(text, pass_all, [&](std::size_t start, std::size_t end) {
        if (done < start && others) [[unlikely]]
            put(done, start);
        done = end;
        if (start < end && matches) put(start, end);
    });
    if (done < text.size() && others) put(done, text.size());
}

} // namespace mtkit
