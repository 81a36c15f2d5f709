// Words that are merged in step, each in a lane of AVX-512: a merge in each of them takes hardly
// longer than in one, and there are no branches to predict.
#pragma once

#include "base/simd.hpp"

#ifdef MTKIT_AVX

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "models/ascii_ranks.hpp"
#include "tables/pair_lanes.hpp"

namespace mtkit {

// begin() with words; begin_merge() and end_merge() in turn until the first is false; finish().
class MergingLanes {
  public:
    static constexpr unsigned LANES = 16;           // a word in each
    static constexpr unsigned PLACES = 16;          // in a word, and its end
    static constexpr unsigned LONGEST = PLACES - 1; // bytes of a word

    // Words of ASCII, one for each lane at most, none of them empty. `byte_ids` are the symbols of
    // bytes.
    MTKIT_AVX512_CODE void begin(std::span<const std::string_view> words,
                                 const std::uint32_t *byte_ids, const AsciiRanks &ranks);
    // The next merge of each word.
    struct Step {
        __mmask16 going; // whether there is one
        __mmask16 has_left;
        __m512i place; // of the symbol, of the one in front of it, of that which it swallows
        __m512i left_place;
        __m512i gone_place;
        __m512i id; // that it becomes
        PairLanes::Asked asked;
    };
    // Choose it, and ask for the ranks of what it leads to; false where no word has one. What this
    // waits for may be waited for in other groups of words, too, before end_merge().
    MTKIT_AVX512_CODE bool begin_merge(const PairLanes &pairs, Step &step);
    MTKIT_AVX512_CODE void end_merge(const PairLanes &pairs, Step &step);
    // Write the ids of a word, return how many.
    unsigned finish(unsigned lane, std::uint32_t *out) const {
        unsigned count = 0;
        const std::uint32_t starts = starts_[lane] & ~std::bit_floor(starts_[lane]);
        for (auto rest = starts; rest != 0; rest &= rest - 1)
            out[count++] = ids_[std::countr_zero(rest)][lane];
        return count;
    }

  private:
    static constexpr unsigned PLACE_BITS = std::countr_zero(PLACES);
    static constexpr unsigned LANE_BITS = std::countr_zero(LANES);

    MTKIT_AVX512_CODE static __m512i all(std::uint32_t number) {
        return _mm512_set1_epi32(static_cast<int>(number));
    }
    MTKIT_AVX512_CODE static __m512i numbers() {
        return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
    // The lowest bit of each lane, and the place of the highest.
    MTKIT_AVX512_CODE static __m512i lowest(__m512i bits) {
        return _mm512_and_si512(bits, _mm512_sub_epi32(all(0), bits));
    }
    MTKIT_AVX512_CODE static __m512i place_of(__m512i bits) {
        return _mm512_sub_epi32(all(31), _mm512_lzcnt_epi32(bits));
    }
    // A rank and a place as one number; the least is the merge to do: of the lowest ranks the
    // leftmost.
    MTKIT_AVX512_CODE static __m512i ranked(__m512i rank, __m512i place) {
        const __mmask16 merges = _mm512_cmpneq_epi32_mask(rank, all(NONE));
        return _mm512_mask_or_epi32(all(NONE), merges, _mm512_slli_epi32(rank, PLACE_BITS), place);
    }
    MTKIT_AVX512_CODE __m512i ids_at(__mmask16 mask, __m512i place) const {
        const __m512i index = _mm512_or_si512(_mm512_slli_epi32(place, LANE_BITS), numbers());
        return _mm512_mask_i32gather_epi32(all(0), mask, index, ids_, 4);
    }

    // By place and lane. Symbols stay at the place of their first byte.
    alignas(64) std::uint32_t ids_[LONGEST][LANES];
    // The merge of each symbol with the next one, see ranked().
    alignas(64) std::uint32_t merges_[LONGEST][LANES];
    alignas(64) std::uint32_t starts_[LANES]; // a bit for the place of each symbol, and for the end
    alignas(64) std::uint32_t best_[LANES];   // the least of merges_
    unsigned longest_;                        // bytes
};

MTKIT_AVX512_CODE inline void MergingLanes::begin(std::span<const std::string_view> words,
                                                  const std::uint32_t *byte_ids,
                                                  const AsciiRanks &ranks) {
    alignas(64) unsigned char bytes[LANES + 1][PLACES]; // four are read at each place
    alignas(64) std::uint32_t sizes[LANES] = {};
    std::size_t longest = 0;
    for (unsigned lane = 0; lane < words.size(); ++lane) {
        const std::size_t size = words[lane].size();
        const auto mask = static_cast<__mmask16>((1U << size) - 1);
        _mm_store_si128(reinterpret_cast<__m128i *>(bytes[lane]),
                        _mm_maskz_loadu_epi8(mask, words[lane].data()));
        sizes[lane] = static_cast<std::uint32_t>(size);
        longest = std::max(longest, size);
    }
    longest_ = static_cast<unsigned>(longest);
    const __m512i size = _mm512_load_si512(sizes);
    const __mmask16 used = _mm512_test_epi32_mask(size, size);
    _mm512_store_si512(starts_,
                       _mm512_maskz_sub_epi32(used, _mm512_sllv_epi32(all(2), size), all(1)));
    const __m512i rows = _mm512_slli_epi32(numbers(), PLACE_BITS);
    __m512i best = all(NONE);
    __m512i ahead = all(0); // the bytes of this place and of some behind it
    for (unsigned place = 0; place < longest_; ++place) {
        ahead = place % 2 == 0
                    ? _mm512_mask_i32gather_epi32(all(0), used, rows, bytes[0] + place, 1)
                    : _mm512_srli_epi32(ahead, 8);
        const __m512i byte = _mm512_and_si512(ahead, all(ASCII - 1));
        const __m512i next = _mm512_and_si512(_mm512_srli_epi32(ahead, 8), all(ASCII - 1));
        const __m512i here = all(place);
        const __mmask16 has_next = _mm512_cmplt_epu32_mask(all(place + 1), size);
        const __m512i ids = _mm512_mask_i32gather_epi32(all(0), _mm512_cmplt_epu32_mask(here, size),
                                                        byte, byte_ids, 4);
        _mm512_store_si512(ids_[place], ids);
        const __m512i pair =
            _mm512_or_si512(_mm512_slli_epi32(byte, std::countr_zero(ASCII)), next);
        const __m512i rank =
            _mm512_mask_i32gather_epi32(all(NONE), has_next, pair, ranks.data(), 4);
        const __m512i merge = ranked(rank, here);
        _mm512_store_si512(merges_[place], merge);
        best = _mm512_min_epu32(best, merge);
    }
    _mm512_store_si512(best_, best);
}

MTKIT_AVX512_CODE inline bool MergingLanes::begin_merge(const PairLanes &pairs, Step &step) {
    const __m512i best = _mm512_load_si512(best_);
    const __mmask16 going = _mm512_cmpneq_epi32_mask(best, all(NONE));
    if (going == 0) return false;
    const __m512i at = _mm512_and_si512(best, all(PLACES - 1));
    const __m512i id = pairs.made(going, _mm512_srli_epi32(best, PLACE_BITS));

    // The symbols around it: the one that it swallows, the one behind that, the one in front.
    const __m512i starts = _mm512_load_si512(starts_);
    const __m512i above = _mm512_and_si512(starts, _mm512_sllv_epi32(all(~1U), at));
    const __m512i swallowed = lowest(above);
    const __m512i behind = _mm512_xor_si512(above, swallowed);
    const __m512i third = lowest(behind);
    const __m512i below = _mm512_andnot_si512(_mm512_sllv_epi32(all(~0U), at), starts);
    _mm512_store_si512(starts_, _mm512_mask_xor_epi32(starts, going, starts, swallowed));
    const __m512i left = place_of(below);
    const __mmask16 has_left = _mm512_mask_test_epi32_mask(going, below, below);
    const __mmask16 has_next = _mm512_mask_cmpneq_epi32_mask(going, behind, third);
    step = {.going = going,
            .has_left = has_left,
            .place = at,
            .left_place = left,
            .gone_place = place_of(swallowed),
            .id = id,
            .asked = pairs.ask(has_left, ids_at(has_left, left), id, has_next,
                               ids_at(has_next, place_of(third)))};
    return true;
}

MTKIT_AVX512_CODE inline void MergingLanes::end_merge(const PairLanes &pairs, Step &step) {
    const auto ranks = pairs.ranks(step.asked);
    const __m512i left_merge = ranked(ranks.left, step.left_place);
    const __m512i next_merge = ranked(ranks.next, step.place);
    const __mmask16 going = step.going;
    __m512i least = all(NONE);
    for (unsigned place = 0; place < longest_; ++place) {
        const __m512i here = all(place);
        const __mmask16 is_at = _mm512_mask_cmpeq_epi32_mask(going, step.place, here);
        const __mmask16 is_gone = _mm512_mask_cmpeq_epi32_mask(going, step.gone_place, here);
        const __mmask16 is_left =
            _mm512_mask_cmpeq_epi32_mask(step.has_left, step.left_place, here);
        __m512i merge = _mm512_load_si512(merges_[place]);
        merge = _mm512_mask_mov_epi32(merge, is_gone, all(NONE));
        merge = _mm512_mask_mov_epi32(merge, is_at, next_merge);
        merge = _mm512_mask_mov_epi32(merge, is_left, left_merge);
        _mm512_store_si512(merges_[place], merge);
        _mm512_mask_store_epi32(ids_[place], is_at, step.id);
        least = _mm512_min_epu32(least, merge);
    }
    _mm512_store_si512(best_, least);
}

} // namespace mtkit

#endif
