// The merge loop of byte-pair encoding: lowest rank first, of equal ranks the leftmost.
//
// Words of a few symbols are scanned for the lowest rank, in small arrays of their own where a
// model can do with places (merge_few); longer ones keep a heap of (rank, position), whose stale
// entries are recognized when they come up, or all together when the heap is full: its memory is
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
    // A symbol that was merged away, or whose neighbors changed since, has another rank.
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

// The least of some numbers, behind which there is one more. They are as wide as that so that no
// compiler reads several at once of what was just written one by one: that waits.
inline std::uint64_t least(const std::uint64_t *numbers, std::uint32_t count) {
    std::uint64_t even = numbers[0];
    std::uint64_t odd = numbers[1];
    for (std::uint32_t i = 2; i < count; i += 2) {
        even = std::min(even, numbers[i]);
        odd = std::min(odd, numbers[i + 1]);
    }
    return std::min(even, odd);
}

// Up to FEW_SYMBOLS of them, and what merges.
class FewSymbols {
  public:
    // `first(at)` is the rank of the merge of a symbol with the next one, or NONE.
    template <typename First> void begin(std::uint32_t count, const First &first) {
        count_ = count;
        before_[0] = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            before_[i + 1] = static_cast<std::uint8_t>(i);
            behind_[i] = static_cast<std::uint8_t>(i + 1);
        }
        for (std::uint32_t i = 0; i + 1 < count; ++i) set(i, first(i));
        merges_[count - 1] = merges_[count] = NEVER;
    }

    // A symbol that swallowed the next one: `left` and `next` are beside it now.
    struct Merge {
        std::uint32_t at;
        std::uint32_t rank;
        std::uint32_t left;
        std::uint32_t next;
    };
    // Do the next merge; false where nothing merges any more. It changes the ranks of what
    // has_left() and has_next() say, which are to be set.
    bool merge(Merge &merge) {
        const std::uint64_t best = least(merges_, count_);
        if (best >= NEVER) return false;
        const auto at = static_cast<std::uint32_t>(best % FEW_SYMBOLS);
        const std::uint32_t gone = behind_[at];
        const std::uint8_t next = behind_[gone];
        behind_[at] = next;
        before_[next] = static_cast<std::uint8_t>(at);
        merges_[gone] = NEVER;
        merge = {at, static_cast<std::uint32_t>(best / FEW_SYMBOLS), before_[at], next};
        if (!has_next(merge)) merges_[at] = NEVER;
        return true;
    }
    static bool has_left(const Merge &merge) { return merge.at > 0; }
    [[nodiscard]] bool has_next(const Merge &merge) const { return merge.next < count_; }
    // The rank of the merge of a symbol with the next one, or NONE.
    void set(std::uint32_t at, std::uint32_t rank) {
        merges_[at] = std::uint64_t{rank} * FEW_SYMBOLS + at;
    }

    // Where a symbol ends: where the next one begins.
    [[nodiscard]] std::uint32_t end_of(std::uint32_t at) const { return behind_[at]; }
    // Take what remains: from where to where each of them goes.
    template <typename Take> void each(const Take &take) const {
        for (std::uint32_t at = 0; at < count_; at = behind_[at]) take(at, end_of(at));
    }

  private:
    // What set() makes of NONE is no less, whatever the place.
    static constexpr std::uint64_t NEVER = std::uint64_t{NONE} * FEW_SYMBOLS;
    std::uint64_t merges_[FEW_SYMBOLS + 1]; // with the next symbol: rank and place, or NEVER
    std::uint8_t before_[FEW_SYMBOLS + 1];
    std::uint8_t behind_[FEW_SYMBOLS];
    std::uint32_t count_;
};

// `first(at)` is as above. `ask(at, next, end)` begins to look for the rank of a symbol with the
// next one, which goes to `end`, and `rank(asked, at, next, end)` is it: the memory that two pairs
// wait for is on its way before either is waited for. `join(at, rank)` makes both one. `take(at,
// end)` gets what remains.
template <typename First, typename Ask, typename Rank, typename Join, typename Take>
void merge_few(std::uint32_t count, const First &first, const Ask &ask, const Rank &rank,
               const Join &join, const Take &take) {
    FewSymbols symbols;
    symbols.begin(count, first);
    FewSymbols::Merge done;
    while (symbols.merge(done)) {
        const auto [at, merged, left, next] = done;
        join(at, merged);
        if (!symbols.has_next(done)) {
            if (FewSymbols::has_left(done))
                symbols.set(left, rank(ask(left, at, next), left, at, next));
            continue;
        }
        const std::uint32_t end = symbols.end_of(next);
        const auto asked = ask(at, next, end);
        if (FewSymbols::has_left(done))
            symbols.set(left, rank(ask(left, at, next), left, at, next));
        symbols.set(at, rank(asked, at, next, end));
    }
    symbols.each(take);
}

template <typename Ranks, typename Join>
void merge_all(ModelScratch &scratch, const Ranks &ranks, const Join &join) {
    if (scratch.symbols.size() <= SCAN_LIMIT)
        merge_by_scan(scratch.symbols, ranks, join);
    else
        merge_by_heap(scratch.symbols, scratch.heap, ranks, join);
}

} // namespace mtkit
