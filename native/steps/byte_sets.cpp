#include "steps/byte_sets.hpp"

#include "steps/byte_masks.hpp"

namespace mtkit {

namespace {

#if defined(MTKIT_AVX) || defined(MTKIT_NEON)
// By the upper half of a byte; other characters are in no set.
alignas(16) constexpr std::uint8_t UPPER[16] = {1, 2, 4, 8, 16, 32, 64, 128};
#endif

#if defined(MTKIT_AVX)
MTKIT_AVX2_CODE __m256i twice(const std::uint8_t *row) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(row)));
}

MTKIT_AVX2_CODE SetMasks masks_of_avx2(const ByteSets &sets, const unsigned char *at) {
    SetMasks out{};
    const auto half = _mm256_set1_epi8(15);
    for (unsigned part = 0; part < 64; part += 32) {
        const auto bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at + part));
        const auto lower = _mm256_and_si256(bytes, half);
        const auto upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half);
        const auto bit = _mm256_shuffle_epi8(twice(UPPER), upper);
        for (std::size_t set = 0; set < BYTE_SETS; ++set) {
            const auto row = _mm256_shuffle_epi8(twice(sets.rows[set].data()), lower);
            const auto none = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), _mm256_setzero_si256());
            out[set] |= std::uint64_t{~static_cast<unsigned>(_mm256_movemask_epi8(none))} << part;
        }
    }
    return out;
}

MTKIT_AVX512_CODE __m512i four_times(const std::uint8_t *row) {
    const auto one = _mm_load_si128(reinterpret_cast<const __m128i *>(row));
    return _mm512_maskz_broadcast_i32x4(0xFFFF, one); // the plain one warns in GCC 12
}

MTKIT_AVX512_CODE SetMasks masks_of_avx512(const ByteSets &sets, const unsigned char *at) {
    SetMasks out{};
    const auto half = _mm512_set1_epi8(15);
    const auto bytes = _mm512_loadu_si512(at);
    const auto lower = _mm512_and_si512(bytes, half);
    const auto upper = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), half);
    const auto bit = _mm512_shuffle_epi8(four_times(UPPER), upper);
    for (std::size_t set = 0; set < BYTE_SETS; ++set)
        out[set] = _mm512_test_epi8_mask(
            _mm512_shuffle_epi8(four_times(sets.rows[set].data()), lower), bit);
    return out;
}
#endif

#if defined(MTKIT_NEON)
SetMasks masks_of_neon(const ByteSets &sets, const unsigned char *at) {
    const uint8x16_t weights = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    SetMasks out{};
    for (std::size_t set = 0; set < BYTE_SETS; ++set) {
        uint8x16_t in[4];
        for (unsigned part = 0; part < 4; ++part) {
            const auto bytes = vld1q_u8(at + 16 * part);
            const auto row =
                vqtbl1q_u8(vld1q_u8(sets.rows[set].data()), vandq_u8(bytes, vdupq_n_u8(15)));
            const auto bit = vqtbl1q_u8(vld1q_u8(UPPER), vshrq_n_u8(bytes, 4));
            in[part] = vandq_u8(vtstq_u8(row, bit), weights);
        }
        // Neighbours are added until 64 are in one number.
        const auto both = vpaddq_u8(vpaddq_u8(in[0], in[1]), vpaddq_u8(in[2], in[3]));
        out[set] = vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(both, both)), 0);
    }
    return out;
}
#endif

} // namespace

SetMasksOf set_masks() {
    switch (simd()) {
#if defined(MTKIT_AVX)
    case Simd::AVX512:
        return masks_of_avx512;
    case Simd::AVX2:
        return masks_of_avx2;
#elif defined(MTKIT_NEON)
    case Simd::VECTOR:
        return masks_of_neon;
#endif
    default:
        return nullptr;
    }
}

} // namespace mtkit
