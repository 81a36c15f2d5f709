// Which of 64 bytes are letters, digits, white space ...: a bit for each, the first the lowest.
//
// Source of the idea: Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019),
// section 3.
#pragma once

#include <cstdint>

#include "base/simd.hpp"

namespace mtkit {

// Of ASCII, but for `wide`.
struct ByteMasks {
    std::uint64_t letters = 0;
    std::uint64_t upper = 0; // letters
    std::uint64_t digits = 0;
    std::uint64_t spaces = 0; // white space
    std::uint64_t breaks = 0; // carriage returns and line feeds
    std::uint64_t blanks = 0; // U+0020
    std::uint64_t quotes = 0; // apostrophes
    std::uint64_t slashes = 0;
    std::uint64_t wide = 0; // bytes of other characters
};

#if defined(MTKIT_SSE2)
inline ByteMasks masks_sse2(const unsigned char *at) {
    ByteMasks out;
    for (unsigned part = 0; part < 64; part += 16) {
        const auto bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(at + part));
        const auto put = [part](std::uint64_t &mask, __m128i wanted) {
            mask |= std::uint64_t{static_cast<unsigned>(_mm_movemask_epi8(wanted))} << part;
        };
        const auto is = [bytes](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
        const auto among = [](__m128i value, char first, char count) {
            const auto from = _mm_sub_epi8(value, _mm_set1_epi8(first));
            const auto last = _mm_set1_epi8(static_cast<char>(count - 1));
            return _mm_cmpeq_epi8(_mm_min_epu8(from, last), from);
        };
        const auto breaks = _mm_or_si128(is('\n'), is('\r'));
        put(out.letters, among(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26));
        put(out.upper, among(bytes, 'A', 26));
        put(out.digits, among(bytes, '0', 10));
        put(out.spaces, _mm_or_si128(is(' '), among(bytes, '\t', 5)));
        put(out.breaks, breaks);
        put(out.blanks, is(' '));
        put(out.quotes, is('\''));
        put(out.slashes, is('/'));
        put(out.wide, bytes);
    }
    return out;
}
#endif

#if defined(MTKIT_AVX)
// The vectors of one part.
MTKIT_AVX2_CODE inline __m256i among_avx2(__m256i value, char first, char count) {
    const auto from = _mm256_sub_epi8(value, _mm256_set1_epi8(first));
    const auto last = _mm256_set1_epi8(static_cast<char>(count - 1));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(from, last), from);
}
MTKIT_AVX2_CODE inline __m256i is_avx2(__m256i bytes, char c) {
    return _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(c));
}
MTKIT_AVX2_CODE inline std::uint64_t bits_avx2(__m256i wanted, unsigned part) {
    return std::uint64_t{static_cast<unsigned>(_mm256_movemask_epi8(wanted))} << part;
}
MTKIT_AVX2_CODE inline ByteMasks masks_avx2(const unsigned char *at) {
    ByteMasks out;
    for (unsigned part = 0; part < 64; part += 32) {
        const auto bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at + part));
        const auto lower = _mm256_or_si256(bytes, _mm256_set1_epi8(0x20));
        const auto blanks = is_avx2(bytes, ' ');
        const auto breaks = _mm256_or_si256(is_avx2(bytes, '\n'), is_avx2(bytes, '\r'));
        out.letters |= bits_avx2(among_avx2(lower, 'a', 26), part);
        out.upper |= bits_avx2(among_avx2(bytes, 'A', 26), part);
        out.digits |= bits_avx2(among_avx2(bytes, '0', 10), part);
        out.spaces |= bits_avx2(_mm256_or_si256(blanks, among_avx2(bytes, '\t', 5)), part);
        out.breaks |= bits_avx2(breaks, part);
        out.blanks |= bits_avx2(blanks, part);
        out.quotes |= bits_avx2(is_avx2(bytes, '\''), part);
        out.slashes |= bits_avx2(is_avx2(bytes, '/'), part);
        out.wide |= bits_avx2(bytes, part);
    }
    return out;
}

MTKIT_AVX512_CODE inline std::uint64_t is_avx512(__m512i bytes, char c) {
    return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(c));
}
MTKIT_AVX512_CODE inline std::uint64_t among_avx512(__m512i value, char first, char count) {
    const auto from = _mm512_sub_epi8(value, _mm512_set1_epi8(first));
    return _mm512_cmplt_epu8_mask(from, _mm512_set1_epi8(count));
}
MTKIT_AVX512_CODE inline ByteMasks masks_avx512(const unsigned char *at) {
    const auto bytes = _mm512_loadu_si512(at);
    ByteMasks out;
    out.letters = among_avx512(_mm512_or_si512(bytes, _mm512_set1_epi8(0x20)), 'a', 26);
    out.upper = among_avx512(bytes, 'A', 26);
    out.digits = among_avx512(bytes, '0', 10);
    out.blanks = is_avx512(bytes, ' ');
    out.spaces = out.blanks | among_avx512(bytes, '\t', 5);
    out.breaks = is_avx512(bytes, '\n') | is_avx512(bytes, '\r');
    out.quotes = is_avx512(bytes, '\'');
    out.slashes = is_avx512(bytes, '/');
    out.wide = _mm512_movepi8_mask(bytes);
    return out;
}
#endif

#if defined(MTKIT_NEON)
inline ByteMasks masks_neon(const unsigned char *at) {
    uint8x16_t bytes[4];
    for (unsigned part = 0; part < 4; ++part) bytes[part] = vld1q_u8(at + 16 * part);
    // A bit of its own for each lane of eight; neighbours are added until 64 are in one number.
    const uint8x16_t weights = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const auto bits = [&](auto &&wanted) -> std::uint64_t {
        const auto low =
            vpaddq_u8(vandq_u8(wanted(bytes[0]), weights), vandq_u8(wanted(bytes[1]), weights));
        const auto high =
            vpaddq_u8(vandq_u8(wanted(bytes[2]), weights), vandq_u8(wanted(bytes[3]), weights));
        const auto both = vpaddq_u8(low, high);
        return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(both, both)), 0);
    };
    const auto is = [&](std::uint8_t c) {
        return bits([c](uint8x16_t v) { return vceqq_u8(v, vdupq_n_u8(c)); });
    };
    const auto among = [&](std::uint8_t kept, std::uint8_t first, std::uint8_t count) {
        return bits([=](uint8x16_t v) {
            const auto value = vorrq_u8(v, vdupq_n_u8(kept));
            return vcltq_u8(vsubq_u8(value, vdupq_n_u8(first)), vdupq_n_u8(count));
        });
    };
    ByteMasks out;
    out.letters = among(0x20, 'a', 26);
    out.upper = among(0, 'A', 26);
    out.digits = among(0, '0', 10);
    out.blanks = is(' ');
    out.spaces = out.blanks | among(0, '\t', 5);
    out.breaks = is('\n') | is('\r');
    out.quotes = is('\'');
    out.slashes = is('/');
    out.wide = bits([](uint8x16_t v) { return vcgeq_u8(v, vdupq_n_u8(0x80)); });
    return out;
}
#endif

} // namespace mtkit
