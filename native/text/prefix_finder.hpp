// Which of some texts stand at a place of another.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mtkit {

// Finds which of many texts begin at a place, by narrowing a sorted list byte by byte.
class PrefixFinder {
  public:
    struct Entry {
        std::string_view text;
        std::uint32_t number;
    };

    void build(std::vector<Entry> entries);
    [[nodiscard]] bool empty() const { return entries_.empty(); }

    // The first place from `at` on where a text may begin.
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t at) const {
        if (entries_.empty()) return text.size();
        if (only_) return std::min(text.find(entries_[0].text[0], at), text.size());
        while (at < text.size() && !first_[static_cast<unsigned char>(text[at])]) ++at;
        return at;
    }

    // Call `found(entry)` for each text that begins at `at`, shortest first.
    template <typename Found> void at(std::string_view text, std::size_t at, Found &&found) const {
        follow(text, at, found);
    }

    // Length of the longest beginning that any text shares with what stands at `at`.
    [[nodiscard]] std::size_t path(std::string_view text, std::size_t at) const {
        const auto ignore = [](const Entry &) {};
        return follow(text, at, ignore);
    }

  private:
    template <typename Found>
    std::size_t follow(std::string_view text, std::size_t at, Found &found) const {
        if (!first_[static_cast<unsigned char>(text[at])]) return 0;
        auto low = entries_.begin();
        auto high = entries_.end();
        for (std::size_t depth = 0;; ++depth) {
            while (low < high && low->text.size() == depth) found(*low++);
            if (low == high || at + depth == text.size()) return depth;
            const auto byte = static_cast<unsigned char>(text[at + depth]);
            const auto key = [depth](const Entry &e) {
                return static_cast<unsigned char>(e.text[depth]);
            };
            const auto from = std::lower_bound(
                low, high, byte, [&](const Entry &e, unsigned char b) { return key(e) < b; });
            const auto to = std::upper_bound(
                from, high, byte, [&](unsigned char b, const Entry &e) { return b < key(e); });
            if (from == to) return depth;
            low = from;
            high = to;
        }
    }

    std::vector<Entry> entries_;
    std::array<bool, 256> first_{};
    bool only_ = false; // they all begin with the same byte
};

} // namespace mtkit
