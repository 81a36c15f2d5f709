// The byte alphabet of byte-level models: each byte has a printable letter.
//
// Printable Latin-1 bytes stand for themselves, the others for U+0100, U+0101 ... in their order.
// Source: openai/gpt-2, encoder.py (bytes_to_unicode).
#pragma once

#include <array>
#include <cstdint>

namespace mtkit {

struct Alphabet {
    std::array<std::uint16_t, 256> letter{}; // byte -> code point
    std::array<std::int16_t, 0x144> byte{};  // code point -> byte, -1: none

    constexpr Alphabet() {
        byte.fill(-1);
        std::uint16_t next = 0x100;
        for (unsigned b = 0; b < 256; ++b) {
            const bool printable =
                (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
            letter[b] = printable ? static_cast<std::uint16_t>(b) : next++;
            byte[letter[b]] = static_cast<std::int16_t>(b);
        }
    }

    // Byte that a code point stands for, or -1.
    [[nodiscard]] constexpr int byte_of(char32_t c) const { return c < byte.size() ? byte[c] : -1; }
};

inline constexpr Alphabet ALPHABET{};

} // namespace mtkit
