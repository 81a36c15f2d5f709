// Memory in pages of 2 MB, where the system has them: in tables that are read at random a look-up
// need not wait for the address of its page, too, and what is written once, from front to end, does
// not stop at every small page: a stop takes longer than filling the page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
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

// Ask for large pages for memory that was just got; the system may say no.
inline void ask_for_large_pages([[maybe_unused]] void *memory, [[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
    if (bytes < LARGE_PAGE) return;
    auto *const start = static_cast<char *>(memory);
    const std::size_t skipped = -reinterpret_cast<std::uintptr_t>(memory) % LARGE_PAGE;
    if (skipped < bytes) madvise(start + skipped, bytes - skipped, MADV_HUGEPAGE);
#endif
}

// So many bytes for what is written from front to end, as far as `likely` as a rule; std::realloc
// and std::free take them. Null: there are none.
inline void *allocate_for_writing(std::size_t bytes, [[maybe_unused]] std::size_t likely) {
#ifdef __linux__
    if (likely >= LARGE_PAGE) {
        const auto whole = [](std::size_t size) { return size / LARGE_PAGE * LARGE_PAGE; };
        void *const memory = std::aligned_alloc(LARGE_PAGE, whole(bytes + LARGE_PAGE - 1));
        if (memory != nullptr) ask_for_large_pages(memory, whole(likely));
        return memory;
    }
#endif
    return std::malloc(bytes);
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
        ask_for_large_pages(memory, bytes);
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, std::size_t count) {
        ::operator delete(memory, alignment(count * sizeof(T)));
    }
    template <typename U> bool operator==(const LargePages<U> &) const { return true; }
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
