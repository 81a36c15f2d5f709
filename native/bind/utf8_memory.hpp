// Memory for the UTF-8 form of a long text; that of the last one is kept for the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/forks.hpp"
#include "base/large_pages.hpp"

class Utf8Memory {
  public:
    // So many bytes, once.
    char *get(std::size_t size) {
        block_.reset(kept_.exchange(nullptr));
        const bool shared = block_ != nullptr && block_->forks != mtkit::Forks::count();
        if (block_ == nullptr || shared || block_->size < size) {
            std::free(block_.release());
            block_.reset(
                static_cast<Block *>(mtkit::allocate_for_writing(sizeof(Block) + size, size)));
            if (block_ == nullptr) throw std::bad_alloc();
            *block_ = {size, mtkit::Forks::count()};
        }
        return memory();
    }
    // Cut them, where there are some, to so many, which may move them.
    void shrink(std::size_t size) {
        void *const exact = std::realloc(block_.get(), sizeof(Block) + size);
        if (exact == nullptr) return;
        static_cast<void>(block_.release());
        block_.reset(static_cast<Block *>(exact));
        block_->size = size;
    }
    [[nodiscard]] bool has_memory() const { return block_ != nullptr; }
    [[nodiscard]] char *memory() { return reinterpret_cast<char *>(block_.get() + 1); }

  private:
    static constexpr std::size_t MOST_KEPT = 16U << 20;
    struct Block { // in front of the bytes
        std::size_t size;
        std::size_t forks; // when they were got
    };
    struct Keep {
        void operator()(Block *block) const {
            if (block->size <= MOST_KEPT) block = kept_.exchange(block);
            std::free(block);
        }
    };
    static inline std::atomic<Block *> kept_ = nullptr;
    std::unique_ptr<Block, Keep> block_;
};
