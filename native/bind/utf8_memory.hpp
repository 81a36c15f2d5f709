// Memory for the UTF-8 form of a long text; that of the last one is kept for the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

class Utf8Memory {
  public:
    // So many bytes, once.
    char *get(std::size_t size) {
        block_.reset(kept_.exchange(nullptr));
        if (block_ == nullptr || block_->size < size) {
            std::free(block_.release());
            block_.reset(static_cast<Block *>(std::malloc(sizeof(Block) + size)));
            if (block_ == nullptr) throw std::bad_alloc();
            block_->size = size;
        }
        return memory();
    }
    [[nodiscard]] char *memory() { return reinterpret_cast<char *>(block_.get() + 1); }

  private:
    static constexpr std::size_t MOST_KEPT = 16U << 20;
    struct alignas(std::max_align_t) Block { // in front of the bytes
        std::size_t size;
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
