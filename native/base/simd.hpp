// Which vector instructions are used: the best that the machine has, or the level that MTKIT_SIMD
// in the environment names (scalar, avx2, avx512, neon), which has to be there. Each gives
// the same ids. The compiler's headers of such instructions are included here.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/compiler.hpp"
#include "base/errors.hpp"

#if defined(__SSE2__) || defined(_M_X64)
#define MTKIT_SSE2 // what every such processor has, at the level "scalar", too
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define MTKIT_NEON
#endif

#if defined(MTKIT_AVX)
#if !defined(__clang__)
// GCC 12 warns of values that its own header leaves uninitialized on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#elif defined(MTKIT_SSE2)
#include <emmintrin.h>
#elif defined(MTKIT_NEON)
#include <arm_neon.h>
#endif

namespace mtkit {

#if defined(MTKIT_NEON)
enum class Simd { SCALAR, NEON };
inline constexpr std::string_view SIMD_NAMES[] = {"scalar", "neon"};
#else
enum class Simd { SCALAR, AVX2, AVX512 };
inline constexpr std::string_view SIMD_NAMES[] = {"scalar", "avx2", "avx512"};
#endif

inline Simd best_simd() {
#if defined(MTKIT_AVX)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq"))
        return Simd::AVX512;
    return __builtin_cpu_supports("avx2") ? Simd::AVX2 : Simd::SCALAR;
#elif defined(MTKIT_NEON)
    return Simd::NEON;
#else
    return Simd::SCALAR;
#endif
}

// The levels of this machine, the best last.
inline std::span<const std::string_view> simd_levels() {
    return std::span(SIMD_NAMES).first(static_cast<std::size_t>(best_simd()) + 1);
}

// The level of this process. UsageError: MTKIT_SIMD names none of this machine.
inline Simd simd() {
    static const Simd level = [] {
        const char *const asked = std::getenv("MTKIT_SIMD");
        if (asked == nullptr || *asked == '\0') return best_simd();
        std::string known;
        for (std::size_t i = 0; i < simd_levels().size(); ++i) {
            if (simd_levels()[i] == asked) return static_cast<Simd>(i);
            known.append(i == 0 ? "" : ", ").append(simd_levels()[i]);
        }
        throw UsageError("MTKIT_SIMD is " + std::string(asked) + "; this machine has " + known);
    }();
    return level;
}

} // namespace mtkit
