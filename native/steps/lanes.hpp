// How many of the next bytes are of one kind, sixteen at a look.
//
// Each lane gives the same numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/hash.hpp"
#include "base/simd.hpp"

namespace mtkit {

// Eight bytes in a number.
struct ScalarLane {
    static constexpr std::size_t WIDTH = 8;
    // Letters of ASCII at the beginning of WIDTH bytes.
    static std::size_t letters(const unsigned char *at) {
        const std::uint64_t lower = load(at) | ALL * 0x20;
        const std::uint64_t seven = lower & ALL * 0x7F;
        // The upper bit of a byte says so: not below 'a', above 'z', not ASCII.
        const std::uint64_t from_a = seven + ALL * (0x80 - 'a');
        const std::uint64_t above_z = seven + ALL * (0x80 - 'z' - 1);
        return leading(~(from_a & ~above_z & ~lower));
    }
    // Blanks at the beginning of WIDTH bytes.
    static std::size_t blanks(const unsigned char *at) {
        const std::uint64_t other = load(at) ^ ALL * 0x20;
        return leading(((other & ALL * 0x7F) + ALL * 0x7F) | other);
    }
    // What is no blank at the beginning of WIDTH bytes.
    static std::size_t others(const unsigned char *at) {
        const std::uint64_t other = load(at) ^ ALL * 0x20;
        return leading(~(((other & ALL * 0x7F) + ALL * 0x7F) | other));
    }

  private:
    static constexpr std::uint64_t ALL = 0x0101010101010101;
    static std::uint64_t load(const unsigned char *at) {
        return load64(reinterpret_cast<const char *>(at));
    }
    static std::size_t leading(std::uint64_t others) {
        return static_cast<std::size_t>(std::countr_zero(others & ALL * 0x80)) / 8;
    }
};

#if defined(MTKIT_SSE2)
struct VectorLane {
    static constexpr std::size_t WIDTH = 16;
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
struct VectorLane {
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
using VectorLane = ScalarLane;
#endif

} // namespace mtkit
