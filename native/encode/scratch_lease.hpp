// How a call of the engine comes by its working memory.
#pragma once

#include "base/process_mutex.hpp"
#include "encode/engine.hpp"

namespace mtkit {

// Working memory for one call: what the last one left, or from the pool.
class Engine::ScratchLease {
  public:
    explicit ScratchLease(const Engine &engine)
        : engine_(engine), scratch_(engine.spare_.exchange(nullptr, std::memory_order_acquire)) {
        if (scratch_) return;
        {
            const std::lock_guard lock(process_mutex<Engine>());
            if (!engine.pool_.empty()) {
                scratch_ = std::move(engine.pool_.back());
                engine.pool_.pop_back();
                engine.pooled_ -= scratch_->cached();
            }
        }
        if (!scratch_) scratch_ = std::make_unique<Scratch>(engine.cache_bytes_);
    }
    ~ScratchLease() {
        scratch_->arena.reset();
        release_large();
        // The one that was used last knows most of what comes next.
        scratch_.reset(engine_.spare_.exchange(scratch_.release(), std::memory_order_acq_rel));
        if (!scratch_) return;
        const std::size_t bytes = scratch_->cached();
        const std::lock_guard lock(process_mutex<Engine>());
        const bool fits = engine_.pool_.size() < POOL &&
                          engine_.pooled_ + bytes <= std::max(POOL_BYTES, 4 * engine_.cache_bytes_);
        if (!fits) return;
        engine_.pool_.push_back(std::move(scratch_));
        engine_.pooled_ += bytes;
    }
    ScratchLease(const ScratchLease &) = delete;
    ScratchLease &operator=(const ScratchLease &) = delete;
    Scratch &operator*() { return *scratch_; }

  private:
    // Memory that one huge text or word took is not kept.
    void release_large() {
        auto &model = scratch_->model;
        release(model.symbols);
        release(model.stretches);
        release(model.heap);
        release(model.nodes);
        release(model.small_nodes);
        release(model.steps);
        release(model.ids);
        release(scratch_->tokens);
        release(scratch_->stretch);
        release(scratch_->ids);
        release(scratch_->raw_parts);
        release(scratch_->late_parts);
        release(scratch_->valid);
        release(scratch_->chunk);
        release(scratch_->words);
        if (scratch_->map.bytes() > LARGE) scratch_->map = TextMap();
    }
    template <typename T> static void release(T &values) {
        if (values.capacity() * sizeof(values[0]) > LARGE) T().swap(values);
    }

    static constexpr std::size_t LARGE = 16U << 20;
    const Engine &engine_;
    std::unique_ptr<Scratch> scratch_;
};

} // namespace mtkit
