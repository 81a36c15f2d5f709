// Hashes of byte strings: the one that the tables are built with, which is part of their layout,
// and one for long texts.
#pragma once

#include <bit>
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

// Of eight bytes: the bit of each that no ASCII has.
inline constexpr std::uint64_t HIGH_BITS = 0x8080808080808080;
// These bits of eight bytes as the bits of one, the first the lowest.
inline std::uint64_t gather(std::uint64_t eight) {
    return ((eight & HIGH_BITS) >> 7) * 0x0102040810204080 >> 56;
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

// Whether bytes are the same: words are too short to call memcmp() for.
inline bool same_bytes(const char *left, const char *right, std::size_t size) {
    constexpr std::size_t STEP = sizeof(std::uint64_t);
    constexpr std::size_t LONG = 8 * STEP;
    if (size > LONG) return std::memcmp(left, right, size) == 0;
    if (size < STEP) return load_up_to_8(left, size) == load_up_to_8(right, size);
    const std::size_t last = size - STEP; // overlaps the one in front of it
    for (std::size_t at = 0; at < last; at += STEP)
        if (load64(left + at) != load64(right + at)) return false;
    return load64(left + last) == load64(right + last);
}

inline std::uint64_t hash_bytes(std::string_view text) {
    std::uint64_t state = 0x9E3779B97F4A7C15ULL * (text.size() + 1);
    std::size_t at = 0;
    for (; text.size() - at > 8; at += 8)
        state = mix((state ^ load64(text.data() + at)) * 0xA0761D6478BD642FULL);
    state ^= load_up_to_8(text.data() + at, text.size() - at);
    return mix(mix(state * 0xE7037ED1A0B428DBULL));
}

// The same of 1 to 16 bytes, of which 16 can be read: no branch waits for the size.
inline constexpr std::size_t SHORT_WORD = 16;
inline std::uint64_t hash_short(const char *at, std::size_t size) {
    const std::uint64_t first = load64(at);
    const std::uint64_t second = load64(at + 8);
    const std::uint64_t state = 0x9E3779B97F4A7C15ULL * (size + 1);
    const std::uint64_t longer = mix((state ^ first) * 0xA0761D6478BD642FULL);
    const bool is_long = size > 8;
    const std::uint64_t last = is_long ? second : first;
    const std::size_t bits = 8 * (is_long ? size - 8 : size);
    const std::uint64_t masked = last & ~std::uint64_t{0} >> (64 - bits);
    return mix(mix(((is_long ? longer : state) ^ masked) * 0xE7037ED1A0B428DBULL));
}

// Of 16 bytes or more: four numbers at a time, none of which waits for another.
inline std::uint64_t hash_long(std::string_view text) {
    constexpr std::size_t LANES = 4;
    constexpr std::size_t BLOCK = LANES * sizeof(std::uint64_t);
    constexpr std::uint64_t FACTORS[LANES] = {0xA0761D6478BD642F, 0xE7037ED1A0B428DB,
                                              0x8EBC6AF09C88C6E3, 0x589965CC75374CC3};
    const std::size_t size = text.size();
    const char *at = text.data();
    std::uint64_t state[LANES] = {size, 1, 2, 3};
    const auto add = [&](std::size_t lane, const char *from) {
        state[lane] = (state[lane] ^ load64(from)) * FACTORS[lane];
    };
    for (std::size_t left = size; left > BLOCK; left -= BLOCK, at += BLOCK) {
        for (std::size_t lane = 0; lane < LANES; ++lane) {
            add(lane, at + 8 * lane);
            state[lane] ^= state[lane] >> 32;
        }
    }
    // The end overlaps what is in front of it: of a short one the beginning.
    const char *const end = text.data() + size;
    const char *const tail = size >= BLOCK ? end - BLOCK : text.data();
    add(0, tail);
    add(1, tail + 8);
    add(2, end - 16);
    add(3, end - 8);
    const auto left = state[0] + std::rotl(state[1], 23);
    const auto right = state[2] + std::rotl(state[3], 41);
    return mix((left ^ (left >> 32)) * FACTORS[2] + (right ^ (right >> 32)) * FACTORS[0]);
}

} // namespace mtkit
