// Where what a step wrote comes from.
//
// Runs of what is copied byte for byte, and what else the step wrote in place of something: each
// begins at a place of the new text and stands for one of the old text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mtkit {

class TextMap {
    struct Run {
        std::uint32_t at;
        std::uint32_t from;
        bool same;
    };

  public:
    static constexpr std::size_t LONGEST = ~std::uint32_t{0}; // bytes of both texts

    void clear() { runs_.clear(); }
    // From `at` on, the new text is a copy of the old one from `from` on.
    void copy(std::size_t at, std::size_t from) { put(at, from, true); }
    // From `at` on, it stands for the old text at `from`, as a whole.
    void write(std::size_t at, std::size_t from) { put(at, from, false); }
    // The new text ends at `at`; what was noted from there on is forgotten.
    void cut(std::size_t at) {
        while (!runs_.empty() && runs_.back().at >= at) runs_.pop_back();
    }
    // What the byte at `at` stands for, or what is written there: a place of the old text.
    [[nodiscard]] std::size_t operator[](std::size_t at) const {
        const auto behind = std::ranges::upper_bound(runs_, at, {}, &Run::at);
        if (behind == runs_.begin()) return 0;
        const auto &run = behind[-1];
        return run.from + (run.same ? at - run.at : 0);
    }

    // The same for places that are near each other.
    class Cursor {
      public:
        explicit Cursor(const TextMap &map) : runs_(map.runs_) {}
        std::uint32_t operator()(std::uint32_t at) {
            if (at - begin_ >= size_) [[unlikely]]
                move(at);
            return from_ + (same_ ? at - begin_ : 0);
        }

      private:
        [[gnu::noinline]] void move(std::uint32_t at) {
            while (next_ < runs_.size() && runs_[next_].at <= at) ++next_;
            while (next_ > 0 && runs_[next_ - 1].at > at) --next_;
            const Run run = next_ > 0 ? runs_[next_ - 1] : Run{0, 0, false};
            begin_ = run.at;
            from_ = run.from;
            same_ = run.same;
            size_ = (next_ < runs_.size() ? runs_[next_].at : ~0U) - begin_;
        }

        const std::vector<Run> &runs_;
        std::size_t next_ = 0;
        std::uint32_t begin_ = 0; // of the run that was used last
        std::uint32_t size_ = 0;
        std::uint32_t from_ = 0;
        bool same_ = false;
    };

  private:
    void put(std::size_t at, std::size_t from, bool same) {
        runs_.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(from), same});
    }

    std::vector<Run> runs_; // in ascending order
};

} // namespace mtkit
