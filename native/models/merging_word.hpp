// A word that is merged beside others: what a merge waits for is asked for before the others do
// theirs.
#pragma once

#include "models/merging.hpp"

namespace mtkit {

class MergingWord {
  public:
    // `ids` are put where this says; `first(at)` is the rank of the merge of a symbol with the next
    // one, or NONE.
    std::uint32_t *ids() { return ids_; }
    template <typename First> void begin(std::uint32_t count, const First &first) {
        symbols_.begin(count, first);
        left_ = next_ = PairTable::NOWHERE;
    }

    // Do one more merge; false where there is none. Then ask() comes before the next one.
    bool merge(const PairTable &pairs) {
        if (left_ != PairTable::NOWHERE)
            symbols_.set(done_.left, pairs.rank(left_, ids_[done_.left], ids_[done_.at]));
        if (next_ != PairTable::NOWHERE)
            symbols_.set(done_.at, pairs.rank(next_, ids_[done_.at], ids_[done_.next]));
        if (!symbols_.merge(done_)) return false;
        ids_[done_.at] = pairs.made(done_.rank);
        if (FewSymbols::has_left(done_))
            left_ = pairs.prefetch_bit(ids_[done_.left], ids_[done_.at]);
        if (symbols_.has_next(done_)) next_ = pairs.prefetch_bit(ids_[done_.at], ids_[done_.next]);
        return true;
    }
    void ask(const PairTable &pairs) {
        left_ = FewSymbols::has_left(done_) ? pairs.ask(left_) : PairTable::NOWHERE;
        next_ = symbols_.has_next(done_) ? pairs.ask(next_) : PairTable::NOWHERE;
        if (left_ == PairTable::NOWHERE) symbols_.set(done_.left, NONE);
        if (next_ == PairTable::NOWHERE) symbols_.set(done_.at, NONE);
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
    FewSymbols::Merge done_; // the last one
    // The pairs that it made with its neighbours: prefetch_bit(), then ask() of them.
    PairTable::Asked left_;
    PairTable::Asked next_;
};

} // namespace mtkit
