// What each compiler spells in a way of its own: attributes, hints, and the code for a processor
// that the build as a whole does not ask for. Everything else is standard C++.
#pragma once

#if defined(__GNUC__)
#define MTKIT_INLINE [[gnu::always_inline]] inline
#define MTKIT_NOINLINE [[gnu::noinline]]
// Behind the parameters of a lambda.
#define MTKIT_INLINE_LAMBDA __attribute__((always_inline))
#elif defined(_MSC_VER)
#define MTKIT_INLINE __forceinline
#define MTKIT_NOINLINE __declspec(noinline)
#define MTKIT_INLINE_LAMBDA
#else
#define MTKIT_INLINE inline
#define MTKIT_NOINLINE
#define MTKIT_INLINE_LAMBDA
#endif

// Functions may use what the build as a whole does not; lambdas in them are not compiled for it.
// GCC does not align 32 bytes on the stack of 64-bit Windows (its bug 54412).
#if defined(__GNUC__) && defined(__x86_64__) && !(defined(_WIN32) && !defined(__clang__))
#define MTKIT_AVX
#define MTKIT_AVX2_CODE [[gnu::target("avx2,bmi,lzcnt")]]
#define MTKIT_AVX512_CODE [[gnu::target("avx512bw,avx512vl,avx512cd,avx512dq,avx2,bmi,lzcnt")]]
#endif

// The same code is compiled for wider registers as well, and the one for this machine is taken when
// the library is loaded; nothing of it needs flags of the build.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) &&       \
    !defined(__SANITIZE_ADDRESS__)
#define MTKIT_FOR_EACH_CPU                                                                         \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MTKIT_FOR_EACH_CPU
#endif

#if defined(__GNUC__)
#define MTKIT_UNROLL_8 _Pragma("GCC unroll 8")
#else
#define MTKIT_UNROLL_8
#endif

namespace mtkit {

// Let the memory at a place be on its way into the processor's cache.
inline void prefetch(const void *at) {
#if defined(__GNUC__)
    __builtin_prefetch(at);
#else
    static_cast<void>(at);
#endif
}

} // namespace mtkit
