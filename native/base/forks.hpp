// Whether memory is still shared with the process that this one was forked from.
//
// Whoever first writes to a page of it waits until the system has copied it, which for many pages
// takes several times as long as copying all of them at once.
#pragma once

#include <cstdint>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace mtkit {

class Forks {
  public:
    // How many forks there were between the process that loaded the core and this one.
    static std::uint32_t count() { return count_; }

  private:
    static bool watch() {
#if defined(__unix__) || defined(__APPLE__)
        return pthread_atfork(nullptr, nullptr, [] { ++count_; }) == 0;
#else
        return false;
#endif
    }
    static inline std::uint32_t count_ = 0; // the child that it changes in has one thread
    static inline const bool watched_ = watch();
};

} // namespace mtkit
