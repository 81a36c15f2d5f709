// UTF-8, one code point at a time.
//
// Bytes that are not valid UTF-8 come out as the code points U+DC80..U+DCFF, one for each byte, as
// Python's "surrogateescape" decodes them; encode() turns them back. Surrogates are not valid, but
// for a text that read_loosely() made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/compiler.hpp"
#include "base/hash.hpp"

namespace mtkit {

// U+2581, which stands for a space in pieces, and U+FFFD.
inline constexpr std::string_view MARK = "\xE2\x96\x81";
inline constexpr std::string_view REPLACEMENT = "\xEF\xBF\xBD";

struct CodePoint {
    char32_t value;
    unsigned size; // in bytes
};

inline bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

inline bool is_ascii(std::string_view text) {
    const char *at = text.data();
    const char *const end = at + text.size();
    for (; end - at > 8; at += 8)
        if ((load64(at) & HIGH_BITS) != 0) return false;
    return (load_up_to_8(at, static_cast<std::size_t>(end - at)) & HIGH_BITS) == 0;
}

// Whether a text has bytes that characters of three begin with: 1110xxxx.
inline bool has_wide(std::string_view text) {
    const auto any = [](std::uint64_t eight) {
        return (eight & eight << 1 & eight << 2 & ~(eight << 3) & HIGH_BITS) != 0;
    };
    const char *at = text.data();
    const char *const end = at + text.size();
    for (; end - at > 8; at += 8)
        if (any(load64(at))) return true;
    return any(load_up_to_8(at, static_cast<std::size_t>(end - at)));
}

// Bytes of a character as its first byte says.
inline std::size_t character_size(char first) {
    static constexpr std::uint8_t SIZES[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    return SIZES[static_cast<unsigned char>(first) >> 4];
}

// Whether a byte in front of `at` may begin a character that reaches over it, in a text that is not
// valid: to some models one is as long as its first byte says.
inline bool may_be_inside(std::string_view text, std::size_t at) {
    for (std::size_t back = 1; back <= 3 && back <= at; ++back)
        if (character_size(text[at - back]) > back) return true;
    return false;
}

// While one of these is there, the surrogates that this thread reads are characters.
class SurrogatesAsCharacters {
  public:
    explicit SurrogatesAsCharacters(bool are) : are_(are) {
        if (are_) now_ = true;
    }
    ~SurrogatesAsCharacters() {
        if (are_) now_ = false;
    }
    SurrogatesAsCharacters(const SurrogatesAsCharacters &) = delete;
    SurrogatesAsCharacters &operator=(const SurrogatesAsCharacters &) = delete;
    static bool now() { return now_; }

  private:
    static inline thread_local bool now_ = false;
    bool are_;
};

inline bool is_stray(char32_t c) {
    return c >= 0xDC80 && c <= 0xDCFF;
}

inline bool is_surrogate(char32_t c) {
    return c - 0xD800 < 0x800;
}

// A surrogate in three bytes. Out of line: texts have hardly any.
MTKIT_NOINLINE inline CodePoint decode_surrogate(char32_t value, CodePoint stray) {
    return SurrogatesAsCharacters::now() && !is_stray(value) ? CodePoint{value, 3} : stray;
}

// The code point at `at`, which lies before the end of `text`.
inline CodePoint decode(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
        return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
    };
    const char32_t first = byte(0);
    if (first < 0x80) return {first, 1};
    const CodePoint stray{0xDC00 + first, 1};
    const std::size_t left = text.size() - at;
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
    if (first < 0xC2) return stray;
    if (first < 0xE0) {
        if (left < 2 || !tail(1)) return stray;
        return {((first & 0x1F) << 6) | (byte(1) & 0x3F), 2};
    }
    if (first < 0xF0) {
        if (left < 3) return stray;
        const char32_t second = byte(1) ^ 0x80;
        const char32_t third = byte(2) ^ 0x80;
        const char32_t value = ((first & 0x0F) << 12) | (second << 6) | third;
        if ((second | third) >= 0x40 || value < 0x800) return stray;
        if (is_surrogate(value)) return decode_surrogate(value, stray);
        return {value, 3};
    }
    if (first > 0xF4 || left < 4 || !tail(1) || !tail(2) || !tail(3)) return stray;
    const char32_t value = ((first & 0x07) << 18) | ((byte(1) & 0x3F) << 12) |
                           ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F);
    if (value < 0x10000 || value > 0x10FFFF) return stray;
    return {value, 4};
}

// The same; soonest for what most characters of three bytes are.
MTKIT_INLINE CodePoint decode_usual(std::string_view text, std::size_t at) {
    const auto *const p = reinterpret_cast<const unsigned char *>(text.data()) + at;
    if (p[0] - 0xE0U < 16 && text.size() - at >= 3) {
        const unsigned second = p[1] ^ 0x80U;
        const unsigned third = p[2] ^ 0x80U;
        const unsigned value = (p[0] & 15U) << 12 | second << 6 | third;
        if ((second | third) < 0x40 && value - 0x800 < 0xD000) return {value, 3};
    }
    return decode(text, at);
}

inline void append(std::string &out, char32_t c) {
    const auto put = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
    if (c < 0x80) {
        put(c);
    } else if (is_stray(c)) {
        put(c - 0xDC00);
    } else if (c < 0x800) {
        put(0xC0 | (c >> 6));
        put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        put(0xE0 | (c >> 12));
        put(0x80 | ((c >> 6) & 0x3F));
        put(0x80 | (c & 0x3F));
    } else {
        put(0xF0 | (c >> 18));
        put(0x80 | ((c >> 12) & 0x3F));
        put(0x80 | ((c >> 6) & 0x3F));
        put(0x80 | (c & 0x3F));
    }
}

// Start of the code point that ends before `end` (end > 0), strays counted singly.
inline std::size_t previous(std::string_view text, std::size_t end) {
    std::size_t at = end - 1;
    while (at > 0 && end - at < 4 && is_continuation(text[at])) --at;
    return decode(text, at).size == end - at ? at : end - 1;
}

// The first byte from `at` on that is not ASCII, or text.size().
inline std::size_t ascii_end(std::string_view text, std::size_t at) {
    std::uint64_t eight = 0;
    while (text.size() - at >= sizeof eight) {
        std::memcpy(&eight, text.data() + at, sizeof eight);
        if ((eight & HIGH_BITS) != 0) break;
        at += sizeof eight;
    }
    while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
    return at;
}

// Offset of the first byte that is not valid UTF-8, or text.size().
inline std::size_t valid_prefix(std::string_view text) {
    std::size_t at = 0;
    while ((at = ascii_end(text, at)) < text.size()) {
        const auto c = decode_usual(text, at);
        if (is_stray(c.value)) return at;
        at += c.size;
    }
    return at;
}

} // namespace mtkit
