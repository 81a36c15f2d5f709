// Ids on their way out: a vector that neither clears nor, where the system can, copies to grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <utility>

namespace mtkit {

class IdList {
  public:
    IdList() = default;
    ~IdList() { std::free(ids_); }
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
    // So many of them were written.
    void advance(std::size_t count) { size_ += count; }
    // Where room ends, and where what was written into it ends.
    [[nodiscard]] const std::uint32_t *limit() const { return ids_ + capacity_; }
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
    void cut(std::size_t size) { size_ = size; }
    // Its memory, cut to size, for the caller to free; it is empty afterwards.
    std::uint32_t *release() {
        auto *ids = std::exchange(ids_, nullptr);
        const std::size_t size = std::exchange(size_, 0);
        capacity_ = 0;
        void *exact = size == 0 ? nullptr : std::realloc(ids, size * sizeof *ids);
        return exact == nullptr ? ids : static_cast<std::uint32_t *>(exact);
    }

  private:
    void grow(std::size_t count) {
        capacity_ = std::max({size_ + count, 2 * capacity_, std::size_t{64}});
        void *larger = std::realloc(ids_, capacity_ * sizeof *ids_);
        if (larger == nullptr) throw std::bad_alloc();
        ids_ = static_cast<std::uint32_t *>(larger);
    }

    std::uint32_t *ids_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

} // namespace mtkit
