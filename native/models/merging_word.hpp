// Words that are merged side by side: what a merge of one waits for is asked for before the others
// do theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/merging.hpp"
#include "tables/tables.hpp"

namespace mtkit {

// One of them. begin() it with its ids, then merge() and ask() in turn until merge() is false.
class MergingWord {
  public:
    // Room for the ids of its symbols.
    std::uint32_t *ids() { return ids_; }
    // `first(at)` is the rank of the merge of a symbol with the next one, or NONE.
    template <typename First> void begin(std::uint32_t count, const First &first) {
        symbols_.begin(count, first);
        left_ = next_ = PairTable::NOWHERE;
    }

    // Do one more merge; false where there is none.
    bool merge(const PairTable &pairs) {
        if (left_ != PairTable::NOWHERE)
            symbols_.set(done_.left, pairs.rank(left_, ids_[done_.left], ids_[done_.at]));
        if (next_ != PairTable::NOWHERE)
            symbols_.set(done_.at, pairs.rank(next_, ids_[done_.at], ids_[done_.next]));
        if (!symbols_.merge(done_)) return false;
        ids_[done_.at] = pairs.made(done_.rank);
        if (FewSymbols::has_left(done_))
            left_place_ = pairs.prefetch_bit(ids_[done_.left], ids_[done_.at]);
        if (symbols_.has_next(done_))
            next_place_ = pairs.prefetch_bit(ids_[done_.at], ids_[done_.next]);
        return true;
    }
    // Ask for the pairs that it made with its neighbours.
    void ask(const PairTable &pairs) {
        left_ = next_ = PairTable::NOWHERE;
        if (FewSymbols::has_left(done_)) {
            left_ = pairs.ask_at(left_place_);
            if (left_ == PairTable::NOWHERE) symbols_.set(done_.left, NONE);
        }
        if (symbols_.has_next(done_)) {
            next_ = pairs.ask_at(next_place_);
            if (next_ == PairTable::NOWHERE) symbols_.set(done_.at, NONE);
        }
    }

    // The ids that remain, in place.
    std::span<const std::uint32_t> finish() {
        std::size_t count = 0;
        symbols_.each([&](std::uint32_t at, std::uint32_t) { ids_[count++] = ids_[at]; });
        return {ids_, count};
    }

  private:
    FewSymbols symbols_;
    std::uint32_t ids_[FEW_SYMBOLS];
    FewSymbols::Merge done_; // the last one, and its pairs
    PairTable::Place left_place_;
    PairTable::Place next_place_;
    PairTable::Asked left_;
    PairTable::Asked next_;
};

} // namespace mtkit
