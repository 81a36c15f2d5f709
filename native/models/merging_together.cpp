#include "models/merging_together.hpp"

#include <algorithm>
#include <cstddef>

#include "models/merging_lanes.hpp"
#include "models/merging_word.hpp"
#include "tables/cache.hpp"

namespace mtkit {

namespace {

// More words than that wait for no less: measured with Llama 3's and Qwen3's pairs, 8 to 32 words.
constexpr std::size_t WAITING = 16;

void merge_waiting(std::span<const std::string_view> words, std::span<const std::uint8_t> numbers,
                   const PairTable &pairs, const std::uint32_t *byte_ids, const AsciiRanks *ranks,
                   const Model::PutIds &put) {
    MergingWord merging[WAITING];
    std::uint8_t live[WAITING]; // of them
    std::size_t count = 0;
    for (; count < numbers.size(); ++count) {
        const auto text = words[numbers[count]];
        auto *const ids = merging[count].ids();
        for (std::size_t i = 0; i < text.size(); ++i)
            ids[i] = byte_ids[static_cast<unsigned char>(text[i])];
        const KnownRanks known{ranks, text};
        merging[count].begin(static_cast<std::uint32_t>(text.size()), [&](std::uint32_t at) {
            const std::uint32_t *const rank = known(at);
            return rank != nullptr ? *rank : pairs.rank(ids[at], ids[at + 1]);
        });
        live[count] = static_cast<std::uint8_t>(count);
    }
    while (count > 0) {
        for (std::size_t i = 0; i < count;) {
            auto &word = merging[live[i]];
            if (word.merge(pairs)) {
                ++i;
                continue;
            }
            put(numbers[live[i]], word.finish());
            live[i] = live[--count];
        }
        for (std::size_t i = 0; i < count; ++i) merging[live[i]].ask(pairs);
    }
}

#ifdef MTKIT_AVX

// One word takes longer in lanes, two to nine about as long: measured with GPT-2's and Qwen3's
// pairs.
constexpr std::size_t LANES_WORTH = 5;

void merge_in_lanes(std::span<const std::string_view> words, std::span<const std::uint8_t> numbers,
                    const PairTable &pairs, const std::uint32_t *byte_ids, const AsciiRanks &ranks,
                    const Model::PutIds &put) {
    constexpr std::size_t LANES = MergingLanes::LANES;
    constexpr std::size_t LONGEST = MergingLanes::LONGEST;
    static_assert(Model::TOGETHER <= 2 * LANES && WordCache::SHORT <= LONGEST);
    // The longest first: lanes go on as long as one of them merges.
    std::size_t places[LONGEST + 1] = {}; // of words of LONGEST bytes, of one less ...
    for (const auto number : numbers) ++places[LONGEST - words[number].size() + 1];
    for (std::size_t i = 1; i <= LONGEST; ++i) places[i] += places[i - 1];
    std::uint8_t order[Model::TOGETHER];
    for (const auto number : numbers) order[places[LONGEST - words[number].size()]++] = number;
    std::string_view texts[Model::TOGETHER];
    for (std::size_t i = 0; i < numbers.size(); ++i) texts[i] = words[order[i]];

    const std::size_t first = std::min(numbers.size(), LANES);
    MergingLanes groups[2];
    groups[0].begin({texts, first}, byte_ids, ranks);
    groups[1].begin({texts + first, numbers.size() - first}, byte_ids, ranks);
    const PairLanes lanes(pairs);
    MergingLanes::Step steps[2];
    for (bool any = true; any;) {
        const bool is_on[] = {groups[0].begin_merge(lanes, steps[0]),
                              groups[1].begin_merge(lanes, steps[1])};
        for (std::size_t i = 0; i < 2; ++i)
            if (is_on[i]) groups[i].end_merge(lanes, steps[i]);
        any = is_on[0] || is_on[1];
    }
    std::uint32_t ids[LONGEST];
    for (std::size_t i = 0; i < numbers.size(); ++i)
        put(order[i], {ids, groups[i / LANES].finish(i % LANES, ids)});
}

#endif

} // namespace

std::size_t worth_merging_together(const PairTable &pairs) {
    if (pairs.is_large()) return 0;
    // With pairs that wait for little, lanes are worth it from some 16 new words on.
    constexpr std::size_t MANY_BYTES = 1U << 10;
    return simd() == Simd::AVX512 ? MANY_BYTES : Model::NEVER;
}

void merge_together(std::span<const std::string_view> words, std::span<const std::uint8_t> numbers,
                    const PairTable &pairs, const std::uint32_t *byte_ids, const AsciiRanks *ranks,
                    const Model::PutIds &put) {
#ifdef MTKIT_AVX
    if (simd() == Simd::AVX512 && ranks != nullptr && numbers.size() >= LANES_WORTH)
        return merge_in_lanes(words, numbers, pairs, byte_ids, *ranks, put);
#endif
    while (!numbers.empty()) {
        const std::size_t some = std::min(numbers.size(), WAITING);
        merge_waiting(words, numbers.first(some), pairs, byte_ids, ranks, put);
        numbers = numbers.subspan(some);
    }
}

} // namespace mtkit
