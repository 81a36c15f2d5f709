// What is made by whoever needs it first, and then read without a lock.
//
// Threads that need it at the same time each make it, and the first one's stays: a thread that
// waited for another would wait for ever in a child that was forked meanwhile.
#pragma once

#include <atomic>
#include <memory>

namespace mtkit {

template <typename T> class MadeOnce {
  public:
    MadeOnce() = default;
    ~MadeOnce() { delete get(); }
    MadeOnce(const MadeOnce &) = delete;
    MadeOnce &operator=(const MadeOnce &) = delete;

    // Null where it is not made yet.
    [[nodiscard]] const T *get() const { return ready_.load(std::memory_order_acquire); }

    // The same, made by `make` where it is not, which returns a unique_ptr; null where that is.
    template <typename Make> const T *make(const Make &make) const {
        const T *ready = get();
        if (ready != nullptr || is_null_.load(std::memory_order_acquire)) return ready;
        std::unique_ptr<const T> made = make();
        if (made == nullptr)
            is_null_.store(true, std::memory_order_release);
        else if (ready_.compare_exchange_strong(ready, made.get(), std::memory_order_acq_rel))
            return made.release();
        return ready;
    }

  private:
    mutable std::atomic<const T *> ready_ = nullptr;
    mutable std::atomic<bool> is_null_ = false;
};

} // namespace mtkit
