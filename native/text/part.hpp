// A text on its way to the model, what each of its bytes stands for, and the memory of the steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.hpp"

namespace mtkit {

// A stretch of the original text, in characters; of a chunk, in its bytes.
struct Extent {
    std::uint32_t start;
    std::uint32_t end;
    [[nodiscard]] bool empty() const { return start == end; }
    bool operator==(const Extent &) const = default;
};

// A stretch of text on its way to the model.
struct Part {
    std::string_view text;
    const Extent *extents = nullptr; // what each byte stands for; null: nobody asks
    Extent origin{0, 0};             // what it was cut out of, where there are extents
    bool at_start = false;           // it was cut out of the very start of the input
    bool head_at_start = false;      // its first character stands for the first one of the input

    // Bytes start to end as a part of their own.
    [[nodiscard]] Part slice(std::size_t start, std::size_t end) const {
        const bool first = head_at_start && start == 0;
        Part out{text.substr(start, end - start), extents, {0, 0}, first, first};
        if (extents != nullptr) {
            out.extents += start;
            out.origin = start < end ? Extent{extents[start].start, extents[end - 1].end}
                                     : Extent{origin.start, origin.start};
            out.at_start = out.origin.start == 0;
        }
        return out;
    }
};

// Strings or vectors that live until the end of a call; their memory is reused by the next.
template <typename T> class Pool {
  public:
    T &fresh() {
        if (used_ == all_.size()) all_.push_back(std::make_unique<T>());
        auto &out = *all_[used_++];
        out.clear();
        return out;
    }

    void reset() {
        for (std::size_t i = 0; i < used_; ++i)
            if (all_[i]->capacity() > LARGE) T().swap(*all_[i]);
        if (all_.size() > MANY) all_.resize(MANY);
        used_ = 0;
    }

  private:
    static constexpr std::size_t LARGE = 1U << 20;
    static constexpr std::size_t MANY = 1024;
    std::vector<std::unique_ptr<T>> all_;
    std::size_t used_ = 0;
};

// Working memory of the steps, and how much longer they may make a text in all.
class Arena {
  public:
    // As in mtkit/pipeline/growth.py.
    static constexpr std::size_t GROWTH_BYTES = 1U << 20;
    static constexpr std::size_t GROWTH_FACTOR = 64;

    // A text of that size comes.
    void begin(std::size_t bytes) { left_ = most_ = std::max(GROWTH_BYTES, bytes * GROWTH_FACTOR); }
    // A text of `before` bytes is `after` bytes long as far as it is written.
    void check(std::size_t before, std::size_t after, const char *step) const {
        if (after > before && after - before > left_) too_long(step);
    }
    // The same of a text that is written to its end.
    void grow(std::size_t before, std::size_t after, const char *step) {
        check(before, after, step);
        if (after > before) left_ -= after - before;
    }
    // By how much it was made longer so far.
    [[nodiscard]] std::size_t grown() const { return most_ - left_; }
    std::string &fresh() { return strings_.fresh(); }
    std::vector<Extent> &fresh_extents() { return extents_.fresh(); }
    void reset() {
        strings_.reset();
        extents_.reset();
    }

  private:
    [[noreturn]] void too_long(const char *step) const {
        throw ResourceError("the text becomes more than " + std::to_string(most_) + " bytes longer",
                            step);
    }

    Pool<std::string> strings_;
    Pool<std::vector<Extent>> extents_;
    std::size_t most_ = GROWTH_BYTES;
    std::size_t left_ = GROWTH_BYTES;
};

} // namespace mtkit
