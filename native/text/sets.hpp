// Sets of code points and maps from code points to texts, as the program carries them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/reader.hpp"
#include "text/paged.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// A set of code points: edges start, end, start, end ... ascending, ends exclusive.
class CodePointSet {
  public:
    CodePointSet() = default;
    explicit CodePointSet(Reader &program) : edges_(read_numbers(program, "set")) {
        if (!std::is_sorted(edges_.begin(), edges_.end()))
            throw FormatError("is not ascending", "set");
        for (char32_t c = 0; c < low_.size(); ++c) low_[c] = search(c);
        ascii_ = std::find(low_.begin(), low_.begin() + 0x80, true) != low_.begin() + 0x80;
        for (std::size_t i = 0; i < edges_.size(); i += 2)
            empty_pages_.remove(edges_[i], i + 1 < edges_.size() ? edges_[i + 1] : PAGED);
    }

    [[nodiscard]] bool has(char32_t c) const {
        if (c < low_.size()) return low_[c];
        return !(c < PAGED && empty_pages_.has(c / PAGE)) && search(c);
    }

    // Whether it has all code points from `first` to `last`.
    [[nodiscard]] bool covers(char32_t first, char32_t last) const {
        const auto above = std::upper_bound(edges_.begin(), edges_.end(), first);
        return (above - edges_.begin()) % 2 == 1 && (above == edges_.end() || *above > last);
    }
    // Whether it has some of them.
    [[nodiscard]] bool meets(char32_t first, char32_t last) const {
        const auto above = std::upper_bound(edges_.begin(), edges_.end(), first);
        return (above - edges_.begin()) % 2 == 1 || (above != edges_.end() && *above <= last);
    }

    // The first place from `at` on with a character of the set, or the end of the text.
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t at) const {
        while (at < text.size()) {
            const auto first = static_cast<unsigned char>(text[at]);
            if (first < 0x80) {
                if (low_[first]) break;
                at = ascii_ ? at + 1 : ascii_end(text, at);
                continue;
            }
            if (empty_pages_.has(page_at(text, at))) {
                at += 3;
                continue;
            }
            const auto c = decode(text, at);
            if (has(c.value)) break;
            at += c.size;
        }
        return at;
    }

    // Pages without a character of it.
    [[nodiscard]] const PageSet &empty_pages() const { return empty_pages_; }

  private:
    [[nodiscard]] bool search(char32_t c) const {
        const auto above = std::upper_bound(edges_.begin(), edges_.end(), c);
        return (above - edges_.begin()) % 2 == 1;
    }

    std::vector<std::uint32_t> edges_;
    std::array<bool, 0x300> low_{};
    PageSet empty_pages_ = ALL_PAGES;
    bool ascii_ = false; // whether some character of it is ASCII
};

// Code point -> text: ascending code points, then the end of each text, then the texts.
class CodePointMap {
  public:
    CodePointMap() = default;
    explicit CodePointMap(Reader &program)
        : keys_(read_numbers(program, "keys")), ends_(read_numbers(program, "ends")) {
        const auto size = program.scalar<std::uint32_t>("texts");
        texts_ = program.text(size, "texts");
        if (keys_.size() != ends_.size() || !std::is_sorted(keys_.begin(), keys_.end()) ||
            !std::is_sorted(ends_.begin(), ends_.end()) ||
            (!ends_.empty() && ends_.back() > texts_.size()))
            throw FormatError("is not an ascending table", "map");
        for (const auto key : keys_)
            if (key < low_.size()) low_[key] = true;
    }

    [[nodiscard]] bool empty() const { return keys_.empty(); }

    template <typename Take> void each_key(Take &&take) const {
        for (const auto key : keys_) take(key);
    }

    // Whether the map has a text for the code point.
    bool find(char32_t c, std::string_view &text) const {
        if (c < low_.size() && !low_[c]) return false;
        const auto at = std::lower_bound(keys_.begin(), keys_.end(), c);
        if (at == keys_.end() || *at != c) return false;
        const auto i = static_cast<std::size_t>(at - keys_.begin());
        const std::size_t start = i == 0 ? 0 : ends_[i - 1];
        text = texts_.substr(start, ends_[i] - start);
        return true;
    }

  private:
    std::vector<std::uint32_t> keys_;
    std::vector<std::uint32_t> ends_;
    std::string_view texts_;
    std::array<bool, 0x300> low_{};
};

} // namespace mtkit
