// How many of the next bytes are of one kind, sixteen at a look.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/simd.hpp"

namespace mtkit {

#if defined(MTKIT_SSE2)
struct Lane {
    static constexpr std::size_t WIDTH = 16;
    // Letters of ASCII at the beginning of WIDTH bytes, blanks, and what is no blank.
    static std::size_t letters(const unsigned char *at) {
        const auto lower = _mm_or_si128(load(at), _mm_set1_epi8(0x20));
        const auto from_a = _mm_sub_epi8(lower, _mm_set1_epi8('a'));
        return leading(_mm_cmpeq_epi8(_mm_min_epu8(from_a, _mm_set1_epi8(25)), from_a));
    }
    static std::size_t blanks(const unsigned char *at) {
        return leading(_mm_cmpeq_epi8(load(at), _mm_set1_epi8(' ')));
    }
    static std::size_t others(const unsigned char *at) {
        const auto blank = _mm_cmpeq_epi8(load(at), _mm_set1_epi8(' '));
        const auto bits = static_cast<unsigned>(_mm_movemask_epi8(blank));
        return static_cast<std::size_t>(std::countr_zero(bits | 1U << WIDTH));
    }

  private:
    static __m128i load(const unsigned char *at) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
    }
    static std::size_t leading(__m128i wanted) {
        const auto bits = static_cast<unsigned>(_mm_movemask_epi8(wanted));
        return static_cast<std::size_t>(std::countr_zero(~bits));
    }
};
#elif defined(MTKIT_NEON)
struct Lane {
    static constexpr std::size_t WIDTH = 16;
    static std::size_t letters(const unsigned char *at) {
        const auto lower = vorrq_u8(vld1q_u8(at), vdupq_n_u8(0x20));
        return leading(vcltq_u8(vsubq_u8(lower, vdupq_n_u8('a')), vdupq_n_u8(26)));
    }
    static std::size_t blanks(const unsigned char *at) {
        return leading(vceqq_u8(vld1q_u8(at), vdupq_n_u8(' ')));
    }
    static std::size_t others(const unsigned char *at) {
        return leading(vmvnq_u8(vceqq_u8(vld1q_u8(at), vdupq_n_u8(' '))));
    }

  private:
    // Four bits for each byte.
    static std::size_t leading(uint8x16_t wanted) {
        const auto narrow = vshrn_n_u16(vreinterpretq_u16_u8(vmvnq_u8(wanted)), 4);
        const auto bits = vget_lane_u64(vreinterpret_u64_u8(narrow), 0);
        return static_cast<std::size_t>(std::countr_zero(bits)) / 4;
    }
};
#else
struct Lane {
    static constexpr std::size_t WIDTH = 16;
    static std::size_t letters(const unsigned char *at) {
        return leading(at, [](unsigned c) { return (c | 0x20U) - 'a' < 26; });
    }
    static std::size_t blanks(const unsigned char *at) {
        return leading(at, [](unsigned c) { return c == ' '; });
    }
    static std::size_t others(const unsigned char *at) {
        return leading(at, [](unsigned c) { return c != ' '; });
    }

  private:
    template <typename Is> static std::size_t leading(const unsigned char *at, const Is &is) {
        std::size_t count = 0;
        while (count < WIDTH && is(at[count])) ++count;
        return count;
    }
};
#endif

} // namespace mtkit
