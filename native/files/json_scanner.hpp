// JSON from left to right, no more of it than an ordinary file has: whatever else comes, GiveUp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/give_up.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// Powers of ten that a double holds.
inline constexpr std::array<double, 23> POWERS_OF_TEN{
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Strings, numbers and marks from left to right.
class JsonScanner {
  public:
    explicit JsonScanner(std::string_view text) : text_(text) {}

    [[nodiscard]] std::size_t at() const { return at_; }
    [[nodiscard]] std::string_view from(std::size_t start) const {
        return text_.substr(start, at_ - start);
    }

    // The next mark behind white space.
    char peek() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
        require(at_ < text_.size());
        return text_[at_];
    }
    bool take(char mark) {
        if (peek() != mark) return false;
        ++at_;
        return true;
    }
    void expect(char mark) { require(take(mark)); }
    // Whether another entry follows in a list or an object that `end` ends.
    bool more(char end) {
        if (take(',')) return true;
        expect(end);
        return false;
    }

    // A string, put behind what `out` holds.
    void string(std::string &out) {
        expect('"');
        while (true) {
            const std::size_t start = at_;
            while (at_ < text_.size() && PLAIN[static_cast<unsigned char>(text_[at_])]) ++at_;
            out.append(text_, start, at_ - start);
            require(at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x20);
            if (text_[at_++] == '"') return;
            escape(out);
        }
    }
    // The key of an object; keys that are spelled with escapes are too odd.
    std::string_view key() {
        expect('"');
        const std::size_t start = at_;
        while (at_ < text_.size() && PLAIN[static_cast<unsigned char>(text_[at_])]) ++at_;
        require(at_ < text_.size() && text_[at_] == '"');
        const auto found = from(start);
        ++at_;
        expect(':');
        return found;
    }
    std::uint32_t number() {
        peek();
        const std::size_t start = at_;
        std::uint64_t value = 0;
        for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
            value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
            require(value <= 0xFFFFFFFE);
        }
        require(at_ > start && (text_[start] != '0' || at_ == start + 1));
        // What follows is a comma or the end of the object, or it is another kind of number.
        return static_cast<std::uint32_t>(value);
    }
    // A number without an exponent, of at most 64 bits without its point, as serde_json reads it:
    // its digits divided by a power of ten, which rounds twice.
    double decimal() {
        const bool negative = take('-');
        const std::size_t start = at_;
        std::uint64_t digits = 0;
        std::size_t point = 0;
        for (; at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.'); ++at_) {
            if (text_[at_] == '.') {
                require(point == 0 && at_ > start);
                point = at_ + 1;
                continue;
            }
            const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
            require(digits <= (~std::uint64_t{0} - digit) / 10);
            digits = digits * 10 + digit;
        }
        require(at_ > start && at_ != point);
        require(text_[start] != '0' || at_ == start + 1 || text_[start + 1] == '.');
        const std::size_t places = point == 0 ? 0 : at_ - point;
        require(places < POWERS_OF_TEN.size());
        const double value = static_cast<double>(digits) / POWERS_OF_TEN[places];
        return negative && digits != 0 ? -value : value;
    }
    // Any value, looked at no more than to find its end.
    void skip() {
        std::size_t depth = 0;
        do {
            const char mark = peek();
            if (mark == '"') {
                skip_string();
            } else if (mark == '{' || mark == '[') {
                ++depth;
                ++at_;
            } else if (mark == '}' || mark == ']') {
                require(depth > 0);
                --depth;
                ++at_;
            } else if (mark == ',' || mark == ':') {
                require(depth > 0);
                ++at_;
            } else {
                while (at_ < text_.size() && !ends_word(text_[at_])) ++at_;
            }
        } while (depth > 0);
    }
    [[nodiscard]] bool at_end() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
        return at_ == text_.size();
    }

  private:
    static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    static bool ends_word(char c) {
        return is_space(c) || c == ',' || c == ':' || c == '"' || c == '{' || c == '}' ||
               c == '[' || c == ']';
    }
    void skip_string() {
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
            if (text_[at_] == '\\') ++at_;
        require(at_ < text_.size());
        ++at_;
    }
    void escape(std::string &out) {
        require(at_ < text_.size());
        const char letter = text_[at_++];
        if (letter == 'u') {
            char32_t value = unit();
            if (value >= 0xD800 && value < 0xDC00) { // half of a character
                require(text_.substr(at_, 2) == "\\u");
                at_ += 2;
                const char32_t low = unit();
                require(low >= 0xDC00 && low < 0xE000);
                value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            }
            require(value < 0xD800 || value > 0xDFFF);
            append(out, value);
            return;
        }
        constexpr std::string_view LETTERS = "\"\\/bfnrt";
        constexpr std::string_view MEANT = "\"\\/\b\f\n\r\t";
        const std::size_t place = LETTERS.find(letter);
        require(place != std::string_view::npos);
        out += MEANT[place];
    }
    char32_t unit() {
        char32_t value = 0;
        for (int i = 0; i < 4; ++i) {
            require(at_ < text_.size());
            const char c = text_[at_++];
            const char lower = static_cast<char>(c | 0x20);
            require(is_digit(c) || (lower >= 'a' && lower <= 'f'));
            value = value * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
        }
        return value;
    }

    // Bytes of a string that stand for themselves.
    static constexpr std::array<bool, 256> PLAIN = [] {
        std::array<bool, 256> plain{};
        for (unsigned byte = 0x20; byte < 256; ++byte) plain[byte] = byte != '"' && byte != '\\';
        return plain;
    }();

    std::string_view text_;
    std::size_t at_ = 0;
};

} // namespace mtkit
