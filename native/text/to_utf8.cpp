// Code points to UTF-8: 32 of ASCII or eight others at a time, those of four bytes one by one.
#include "text/to_utf8.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/hash.hpp"
#include "base/simd.hpp"

namespace mtkit {

namespace {

// Null where it is a surrogate.
char *write_one(std::uint32_t c, char *to) {
    const auto put = [&](std::uint32_t byte) { *to++ = static_cast<char>(byte); };
    const auto put_tail = [&](unsigned shift) { put(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0 | c >> 6);
        put_tail(0);
    } else if (c < 0x10000) {
        if (c - 0xD800 < 0x800) return nullptr;
        put(0xE0 | c >> 12);
        put_tail(6);
        put_tail(0);
    } else {
        put(0xF0 | c >> 18);
        put_tail(12);
        put_tail(6);
        put_tail(0);
    }
    return to;
}

// How far a text was read and its UTF-8 written.
template <typename Unit> struct Written {
    const Unit *from;
    char *to;
};

#if defined(MTKIT_AVX)
constexpr std::ptrdiff_t EIGHT = 8;

// Four code points in four bytes each, of which they need one, two or three: which bytes remain,
// and how many. By a bit for each that needs one, and, above, a bit for each that needs one or two.
struct Packing {
    std::array<std::array<std::uint8_t, 16>, 256> order;
    std::array<std::uint8_t, 256> size;
};
constexpr Packing PACKING = [] {
    Packing made{};
    for (unsigned which = 0; which < 256; ++which) {
        unsigned size = 0;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned bytes = 3 - (which >> i & 1) - (which >> (4 + i) & 1);
            for (unsigned byte = 0; byte < bytes; ++byte)
                made.order[which][size++] = static_cast<std::uint8_t>(4 * i + byte);
        }
        made.size[which] = static_cast<std::uint8_t>(size);
    }
    return made;
}();

// Eight code points in 16 bits each; what is beyond them is 0xFFFF.
MTKIT_AVX2_CODE __m128i eight(const std::uint8_t *at) {
    return _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(at)));
}
MTKIT_AVX2_CODE __m128i eight(const std::uint16_t *at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
}
MTKIT_AVX2_CODE __m128i eight(const std::uint32_t *at) {
    return _mm_packus_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(at)),
                            _mm_loadu_si128(reinterpret_cast<const __m128i *>(at) + 1));
}
MTKIT_AVX2_CODE __m128i all(unsigned bits) {
    return _mm_set1_epi16(static_cast<short>(bits));
}
// Which have `value` in these bits.
MTKIT_AVX2_CODE __m128i having(__m128i units, unsigned bits, unsigned value) {
    return _mm_cmpeq_epi16(_mm_and_si128(units, all(bits)), all(value));
}
// The last six bits as a continuation byte, in 16 bits.
MTKIT_AVX2_CODE __m128i tail(__m128i units) {
    return _mm_or_si128(_mm_and_si128(units, all(0x3F)), all(0x80));
}
MTKIT_AVX2_CODE char *store(char *to, __m128i bytes, std::size_t size) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), bytes);
    return to + size;
}
MTKIT_AVX2_CODE char *store_four(char *to, __m128i fours, unsigned which) {
    const auto *const order = reinterpret_cast<const __m128i *>(PACKING.order[which].data());
    return store(to, _mm_shuffle_epi8(fours, _mm_loadu_si128(order)), PACKING.size[which]);
}

// 32 code points as bytes; false where one is not ASCII.
MTKIT_AVX2_CODE bool narrow(const std::uint8_t *from, __m256i &bytes) {
    bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
    return _mm256_movemask_epi8(bytes) == 0;
}
MTKIT_AVX2_CODE bool narrow(const std::uint16_t *from, __m256i &bytes) {
    const auto *const at = reinterpret_cast<const __m256i *>(from);
    const auto first = _mm256_loadu_si256(at);
    const auto second = _mm256_loadu_si256(at + 1);
    // Packing works within each half of a vector: its quarters are put in order.
    bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0b11'01'10'00);
    return _mm256_testz_si256(_mm256_or_si256(first, second),
                              _mm256_set1_epi16(static_cast<short>(0xFF80))) != 0;
}
MTKIT_AVX2_CODE bool narrow(const std::uint32_t *from, __m256i &bytes) {
    const auto *const at = reinterpret_cast<const __m256i *>(from);
    const auto first = _mm256_packus_epi32(_mm256_loadu_si256(at + 0), _mm256_loadu_si256(at + 1));
    const auto second = _mm256_packus_epi32(_mm256_loadu_si256(at + 2), _mm256_loadu_si256(at + 3));
    bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second),
                                        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const auto all =
        _mm256_or_si256(_mm256_or_si256(_mm256_loadu_si256(at + 0), _mm256_loadu_si256(at + 1)),
                        _mm256_or_si256(_mm256_loadu_si256(at + 2), _mm256_loadu_si256(at + 3)));
    return _mm256_testz_si256(all, _mm256_set1_epi32(~0x7F)) != 0;
}
template <typename Unit>
MTKIT_AVX2_CODE Written<Unit> write_ascii_vectors(const Unit *from, const Unit *end, char *to) {
    constexpr std::ptrdiff_t BLOCK = 32;
    __m256i bytes;
    while (end - from >= BLOCK && narrow(from, bytes)) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), bytes);
        from += BLOCK;
        to += BLOCK;
    }
    return {from, to};
}

// Write blocks, up to one with a surrogate or a code point of four bytes.
template <typename Unit>
MTKIT_AVX2_CODE Written<Unit> write_blocks(const Unit *from, const Unit *end, char *to) {
    while (end - from >= EIGHT) {
        const auto units = eight(from);
        if (_mm_testz_si128(units, all(0xFF80)) != 0) {
            const bool more = end - from >= 2 * EIGHT;
            const auto next = more ? eight(from + EIGHT) : units;
            const bool both = more && _mm_testz_si128(next, all(0xFF80)) != 0;
            const auto ascii = both ? 2 * EIGHT : EIGHT;
            to = store(to, _mm_packus_epi16(units, next), static_cast<std::size_t>(ascii));
            from += ascii;
            if (both) {
                const auto passed = write_ascii_vectors(from, end, to);
                from = passed.from;
                to = passed.to;
            }
            continue;
        }
        auto others = having(units, 0xF800, 0xD800);
        if constexpr (sizeof(Unit) == 4)
            others = _mm_or_si128(others, having(units, 0xFFFF, 0xFFFF));
        if (_mm_movemask_epi8(others) != 0) break;
        const auto ones = having(units, 0xFF80, 0);
        const auto twos = having(units, 0xF800, 0); // and ones
        const auto last = tail(units);
        const auto of_two = _mm_or_si128(_mm_or_si128(_mm_srli_epi16(units, 6), all(0xC0)),
                                         _mm_slli_epi16(last, 8));
        const auto of_three = _mm_or_si128(_mm_or_si128(_mm_srli_epi16(units, 12), all(0xE0)),
                                           _mm_slli_epi16(tail(_mm_srli_epi16(units, 6)), 8));
        const auto pairs = _mm_blendv_epi8(_mm_blendv_epi8(of_three, of_two, twos), units, ones);
        const auto which = static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(ones, twos)));
        to = store_four(to, _mm_unpacklo_epi16(pairs, last), (which & 15) | (which >> 4 & 0xF0));
        to = store_four(to, _mm_unpackhi_epi16(pairs, last),
                        (which >> 4 & 15) | (which >> 8 & 0xF0));
        from += EIGHT;
    }
    return {from, to};
}
// The same to the very end: fewer than eight are written as if NULs came after them.
template <typename Unit>
MTKIT_AVX2_CODE Written<Unit> write_vectors(const Unit *from, const Unit *end, char *to) {
    const auto written = write_blocks(from, end, to);
    const std::ptrdiff_t left = end - written.from;
    if (left == 0 || left >= EIGHT) return written;
    std::array<Unit, EIGHT> last{};
    std::copy(written.from, end, last.begin());
    const auto all = write_blocks<Unit>(last.data(), last.data() + EIGHT, written.to);
    if (all.from == last.data()) return written;
    return {end, all.to - (EIGHT - left)};
}
#endif

// Without vectors only ASCII is written in blocks, and only of units of a byte.
template <typename Unit> Written<Unit> write_ascii(const Unit *from, const Unit *end, char *to) {
    if constexpr (sizeof(Unit) == 1) {
        for (std::uint64_t eight = 0; end - from >= 8; from += 8, to += 8) {
            std::memcpy(&eight, from, 8);
            if ((eight & HIGH_BITS) != 0) break;
            std::memcpy(to, &eight, 8);
        }
    }
    return {from, to};
}

template <typename Unit> char *write_all(const Unit *from, std::size_t count, char *to) {
    const Unit *const end = from + count;
    auto many = write_ascii<Unit>;
#if defined(MTKIT_AVX)
    if (simd() >= Simd::AVX2) many = write_vectors<Unit>;
#endif
    while (to != nullptr) {
        const auto written = many(from, end, to);
        from = written.from;
        if (from == end) return written.to;
        to = write_one(*from++, written.to);
    }
    return nullptr;
}

} // namespace

char *to_utf8(const std::uint8_t *from, std::size_t count, char *to) {
    return write_all(from, count, to);
}
char *to_utf8(const std::uint16_t *from, std::size_t count, char *to) {
    return write_all(from, count, to);
}
char *to_utf8(const std::uint32_t *from, std::size_t count, char *to) {
    return write_all(from, count, to);
}

} // namespace mtkit
