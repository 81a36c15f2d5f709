// The lattice of a short word: a node for each place, all of them there from the start.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/compiler.hpp"

namespace mtkit {

// Scores and sums of them are finite: NEVER is below them, so that a first offer is taken.
template <typename Sum> class ShortLattice {
  public:
    static constexpr std::size_t MOST_BYTES = 64; // of a word

    ShortLattice(std::size_t size, Sum sum) {
        std::fill_n(scores_.begin(), size + 1, NEVER);
        std::fill_n(rivals_.begin(), size + 1, NEVER);
        scores_[0] = sum;
    }

    // The score of the best path to a place.
    [[nodiscard]] Sum score(std::size_t at) const { return scores_[at]; }

    // Offer a step from `start` to `end`; of equal ones the first counts. Which is better is hard
    // to guess: that is no branch.
    MTKIT_INLINE void offer(std::size_t start, std::size_t end, std::uint32_t id, Sum score) {
        const Sum known = scores_[end];
        const std::uint64_t better = 0 - std::uint64_t{score > known};
        scores_[end] = std::max(known, score);
        rivals_[end] = std::max(rivals_[end], std::min(known, score));
        const std::uint64_t step = std::uint64_t{id} << 32 | start;
        steps_[end] = (steps_[end] & ~better) | (step & better);
    }

    // Give `put(start, end, id)` each step of the best path to `end`, the last one first; return
    // how far the next best one is from it.
    template <typename Put> double path(std::size_t end, const Put &put) const {
        double distance = std::numeric_limits<double>::infinity();
        for (auto at = static_cast<std::uint32_t>(end); at > 0;) {
            const auto start = static_cast<std::uint32_t>(steps_[at]);
            put(start, at, static_cast<std::uint32_t>(steps_[at] >> 32));
            distance = std::min(distance, double{scores_[at]} - double{rivals_[at]});
            at = start;
        }
        return distance;
    }

  private:
    static constexpr Sum NEVER = -std::numeric_limits<Sum>::infinity();

    // By place, of the best path there.
    std::array<Sum, MOST_BYTES + 1> scores_;
    std::array<Sum, MOST_BYTES + 1> rivals_; // of the next best one
    // The id of its last step, above where that starts; not set before the first offer, which
    // reads it and takes nothing of it.
    std::array<std::uint64_t, MOST_BYTES + 1> steps_;
};

} // namespace mtkit
