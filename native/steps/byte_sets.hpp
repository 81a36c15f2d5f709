// Which of 64 bytes are in sets of ASCII: a bit for each, the first the lowest.
//
// Source of the idea: Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019),
// section 3.1.2: a byte is in a set where the row of its lower half has the bit of its upper half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/hash.hpp"
#include "base/simd.hpp"

namespace mtkit {

// At most eight of them.
template <std::size_t Count> struct ByteSets {
    constexpr void put(std::size_t set, unsigned char byte) {
        rows[set][byte & 15U] |= static_cast<std::uint8_t>(1U << (byte >> 4));
        sets_of[byte] |= static_cast<std::uint8_t>(1U << set);
    }

    alignas(16) std::array<std::array<std::uint8_t, 16>, Count> rows{};
    std::array<std::uint8_t, 256> sets_of{}; // a bit for each
};

template <std::size_t Count> using SetMasks = std::array<std::uint64_t, Count>;

// With what every processor has: the sets of each byte are looked up, and the bits of a set are
// gathered.
template <std::size_t Count>
SetMasks<Count> masks_scalar(const ByteSets<Count> &sets, const unsigned char *at) {
    char in[64];
    for (unsigned i = 0; i < 64; ++i) in[i] = static_cast<char>(sets.sets_of[at[i]]);
    SetMasks<Count> out{};
    for (std::size_t set = 0; set < Count; ++set)
        for (unsigned part = 0; part < 64; part += 8)
            out[set] |= gather(load64(in + part) << (7 - set)) << part;
    return out;
}

#if defined(MTKIT_AVX) || defined(MTKIT_NEON)
// By the upper half of a byte; other characters are in no set.
alignas(16) inline constexpr std::uint8_t UPPER_HALF[16] = {1, 2, 4, 8, 16, 32, 64, 128};
#endif

#if defined(MTKIT_AVX)
MTKIT_AVX2_CODE inline __m256i twice(const std::uint8_t *row) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(row)));
}

template <std::size_t Count>
MTKIT_AVX2_CODE SetMasks<Count> masks_avx2(const ByteSets<Count> &sets, const unsigned char *at) {
    const auto half = _mm256_set1_epi8(15);
    const auto *const from = reinterpret_cast<const __m256i *>(at);
    __m256i lower[2];
    __m256i bit[2];
    for (unsigned part = 0; part < 2; ++part) {
        const auto bytes = _mm256_loadu_si256(from + part);
        lower[part] = _mm256_and_si256(bytes, half);
        const auto upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half);
        bit[part] = _mm256_shuffle_epi8(twice(UPPER_HALF), upper);
    }
    SetMasks<Count> out{};
    for (std::size_t set = 0; set < Count; ++set) {
        const auto rows = twice(sets.rows[set].data());
        std::uint64_t others = 0;
        for (unsigned part = 0; part < 2; ++part) {
            const auto row = _mm256_shuffle_epi8(rows, lower[part]);
            const auto none =
                _mm256_cmpeq_epi8(_mm256_and_si256(row, bit[part]), _mm256_setzero_si256());
            others |= std::uint64_t{static_cast<unsigned>(_mm256_movemask_epi8(none))} << 32 * part;
        }
        out[set] = ~others;
    }
    return out;
}

MTKIT_AVX512_CODE inline __m512i four_times(const std::uint8_t *row) {
    const auto one = _mm_load_si128(reinterpret_cast<const __m128i *>(row));
    return _mm512_maskz_broadcast_i32x4(0xFFFF, one); // the plain one warns in GCC 12
}

template <std::size_t Count>
MTKIT_AVX512_CODE SetMasks<Count> masks_avx512(const ByteSets<Count> &sets,
                                               const unsigned char *at) {
    SetMasks<Count> out{};
    const auto half = _mm512_set1_epi8(15);
    const auto bytes = _mm512_loadu_si512(at);
    const auto lower = _mm512_and_si512(bytes, half);
    const auto upper = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), half);
    const auto bit = _mm512_shuffle_epi8(four_times(UPPER_HALF), upper);
    for (std::size_t set = 0; set < Count; ++set)
        out[set] = _mm512_test_epi8_mask(
            _mm512_shuffle_epi8(four_times(sets.rows[set].data()), lower), bit);
    return out;
}
#endif

#if defined(MTKIT_NEON)
template <std::size_t Count>
SetMasks<Count> masks_neon(const ByteSets<Count> &sets, const unsigned char *at) {
    const uint8x16_t weights = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    SetMasks<Count> out{};
    for (std::size_t set = 0; set < Count; ++set) {
        uint8x16_t in[4];
        for (unsigned part = 0; part < 4; ++part) {
            const auto bytes = vld1q_u8(at + 16 * part);
            const auto row =
                vqtbl1q_u8(vld1q_u8(sets.rows[set].data()), vandq_u8(bytes, vdupq_n_u8(15)));
            const auto bit = vqtbl1q_u8(vld1q_u8(UPPER_HALF), vshrq_n_u8(bytes, 4));
            in[part] = vandq_u8(vtstq_u8(row, bit), weights);
        }
        // Neighbors are added until 64 are in one number.
        const auto both = vpaddq_u8(vpaddq_u8(in[0], in[1]), vpaddq_u8(in[2], in[3]));
        out[set] = vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(both, both)), 0);
    }
    return out;
}
#endif

// A function of the best level of this machine: its name without that of the level, and what is
// behind that.
#if defined(MTKIT_AVX)
#define MTKIT_BEST(NAME, ...)                                                                      \
    (simd() == Simd::AVX512 ? NAME##avx512 __VA_ARGS__                                             \
     : simd() == Simd::AVX2 ? NAME##avx2 __VA_ARGS__                                               \
                            : NAME##scalar __VA_ARGS__)
#elif defined(MTKIT_NEON)
#define MTKIT_BEST(NAME, ...)                                                                      \
    (simd() == Simd::NEON ? NAME##neon __VA_ARGS__ : NAME##scalar __VA_ARGS__)
#else
#define MTKIT_BEST(NAME, ...) NAME##scalar __VA_ARGS__
#endif

} // namespace mtkit
