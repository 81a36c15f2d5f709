// A mutex of the process that a fork finds free: the thread that forks takes it before.
#pragma once

#include <mutex>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace mtkit {

// The one of `Tag`. It is never destroyed: threads may still run when the process ends.
template <typename Tag> std::mutex &process_mutex() {
    static std::mutex &mutex = *[] {
        static auto *const made = new std::mutex;
#if !defined(_WIN32)
        pthread_atfork([] { made->lock(); }, [] { made->unlock(); }, [] { made->unlock(); });
#endif
        return made;
    }();
    return mutex;
}

} // namespace mtkit
