// Pairs looked up in a PairTable sixteen at a time, in lanes of AVX-512: what they wait for in
// memory they wait for together.
#pragma once

#include "base/simd.hpp"

#ifdef MTKIT_AVX

#include <bit>
#include <cstdint>

#include "tables/tables.hpp"

namespace mtkit {

class PairLanes {
  public:
    explicit PairLanes(const PairTable &pairs) : pairs_(pairs) {}

    // The symbols that merges of these ranks make, in the lanes of `mask`.
    MTKIT_AVX512_CODE __m512i made(__mmask16 mask, __m512i ranks) const {
        if (pairs_.in_order_)
            return _mm512_add_epi32(ranks, _mm512_set1_epi32(static_cast<int>(pairs_.first_made_)));
        return _mm512_mask_i32gather_epi32(ranks, mask, ranks, pairs_.made_.data(), 4);
    }

    // Eight pairs; numbers have 64 bits.
    struct Half {
        __mmask8 rest; // that are still looked for
        __m512i wanted;
        __m512i slot;
        __m512i rank; // NONE: none so far
    };
    // Pairs of sixteen symbols with those in front of them and those behind.
    struct Asked {
        Half halves[4];
    };
    struct Ranks {
        __m512i left;
        __m512i next;
    };
    // Look where the pairs of `id` should be, with what stands in front of it, where `has_left`
    // says, and with what follows.
    MTKIT_AVX512_CODE Asked ask(__mmask16 has_left, __m512i left, __m512i id, __mmask16 has_next,
                                __m512i next) const {
        Asked asked = {
            {ask(low(has_left), low(left), low(id)), ask(high(has_left), high(left), high(id)),
             ask(low(has_next), low(id), low(next)), ask(high(has_next), high(id), high(next))}};
        for (auto &half : asked.halves) look(half);
        return asked;
    }
    // The ranks of their merges; NONE where there is none.
    MTKIT_AVX512_CODE Ranks ranks(Asked &asked) const {
        auto &halves = asked.halves;
        unsigned rest = 0;
        for (unsigned i = 4; i-- > 0;) rest = rest << HALF | halves[i].rest;
        if (rest != 0) look_on(halves, rest);
        return {both(halves[0].rank, halves[1].rank), both(halves[2].rank, halves[3].rank)};
    }

  private:
    static constexpr unsigned HALF = 8; // lanes of 64 bits

    MTKIT_AVX512_CODE static __mmask8 low(__mmask16 mask) { return static_cast<__mmask8>(mask); }
    MTKIT_AVX512_CODE static __mmask8 high(__mmask16 mask) {
        return static_cast<__mmask8>(mask >> HALF);
    }
    MTKIT_AVX512_CODE static __m256i low(__m512i lanes) { return _mm512_castsi512_si256(lanes); }
    MTKIT_AVX512_CODE static __m256i high(__m512i lanes) {
        return _mm512_extracti64x4_epi64(lanes, 1);
    }
    MTKIT_AVX512_CODE static __m512i both(__m512i low, __m512i high) {
        return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(low)),
                                  _mm512_cvtepi64_epi32(high), 1);
    }
    MTKIT_AVX512_CODE static __m512i all(std::uint64_t number) {
        return _mm512_set1_epi64(static_cast<long long>(number));
    }

    // Where the pairs should be, as PairTable::ask() has it; `rest` leaves out those that do not
    // merge.
    MTKIT_AVX512_CODE Half ask(__mmask8 mask, __m256i left, __m256i right) const {
        const __m512i wanted =
            _mm512_or_si512(_mm512_slli_epi64(_mm512_cvtepu32_epi64(left), SYMBOL_BITS),
                            _mm512_cvtepu32_epi64(right));
        __m512i place = _mm512_mullo_epi64(wanted, all(PairTable::FACTOR));
        place = _mm512_xor_si512(place, _mm512_srli_epi64(place, 32));
        const __m512i bit =
            _mm512_srl_epi64(place, _mm_cvtsi32_si128(static_cast<int>(pairs_.bit_shift_)));
        const __m512i bits = _mm512_mask_i64gather_epi64(all(0), mask, _mm512_srli_epi64(bit, 6),
                                                         pairs_.bits_.data(), 8);
        const __m512i wanted_bit = _mm512_sllv_epi64(all(1), _mm512_and_si512(bit, all(63)));
        return {_mm512_mask_test_epi64_mask(mask, bits, wanted_bit), wanted,
                _mm512_and_si512(place, all(pairs_.slots_.size() - 1)), all(NONE)};
    }
    // Look into these slots; one that holds another pair is left to look_on().
    MTKIT_AVX512_CODE void look(Half &half) const {
        const __m512i found = _mm512_mask_i64gather_epi64(all(PairTable::FREE), half.rest,
                                                          half.slot, pairs_.slots_.data(), 8);
        const __mmask8 taken =
            _mm512_mask_cmpneq_epi64_mask(half.rest, found, all(PairTable::FREE));
        const __mmask8 hit =
            _mm512_mask_cmpeq_epi64_mask(taken, _mm512_srli_epi64(found, SYMBOL_BITS), half.wanted);
        const __m512i rank = _mm512_and_si512(found, all(SYMBOL_LIMIT));
        const __mmask8 made = _mm512_mask_cmplt_epu64_mask(hit, rank, all(pairs_.made_.size()));
        half.rank = _mm512_mask_mov_epi64(half.rank, made, rank);
        half.rest = static_cast<__mmask8>(taken & ~hit);
    }
    // Look further for those of `rest`, a bit for each.
    MTKIT_AVX512_CODE void look_on(Half (&halves)[4], unsigned rest) const {
        alignas(64) std::uint64_t wanted[4][HALF];
        alignas(64) std::uint64_t slots[4][HALF];
        alignas(64) std::uint64_t ranks[4][HALF];
        for (unsigned i = 0; i < 4; ++i) {
            _mm512_store_si512(wanted[i], halves[i].wanted);
            _mm512_store_si512(slots[i], halves[i].slot);
            _mm512_store_si512(ranks[i], halves[i].rank);
        }
        for (; rest != 0; rest &= rest - 1) {
            const auto number = static_cast<unsigned>(std::countr_zero(rest));
            const unsigned half = number / HALF;
            const unsigned lane = number % HALF;
            ranks[half][lane] = pairs_.find(slots[half][lane], wanted[half][lane]);
        }
        for (unsigned i = 0; i < 4; ++i) halves[i].rank = _mm512_load_si512(ranks[i]);
    }

    const PairTable &pairs_;
};

} // namespace mtkit

#endif
