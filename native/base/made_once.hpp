// What is made once, by whoever needs it first, and then read without a lock.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace mtkit {

template <typename T> class MadeOnce {
  public:
    // Null where it is not made yet.
    [[nodiscard]] const T *get() const { return ready_.load(std::memory_order_acquire); }

    // The same, made by `make` where it is not, which returns a unique_ptr; null where that is.
    template <typename Make> const T *make(const Make &make) const {
        std::call_once(once_, [&] {
            made_ = make();
            ready_.store(made_.get(), std::memory_order_release);
        });
        return made_.get();
    }

  private:
    mutable std::once_flag once_;
    mutable std::unique_ptr<const T> made_;
    mutable std::atomic<const T *> ready_ = nullptr;
};

} // namespace mtkit
