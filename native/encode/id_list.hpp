// Ids on their way out: a vector that neither clears nor, where the system can, copies to grow.
// A few need no memory but its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>

#include "base/large_memory.hpp"
#include "tables/cache.hpp"

namespace mtkit {

class IdList {
  public:
    IdList() = default;
    ~IdList() { free(); }
    IdList(const IdList &) = delete;
    IdList &operator=(const IdList &) = delete;

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::span<const std::uint32_t> ids() const { return {ids_, size_}; }

    [[nodiscard]] std::uint32_t *data() { return ids_; }

    // Where the next ids go; there is room for `count`.
    std::uint32_t *room(std::size_t count) {
        if (capacity_ - size_ < count) [[unlikely]]
            grow(count);
        return ids_ + size_;
    }
    [[nodiscard]] std::size_t left() const { return capacity_ - size_; }
    // Make room for what a text of so many bytes may become: growing copies where it cannot extend,
    // and pages that are not written take no memory.
    void expect(std::size_t bytes) {
        const std::size_t most = std::min(bytes, MOST_EXPECTED);
        if (bytes > BYTES_OF_A_TOKEN * FEW && capacity_ - size_ < most) grow(most);
    }
    // Make room for so many, or as many as the system has room for.
    void reserve(std::size_t count) {
        for (; count > capacity_ - size_; count /= 2) {
            try {
                return grow(count);
            } catch (const std::bad_alloc &) { // it is made when it is needed
            }
        }
    }
    // So many of them were written.
    void advance(std::size_t count) { size_ += count; }
    // Room for words that are known, and where what was written there ends.
    [[nodiscard]] WordCache::Room room_for_words() {
        auto *const to = room(WordCache::READ_IDS);
        const std::size_t left = std::min<std::size_t>(capacity_ - size_, WordCache::MANY);
        return {to, to + left - WordCache::READ_IDS};
    }
    void end_at(const std::uint32_t *end) { size_ = static_cast<std::size_t>(end - ids_); }
    void push_back(std::uint32_t id) {
        *room(1) = id;
        advance(1);
    }
    void append(std::span<const std::uint32_t> ids) {
        std::copy(ids.begin(), ids.end(), room(ids.size()));
        advance(ids.size());
    }
    // Once more what lies at `start`.
    void repeat(std::size_t start, std::size_t count) {
        auto *to = room(count);
        std::copy_n(ids_ + start, count, to);
        advance(count);
    }
    void truncate(std::size_t size) { size_ = size; }
    // Without the memory, too.
    void clear() {
        free();
        begin();
    }
    // Whether they lie in the list itself.
    [[nodiscard]] bool few() const { return ids_ == few_; }
    // The memory, cut to size, for the caller to free; the list is empty afterwards. It must not
    // be few().
    std::uint32_t *release() {
        auto *const ids = ids_;
        void *exact = size_ == 0 ? nullptr : std::realloc(ids, size_ * sizeof *ids);
        begin();
        return exact == nullptr ? ids : static_cast<std::uint32_t *>(exact);
    }

  private:
    void begin() {
        ids_ = few_;
        size_ = 0;
        capacity_ = FEW;
    }
    void free() {
        if (!few()) std::free(ids_);
    }
    void grow(std::size_t count) {
        const std::size_t capacity = std::max(size_ + count, 2 * capacity_);
        const std::size_t bytes = capacity * sizeof *ids_;
        void *larger = few() ? large_memory(bytes) : std::realloc(ids_, bytes);
        if (larger == nullptr) throw std::bad_alloc();
        if (few()) std::copy_n(few_, size_, static_cast<std::uint32_t *>(larger));
        ids_ = static_cast<std::uint32_t *>(larger);
        capacity_ = capacity;
    }

    static constexpr std::size_t FEW = 128;
    static constexpr std::size_t BYTES_OF_A_TOKEN = 4; // of a usual text
    static constexpr std::size_t MOST_EXPECTED = 1U << 24;
    std::uint32_t few_[FEW];
    std::uint32_t *ids_ = few_;
    std::size_t size_ = 0;
    std::size_t capacity_ = FEW;
};

} // namespace mtkit
