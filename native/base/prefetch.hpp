// Asking for memory before it is read.
#pragma once

namespace mtkit {

// Let the memory at a place be on its way into the processor's cache.
inline void prefetch(const void *at) {
#ifdef __GNUC__
    __builtin_prefetch(at);
#else
    static_cast<void>(at);
#endif
}

} // namespace mtkit
