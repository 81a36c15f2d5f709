// An allocator for tables that are read at random: pages of 2 MB where the system has them, so that
// a look-up need not wait for the address of its page, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace mtkit {

inline constexpr std::size_t LARGE_PAGE = 2U << 20;

// What to ask for where about so many bytes are wanted, half of them at least: a large page is
// there sooner than the small ones of a quarter of it, and what large pages leave over would lie in
// small ones.
inline std::size_t in_large_pages(std::size_t bytes) {
    if (bytes < LARGE_PAGE / 4) return bytes;
    return std::max<std::size_t>(bytes / LARGE_PAGE, 1) * LARGE_PAGE;
}

template <typename T> struct LargePages {
    using value_type = T;

    LargePages() = default;
    template <typename U>
    LargePages(const LargePages<U> &) {} // NOLINT(google-explicit-constructor)

    static std::align_val_t alignment(std::size_t bytes) {
        return std::align_val_t(bytes < LARGE_PAGE ? alignof(T) : LARGE_PAGE);
    }
    T *allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        void *memory = ::operator new(bytes, alignment(bytes));
#ifdef __linux__
        if (bytes >= LARGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE); // it may say no
#endif
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, std::size_t count) {
        ::operator delete(memory, alignment(count * sizeof(T)));
    }
    template <typename U> bool operator==(const LargePages<U> &) const {
        return true;
    }
};

// Such memory, not cleared.
template <typename T> struct FreeLargeBlock {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    std::size_t count = 0;
    void operator()(T *memory) const { LargePages<T>().deallocate(memory, count); }
};
template <typename T> using LargeBlock = std::unique_ptr<T[], FreeLargeBlock<T>>;
template <typename T> LargeBlock<T> large_block(std::size_t count) {
    return LargeBlock<T>(LargePages<T>().allocate(count), {count});
}

} // namespace mtkit
