// Which vector instructions are used: the best that the machine has, or fewer where MTKIT_SIMD in
// the environment names them (scalar, sse2, avx2, avx512, neon). Each gives the same ids. The
// compiler's headers of such instructions are included here.
#pragma once

#include <cstdlib>
#include <string_view>

#if defined(__SSE2__) || defined(_M_X64)
#define MTKIT_SSE2
#if defined(__GNUC__) && defined(__x86_64__)
// Functions may use what the build as a whole does not; lambdas in them are not compiled for it.
#define MTKIT_AVX
#define MTKIT_AVX2_CODE [[gnu::target("avx2,bmi,lzcnt")]]
#define MTKIT_AVX512_CODE [[gnu::target("avx512bw,avx512vl,avx512cd,avx512dq,avx2,bmi,lzcnt")]]
#endif
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define MTKIT_NEON
#endif

#if defined(MTKIT_AVX)
#if !defined(__clang__)
// GCC 12 warns of values that its own header leaves uninitialised on purpose.
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

enum class Simd { SCALAR, VECTOR, AVX2, AVX512 };

#if defined(MTKIT_NEON)
inline constexpr std::string_view SIMD_NAMES[] = {"scalar", "neon"};
#else
inline constexpr std::string_view SIMD_NAMES[] = {"scalar", "sse2", "avx2", "avx512"};
#endif

inline Simd best_simd() {
#if defined(MTKIT_AVX)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq"))
        return Simd::AVX512;
    return __builtin_cpu_supports("avx2") ? Simd::AVX2 : Simd::VECTOR;
#elif defined(MTKIT_SSE2) || defined(MTKIT_NEON)
    return Simd::VECTOR;
#else
    return Simd::SCALAR;
#endif
}

// The level of this process.
inline Simd simd() {
    static const Simd level = [] {
        const Simd best = best_simd();
        const char *const asked = std::getenv("MTKIT_SIMD");
        for (int i = 0; asked != nullptr && i < static_cast<int>(best); ++i)
            if (SIMD_NAMES[i] == asked) return static_cast<Simd>(i);
        return best;
    }();
    return level;
}

} // namespace mtkit
