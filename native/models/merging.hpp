// The merge loop of byte-pair encoding: lowest rank first, of equal ranks the leftmost.
//
// Words of a few symbols are scanned for the lowest rank, in small arrays of their own where a
// model can do with places (merge_few); longer ones keep a heap of (rank, position), whose stale
// entries are recognised when they come up, or all together when the heap is full: its memory is
// bounded. `ranks` is called with two symbols and gives the rank of their merge or NONE; `join`
// makes the left symbol the union of both, or is false: then no more is merged.
#pragma once

#include <algorithm>
#include <functional>

#include "models/models.hpp"

namespace mtkit {

inline constexpr std::size_t SCAN_LIMIT = 32;

template <typename Ranks, typename Join>
void merge_by_scan(std::vector<ModelScratch::Symbol> &symbols, const Ranks &ranks,
                   const Join &join) {
    std::size_t count = symbols.size();
    for (std::size_t i = 0; i + 1 < count; ++i) symbols[i].rank = ranks(symbols[i], symbols[i + 1]);
    while (count > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < count; ++i)
            if (symbols[i].rank < symbols[best].rank) best = i;
        if (symbols[best].rank == NONE) break;
        if (!join(symbols[best], symbols[best + 1])) break;
        std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
                  symbols.begin() + static_cast<std::ptrdiff_t>(count),
                  symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        --count;
        if (best > 0) symbols[best - 1].rank = ranks(symbols[best - 1], symbols[best]);
        if (best + 1 < count) symbols[best].rank = ranks(symbols[best], symbols[best + 1]);
    }
    symbols.resize(count);
}

template <typename Ranks, typename Join>
void merge_by_heap(std::vector<ModelScratch::Symbol> &symbols, std::vector<std::uint64_t> &heap,
                   const Ranks &ranks, const Join &join) {
    const auto count = static_cast<std::uint32_t>(symbols.size());
    const std::size_t most = count + count / 4;
    heap.clear();
    heap.reserve(most);
    // A symbol that was merged away, or whose neighbours changed since, has another rank.
    const auto stale = [&](std::uint64_t entry) {
        return symbols[static_cast<std::uint32_t>(entry)].rank != entry >> 32;
    };
    // Each symbol has one entry at most that is not stale: this makes room for a quarter of them.
    const auto make_room = [&] {
        std::erase_if(heap, stale);
        std::make_heap(heap.begin(), heap.end(), std::greater<>());
    };
    const auto push = [&](std::uint32_t at, bool building) {
        auto &symbol = symbols[at];
        symbol.rank = symbol.next == NONE ? NONE : ranks(symbol, symbols[symbol.next]);
        if (symbol.rank == NONE) return;
        if (heap.size() == most) make_room();
        heap.push_back((static_cast<std::uint64_t>(symbol.rank) << 32) | at);
        if (!building) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        symbols[i].previous = i == 0 ? NONE : i - 1;
        symbols[i].next = i + 1 == count ? NONE : i + 1;
    }
    for (std::uint32_t i = 0; i < count; ++i) push(i, true);
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        const std::uint64_t top = heap.back();
        heap.pop_back();
        if (stale(top)) continue;
        const auto at = static_cast<std::uint32_t>(top);
        auto &left = symbols[at];
        auto &right = symbols[left.next];
        if (!join(left, right)) break;
        left.next = right.next;
        right.rank = NONE;
        right.start = NONE;
        if (left.next != NONE) symbols[left.next].previous = at;
        push(at, false);
        if (left.previous != NONE) push(left.previous, false);
    }
    std::erase_if(symbols, [](const auto &symbol) { return symbol.start == NONE; });
}

// Symbols stay at the place of their first one; the least number of a rank and a place is the
// leftmost of the lowest ranks.
inline constexpr std::uint32_t FEW_SYMBOLS = 32;
inline constexpr std::uint32_t FEW_RANKS = NONE / FEW_SYMBOLS;

// `rank(at, next, end)` is that of merging the symbol at one place with the next, which goes to
// `end`, below FEW_RANKS, or NONE; `join(at, rank)` makes them one, `ask(at, next)` is told which
// rank is wanted soon. `take(at, end)` gets what remains. There are up to FEW_SYMBOLS.
template <typename Rank, typename Join, typename Ask, typename Take>
void merge_few(std::uint32_t count, const Rank &rank, const Join &join, const Ask &ask,
               const Take &take) {
    std::uint32_t merges[FEW_SYMBOLS]; // with the next symbol: rank and place, or NONE
    std::uint8_t before[FEW_SYMBOLS + 1] = {};
    std::uint8_t behind[FEW_SYMBOLS];
    const auto number = [&](std::uint32_t at) {
        const std::uint32_t found = rank(at, behind[at], behind[behind[at]]);
        return found == NONE ? NONE : found * FEW_SYMBOLS + at;
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        before[i + 1] = static_cast<std::uint8_t>(i);
        behind[i] = static_cast<std::uint8_t>(i + 1);
    }
    for (std::uint32_t i = 0; i + 1 < count; ++i) ask(i, i + 1);
    for (std::uint32_t i = 0; i + 1 < count; ++i) merges[i] = number(i);
    merges[count - 1] = NONE;
    while (true) {
        const std::uint32_t best = *std::min_element(merges, merges + count);
        if (best == NONE) break;
        const std::uint32_t at = best % FEW_SYMBOLS;
        const std::uint32_t gone = behind[at];
        const std::uint8_t next = behind[gone];
        join(at, best / FEW_SYMBOLS);
        behind[at] = next;
        before[next] = static_cast<std::uint8_t>(at);
        merges[gone] = NONE;
        const std::uint32_t left = before[at];
        if (at > 0) ask(left, at);
        merges[at] = next < count ? number(at) : NONE;
        if (at > 0) merges[left] = number(left);
    }
    for (std::uint32_t at = 0; at < count; at = behind[at]) take(at, behind[at]);
}

template <typename Ranks, typename Join>
void merge_all(ModelScratch &scratch, const Ranks &ranks, const Join &join) {
    if (scratch.symbols.size() <= SCAN_LIMIT)
        merge_by_scan(scratch.symbols, ranks, join);
    else
        merge_by_heap(scratch.symbols, scratch.heap, ranks, join);
}

} // namespace mtkit
