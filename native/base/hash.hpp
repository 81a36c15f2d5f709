// The hash of byte strings that the tables are built with; part of their layout.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace mtkit {

inline std::uint64_t mix(std::uint64_t value) {
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93ULL;
    return value ^ (value >> 29);
}

inline std::uint64_t load64(const char *at) {
    std::uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Up to eight bytes as one number, zero-filled, without reading past the end.
inline std::uint64_t load_up_to_8(const char *at, std::size_t size) {
    std::uint64_t value = 0;
    if (size >= 4) {
        std::uint32_t low;
        std::uint32_t high;
        std::memcpy(&low, at, 4);
        std::memcpy(&high, at + size - 4, 4);
        value = low | (static_cast<std::uint64_t>(high) << (8 * (size - 4)));
        // The halves overlap in equal bytes, so or-ing them is exact.
    } else if (size > 0) {
        const auto byte = [at](std::size_t i) {
            return static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
        };
        value = byte(0) | byte(size / 2) | byte(size - 1);
    }
    return value;
}

inline std::uint64_t hash_bytes(std::string_view text) {
    std::uint64_t state = 0x9E3779B97F4A7C15ULL * (text.size() + 1);
    std::size_t at = 0;
    for (; text.size() - at > 8; at += 8)
        state = mix((state ^ load64(text.data() + at)) * 0xA0761D6478BD642FULL);
    state ^= load_up_to_8(text.data() + at, text.size() - at);
    return mix(mix(state * 0xE7037ED1A0B428DBULL));
}

} // namespace mtkit
