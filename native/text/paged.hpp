// Characters below U+10000, in pages of 64: sets of pages, and a table of values.
//
// A page of characters of three bytes, from U+0800 on, is those that begin with the same two.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mtkit {

inline constexpr char32_t PAGED = 0x10000; // no page has those beyond
inline constexpr char32_t PAGE = 64;
inline constexpr unsigned PAGES = PAGED / PAGE;

// The page of the character of three bytes at `at`, if it is valid, which is for a PageSet to say;
// PAGES where there is another one, or none.
inline unsigned page_at(std::string_view text, std::size_t at) {
    const auto *const p = reinterpret_cast<const unsigned char *>(text.data()) + at;
    if (text.size() - at < 3 || p[0] - 0xE0U >= 16) return PAGES;
    const unsigned second = p[1] ^ 0x80U;
    return (second | (p[2] ^ 0x80U)) < 0x40 ? (p[0] & 15U) << 6 | second : PAGES;
}

// Whether valid characters of three bytes are on a page: surrogates are not, nor what has fewer.
constexpr bool is_valid(unsigned page) {
    const bool surrogates = page - 0xD800 / PAGE < 0x800 / PAGE;
    return page >= 0x800 / PAGE && page < PAGES && !surrogates;
}

// Some pages, all of them valid.
class PageSet {
  public:
    constexpr void put(unsigned page) {
        if (is_valid(page)) bits_[page / 64] |= std::uint64_t{1} << page % 64;
    }
    // Remove those of the characters from `first` on in front of `end`.
    void remove(char32_t first, char32_t end) {
        for (char32_t c = first; c < std::min(end, PAGED); c = (c / PAGE + 1) * PAGE)
            bits_[c / PAGE / 64] &= ~(std::uint64_t{1} << c / PAGE % 64);
    }
    // Remove those that another set has not.
    void keep(const PageSet &others) {
        for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] &= others.bits_[i];
    }
    // Remove all pages of characters that begin with a byte.
    void remove_row(unsigned char first) {
        if (first >= 0xE0 && first < 0xF0) bits_[first - 0xE0] = 0;
    }
    // `page` may be PAGES, which it never has.
    [[nodiscard]] bool has(unsigned page) const { return (bits_[page / 64] >> page % 64 & 1) != 0; }
    // Whether all characters of three bytes that begin with this one are on these pages.
    [[nodiscard]] bool has_row(unsigned char first) const {
        return first >= 0xE0 && first < 0xF0 && ~bits_[first - 0xE0] == 0;
    }

  private:
    std::array<std::uint64_t, PAGES / 64 + 1> bits_{};
};
// The valid pages for which `is(page)` holds; it is asked in ascending order.
template <typename Is> constexpr PageSet pages_that(const Is &is) {
    PageSet out;
    for (unsigned page = 0; page < PAGES; ++page)
        if (is(page)) out.put(page);
    return out;
}
inline constexpr PageSet ALL_PAGES = pages_that([](unsigned) { return true; });
// The two bytes that a page of characters of three begins with.
inline std::array<char, 2> beginning_of(unsigned page) {
    return {static_cast<char>(0xE0 | page >> 6), static_cast<char>(0x80 | (page & 63))};
}

// A value for each character, found by one look into its page.
template <typename T> class Paged {
  public:
    // All characters have the usual value.
    explicit Paged(T usual) : values_(PAGE, usual) {}

    // Set the value of the characters from `first` on in front of `end`; those that no page has are
    // left out.
    void put(char32_t first, char32_t end, T value) {
        for (char32_t c = first; c < std::min(end, PAGED);) {
            auto &page = pages_[c / PAGE];
            if (page == 0) {
                page = static_cast<std::uint16_t>(values_.size() / PAGE);
                values_.resize(values_.size() + PAGE, values_[0]);
            }
            const char32_t count = std::min(std::min(end, PAGED) - c, PAGE - c % PAGE);
            std::fill_n(values_.begin() + page * PAGE + c % PAGE, count, value);
            c += count;
        }
    }
    // The value of a character below PAGED.
    [[nodiscard]] T operator[](char32_t c) const {
        return values_[pages_[c / PAGE] * PAGE + c % PAGE];
    }
    // Whether no character of a page was given a value.
    [[nodiscard]] bool is_usual(unsigned page) const { return pages_[page] == 0; }

  private:
    std::vector<std::uint16_t> pages_ = std::vector<std::uint16_t>(PAGES);
    std::vector<T> values_; // of pages; the first is that of all the others
};

} // namespace mtkit
