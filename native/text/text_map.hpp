// From places in a new text back to those of the old text that it was written from.
//
// Runs in ascending order: a copy, byte for byte, or bytes that stand for one place together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/compiler.hpp"

namespace mtkit {

class TextMap {
    struct Run {
        std::uint32_t at;
        std::uint32_t from;
        bool is_copy;
    };

  public:
    static constexpr std::size_t LONGEST = ~std::uint32_t{0}; // bytes of the new text

    void clear() { runs_.clear(); }
    // From `at` on, the new text is a copy of the old one from `from` on.
    void add_copy(std::size_t at, std::size_t from) { add(at, from, true); }
    // From `at` on, it stands for the old text at `from`, as a whole.
    void add_replacement(std::size_t at, std::size_t from) { add(at, from, false); }
    // Forget what was added from `at` on.
    void truncate(std::size_t at) {
        while (!runs_.empty() && runs_.back().at >= at) runs_.pop_back();
    }
    // The place in the old text of what the byte at `at` was written for.
    [[nodiscard]] std::size_t operator[](std::size_t at) const {
        const auto behind = std::ranges::upper_bound(runs_, at, {}, &Run::at);
        if (behind == runs_.begin()) return 0;
        const auto &run = behind[-1];
        return run.from + (run.is_copy ? at - run.at : 0);
    }
    // Memory that it has.
    [[nodiscard]] std::size_t bytes() const { return runs_.capacity() * sizeof(Run); }

    // The same; fast for places asked for in nearly ascending order.
    class Cursor {
      public:
        explicit Cursor(const TextMap &map) : runs_(map.runs_) {}
        std::uint32_t operator()(std::uint32_t at) {
            if (at - begin_ >= size_) [[unlikely]]
                move(at);
            return from_ + (is_copy_ ? at - begin_ : 0);
        }

      private:
        MTKIT_NOINLINE void move(std::uint32_t at) {
            while (next_ < runs_.size() && runs_[next_].at <= at) ++next_;
            while (next_ > 0 && runs_[next_ - 1].at > at) --next_;
            const Run run = next_ > 0 ? runs_[next_ - 1] : Run{0, 0, false};
            begin_ = run.at;
            from_ = run.from;
            is_copy_ = run.is_copy;
            size_ = (next_ < runs_.size() ? runs_[next_].at : ~0U) - begin_;
        }

        const std::vector<Run> &runs_;
        std::size_t next_ = 0;
        std::uint32_t begin_ = 0; // of the run that was used last
        std::uint32_t size_ = 0;
        std::uint32_t from_ = 0;
        bool is_copy_ = false;
    };

  private:
    void add(std::size_t at, std::size_t from, bool is_copy) {
        runs_.push_back(
            {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(from), is_copy});
    }

    std::vector<Run> runs_; // in ascending order
};

} // namespace mtkit
